//! The check of one thread: its log is replayed, and everything that is stored besides the log must agree with the
//! result.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use super::{
    Finding, FindingKind,
    replay::{NoStoredMarks, Replay},
};
use crate::{
    commit::ThreadState,
    error::Result,
    id::RunId,
    limits::length,
    log::{Entry, EntryMarks, MarkSource, Node},
    run::Run,
    thread::StoredThread,
};

/// What a store keeps about a thread besides its log.
#[derive(Clone, Copy)]
pub struct ThreadRecords<'a> {
    /// The thread.
    pub thread: &'a StoredThread,
    /// Whether the parent thread exists; true if the thread has no parent.
    pub has_parent: bool,
    /// The marks of the entries.
    pub marks: &'a dyn MarkSource,
    /// The runs, by id.
    pub runs: &'a BTreeMap<RunId, Arc<Run>>,
    /// The state.
    pub state: &'a ThreadState,
    /// The number of pending inputs.
    pub inputs: u64,
}

impl fmt::Debug for ThreadRecords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadRecords").field("thread", &self.thread).finish_non_exhaustive()
    }
}

/// What the check of a thread found, and what a repair would write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadCheckResult {
    /// The number of entries read.
    pub entries: u64,
    /// The number of runs read.
    pub runs: u64,
    /// The damage that was found. The findings do not name the tenant and the thread yet. The store adds both to each
    /// finding.
    pub findings: Vec<Finding>,
    /// The thread as derived from its log, runs and state.
    pub thread: StoredThread,
    /// The marks as derived from the log, by sequence number. An entry that is missing here has the default marks.
    pub marks: BTreeMap<u64, EntryMarks>,
}

/// Checks a thread. Its log must have no gap and no damage, and the stored head, counters, sums and marks must be those
/// that follow from the log.
///
/// The check ends at the first entry that cannot be read or has the wrong number, because a log with a gap allows no
/// further conclusions.
pub fn check_thread(
    records: ThreadRecords<'_>,
    entries: impl IntoIterator<Item = Result<(Arc<Entry>, Node)>>,
) -> ThreadCheckResult {
    let mut replay = Replay::new(records);
    for entry in entries {
        let added = entry.and_then(|(entry, node)| replay.add_entry(&entry, &node));
        if let Err(error) = added {
            let place = format!("entry {}", replay.nodes.len() + 1);
            replay.report(FindingKind::Damaged, place, error.to_string());
            return replay.into_result();
        }
        if replay.has_gap {
            return replay.into_result();
        }
    }
    replay.check_thread_record();
    replay.check_marks();
    replay.check_runs();
    replay.into_result()
}

impl Replay<'_> {
    /// Compares the thread's head, counters and sums with those of the replay. Also checks that the parent thread
    /// exists.
    fn check_thread_record(&mut self) {
        let (stored, expected) = (self.records.thread.clone(), self.thread.clone());
        let (stored_thread, expected_thread) = (&stored.thread, &expected.thread);
        self.compare(FindingKind::SequenceGap, "version", &stored_thread.version, &expected_thread.version);
        let stored_head = (&stored_thread.head, stored.head_seq);
        let expected_head = (&expected_thread.head, expected.head_seq);
        self.compare(FindingKind::WrongHead, "head", &stored_head, &expected_head);
        self.compare(FindingKind::WrongSum, "entry times", &stored_thread.entry_times, &expected_thread.entry_times);
        let stored_leaves = (stored_thread.leaves, stored.roots);
        let expected_leaves = (expected_thread.leaves, expected.roots);
        self.compare(FindingKind::WrongSum, "leaves", &stored_leaves, &expected_leaves);
        self.compare(FindingKind::WrongSum, "usage", &stored_thread.usage, &expected_thread.usage);
        let stored_size = (stored.state_keys, stored.state_bytes);
        let expected_size = (expected.state_keys, expected.state_bytes);
        self.compare(FindingKind::WrongSum, "state", &stored_size, &expected_size);
        self.compare(FindingKind::WrongSum, "pending inputs", &stored.queue.count, &expected.queue.count);
        if !self.records.has_parent {
            self.report(FindingKind::DanglingReference, "parent thread", "it does not exist");
        }
    }

    fn check_marks(&mut self) {
        for seq in 1..=length(self.nodes.len()) {
            let expected = self.marks.load(&NoStoredMarks, seq).unwrap_or_default();
            match self.records.marks.marks(seq) {
                Ok(stored) => self.compare(FindingKind::WrongSum, &format!("marks of entry {seq}"), &stored, &expected),
                Err(error) => self.report(FindingKind::StaleIndex, format!("marks of entry {seq}"), error.to_string()),
            }
        }
    }

    fn check_runs(&mut self) {
        let thread = self.records.thread.thread.clone();
        let log_length = length(self.nodes.len());
        for (id, run) in self.records.runs {
            let place = format!("run `{id}`");
            if run.thread != thread.id {
                self.report(FindingKind::OrphanRun, &place, format!("it belongs to thread `{}`", run.thread));
            }
            let spent = self.spent_by_run.remove(id).unwrap_or_default();
            self.compare(FindingKind::Damaged, &place, &run.spent, &spent);
            if run.input.iter().chain(&run.output).any(|range| range.to > log_length) {
                self.report(FindingKind::DanglingReference, &place, "a range is not within the log");
            }
        }
        let mut open_runs: Vec<_> = self.records.runs.values().filter(|run| run.is_open()).collect();
        open_runs.sort_by_key(|run| (run.created_at, &run.id));
        let open_runs: Vec<_> = open_runs.into_iter().map(|run| run.id.clone()).collect();
        // Runs created in the same millisecond are ordered by their commits. Only the thread knows that order, so sets
        // are compared.
        let stored: BTreeSet<_> = thread.open_runs.iter().collect();
        let expected: BTreeSet<_> = open_runs.iter().collect();
        if stored != expected {
            self.compare(FindingKind::WrongSum, "open runs", &stored, &expected);
            self.thread.thread.open_runs = open_runs;
        }
        let has_runs = !self.records.runs.is_empty();
        if thread.latest_run.as_ref().map_or(has_runs, |latest| !self.records.runs.contains_key(latest)) {
            self.report(FindingKind::DanglingReference, "latest run", "it does not exist");
        }
    }

    fn into_result(self) -> ThreadCheckResult {
        let Self { records, thread, marks, nodes, findings, .. } = self;
        let (entries, runs) = (length(nodes.len()), length(records.runs.len()));
        ThreadCheckResult { entries, runs, findings, thread, marks: marks.into_map() }
    }
}
