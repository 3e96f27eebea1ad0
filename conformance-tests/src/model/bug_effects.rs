//! The changes with which some planted bugs follow a commit or its refusal: see [`Bug`].

use std::sync::Arc;

use store_core::{Body, Commit, ErrorKind, Expect, NewBody, ParentRef, RewindTo};

use super::{
    bug::Bug,
    commit::{Environment, decide, receipt},
    events,
    model_data::{Tenant, ThreadData},
    outbox,
    tree::Tree,
};

/// Writes the parts of a refused commit that a store with this bug writes.
pub(super) fn after_refusal(tenant: &mut Tenant, commit: &Commit, why: ErrorKind, with: (Bug, Environment<'_>)) {
    let (bug, env) = with;
    match bug {
        Bug::RefusedButApplied if why == ErrorKind::Conflict => {
            let _written = decide(tenant, &commit.clone().expecting(Expect::Any), env);
        }
        Bug::RefusedEventsStay => {
            if let Some(request) = &commit.events {
                let _written = events::append(tenant, request, &env, (commit.at, env.sealer));
            }
        }
        Bug::RefusedRowsStay => outbox::append_refused(tenant, commit, &env),
        Bug::StateWithoutEntries => {
            let mut part = Commit::new(commit.thread.clone());
            part.state.clone_from(&commit.state);
            let _written = decide(tenant, &part, env);
        }
        Bug::EntriesBeforeTheBadOne => {
            for kept in (1..commit.entries.len()).rev() {
                let mut part = commit.clone();
                part.entries.truncate(kept);
                if decide(tenant, &part, env).is_ok() {
                    break;
                }
            }
        }
        Bug::RefusedKeyStays => {
            let Some(thread_data) = tenant.threads.get_mut(&commit.thread) else { return };
            let receipt = receipt(&thread_data.view(None), env.now).ok();
            if let (Some(key), Some(receipt)) = (&commit.key, receipt) {
                thread_data.keys.entry(key.clone()).or_insert_with(|| (commit.clone(), receipt));
            }
        }
        _ => {}
    }
}

/// Makes the further changes that a store with this bug makes after a commit.
pub(super) fn after_commit(thread_data: &mut ThreadData, commit: &Commit, first: usize, with: (Bug, &Environment<'_>)) {
    let (bug, env) = with;
    match bug {
        Bug::CommitMovesTheRevision => thread_data.thread.revision = thread_data.thread.revision.plus(1),
        Bug::TimeGoesBack => thread_data.thread.updated_at = env.now,
        Bug::RewindDeletes => delete_rewound(thread_data, commit),
        Bug::ForkTakesTheBranch => take_branch(thread_data, commit, first),
        _ => {}
    }
}

/// Removes the entries after the target of a rewind.
fn delete_rewound(thread_data: &mut ThreadData, commit: &Commit) {
    for entry in &commit.entries {
        let NewBody::Rewind(to) = &entry.body else { continue };
        let keep = match to {
            RewindTo::Entry(id) => Tree(&thread_data.entries).find(id).map_or(0, |entry| entry.seq),
            _ => 0,
        };
        thread_data.entries.retain(|entry| entry.seq <= keep || matches!(*entry.body, Body::Rewind(_)));
    }
}

/// Makes a fork the parent of the earlier children of its parent.
fn take_branch(thread_data: &mut ThreadData, commit: &Commit, first: usize) {
    let forked = commit.entries.iter().position(|entry| matches!(entry.parent, ParentRef::Entry(_)));
    let Some(fork) = forked.and_then(|at| thread_data.entries.get(first + at)).cloned() else { return };
    for entry in thread_data.entries.iter_mut().take(first).filter(|entry| entry.parent == fork.parent) {
        let mut moved = (**entry).clone();
        moved.parent = Some(fork.id.clone());
        *entry = Arc::new(moved);
    }
}
