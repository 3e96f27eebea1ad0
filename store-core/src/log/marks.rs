//! Marks: the properties of an entry that depend on later entries, such as the number of its children. This module also
//! computes what else an append changes: the head, the counters and the sums of the thread.

use std::collections::BTreeMap;

use super::{Body, Entry, Node, TokenCounts, UsageRecord};
use crate::{
    codec::{Extra, record},
    error::{Error, Result},
    thread::StoredThread,
};

/// The properties of an entry that depend on later entries.
///
/// They are derived data: they can always be computed from the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EntryMarks {
    /// The number of children that are not side entries.
    pub children: u32,
    /// The newest context size that was recorded by a side entry whose parent is this entry (EN-29).
    pub context_size: Option<u64>,
    /// The current name: that of the newest label, or the checkpoint's own name if there is no label (EN-25, EN-30).
    pub label: Option<String>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(EntryMarks { children: def, context_size: opt, label: opt });

/// A source of the marks of stored entries.
pub trait MarkSource {
    /// Returns the marks of the entry with this sequence number, or the default if it has none.
    ///
    /// # Errors
    /// Any error of the read.
    fn marks(&self, seq: u64) -> Result<EntryMarks>;
}

/// The marks that appended entries changed, by sequence number. Unchanged marks are not included.
#[derive(Debug, Clone, Default)]
pub struct ChangedMarks(BTreeMap<u64, EntryMarks>);

impl ChangedMarks {
    /// Returns the marks of an entry: the changed marks, or the stored marks if they did not change.
    ///
    /// # Errors
    /// Any error of [`MarkSource::marks`].
    pub fn load(&self, stored: &(impl MarkSource + ?Sized), seq: u64) -> Result<EntryMarks> {
        self.0.get(&seq).map_or_else(|| stored.marks(seq), |marks| Ok(marks.clone()))
    }

    /// Returns the changed marks, by sequence number.
    #[must_use]
    pub fn into_map(self) -> BTreeMap<u64, EntryMarks> {
        self.0
    }

    /// Applies the changes that an append of `entry` makes outside of the entry itself.
    ///
    /// These are the counters, the head and the sums of the thread, and the marks of the entries to which `entry`
    /// refers (EN-5, EN-6, EN-7, EN-11, EN-25, EN-26).
    ///
    /// The plan of a commit calls this function for each new entry. A store calls it again for each entry when it
    /// rebuilds derived data from its log. Both therefore compute the same values.
    ///
    /// # Errors
    /// `Corrupt` if the entry does not have the next sequence number; any error of [`MarkSource::marks`].
    pub fn apply_entry(
        &mut self,
        stored: &(impl MarkSource + ?Sized),
        thread: &mut StoredThread,
        entry: &Entry,
        node: &Node,
    ) -> Result<()> {
        let next = thread.thread.version.number() + 1;
        if (entry.seq, node.seq) != (next, next) {
            return Err(Error::corrupt(format!("entry {} of the log is stored where entry {next} belongs", entry.seq)));
        }
        self.count_child(stored, thread, node)?;
        let record = &mut thread.thread;
        record.version = record.version.plus(1);
        let (first, last) = record.entry_times.unwrap_or((entry.timestamp, entry.timestamp));
        record.entry_times = Some((first.min(entry.timestamp), last.max(entry.timestamp)));
        if let Some(spent) = spent_tokens(entry) {
            record.usage = record.usage.plus(spent);
        }
        match &*entry.body {
            Body::Rewind(rewind) => {
                record.head.clone_from(&rewind.to);
                thread.head_seq = node.target;
                return Ok(());
            }
            Body::Usage(UsageRecord { context_size: Some(size), .. }) if node.side => {
                if let Some(parent) = node.parent {
                    self.change_marks(stored, parent, |marks| marks.context_size = Some(*size))?;
                }
            }
            Body::Label(label) => {
                if let Some(target) = node.target {
                    self.change_marks(stored, target, |marks| marks.label.clone_from(&label.text))?;
                }
            }
            Body::Checkpoint(checkpoint) if checkpoint.label.is_some() => {
                self.change_marks(stored, node.seq, |marks| marks.label.clone_from(&checkpoint.label))?;
            }
            _ => {}
        }
        if !node.side {
            thread.thread.head = Some(entry.id.clone());
            thread.head_seq = Some(node.seq);
        }
        Ok(())
    }

    /// Counts a new entry as a child of its parent, or as a root. The number of leaves grows unless its parent was a
    /// leaf. Side entries are not counted.
    fn count_child(
        &mut self,
        stored: &(impl MarkSource + ?Sized),
        thread: &mut StoredThread,
        node: &Node,
    ) -> Result<()> {
        if node.side {
            return Ok(());
        }
        let mut parent_was_leaf = false;
        match node.parent {
            None => thread.roots += 1,
            Some(parent) => self.change_marks(stored, parent, |marks| {
                parent_was_leaf = marks.children == 0;
                marks.children += 1;
            })?,
        }
        if !parent_was_leaf {
            thread.thread.leaves += 1;
        }
        Ok(())
    }

    fn change_marks(
        &mut self,
        stored: &(impl MarkSource + ?Sized),
        seq: u64,
        change: impl FnOnce(&mut EntryMarks),
    ) -> Result<()> {
        let mut marks = self.load(stored, seq)?;
        change(&mut marks);
        self.0.insert(seq, marks);
        Ok(())
    }
}

/// Returns the token counts that an entry adds to the sums of its thread and run (EN-26).
#[must_use]
pub fn spent_tokens(entry: &Entry) -> Option<&TokenCounts> {
    match &*entry.body {
        Body::Message(message) => message.usage.as_ref().map(|usage| &usage.tokens),
        Body::Usage(usage) => usage.spent.as_ref(),
        _ => None,
    }
}

/// Returns the name that an entry gives: a label names its target, a checkpoint names itself.
#[must_use]
pub fn assigned_name(entry: &Entry) -> Option<&str> {
    match &*entry.body {
        Body::Label(label) => label.text.as_deref(),
        Body::Checkpoint(checkpoint) => checkpoint.label.as_deref(),
        _ => None,
    }
}
