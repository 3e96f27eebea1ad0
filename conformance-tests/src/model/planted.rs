//! The changes with which some planted bugs follow a commit or its refusal: see [`Bug`].

use std::sync::Arc;

use store_core::{Body, Commit, ErrorKind, Expect, NewBody, ParentRef, RewindTo};

use super::{
    bug::Bug,
    commit::{Setting, decide, receipt},
    events, outbox,
    tree::Tree,
    world::{Slot, Tenant},
};

/// Writes the parts of a refused commit that a store with this bug writes.
pub(super) fn after_refusal(tenant: &mut Tenant, commit: &Commit, why: ErrorKind, with: (Bug, Setting<'_>)) {
    let (bug, setting) = with;
    match bug {
        Bug::RefusedButApplied if why == ErrorKind::Conflict => {
            let _written = decide(tenant, &commit.clone().expecting(Expect::Any), setting);
        }
        Bug::RefusedEventsStay => {
            if let Some(request) = &commit.events {
                let _written = events::append(tenant, request, &setting, (commit.at, setting.sealer));
            }
        }
        Bug::RefusedRowsStay => outbox::leave(tenant, commit, &setting),
        Bug::StateWithoutEntries => {
            let mut part = Commit::new(commit.thread.clone());
            part.state.clone_from(&commit.state);
            let _written = decide(tenant, &part, setting);
        }
        Bug::EntriesBeforeTheBadOne => {
            for kept in (1..commit.entries.len()).rev() {
                let mut part = commit.clone();
                part.entries.truncate(kept);
                if decide(tenant, &part, setting).is_ok() {
                    break;
                }
            }
        }
        Bug::RefusedKeyStays => {
            let Some(slot) = tenant.threads.get_mut(&commit.thread) else { return };
            let receipt = receipt(&slot.view(None), setting.now).ok();
            if let (Some(key), Some(receipt)) = (&commit.key, receipt) {
                slot.keys.entry(key.clone()).or_insert_with(|| (commit.clone(), receipt));
            }
        }
        _ => {}
    }
}

/// Makes the further changes that a store with this bug makes after a commit.
pub(super) fn after_commit(slot: &mut Slot, commit: &Commit, first: usize, with: (Bug, &Setting<'_>)) {
    let (bug, setting) = with;
    match bug {
        Bug::CommitMovesTheRevision => slot.thread.revision = slot.thread.revision.plus(1),
        Bug::TimeGoesBack => slot.thread.updated_at = setting.now,
        Bug::RewindDeletes => delete_rewound(slot, commit),
        Bug::ForkTakesTheBranch => take_branch(slot, commit, first),
        _ => {}
    }
}

/// Removes the entries after the target of a rewind.
fn delete_rewound(slot: &mut Slot, commit: &Commit) {
    for entry in &commit.entries {
        let NewBody::Rewind(to) = &entry.body else { continue };
        let keep = match to {
            RewindTo::Entry(id) => Tree(&slot.entries).find(id).map_or(0, |entry| entry.seq),
            _ => 0,
        };
        slot.entries.retain(|entry| entry.seq <= keep || matches!(*entry.body, Body::Rewind(_)));
    }
}

/// Makes a fork the parent of the earlier children of its parent.
fn take_branch(slot: &mut Slot, commit: &Commit, first: usize) {
    let forked = commit.entries.iter().position(|entry| matches!(entry.parent, ParentRef::Entry(_)));
    let Some(fork) = forked.and_then(|at| slot.entries.get(first + at)).cloned() else { return };
    for entry in slot.entries.iter_mut().take(first).filter(|entry| entry.parent == fork.parent) {
        let mut moved = (**entry).clone();
        moved.parent = Some(fork.id.clone());
        *entry = Arc::new(moved);
    }
}
