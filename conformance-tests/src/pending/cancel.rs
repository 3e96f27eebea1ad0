//! Dropped calls on pending input.

use crate::{Given, Verdict, call::of_pending, sweep::sweep};

/// A call on a queue that is dropped at any await had its whole effect or none, and leaves nothing locked.
pub(super) async fn a_dropped_call_on_a_queue_is_whole_or_nothing(given: &Given) -> Verdict {
    let changing = ["append_pending", "update_pending", "retract_pending", "reorder_pending"];
    sweep(given, |stores, t, revision| of_pending(&*stores.pending, t, revision), &changing).await
}
