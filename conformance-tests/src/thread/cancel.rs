//! Dropped calls on threads, their logs and runs.

use crate::{
    Given, Verdict,
    call::{reads, writes},
    sweep::sweep,
};

/// A read that is dropped at any await changes nothing and leaves nothing locked.
pub(super) async fn a_dropped_read_leaves_nothing_locked(given: &Given) -> Verdict {
    sweep(given, |stores, t, _| reads(&*stores.threads, t), &[]).await
}

/// A write that is dropped at any await had its whole effect or none, and leaves nothing locked.
pub(super) async fn a_dropped_write_is_whole_or_nothing(given: &Given) -> Verdict {
    let changing = ["create_thread", "update_thread", "delete_thread", "commit"];
    sweep(given, |stores, t, _| writes(&*stores.threads, &*stores.commits, t), &changing).await
}
