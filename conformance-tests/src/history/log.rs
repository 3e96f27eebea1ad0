//! The log of a thread as an object: guarded commits, repeats under a key, and reads.

use serde::{Deserialize, Serialize};

use super::check::Spec;

/// Threads to which commits of one entry each are made, under a guard and a key (CM-3, CM-5, CM-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuardedLogs;

/// What is done with a thread, and with which.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogOp {
    /// Its id.
    pub thread: String,
    /// What is done.
    pub act: LogAct,
}

/// What is done with a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogAct {
    /// Load it.
    Read,
    /// Commit an entry: a commit of this name, if the thread is at the version `from`.
    Commit {
        /// What its guard expects; 0 for no thread.
        from: u64,
        /// Its key, and the id of its entry. A repeat has the same.
        name: u64,
    },
}

/// What a thread returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogAnswer {
    /// How it is.
    Seen {
        /// Its version; 0 for no thread.
        version: u64,
        /// The commit that its head is of.
        head: Option<u64>,
    },
    /// Committed.
    Committed {
        /// The version that it made.
        version: u64,
        /// Whether it was made by an earlier one of this name.
        deduplicated: bool,
    },
    /// Refused: the thread is at another version.
    Conflict {
        /// At this one; 0 for no thread.
        actual: u64,
    },
}

impl GuardedLogs {
    /// What a thread does whose log is of these commits: its answer, and the commit that is added.
    #[must_use]
    pub fn apply(log: &[u64], act: LogAct) -> (LogAnswer, Option<u64>) {
        let version = log.len() as u64;
        match act {
            LogAct::Read => (LogAnswer::Seen { version, head: log.last().copied() }, None),
            LogAct::Commit { from, name } => match log.iter().position(|known| *known == name) {
                Some(at) => (LogAnswer::Committed { version: at as u64 + 1, deduplicated: true }, None),
                None if from == version => {
                    (LogAnswer::Committed { version: from + 1, deduplicated: false }, Some(name))
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

    fn step(&self, log: &Vec<u64>, op: &LogOp, answer: Option<&LogAnswer>) -> Option<Vec<u64>> {
        let (given, added) = Self::apply(log, op.act);
        if answer.is_some_and(|answer| *answer != given) || (answer.is_none() && added.is_none()) {
            return None;
        }
        let mut after = log.clone();
        after.extend(added);
        Some(after)
    }

    fn is_read(&self, _op: &LogOp, answer: &LogAnswer) -> bool {
        !matches!(answer, LogAnswer::Committed { deduplicated: false, .. })
    }
}
