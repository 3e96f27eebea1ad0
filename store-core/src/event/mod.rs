//! Events: immutable records for observers, numbered without gaps in the scope of a thread, of a run, or of both.

mod follow;
mod query;
mod record;
mod rules;
mod store;

pub(crate) use self::rules::{check_shape, digest};
pub use self::{
    follow::{Changes, EventSource, Followers, stream},
    query::{EventFilter, EventQuery, ScopeInfo, Start, Subscribe, TrimBefore, TrimRequest, Trimmed},
    record::{
        AppendEvents, AppendedEvents, Event, EventCursors, EventKeyRecord, EventRef, EventVisibility, NewEvent, Scope,
        ScopeState, StoredEvent,
    },
    rules::{
        Appending, EventChange, EventPlan, EventView, append, check_cursor, cursor, fenced_thread, is_remembered,
        place, seal, start, trim_up_to,
    },
    store::{EventReader, EventRetention, EventStore, EventStream, EventSubscriber, EventWriter, Subscription},
};
