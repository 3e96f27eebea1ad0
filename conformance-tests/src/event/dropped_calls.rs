//! Dropped calls on events, and calls whose outcome is unknown.

use crate::{
    Given, Verdict,
    call::event_calls,
    drop_points::{check_unknown_outcomes_on_threads, test_dropped_calls_on_threads},
};

const CHANGING_CALLS: [&str; 3] = ["append_events", "redact_events", "trim_events"];

/// If a call on events is dropped at any await, it takes effect in full or not at all, and nothing stays locked.
pub(super) async fn a_dropped_call_on_events_is_all_or_nothing(given: &Given) -> Verdict {
    test_dropped_calls_on_threads(
        given,
        |stores, t, prepared| event_calls(&*stores.events, t, &prepared.event),
        &CHANGING_CALLS,
    )
    .await
}

/// If the answer to a call on events is lost, the caller can find out whether the call took effect. The documentation
/// of the method says how.
pub(super) async fn an_unknown_outcome_on_events_can_be_resolved(given: &Given) -> Verdict {
    check_unknown_outcomes_on_threads(
        given,
        |stores, t, prepared| event_calls(&*stores.events, t, &prepared.event),
        &CHANGING_CALLS,
    )
    .await
}
