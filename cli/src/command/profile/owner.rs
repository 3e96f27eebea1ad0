//! The argument that names the owner of a profile.

use std::{fmt, str::FromStr};

use agentstore::{ProfileKey, ProfileOwner, SharedScope};
use serde::{Serialize, Serializer};

use crate::text::terminal_safe;

/// The arguments that name a value of a profile.
#[derive(Debug, clap::Args)]
pub(super) struct ValueNameArgs {
    /// The owner, such as `user:u1`, `agent:coder` or `system`
    pub(super) owner: OwnerArg,
    /// The key of the value
    pub(super) key: ProfileKey,
}

impl ValueNameArgs {
    /// Returns the name of the value as text that is safe to print.
    pub(super) fn text(&self) -> String {
        terminal_safe(&format!("{} {}", self.owner, self.key))
    }
}

/// The owner of a profile, as people write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::command) struct OwnerArg(pub(in crate::command) ProfileOwner);

impl FromStr for OwnerArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, id) = text.split_once(':').map_or((text, None), |(kind, id)| (kind, Some(id)));
        let shared = |scope| ProfileOwner::Shared(scope);
        let owner = match (kind, id) {
            ("system", None) => Ok(ProfileOwner::System),
            ("global", None) => Ok(shared(SharedScope::Global)),
            ("user", Some(id)) => id.parse().map(ProfileOwner::User),
            ("agent", Some(id)) => id.parse().map(ProfileOwner::Agent),
            ("agent_type", Some(id)) => id.parse().map(SharedScope::AgentType).map(shared),
            ("thread", Some(id)) => id.parse().map(SharedScope::Thread).map(shared),
            ("parent_thread", Some(id)) => id.parse().map(SharedScope::ParentThread).map(shared),
            ("custom", Some(id)) => id.parse().map(SharedScope::Custom).map(shared),
            _ => {
                return Err("expected `user:ID`, `agent:ID`, `system`, `global`, `agent_type:TYPE`, `thread:ID`, \
                            `parent_thread:ID` or `custom:ID`"
                    .to_owned());
            }
        };
        owner.map(Self).map_err(|error: agentstore::Error| error.to_string())
    }
}

impl fmt::Display for OwnerArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ProfileOwner::Agent(id) => write!(f, "agent:{id}"),
            ProfileOwner::User(id) => write!(f, "user:{id}"),
            ProfileOwner::System => f.write_str("system"),
            ProfileOwner::Shared(SharedScope::Global) => f.write_str("global"),
            ProfileOwner::Shared(SharedScope::ParentThread(id)) => write!(f, "parent_thread:{id}"),
            ProfileOwner::Shared(SharedScope::AgentType(id)) => write!(f, "agent_type:{id}"),
            ProfileOwner::Shared(SharedScope::Thread(id)) => write!(f, "thread:{id}"),
            ProfileOwner::Shared(SharedScope::Custom(id)) => write!(f, "custom:{id}"),
        }
    }
}

impl Serialize for OwnerArg {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::OwnerArg;

    #[test]
    fn an_owner_is_printed_as_it_is_written() {
        for text in [
            "user:u1",
            "agent:coder",
            "system",
            "global",
            "agent_type:reviewer",
            "thread:t-1",
            "parent_thread:t-1",
            "custom:a:b",
        ] {
            assert_eq!(text.parse::<OwnerArg>().unwrap().to_string(), text);
        }
        for text in ["", "u1", "user", "user:", "system:x", "robot:r"] {
            assert!(text.parse::<OwnerArg>().is_err(), "{text}");
        }
    }
}
