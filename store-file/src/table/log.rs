//! Keys under the number of a log: what a thread's own log says.

use store_core::{CommitKey, EntryId, RunId};

use super::{
    BRANCH, CHILD, COMMIT_KEY, DECISION, ENTRY, INPUT, INPUT_RANK, LEAF, LOG_RUN, MARKS, NODE, SNAPSHOT, STATE,
};
use crate::{
    index::{Key, KeyReader},
    vfs::hash_of,
};

/// What of one sort stands under a log's number.
pub(crate) fn of_log(sort: u8, log: u64) -> Key {
    Key::new(sort).number(log)
}

/// Where an entry stands in its log, its id and its node.
pub(crate) fn node(log: u64, seq: u64) -> Key {
    of_log(NODE, log).number(seq)
}

/// The places of all entries of a log.
pub(crate) fn nodes(log: u64) -> Key {
    of_log(NODE, log)
}

/// Where the commit lines of all keys of a log stand.
pub(crate) fn commit_keys(log: u64) -> Key {
    of_log(COMMIT_KEY, log)
}

/// What was decided about all tickets of a log.
pub(crate) fn decisions(log: u64) -> Key {
    of_log(DECISION, log)
}

/// The sequence number of an entry.
pub(crate) fn entry(log: u64, id: &EntryId) -> Key {
    of_log(ENTRY, log).text(id.as_str())
}

/// The marks of an entry.
pub(crate) fn marks(log: u64, seq: u64) -> Key {
    of_log(MARKS, log).number(seq)
}

/// The leaves of a log, by sequence number.
pub(crate) fn leaves(log: u64) -> Key {
    of_log(LEAF, log)
}

/// The branch points of a log, by sequence number; 0 stands for before the first entry.
pub(crate) fn branches(log: u64) -> Key {
    of_log(BRANCH, log)
}

/// The snapshots of a log, by name.
pub(crate) fn snapshots(log: u64) -> Key {
    of_log(SNAPSHOT, log)
}

/// The name and sequence number of a snapshot's key.
pub(crate) fn read_snapshot(key: &[u8]) -> Option<(String, u64)> {
    let mut reader = KeyReader::of_log(SNAPSHOT, key)?;
    Some((reader.text()?, reader.number()?))
}

/// A value of the thread's state.
pub(crate) fn state(log: u64, key: &str) -> Key {
    states(log).text(key)
}

/// The thread's state.
pub(crate) fn states(log: u64) -> Key {
    of_log(STATE, log)
}

/// The name of a state's key.
pub(crate) fn read_state(key: &[u8]) -> Option<String> {
    KeyReader::of_log(STATE, key)?.text()
}

/// Where the commit line of a key stands.
pub(crate) fn commit_key(log: u64, key: &CommitKey) -> Key {
    of_log(COMMIT_KEY, log).text(key.as_str())
}

/// The pending inputs of a log, by rank.
pub(crate) fn inputs(log: u64) -> Key {
    of_log(INPUT, log)
}

/// The rank of a pending input.
pub(crate) fn input_rank(log: u64, id: &EntryId) -> Key {
    of_log(INPUT_RANK, log).text(id.as_str())
}

/// What was decided about a ticket of a run. A ticket may have any length, so its sum stands for it.
pub(crate) fn decision(log: u64, run: &RunId, ticket: &str) -> Key {
    of_log(DECISION, log).text(run.as_str()).text(&hash_of(ticket))
}

/// The children of an entry, side entries included; 0 stands for before the first entry.
pub(crate) fn children(log: u64, parent: u64) -> Key {
    of_log(CHILD, log).number(parent)
}

/// A run of a log.
pub(crate) fn log_run(log: u64, id: &RunId) -> Key {
    log_runs(log).text(id.as_str())
}

/// The runs of a log.
pub(crate) fn log_runs(log: u64) -> Key {
    of_log(LOG_RUN, log)
}

/// The run id of a key below [`log_runs`].
pub(crate) fn read_log_run(key: &[u8]) -> Option<String> {
    KeyReader::of_log(LOG_RUN, key)?.text()
}
