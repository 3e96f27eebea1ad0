//! Documents and events in a batch. The SQL function `write_documents` writes documents, events in topics, and the
//! commit key of a commit that puts documents.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use store_core::{
    DocumentChange, DocumentExpect, DocumentOp, ThreadId,
    codec::Codec,
    document::{DocumentPlan, DocumentWrite},
    event::{EventPlan, StoredEvent},
};

use super::{
    Batch,
    arguments::{millis, saturating_i64},
    rows::{CommitKeyRow, EventKeyRow, EventRow},
};
use crate::cache::RecordCache;

/// The revision that a write gave to its documents; none until it has written them, or if it put none.
#[derive(Debug, Clone, Default)]
pub(crate) struct WrittenRevision(Arc<AtomicU64>);

impl WrittenRevision {
    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|revision| *revision > 0)
    }

    pub(super) fn set(&self, revision: u64) {
        self.0.store(revision, Ordering::SeqCst);
    }
}

/// The part of a batch that the SQL function `write_documents` writes.
#[derive(Debug, Default)]
pub(super) struct DocumentRows {
    /// The thread of the documents, if the batch does not write to the thread.
    pub(super) thread: Option<String>,
    pub(super) documents: Vec<DocumentRow>,
    pub(super) topic_events: Vec<TopicEventRow>,
    /// The key of a commit that puts documents. Its record contains the revision, so the server completes it.
    pub(super) key: Option<CommitKeyRow>,
    pub(super) revision: WrittenRevision,
}

impl DocumentRows {
    pub(super) const fn is_empty(&self) -> bool {
        self.documents.is_empty() && self.topic_events.is_empty() && self.key.is_none()
    }
}

impl Batch {
    /// Adds changes of documents, with the plan that was made for them. `revision` is set when they are written.
    pub(crate) fn add_documents(
        &mut self,
        changes: &[DocumentChange],
        plan: &DocumentPlan,
        revision: &WrittenRevision,
    ) {
        let rows = changes.iter().zip(&plan.changes).map(|(change, planned)| DocumentRow::of(change, &planned.write));
        self.documents.documents.extend(rows);
        // The server locks them in this order, so that two transactions never wait for each other.
        self.documents.documents.sort_by(|one, other| one.place().cmp(&other.place()));
        self.documents.revision = revision.clone();
    }

    /// Makes the batch take effect only if a thread exists, to which it does not write. The documents of threads belong
    /// to this thread.
    pub(crate) fn require_thread(&mut self, thread: &ThreadId) {
        self.documents.thread = Some(thread.to_string());
    }

    /// Adds everything that an append of events writes.
    pub(crate) fn add_events(&mut self, cache: &RecordCache, plan: &EventPlan) {
        let key = plan.key.as_ref().map(|(writer, key, _)| (writer.to_string(), key.to_string()));
        for stored in &plan.events {
            if stored.event.topics.is_empty() {
                self.events.push(EventRow { stored: stored.clone(), key: key.clone() });
            } else {
                self.documents.topic_events.push(TopicEventRow::of(stored, key.clone()));
            }
        }
        for (scope, after) in &plan.scopes {
            self.add_scope(scope, cache.scope_before(scope), after.clone());
        }
        if let Some((writer, key, record)) = &plan.key {
            let (writer, key, record) = (writer.to_string(), key.to_string(), record.encode());
            self.event_keys.push(EventKeyRow { writer, key, record });
        }
    }
}

/// A change of a document. Its revision must be between `low` and `high`, where 0 stands for its absence.
#[derive(Debug)]
pub(super) struct DocumentRow {
    pub(super) of_thread: bool,
    pub(super) collection: String,
    pub(super) key: String,
    pub(super) op: &'static str,
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) value: Option<String>,
    /// The time at which the document is put.
    pub(super) at: Option<i64>,
}

impl DocumentRow {
    /// The plan may be based on the assumption that the document is as expected. So the row says what the caller asked
    /// for, and the server checks the expectation while it holds a lock.
    fn of(change: &DocumentChange, planned: &DocumentWrite) -> Self {
        let (low, high) = match change.expect {
            DocumentExpect::Any => (0, i64::MAX),
            DocumentExpect::Absent => (0, 0),
            DocumentExpect::Present => (1, i64::MAX),
            // No document has the revision 0, or one that the server cannot store.
            DocumentExpect::Revision(revision) => match i64::try_from(revision) {
                Ok(revision @ 1..) => (revision, revision),
                _ => (-1, -1),
            },
        };
        let (op, value) = match &change.op {
            DocumentOp::Put(value) => ("put", Some(value.as_str().to_owned())),
            DocumentOp::Delete => ("delete", None),
            DocumentOp::Keep => ("keep", None),
        };
        let at = match planned {
            DocumentWrite::Put(stored) => Some(millis(stored.updated_at)),
            DocumentWrite::Delete | DocumentWrite::Keep => None,
        };
        let key = &change.document.key;
        Self {
            of_thread: change.document.scope.thread().is_some(),
            collection: key.collection().to_string(),
            key: key.encoded().to_owned(),
            op,
            low,
            high,
            value,
            at,
        }
    }

    fn place(&self) -> (bool, &str, &str) {
        (self.of_thread, &self.collection, &self.key)
    }
}

/// An event that is in topics. `writer` and `key` are those of its append.
#[derive(Debug)]
pub(super) struct TopicEventRow {
    pub(super) id: String,
    pub(super) thread: Option<String>,
    pub(super) thread_seq: Option<i64>,
    pub(super) run: Option<String>,
    pub(super) run_seq: Option<i64>,
    pub(super) writer: Option<String>,
    pub(super) key: Option<String>,
    pub(super) record: String,
    /// The topics, each with the sequence number of the event in it.
    pub(super) topics: Vec<(String, i64)>,
}

impl TopicEventRow {
    pub(super) fn of(stored: &StoredEvent, writer_and_key: Option<(String, String)>) -> Self {
        let (event, (writer, key)) = (&stored.event, writer_and_key.unzip());
        Self {
            id: event.id.to_string(),
            thread: event.thread.as_ref().map(ToString::to_string),
            thread_seq: stored.thread_seq.map(saturating_i64),
            run: event.run.as_ref().map(ToString::to_string),
            run_seq: stored.run_seq.map(saturating_i64),
            writer,
            key,
            record: event.encode(),
            topics: event
                .topics
                .iter()
                .map(ToString::to_string)
                .zip(stored.topic_seqs.iter().copied().map(saturating_i64))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use store_core::{DocumentKey, KeySegment};

    use super::*;

    /// DO-2: the server checks the same as core, although it knows only a range of revisions.
    #[test]
    fn an_expectation_holds_if_the_revision_is_in_its_range() {
        let revisions = [0, 1, 2, 7, u64::MAX];
        let expectations = revisions.map(DocumentExpect::Revision).into_iter();
        for expect in expectations.chain([DocumentExpect::Any, DocumentExpect::Absent, DocumentExpect::Present]) {
            let key = DocumentKey::new("c".parse().unwrap(), [KeySegment::Number(1)]).unwrap();
            let row = DocumentRow::of(&DocumentChange::check(key, expect), &DocumentWrite::Keep);
            for revision in [None, Some(1), Some(2), Some(7)] {
                let stored = i64::try_from(revision.unwrap_or(0)).unwrap();
                assert_eq!((row.low..=row.high).contains(&stored), expect.holds(revision), "{expect} {revision:?}");
            }
        }
    }
}
