//! Ids: newtypes over text that is checked once, when it is made.
//!
//! Every id holds 1 to [`MAX_ID_BYTES`] bytes of UTF-8 with at least one character that is not white space and no
//! control character (ID-1). Ids are kept and compared byte by byte (ID-2); a backend encodes them into its paths,
//! keys and subjects, it never cleans or refuses what the newtype allowed (ID-3 to ID-5).

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// The longest id, in bytes of UTF-8.
pub const MAX_ID_BYTES: usize = 256;

/// Why `text` cannot be an id, or nothing.
fn objection(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.len() > MAX_ID_BYTES {
        Some("it is longer than 256 bytes")
    } else if text.chars().any(char::is_control) {
        Some("it holds a control character")
    } else if text.chars().all(char::is_whitespace) {
        Some("it is blank")
    } else {
        None
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Cheap to clone. Serialises as a plain JSON string (ID-8); reading one checks it again (ID-1).
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// What this id names, as error messages say it.
            pub const WHAT: &'static str = $what;

            /// Checks `text` and makes an id of it.
            ///
            /// # Errors
            /// `Invalid` if `text` is empty, blank, longer than 256 bytes or holds a control character (ID-1).
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                let text = text.as_ref();
                match objection(text) {
                    Some(reason) => Err(Error::invalid(concat!($what, " id"), reason)),
                    None => Ok(Self(Arc::from(text))),
                }
            }

            /// The text of the id.
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

ids! {
    /// Names a tenant: what a store handle is bound to.
    TenantId = "tenant";
    /// Names a thread.
    ThreadId = "thread";
    /// Names an entry, unique in its thread.
    EntryId = "entry";
    /// Names a run, unique in its tenant.
    RunId = "run";
    /// Names the agent that works in a run.
    AgentId = "agent";
    /// Names whose a thread is: a user, a ticket, a repository.
    ResourceId = "resource";
    /// Names a unit of work in the mailbox.
    DispatchId = "dispatch";
    /// The idempotency key of a commit, per thread.
    CommitKey = "commit key";
    /// Names an event, unique in its tenant.
    EventId = "event";
    /// Says what happened, in the application's own word: `run.started`.
    EventKind = "event kind";
    /// Names who appends events.
    WriterId = "writer";
    /// The idempotency key of an append of events, per writer.
    EventKey = "event key";
    /// Names what an event followed from.
    CausationId = "causation";
    /// Names what an event belongs to.
    CorrelationId = "correlation";
    /// Names a worker: who claims.
    WorkerId = "worker";
    /// Names what works on a dispatch: a process, a machine.
    InstanceId = "instance";
    /// The idempotency key of an interrupt, per thread.
    InterruptKey = "interrupt key";
    /// Keeps the same work from being there twice: unique in a thread's mailbox, or in a lane and target of the outbox.
    DedupeKey = "dedupe key";
    /// Names a row of the outbox.
    OutboxId = "outbox row";
    /// Names a kind of delivery: `webhook`.
    LaneId = "lane";
    /// Names to whom is delivered.
    OutboxTarget = "outbox target";
    /// Puts rows of the outbox with the same one behind each other.
    OrderKey = "order key";
}

impl TenantId {
    /// The tenant of a handle that names none: `default`.
    #[must_use]
    pub fn default_tenant() -> Self {
        Self(Arc::from("default"))
    }
}

/// Where generated ids come from.
///
/// A store takes one when it is opened, so that a test can make a run repeatable.
pub trait IdSource: Send + Sync + fmt::Debug {
    /// The next id's text: valid as any id of this crate, and never given out before.
    fn next_id(&self) -> String;
}

/// Generates UUIDv7 in lower case; ids made one after the other in one process sort in that order (ID-6).
#[derive(Debug, Clone, Copy, Default)]
pub struct Uuids;

impl IdSource for Uuids {
    fn next_id(&self) -> String {
        uuid::Uuid::now_v7().hyphenated().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{IdSource, ThreadId, Uuids};

    #[test]
    fn ids_are_checked_when_made() {
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
    fn generated_ids_sort_in_the_order_of_their_making() {
        let ids: Vec<_> = (0..1000).map(|_| Uuids.next_id()).collect();
        assert!(ids.is_sorted());
    }
}
