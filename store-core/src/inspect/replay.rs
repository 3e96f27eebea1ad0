//! Replays a log from its beginning, to derive again what a store keeps besides the log.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
};

use super::{Finding, FindingKind, ThreadRecords};
use crate::{
    error::{Error, Result},
    id::{EntryId, RunId},
    limits::length,
    log::{
        Body, ChangedMarks, Entry, EntryMarks, MarkSource, Node, NodeSource, TokenCounts,
        node::{ancestor, jump_depth},
        spent_tokens,
    },
    thread::StoredThread,
    version::Version,
};

/// The state after the entries that were read so far.
pub(super) struct Replay<'a> {
    pub(super) records: ThreadRecords<'a>,
    pub(super) thread: StoredThread,
    pub(super) marks: ChangedMarks,
    pub(super) nodes: Vec<Node>,
    seqs_by_id: HashMap<EntryId, u64>,
    pub(super) spent_by_run: BTreeMap<RunId, TokenCounts>,
    pub(super) findings: Vec<Finding>,
    pub(super) has_gap: bool,
}

/// A source of marks for a replay. It contains none, because a replay derives all marks itself.
pub(super) struct NoStoredMarks;

impl MarkSource for NoStoredMarks {
    fn marks(&self, _seq: u64) -> Result<EntryMarks> {
        Ok(EntryMarks::default())
    }
}

impl<'a> Replay<'a> {
    pub(super) fn new(records: ThreadRecords<'a>) -> Self {
        // Everything that follows from the log begins empty. State and queue are counted from their own records.
        let mut thread = records.thread.clone();
        (thread.head_seq, thread.roots) = (None, 0);
        thread.state_keys = length(records.state.len());
        thread.state_bytes = records.state.iter().map(|(key, value)| length(key.len() + value.as_str().len())).sum();
        thread.queue.count = records.inputs;
        let record = &mut thread.thread;
        record.version = Version::new(0, record.version.generation(), record.version.incarnation());
        (record.head, record.entry_times, record.leaves) = (None, None, 0);
        record.usage = TokenCounts::default();
        Self {
            records,
            thread,
            marks: ChangedMarks::default(),
            nodes: Vec::new(),
            seqs_by_id: HashMap::new(),
            spent_by_run: BTreeMap::new(),
            findings: Vec::new(),
            has_gap: false,
        }
    }

    pub(super) fn report(&mut self, kind: FindingKind, place: impl Into<String>, detail: impl Into<String>) {
        self.findings.push(Finding::new(kind, place, detail));
    }

    pub(super) fn compare<T: PartialEq + Debug>(&mut self, kind: FindingKind, place: &str, stored: &T, expected: &T) {
        if stored != expected {
            self.report(kind, place, format!("it is {stored:?}, but {expected:?} follows from the log"));
        }
    }

    /// Replays the next entry, and checks the stored node that was derived from it.
    pub(super) fn add_entry(&mut self, entry: &Entry, node: &Node) -> Result<()> {
        let seq = length(self.nodes.len()) + 1;
        let place = format!("entry {seq}");
        if entry.seq != seq || node.seq != seq {
            self.has_gap = true;
            self.report(FindingKind::SequenceGap, place, format!("entry {} is stored there", entry.seq));
            return Ok(());
        }
        self.check_position(&place, entry, node)?;
        self.check_references(&place, entry, node);
        if self.seqs_by_id.insert(entry.id.clone(), seq).is_some() {
            self.report(FindingKind::Damaged, &place, format!("an earlier entry has the same id `{}`", entry.id));
        }
        if let Some(run) = &entry.run {
            if !self.records.runs.contains_key(run) {
                self.report(FindingKind::DanglingReference, &place, format!("run `{run}` does not exist"));
            }
            if let Some(tokens) = spent_tokens(entry) {
                let sum = self.spent_by_run.entry(run.clone()).or_default();
                *sum = sum.plus(tokens);
            }
        }
        self.marks.apply_entry(&NoStoredMarks, &mut self.thread, entry, node)?;
        self.nodes.push(node.clone());
        Ok(())
    }

    /// Checks the parent of the entry and what is derived from it.
    fn check_position(&mut self, place: &str, entry: &Entry, node: &Node) -> Result<()> {
        let parent = entry.parent.as_ref().map(|id| self.seqs_by_id.get(id).copied().ok_or(id));
        let parent = match parent {
            Some(Err(id)) => {
                self.report(FindingKind::MissingParent, place, format!("its parent `{id}` does not exist"));
                return Ok(());
            }
            Some(Ok(seq)) => Some(self.node(seq)?),
            None => None,
        };
        if let Some(parent) = parent.as_ref().filter(|parent| parent.side) {
            self.report(FindingKind::MissingParent, place, format!("its parent is the side entry {}", parent.seq));
        }
        let depth = parent.as_ref().map_or(0, |parent| parent.depth) + u64::from(!node.side);
        let jump = match &parent {
            Some(parent) if !node.side => ancestor(self, parent, jump_depth(depth))?.map(|node| node.seq),
            _ => None,
        };
        // Returns the nearest entry of a kind on the path: this entry itself if it has the kind, or else the nearest
        // one on the path of the parent.
        let nearest = |has_kind: bool, nearest_to_parent: Option<u64>| {
            if has_kind && !node.side { Some(node.seq) } else { nearest_to_parent }
        };
        let compaction =
            nearest(matches!(&*entry.body, Body::Compaction(_)), parent.as_ref().and_then(|parent| parent.compaction));
        let checkpoint =
            nearest(matches!(&*entry.body, Body::Checkpoint(_)), parent.as_ref().and_then(|parent| parent.checkpoint));
        let stored = (node.side, node.parent, node.depth, node.jump, node.compaction, node.checkpoint);
        let expected = (entry.side, parent.map(|parent| parent.seq), depth, jump, compaction, checkpoint);
        self.compare(FindingKind::Damaged, place, &stored, &expected);
        Ok(())
    }

    /// Checks that the entries to which this entry refers exist.
    fn check_references(&mut self, place: &str, entry: &Entry, node: &Node) {
        let (target, ends_of_interval) = match &*entry.body {
            Body::Rewind(rewind) => (rewind.to.as_ref(), [None, None]),
            Body::Label(label) => (Some(&label.target), [None, None]),
            Body::Compaction(compaction) => {
                let covers = compaction.covers.as_ref();
                (None, [covers.map(|covers| &covers.from), covers.map(|covers| &covers.to)])
            }
            _ => (None, [None, None]),
        };
        for id in ends_of_interval.into_iter().chain([target]).flatten() {
            if !self.seqs_by_id.contains_key(id) {
                self.report(FindingKind::DanglingReference, place, format!("entry `{id}` does not exist"));
            }
        }
        let expected = target.and_then(|id| self.seqs_by_id.get(id).copied());
        // A target that does not exist has been reported already.
        if target.is_some() == expected.is_some() {
            self.compare(FindingKind::Damaged, place, &node.target, &expected);
        }
    }
}

impl NodeSource for Replay<'_> {
    fn node(&self, seq: u64) -> Result<Node> {
        let index = seq.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let missing = || Error::corrupt(format!("entry {seq} of the log does not exist"));
        index.and_then(|index| self.nodes.get(index)).cloned().ok_or_else(missing)
    }
}
