//! Dropped calls on events.

use crate::{Given, Verdict, call::of_events, sweep::sweep};

/// A call on events that is dropped at any await had its whole effect or none, and leaves nothing locked.
pub(super) async fn a_dropped_call_on_events_is_whole_or_nothing(given: &Given) -> Verdict {
    sweep(given, |stores, t, _| of_events(&*stores.events, t), &["append_events", "trim_events"]).await
}
