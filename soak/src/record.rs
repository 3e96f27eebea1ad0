//! The logs of the processes. Each line is about a call or its answer, with the times of a clock that all processes
//! of a host share.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    str::FromStr,
};

use agentstore::{ClaimNumber, DispatchId, ThreadId};
use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The name of a dispatch: the job that it is for, and the round. A job whose dispatch was superseded is enqueued
/// again, in another round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct DispatchName {
    pub(crate) job: u32,
    pub(crate) round: u32,
}

impl fmt::Display for DispatchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d-{}.{}", self.job, self.round)
    }
}

impl FromStr for DispatchName {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.strip_prefix("d-").and_then(|rest| rest.split_once('.'));
        let (job, round) = parts.with_context(|| format!("`{text}` is not a dispatch of a soak"))?;
        Ok(Self { job: job.parse()?, round: round.parse()? })
    }
}

impl DispatchName {
    pub(crate) fn id(self) -> Result<DispatchId> {
        Ok(DispatchId::new(self.to_string())?)
    }
}

/// Returns the id of a thread.
pub(crate) fn thread_id(thread: u32) -> Result<ThreadId> {
    Ok(ThreadId::new(format!("t-{thread}"))?)
}

/// Returns the number of the thread with this id.
pub(crate) fn thread_number(id: &ThreadId) -> Result<u32> {
    let number = id.as_str().strip_prefix("t-").with_context(|| format!("`{id}` is not a thread of a soak"))?;
    Ok(number.parse()?)
}

/// A claim as its holder knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) thread: u32,
    pub(crate) number: ClaimNumber,
    pub(crate) dispatch: DispatchName,
    pub(crate) epoch: u64,
}

/// A call that is made under a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClaimCall {
    Start,
    Extend,
    Ack,
    /// A settlement other than an acknowledgement.
    #[serde(rename = "give_back")]
    Release,
    /// A commit without entries. From then on, the thread refuses commits under earlier claims (CM-32).
    TakeOver,
    /// A commit with the entry of the dispatch.
    #[serde(rename = "say")]
    Commit,
    /// A commit with the entry of the dispatch, which also acknowledges the dispatch.
    #[serde(rename = "say_and_ack")]
    CommitAndAck,
}

impl ClaimCall {
    /// Returns whether the call ends the claim if it is accepted.
    pub(crate) const fn ends_claim(self) -> bool {
        matches!(self, Self::Ack | Self::Release | Self::CommitAndAck)
    }

    pub(crate) const fn acknowledges(self) -> bool {
        matches!(self, Self::Ack | Self::CommitAndAck)
    }

    pub(crate) const fn writes_entry(self) -> bool {
        matches!(self, Self::Commit | Self::CommitAndAck)
    }

    pub(crate) const fn is_commit(self) -> bool {
        matches!(self, Self::TakeOver | Self::Commit | Self::CommitAndAck)
    }
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogLine {
    /// When the call was made, in nanoseconds since the host started.
    pub(crate) called: u64,
    /// When the answer was received. For [`LoggedAction::Calling`] this is the time of the call.
    pub(crate) answered: u64,
    pub(crate) did: LoggedAction,
}

/// What a line records. If a call under a claim has no answer, or an answer that leaves the outcome unknown, the log
/// contains only its `Calling` line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoggedAction {
    Enqueued {
        dispatch: DispatchName,
        thread: u32,
        epoch: u64,
    },
    Interrupted {
        thread: u32,
        epoch: u64,
    },
    /// A claim was made. Its lease lasts from `since` until `until`, by store time in milliseconds, unless it is
    /// extended.
    Claimed {
        claim: Claim,
        since: u64,
        until: u64,
    },
    /// The call is about to be made.
    #[serde(rename = "tries")]
    Calling {
        claim: Claim,
        act: ClaimCall,
    },
    Accepted {
        claim: Claim,
        act: ClaimCall,
        /// The end of the lease, if the answer contains it.
        until: Option<u64>,
        /// Whether the answer repeats that of an earlier, equal call.
        again: bool,
    },
    /// The call had no effect, except that it may have ended a claim of an earlier epoch.
    Refused {
        claim: Claim,
        act: ClaimCall,
        kind: String,
    },
}

impl LoggedAction {
    pub(crate) const fn thread(&self) -> u32 {
        match self {
            Self::Enqueued { thread, .. } | Self::Interrupted { thread, .. } => *thread,
            Self::Claimed { claim, .. }
            | Self::Calling { claim, .. }
            | Self::Accepted { claim, .. }
            | Self::Refused { claim, .. } => claim.thread,
        }
    }
}

/// Returns the nanoseconds since the host started.
pub(crate) fn host_nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let (seconds, nanoseconds) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanoseconds
}

/// The log of one process. A line that was written remains after the process is killed.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create_new(true).append(true).open(path);
        Ok(Self(file.with_context(|| format!("{} cannot be created", path.display()))?))
    }

    /// Appends lines to the log, with one write.
    pub(crate) fn append(&self, lines: &[LogLine]) -> Result<()> {
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        (&self.0).write_all(&text).context("the log cannot be written")
    }
}

/// Reads a log. Leaves out an incomplete last line: the process was killed while it wrote this line.
pub(crate) fn read_log(path: &Path) -> Result<Vec<LogLine>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        match serde_json::from_str(line) {
            Ok(line) => lines.push(line),
            Err(_) if !line.ends_with('\n') => {}
            Err(error) => bail!("{}: a line cannot be read: {error}", path.display()),
        }
    }
    Ok(lines)
}
