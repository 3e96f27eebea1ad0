//! What a commit from the command line expects, and the key that makes it safe to repeat.

use std::str::FromStr;

use agentstore::{CommitKey, Guard, IdSource, Thread, ThreadId, Uuids, Version};
use clap::Args;

use crate::{failure::Result, session::Session};

/// The guard of a commit.
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// Refuse unless the thread has this version: the number of its entries, or `absent` for no thread
    #[arg(long, value_name = "N")]
    expect: Option<Expected>,
    /// A key: the same command again with the same key has one effect, and prints the first receipt
    #[arg(long, value_name = "KEY")]
    key: Option<CommitKey>,
}

#[derive(Debug, Clone, Copy)]
enum Expected {
    Absent,
    Version(u64),
}

impl FromStr for Expected {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "absent" => Ok(Self::Absent),
            _ => text.parse().map(Self::Version).map_err(|_| "it is neither a number nor `absent`".to_owned()),
        }
    }
}

impl GuardArgs {
    /// The guard of a write to a thread that may not exist yet. Without a version or key it gets a key of its own, so
    /// that it can be repeated if nobody knows how it ended.
    pub(crate) async fn for_new(self, session: &Session, id: ThreadId) -> Result<Guard> {
        let Some(expected) = self.expect else {
            let key = self.key.map_or_else(|| CommitKey::new(Uuids.next_id()), Ok)?;
            return Ok(Guard::keyed(id, key));
        };
        let found = session.threads()?.load_thread(&id).await?;
        Ok(with_key(expecting(expected, id, found.as_ref()), self.key))
    }

    /// The guard of a write to a thread that exists: refused if somebody else writes first, unless a key was given.
    pub(crate) fn for_thread(self, thread: &Thread) -> Guard {
        match (self.expect, self.key) {
            (None, None) => Guard::from(thread),
            (None, Some(key)) => Guard::keyed(thread.id.clone(), key),
            (Some(expected), key) => with_key(expecting(expected, thread.id.clone(), Some(thread)), key),
        }
    }
}

fn expecting(expected: Expected, id: ThreadId, found: Option<&Thread>) -> Guard {
    match (expected, found) {
        // A thread that does not exist has no entries either.
        (Expected::Absent, _) | (Expected::Version(0), None) => Guard::absent(id),
        (Expected::Version(number), None) => Guard::at(id, Version::new(number, 1, 0)),
        (Expected::Version(number), Some(Thread { version, .. })) => {
            Guard::at(id, Version::new(number, version.generation(), version.incarnation()))
        }
    }
}

fn with_key(guard: Guard, key: Option<CommitKey>) -> Guard {
    match key {
        Some(key) => guard.with_key(key),
        None => guard,
    }
}
