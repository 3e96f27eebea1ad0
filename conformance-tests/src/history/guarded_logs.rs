//! Describes the log of a thread for the checker: guarded commits, repeats under a key, and reads.

use serde::{Deserialize, Serialize};

use super::check::Spec;

/// Describes threads. Each commit to such a thread has one entry, a guard and a key (CM-3, CM-5, CM-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuardedLogs;

/// An operation on a thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogOp {
    /// The id of the thread.
    pub thread: String,
    /// What the operation does.
    pub act: LogAct,
}

/// What an operation does with its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogAct {
    /// Loads the thread.
    Read,
    /// Commits one entry, if the thread is at the version `from`.
    Commit {
        /// The version that the guard expects; 0 if the thread must not exist.
        from: u64,
        /// The number of the commit. It is the key of the commit and the id of its entry. A repeat has the same number.
        #[serde(rename = "name")]
        commit_number: u64,
    },
}

/// What an operation returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogAnswer {
    /// The thread as it was loaded.
    Seen {
        /// The version of the thread; 0 if there is no thread.
        version: u64,
        /// The number of the commit that wrote the head.
        head: Option<u64>,
    },
    /// The commit was accepted, now or earlier.
    Committed {
        /// The version that the commit made.
        version: u64,
        /// Whether an earlier commit with this number made it.
        deduplicated: bool,
    },
    /// The commit was refused, because the thread is at another version.
    Conflict {
        /// The version of the thread; 0 if there is no thread.
        actual: u64,
    },
}

impl GuardedLogs {
    /// Returns the answer of an operation, and the commit that the operation adds to the log. Before the operation, the
    /// log of the thread consists of the commits `log`.
    #[must_use]
    pub fn apply(log: &[u64], act: LogAct) -> (LogAnswer, Option<u64>) {
        let version = log.len() as u64;
        match act {
            LogAct::Read => (LogAnswer::Seen { version, head: log.last().copied() }, None),
            LogAct::Commit { from, commit_number } => match log.iter().position(|known| *known == commit_number) {
                Some(at) => (LogAnswer::Committed { version: at as u64 + 1, deduplicated: true }, None),
                None if from == version => {
                    (LogAnswer::Committed { version: from + 1, deduplicated: false }, Some(commit_number))
                }
                None => (LogAnswer::Conflict { actual: version }, None),
            },
        }
    }
}

impl Spec for GuardedLogs {
    type Key = String;
    type State = Vec<u64>;
    type Op = LogOp;
    type Answer = LogAnswer;

    fn key(&self, op: &LogOp) -> String {
        op.thread.clone()
    }

    fn initial(&self) -> Vec<u64> {
        Vec::new()
    }

    fn state_after(&self, log: &Vec<u64>, op: &LogOp, answer: Option<&LogAnswer>) -> Option<Vec<u64>> {
        let (expected_answer, added) = Self::apply(log, op.act);
        if answer.is_some_and(|answer| *answer != expected_answer) || (answer.is_none() && added.is_none()) {
            return None;
        }
        let mut after = log.clone();
        after.extend(added);
        Some(after)
    }

    fn has_no_effect(&self, _op: &LogOp, answer: &LogAnswer) -> bool {
        !matches!(answer, LogAnswer::Committed { deduplicated: false, .. })
    }
}
