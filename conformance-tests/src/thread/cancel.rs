//! Dropped calls on threads, their logs and runs.

use crate::{
    Given, Verdict,
    call::{reads, writes},
    sweep::{resolve_outcome, sweep},
};

const CHANGING: [&str; 4] = ["create_thread", "update_thread", "delete_thread", "commit"];

/// A read that is dropped at any await changes nothing and leaves nothing locked.
pub(super) async fn a_dropped_read_leaves_nothing_locked(given: &Given) -> Verdict {
    sweep(given, |stores, t, _| reads(&*stores.threads, t), &[]).await
}

/// A write that is dropped at any await takes effect in full or not at all, and leaves nothing locked.
pub(super) async fn a_dropped_write_is_all_or_nothing(given: &Given) -> Verdict {
    sweep(given, |stores, t, _| writes(&*stores.threads, &*stores.commits, t), &CHANGING).await
}

/// If the answer of a write was lost, its outcome is resolved as its documentation says.
pub(super) async fn an_unknown_outcome_of_a_write_can_be_resolved(given: &Given) -> Verdict {
    resolve_outcome(given, |stores, t, _| writes(&*stores.threads, &*stores.commits, t), &CHANGING).await
}
