//! What the entries of a group change in the index: their rows, marks, and the lists of leaves, branch points and
//! snapshots.

use std::collections::BTreeMap;

use store_core::{
    Body, Entry, Result,
    log::{ChangedMarks, Node},
    thread::StoredThread,
};

use crate::{
    codec::{NodeRow, Rows, StoredLog},
    log::Span,
    staged::Staged,
    table,
};

/// The entries that a group appends to a log.
#[derive(Default)]
pub(super) struct Appended {
    log: u64,
    marks: ChangedMarks,
    nodes: Vec<Node>,
    /// Which entry gave a checkpoint its name.
    givers: BTreeMap<u64, u64>,
}

impl Appended {
    pub(super) fn new(log: u64) -> Self {
        Self { log, ..Self::default() }
    }

    /// Writes the rows of an entry, but for what [`Self::finish`] writes.
    pub(super) fn add(
        &mut self,
        staged: &mut Staged<'_>,
        stored: &mut StoredThread,
        (entry, node): &(Entry, Node),
        span: Span,
    ) -> Result<()> {
        let log = self.log;
        self.marks.apply_entry(&StoredLog(&*staged, log), stored, entry, node)?;
        let row = NodeRow { span, id: entry.id.clone(), node: node.clone() };
        staged.put(table::node(log, node.seq), row.encode());
        staged.know_absent(table::marks(log, node.seq));
        staged.put(table::entry(log, &entry.id), node.seq.to_be_bytes());
        staged.put(table::children(log, node.parent.unwrap_or_default()).number(node.seq), []);
        self.nodes.push(node.clone());
        match &*entry.body {
            Body::Label(_) => self.givers.extend(node.target.map(|target| (target, node.seq))),
            Body::Checkpoint(_) => drop(self.givers.insert(node.seq, node.seq)),
            _ => {}
        }
        Ok(())
    }

    /// Writes marks, and keeps the lists of leaves, branch points and snapshots with them.
    pub(super) fn finish(self, staged: &mut Staged<'_>) -> Result<()> {
        let Self { log, marks, nodes, givers } = self;
        for node in nodes.iter().filter(|node| !node.side) {
            if marks.load(&StoredLog(&*staged, log), node.seq)?.children == 0 {
                staged.put_new(table::leaves(log).number(node.seq), []);
            }
        }
        for (seq, new) in marks.into_map() {
            let old = staged.marks_of(log, seq)?;
            if new.children > 0 {
                staged.delete(table::leaves(log).number(seq));
            }
            if new.children > 1 {
                staged.put(table::branches(log).number(seq), []);
            }
            let node = staged.expect_node(log, seq)?.node;
            if (new.label != old.label || givers.contains_key(&seq)) && !node.side && node.checkpoint == Some(seq) {
                if let Some(name) = &old.label {
                    staged.delete(table::snapshots(log).text(name).number(seq));
                }
                if let Some(name) = &new.label {
                    let giver = givers.get(&seq).copied().unwrap_or(seq);
                    staged.put(table::snapshots(log).text(name).number(seq), giver.to_be_bytes());
                }
            }
            staged.put_row(table::marks(log, seq), new);
        }
        Ok(())
    }
}
