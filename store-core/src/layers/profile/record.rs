//! Owners, values and changes of profiles.

use std::{fmt, str::FromStr};

use serde::Serialize;

use crate::{
    commit::StateOp,
    document::DocumentExpect,
    error::{Error, Result},
    id::{AgentId, AgentType, ProfileKey, SharedScopeId, ThreadId, UserId},
    json::Json,
    layers::audit::{AuditResource, NewAudit},
    time::Timestamp,
};

/// What a profile belongs to. All owners are apart from each other, whatever their ids (PF-6).
///
/// It is written as text as in this example, and read back.
///
/// ```
/// use store_core::{ProfileOwner, UserId};
///
/// assert_eq!("user:ada".parse::<ProfileOwner>()?, ProfileOwner::User(UserId::new("ada")?));
/// for text in ["agent:coder", "system", "global", "agent_type:a", "thread:t", "parent_thread:t", "custom:a:b"] {
///     assert_eq!(text.parse::<ProfileOwner>()?.to_string(), text);
/// }
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProfileOwner {
    /// An agent.
    Agent(AgentId),
    /// A user.
    User(UserId),
    /// The system.
    System,
    /// A scope that several agents share.
    Shared(SharedScope),
}

/// A scope whose values several agents share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SharedScope {
    /// All agents of the tenant.
    Global,
    /// The children of a thread. The thread need not exist.
    ParentThread(ThreadId),
    /// The agents of a type.
    AgentType(AgentType),
    /// The agents of a thread. The thread need not exist, and its deletion leaves the values.
    Thread(ThreadId),
    /// A scope that the application defines.
    Custom(SharedScopeId),
}

/// The names of the types of owners. The number of a type is its place in this list, from 1. Numbers and names are
/// stored and never change.
const TYPE_NAMES: [&str; 8] = ["agent", "user", "system", "global", "parent_thread", "agent_type", "thread", "custom"];

impl ProfileOwner {
    /// Returns the number of the type of the owner, and its id.
    pub(super) fn number_and_id(&self) -> (u64, Option<&str>) {
        match self {
            Self::Agent(id) => (1, Some(id.as_str())),
            Self::User(id) => (2, Some(id.as_str())),
            Self::System => (3, None),
            Self::Shared(SharedScope::Global) => (4, None),
            Self::Shared(SharedScope::ParentThread(id)) => (5, Some(id.as_str())),
            Self::Shared(SharedScope::AgentType(id)) => (6, Some(id.as_str())),
            Self::Shared(SharedScope::Thread(id)) => (7, Some(id.as_str())),
            Self::Shared(SharedScope::Custom(id)) => (8, Some(id.as_str())),
        }
    }

    /// Returns the owner that [`number_and_id`](Self::number_and_id) describes.
    ///
    /// # Errors
    /// `Invalid` if no owner has these.
    pub(super) fn from_number_and_id(number: u64, id: Option<&str>) -> Result<Self> {
        Ok(match (number, id) {
            (1, Some(id)) => Self::Agent(AgentId::new(id)?),
            (2, Some(id)) => Self::User(UserId::new(id)?),
            (3, None) => Self::System,
            (4, None) => Self::Shared(SharedScope::Global),
            (5, Some(id)) => Self::Shared(SharedScope::ParentThread(ThreadId::new(id)?)),
            (6, Some(id)) => Self::Shared(SharedScope::AgentType(AgentType::new(id)?)),
            (7, Some(id)) => Self::Shared(SharedScope::Thread(ThreadId::new(id)?)),
            (8, Some(id)) => Self::Shared(SharedScope::Custom(SharedScopeId::new(id)?)),
            _ => {
                let forms = "it is none of `user:ID`, `agent:ID`, `system`, `global`, `agent_type:TYPE`, `thread:ID`, \
                             `parent_thread:ID` and `custom:ID`";
                return Err(Error::invalid("owner", forms));
            }
        })
    }

    fn type_name(&self) -> &'static str {
        let (number, _) = self.number_and_id();
        TYPE_NAMES.iter().zip(1..).find(|(_, known)| *known == number).map_or("", |(name, _)| name)
    }

    /// Returns the resource of audit records about a value: `profile/user/ID/KEY`, or `profile/system/KEY`.
    ///
    /// # Errors
    /// None for any owner and key.
    pub fn resource(&self, key: &ProfileKey) -> Result<AuditResource> {
        let (_, id) = self.number_and_id();
        AuditResource::of(["profile", self.type_name()].into_iter().chain(id).chain([key.as_str()]))
    }
}

impl fmt::Display for ProfileOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())?;
        match self.number_and_id() {
            (_, Some(id)) => write!(f, ":{id}"),
            (_, None) => Ok(()),
        }
    }
}

impl FromStr for ProfileOwner {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, id) = text.split_once(':').map_or((text, None), |(name, id)| (name, Some(id)));
        let number = TYPE_NAMES.iter().zip(1..).find(|(known, _)| **known == name).map_or(0, |(_, number)| number);
        Self::from_number_and_id(number, id)
    }
}

/// One value of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProfileValue {
    /// The key.
    pub key: ProfileKey,
    /// The value.
    pub value: Json,
    /// The revision. It is larger than every earlier one of the key, also across delete and put (PF-7).
    pub revision: u64,
    /// When the value was created; set by the store.
    pub created_at: Timestamp,
    /// When the value was last put; set by the store.
    pub updated_at: Timestamp,
}

/// A change of one key of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProfileChange {
    /// The key.
    pub key: ProfileKey,
    /// What the key must be like.
    pub expect: DocumentExpect,
    /// What the change does. The rules are those of the state of a thread (CM-39).
    pub op: StateOp,
    /// The audit record of the change, which is written only if the change changes something (AU-1).
    pub audit: Option<NewAudit>,
}

impl ProfileChange {
    /// Makes a change of a key, whatever it is like.
    #[must_use]
    pub const fn new(key: ProfileKey, op: StateOp) -> Self {
        Self { key, expect: DocumentExpect::Any, op, audit: None }
    }

    /// Makes a change that sets the value of a key.
    #[must_use]
    pub const fn put(key: ProfileKey, value: Json) -> Self {
        Self::new(key, StateOp::Set(value))
    }

    /// Makes a change that removes a key. A missing key is not an error.
    #[must_use]
    pub const fn delete(key: ProfileKey) -> Self {
        Self::new(key, StateOp::Remove)
    }

    /// Sets what the key must be like.
    #[must_use]
    pub const fn expecting(mut self, expect: DocumentExpect) -> Self {
        self.expect = expect;
        self
    }

    /// Adds an audit record.
    #[must_use]
    pub fn audited(mut self, audit: NewAudit) -> Self {
        self.audit = Some(audit);
        self
    }
}

/// One atomic write to the profile of an owner: all of it takes effect, or nothing (PF-5).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteProfile {
    /// The owner.
    pub owner: ProfileOwner,
    /// The changes. No key may be named twice.
    pub changes: Vec<ProfileChange>,
}

impl WriteProfile {
    /// Makes a write of these changes.
    #[must_use]
    pub fn new(owner: ProfileOwner, changes: impl IntoIterator<Item = ProfileChange>) -> Self {
        Self { owner, changes: changes.into_iter().collect() }
    }
}

/// The result of a write to a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WrittenProfile {
    /// The revision of all values that the write set; absent if it set none.
    pub revision: Option<u64>,
    /// Store time of the write.
    pub time: Timestamp,
}
