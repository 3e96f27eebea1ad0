//! Events: immutable records for observers, numbered without gaps in the scope of a thread, of a run, or of both.

mod follow;
mod query;
mod record;
mod rules;
mod store;

pub(crate) use self::rules::{check_shape, digest};
pub use self::{
    follow::{ChangeFollower, EventSource, Followers, stream},
    query::{EventFilter, EventQuery, ScopeInfo, Start, Subscribe, TrimBefore, TrimRequest, Trimmed},
    record::{
        AppendEvents, AppendedEvents, Event, EventCursors, EventKeyRecord, EventRef, EventVisibility, NewEvent, Scope,
        ScopeState, StoredEvent,
    },
    rules::{
        AppendOptions, EventChange, EventPlan, EventView, append, check_cursor, cursor_after, event_with_cursors,
        fenced_thread, is_remembered, seq_of_cursor, start_seq, trim_up_to,
    },
    store::{EventReader, EventRetention, EventStore, EventStream, EventSubscriber, EventWriter, Subscription},
};
