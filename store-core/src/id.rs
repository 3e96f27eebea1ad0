//! Ids: newtypes over text. The text is checked once, when the id is made.
//!
//! Every id is text of 1 to [`MAX_ID_BYTES`] bytes of UTF-8. At least one character is not white space, and none is a
//! control character (ID-1). Ids are kept and compared byte by byte (ID-2). A backend encodes ids into its paths, keys
//! and subjects. It never changes or refuses an id that the newtype accepted (ID-3 to ID-5).

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// The maximum length of an id, in bytes of UTF-8.
pub const MAX_ID_BYTES: usize = 256;

/// Returns the reason why `text` cannot be an id, or `None` if it can.
fn rejection_reason(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.len() > MAX_ID_BYTES {
        Some("it is longer than 256 bytes")
    } else if text.chars().any(char::is_control) {
        Some("it contains a control character")
    } else if text.chars().all(char::is_whitespace) {
        Some("it is blank")
    } else {
        None
    }
}

macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident = $type_name:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Cheap to clone. Serialises as a plain JSON string (ID-8). Deserialising checks the text again (ID-1).
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name of this type of id in error messages.
            pub const TYPE_NAME: &'static str = $type_name;

            /// Checks `text` and makes an id from it.
            ///
            /// # Errors
            /// `Invalid` if `text` is empty, blank or longer than 256 bytes, or contains a control character (ID-1).
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                let text = text.as_ref();
                match rejection_reason(text) {
                    Some(reason) => Err(Error::invalid(concat!($type_name, " id"), reason)),
                    None => Ok(Self(Arc::from(text))),
                }
            }

            /// Returns the text of the id.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }
    )*};
}

id_types! {
    /// The id of a tenant. Every store handle belongs to one tenant.
    TenantId = "tenant";
    /// The id of a thread.
    ThreadId = "thread";
    /// The id of an entry, unique in its thread.
    EntryId = "entry";
    /// The id of a run, unique in its tenant.
    RunId = "run";
    /// The id of the agent that works in a run.
    AgentId = "agent";
    /// The id of the resource that a thread belongs to, such as a user, an issue or a repository.
    ResourceId = "resource";
    /// The id of a dispatch, a unit of work in the mailbox.
    DispatchId = "dispatch";
    /// The commit key: the idempotency key of a commit, unique in its thread.
    CommitKey = "commit key";
    /// The id of an event, unique in its tenant.
    EventId = "event";
    /// The kind of an event, named by the application, such as `run.started`.
    EventKind = "event kind";
    /// The id of a writer that appends events.
    WriterId = "writer";
    /// The idempotency key of an append of events, unique for its writer.
    EventKey = "event key";
    /// The id of the cause of an event.
    CausationId = "causation";
    /// The id that related events have in common.
    CorrelationId = "correlation";
    /// The id of a worker that claims dispatches or outbox rows.
    WorkerId = "worker";
    /// The id of the process or machine that works on a dispatch.
    InstanceId = "instance";
    /// The idempotency key of an interrupt, unique in its thread.
    InterruptKey = "interrupt key";
    /// The dedupe key, which prevents duplicates. Unique among the unfinished dispatches of a thread, or among the
    /// outbox rows of a lane and target.
    DedupeKey = "dedupe key";
    /// The id of an outbox row.
    OutboxId = "outbox row";
    /// The id of a lane, a kind of delivery, such as `webhook`.
    LaneId = "lane";
    /// The id of the recipient of a delivery.
    OutboxTarget = "outbox target";
    /// The order key. Outbox rows with the same order key are delivered one after another.
    OrderKey = "order key";
    /// The id of a topic: a sequence of events that belongs to no thread and no run.
    TopicId = "topic";
    /// The id of a collection of documents.
    CollectionId = "collection";
    /// One segment of a document's key, if it is not a number.
    SegmentId = "key segment";
    /// The id of a user.
    UserId = "user";
    /// The type of an agent, which several agents have in common.
    AgentType = "agent type";
    /// The key of a value in a profile.
    ProfileKey = "profile key";
    /// The id of a shared scope that the application defines.
    SharedScopeId = "shared scope";
    /// The kind of a definition in the registry, such as `agent` or `tool`.
    DefinitionKind = "definition kind";
    /// The id of a definition in the registry, unique for its kind.
    DefinitionId = "definition";
    /// The id of a publication of the registry.
    PublicationId = "publication";
    /// The id of an effect, unique in its run.
    EffectId = "effect";
    /// The kind of an effect, named by the application, such as `payment`.
    EffectKind = "effect kind";
    /// The key that a receiver outside of the store is given, so that it recognises a request that is sent again.
    IdempotencyKey = "idempotency key";
    /// Who keeps a trace from being purged: a person, a dataset, an evaluation run.
    PinHolder = "pin holder";
    /// The id of a replay stream: what its records belong to, such as a run.
    ReplayStreamId = "replay stream";
    /// The name of a wire protocol, such as `ag-ui`.
    WireProtocol = "wire protocol";
    /// The version of a wire protocol.
    WireProtocolVersion = "wire protocol version";
    /// The id under which an event was sent on a wire, unique for a version of a protocol.
    WireEventId = "wire event";
    /// The type of an event on a wire, such as `message.delta`.
    WireEventType = "wire event type";
    /// The version of the code that makes wire events of stored events.
    ProjectorVersion = "projector version";
    /// The id of a dataset.
    DatasetId = "dataset";
    /// The id of a case, unique in its dataset.
    CaseId = "case";
    /// The id of an evaluation run.
    EvaluationId = "evaluation";
    /// The name of a cell of an evaluation run: of what is varied, such as a model.
    CellId = "cell";
}

impl TenantId {
    /// Returns `default`, the tenant that is used if the caller names none.
    #[must_use]
    pub fn default_tenant() -> Self {
        Self(Arc::from("default"))
    }
}

/// A source of generated ids.
///
/// A store gets one when it is opened. A test can pass its own source, so that the generated ids are the same each
/// time.
pub trait IdSource: Send + Sync + fmt::Debug {
    /// Returns the text of the next id. It is valid for every id type of this crate and was never returned before.
    fn next_id(&self) -> String;
}

/// Generates UUIDv7 in lower case. Ids sort in the order in which one process generated them (ID-6).
#[derive(Debug, Clone, Copy, Default)]
pub struct UuidSource;

impl IdSource for UuidSource {
    fn next_id(&self) -> String {
        uuid::Uuid::now_v7().hyphenated().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{IdSource, ThreadId, UuidSource};

    #[test]
    fn ids_are_validated_when_created() {
        for good in ["a", " a ", "..", "a/b\\c", "CON", "é", "🦀", &"x".repeat(256)] {
            assert_eq!(ThreadId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "   ", "\u{2003}", "a\nb", "a\u{7f}", "a\u{85}b", "a\0", &"x".repeat(257)] {
            assert!(ThreadId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_bad_id_is_refused_when_read() {
        let error = serde_json::from_str::<ThreadId>("\"a\\nb\"").unwrap_err();
        assert!(error.to_string().contains("thread id"), "{error}");
    }

    #[test]
    fn generated_ids_sort_in_the_order_of_creation() {
        let ids: Vec<_> = (0..1000).map(|_| UuidSource.next_id()).collect();
        assert!(ids.is_sorted());
    }
}
