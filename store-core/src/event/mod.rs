//! Events: immutable records for observers, numbered without gaps in the scopes of threads, runs and topics.

mod follow;
mod query;
mod record;
mod rules;
mod store;

pub(crate) use self::rules::drafts_digest;
pub use self::{
    follow::{ChangeFollower, EventSource, Followers, event_stream},
    query::{
        EventFilter, EventQuery, RedactEvent, ScopeInfo, Subscribe, SubscriptionStart, TrimBefore, TrimRequest, Trimmed,
    },
    record::{
        AppendEvents, AppendedEvents, Event, EventCursors, EventKeyRecord, EventRef, EventVisibility, MAX_EVENT_TOPICS,
        NewEvent, Scope, ScopeState, StoredEvent,
    },
    rules::{
        AppendOptions, EventDecision, EventPlan, EventView, append, check_cursor, check_redactions, check_request,
        cursor_after, event_with_cursors, fenced_thread, last_trimmed_seq, must_keep_event_key, redacted, refuse_topic,
        seq_of_cursor, start_seq,
    },
    store::{EventReader, EventRetention, EventStore, EventStream, EventSubscriber, EventWriter, Subscription},
};
