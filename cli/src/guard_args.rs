//! The version that a commit from the command line expects, and the key that makes the commit safe to repeat.

use std::str::FromStr;

use agentstore::{CommitKey, Guard, IdSource, Thread, ThreadId, UuidSource, Version};
use clap::Args;

use crate::{failure::Result, session::Session};

/// The options for the guard of a commit.
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// Refuse the commit unless the thread has this version: its number of entries, or `absent` if it does not exist
    ///
    /// Without `--expect`, `append` accepts every version. The other commands do so only with `--key`; without it they
    /// expect the version that they have just read.
    #[arg(long, value_name = "N")]
    expect: Option<ExpectedVersion>,
    /// A commit key: a repeat of the command with the same key has no further effect and prints the first receipt
    #[arg(long, value_name = "KEY")]
    key: Option<CommitKey>,
}

#[derive(Debug, Clone, Copy)]
enum ExpectedVersion {
    Absent,
    Version(u64),
}

impl FromStr for ExpectedVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "absent" => Ok(Self::Absent),
            _ => text.parse().map(Self::Version).map_err(|_| "it is neither a number nor `absent`".to_owned()),
        }
    }
}

impl GuardArgs {
    /// Returns the guard for a write to a thread that may not exist yet. If neither a version nor a key is given, a key
    /// is generated, so that the commit can be repeated if its outcome is unknown.
    pub(crate) async fn for_new_or_existing_thread(self, session: &Session, id: ThreadId) -> Result<Guard> {
        let Some(expected) = self.expect else {
            let key = self.key.map_or_else(|| CommitKey::new(UuidSource.next_id()), Ok)?;
            return Ok(Guard::keyed(id, key));
        };
        let current = session.threads()?.load_thread(&id).await?;
        Ok(with_key(expected_version_guard(expected, id, current.as_ref()), self.key))
    }

    /// Returns the guard for a write to an existing thread. If neither a version nor a key is given, the write is
    /// refused if the thread was written after it was read.
    pub(crate) fn for_existing_thread(self, thread: &Thread) -> Guard {
        match (self.expect, self.key) {
            (None, None) => Guard::from(thread),
            (None, Some(key)) => Guard::keyed(thread.id.clone(), key),
            (Some(expected), key) => with_key(expected_version_guard(expected, thread.id.clone(), Some(thread)), key),
        }
    }
}

fn expected_version_guard(expected: ExpectedVersion, id: ThreadId, current: Option<&Thread>) -> Guard {
    match (expected, current) {
        // A thread that does not exist has no entries, so version 0 also matches a missing thread.
        (ExpectedVersion::Absent, _) | (ExpectedVersion::Version(0), None) => Guard::absent(id),
        // The commit will be refused, because the thread does not exist. The generation (1) and the incarnation (0) do
        // not matter.
        (ExpectedVersion::Version(number), None) => Guard::at(id, Version::new(number, 1, 0)),
        (ExpectedVersion::Version(number), Some(Thread { version, .. })) => {
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
