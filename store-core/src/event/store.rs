//! The contracts for events.

use std::{fmt, pin::Pin};

use async_trait::async_trait;
use futures_core::Stream;

use super::{
    AppendEvents, AppendedEvents, Event, EventFilter, EventQuery, Scope, ScopeInfo, Subscribe, TrimRequest, Trimmed,
};
use crate::{
    error::Result,
    id::EventId,
    page::{Cursor, Page},
};

/// Appends events. They also come with commits, in the same atomic step.
#[async_trait]
pub trait EventWriter: Send + Sync {
    /// Appends all events or none, next to each other in each scope, in the order given (EV-3, EV-4).
    ///
    /// # Guarantees
    /// - The same writer, key and drafts again give the first events and write nothing (EV-5).
    /// - Of several appends with one expectation of a scope one succeeds (EV-9).
    /// - No event is seen before one with a smaller sequence number in the same scope (EV-13).
    ///
    /// # Errors
    /// `Invalid` for a draft without scope, with two threads or two runs, or with schema version 0 (EV-2), for a key
    /// without a writer (EV-7) and for an expectation of a scope of no draft (EV-8); `IdempotencyMismatch` (EV-6);
    /// `Conflict` if a scope's counter is another one (EV-8); `ClaimLost` and `StaleEpoch` under a fence (CM-44);
    /// `LimitExceeded`. After an `Unknown` outcome: repeat it with its key.
    async fn append_events(&self, request: AppendEvents) -> Result<AppendedEvents>;
}

/// Reads events.
#[async_trait]
pub trait EventReader: Send + Sync {
    /// Loads an event; none for an unknown id, or one that was trimmed from all its scopes (EV-1).
    ///
    /// # Errors
    /// Those of reading.
    async fn load_event(&self, id: &EventId) -> Result<Option<Event>>;

    /// Lists the events of a scope, strictly behind the cursor (EV-10). A filter makes a page miss and repeat nothing
    /// (EV-11).
    ///
    /// # Errors
    /// `Invalid` for a bad limit; `InvalidCursor` for a cursor of another scope; `CursorExpired` for one below the
    /// floor (EV-24).
    async fn list_events(&self, query: EventQuery) -> Result<Page<Event>>;

    /// How many events of the scope the filter lets through now; without one it costs the same however many there are
    /// (EV-12).
    ///
    /// # Errors
    /// Those of reading.
    async fn count_events(&self, scope: &Scope, filter: &EventFilter) -> Result<u64>;

    /// How a scope stands (EV-12); one that nobody knows is empty.
    ///
    /// # Errors
    /// Those of reading.
    async fn load_scope(&self, scope: &Scope) -> Result<ScopeInfo>;
}

/// The events of a subscription: what was, then what comes, each once, in order, without end. After an error it ends.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Event>> + Send>>;

/// A subscription that began.
#[non_exhaustive]
pub struct Subscription {
    /// Where it began: behind this event; absent for the beginning of a scope that had none.
    pub started_after: Option<Cursor>,
    /// The events.
    pub events: EventStream,
}

impl Subscription {
    /// For stores.
    #[must_use]
    pub fn new(started_after: Option<Cursor>, events: EventStream) -> Self {
        Self { started_after, events }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("started_after", &self.started_after).finish_non_exhaustive()
    }
}

/// Follows events.
#[async_trait]
pub trait EventSubscriber: Send + Sync {
    /// Follows a scope from a point on (EV-14).
    ///
    /// # Guarantees
    /// - Nothing is missed and nothing comes twice, however slow the subscriber is; memory stays bounded (EV-17).
    /// - Dropping the stream frees all it holds (EV-20).
    ///
    /// # Errors
    /// `InvalidCursor` and `CursorExpired` for a start that does not hold (EV-19). An error inside of the stream ends
    /// it; go on with a new one behind the last event.
    async fn subscribe(&self, request: Subscribe) -> Result<Subscription>;
}

/// Removes old events.
#[async_trait]
pub trait EventRetention: Send + Sync {
    /// Removes the oldest events of a scope (EV-23). Sequence numbers are not used again; an event stays in its other
    /// scope (EV-25).
    ///
    /// # Errors
    /// `InvalidCursor` for a cursor of another scope. After an `Unknown` outcome: repeat it.
    async fn trim_events(&self, request: TrimRequest) -> Result<Trimmed>;
}

/// Everything about events.
pub trait EventStore: EventWriter + EventReader + EventSubscriber + EventRetention {}

impl<S: EventWriter + EventReader + EventSubscriber + EventRetention + ?Sized> EventStore for S {}
