//! Dropped calls on threads, logs and runs, and calls whose outcome is unknown.

use crate::{
    Given, Verdict,
    call::{read_calls, write_calls},
    drop_points::{check_unknown_outcomes_on_threads, test_dropped_calls_on_threads},
};

/// The names of the calls that must change something. All other calls must change nothing.
const CALLS_THAT_CHANGE_SOMETHING: [&str; 4] = ["create_thread", "update_thread", "delete_thread", "commit"];

/// If a read is dropped at any await, it changes nothing, and nothing stays locked.
pub(super) async fn a_dropped_read_leaves_nothing_locked(given: &Given) -> Verdict {
    test_dropped_calls_on_threads(given, |stores, thread, _| read_calls(&*stores.threads, thread), &[]).await
}

/// If a write is dropped at any await, it takes effect in full or not at all, and nothing stays locked.
pub(super) async fn a_dropped_write_is_all_or_nothing(given: &Given) -> Verdict {
    test_dropped_calls_on_threads(
        given,
        |stores, thread, _| write_calls(&*stores.threads, &*stores.commits, thread),
        &CALLS_THAT_CHANGE_SOMETHING,
    )
    .await
}

/// If the answer to a write is lost, the caller can find out its outcome in the way that the documentation of the
/// method describes.
pub(super) async fn an_unknown_outcome_of_a_write_can_be_resolved(given: &Given) -> Verdict {
    check_unknown_outcomes_on_threads(
        given,
        |stores, thread, _| write_calls(&*stores.threads, &*stores.commits, thread),
        &CALLS_THAT_CHANGE_SOMETHING,
    )
    .await
}
