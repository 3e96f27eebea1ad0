//! The wrong changes that some planted bugs (see [`Bug`]) make after a commit, or after the refusal of a commit.

use std::sync::Arc;

use store_core::{Body, Commit, ErrorKind, Expect, NewBody, ParentRef, RewindTo};

use super::{
    bug::Bug,
    commit::{Environment, check_and_write, receipt_for},
    events,
    model_data::{TenantData, ThreadData},
    outbox,
    tree::LogTree,
};

/// Makes the changes that a store with this bug makes after it has refused a commit.
pub(super) fn apply_after_refusal(
    tenant: &mut TenantData,
    commit: &Commit,
    refusal: ErrorKind,
    bug_and_env: (Bug, Environment<'_>),
) {
    let (bug, env) = bug_and_env;
    match bug {
        Bug::RefusedButApplied if refusal == ErrorKind::Conflict => {
            let _written = check_and_write(tenant, &commit.clone().expecting(Expect::Any), env);
        }
        Bug::RefusedEventsStay => {
            if let Some(request) = &commit.events {
                let _written = events::append(tenant, request, &env, (commit.at, env.tenant_and_cursor_key));
            }
        }
        Bug::RefusedDocumentsStay => drop(tenant.documents.apply(&commit.documents, &env)),
        Bug::RefusedRowsStay => outbox::append_refused(tenant, commit, &env),
        Bug::StateWithoutEntries => {
            let mut partial_commit = Commit::new(commit.thread.clone());
            partial_commit.state.clone_from(&commit.state);
            let _written = check_and_write(tenant, &partial_commit, env);
        }
        Bug::EntriesBeforeTheBadOne => {
            for entry_count in (1..commit.entries.len()).rev() {
                let mut partial_commit = commit.clone();
                partial_commit.entries.truncate(entry_count);
                if check_and_write(tenant, &partial_commit, env).is_ok() {
                    break;
                }
            }
        }
        Bug::RefusedKeyStays => {
            let Some(thread_data) = tenant.threads.get_mut(&commit.thread) else { return };
            let receipt = receipt_for(&thread_data.to_thread(None), env.now).ok();
            if let (Some(key), Some(receipt)) = (&commit.key, receipt) {
                thread_data.keyed_commits.entry(key.clone()).or_insert_with(|| (commit.clone(), receipt));
            }
        }
        _ => {}
    }
}

/// Makes the changes that a store with this bug makes in addition to those of a commit.
pub(super) fn apply_after_commit(
    thread_data: &mut ThreadData,
    commit: &Commit,
    first_new_index: usize,
    bug_and_env: (Bug, &Environment<'_>),
) {
    let (bug, env) = bug_and_env;
    match bug {
        Bug::CommitRaisesRevision => thread_data.thread.revision = thread_data.thread.revision.plus(1),
        Bug::TimeGoesBack => thread_data.thread.updated_at = env.now,
        Bug::RewindDeletes => delete_rewound(thread_data, commit),
        Bug::ForkTakesTheBranch => move_branch_below_fork(thread_data, commit, first_new_index),
        _ => {}
    }
}

/// Removes the entries after the target of a rewind.
fn delete_rewound(thread_data: &mut ThreadData, commit: &Commit) {
    for entry in &commit.entries {
        let NewBody::Rewind(to) = &entry.body else { continue };
        let last_kept_seq = match to {
            RewindTo::Entry(id) => LogTree::new(&thread_data.entries).find(id).map_or(0, |entry| entry.seq),
            _ => 0,
        };
        thread_data.entries.retain(|entry| entry.seq <= last_kept_seq || matches!(*entry.body, Body::Rewind(_)));
    }
}

/// Makes the first entry of a fork the parent of the earlier children of its own parent.
fn move_branch_below_fork(thread_data: &mut ThreadData, commit: &Commit, first_new_index: usize) {
    let fork_index = commit.entries.iter().position(|entry| matches!(entry.parent, ParentRef::Entry(_)));
    let Some(fork) = fork_index.and_then(|at| thread_data.entries.get(first_new_index + at)).cloned() else { return };
    for entry in thread_data.entries.iter_mut().take(first_new_index).filter(|entry| entry.parent == fork.parent) {
        let mut moved = (**entry).clone();
        moved.parent = Some(fork.id.clone());
        *entry = Arc::new(moved);
    }
}
