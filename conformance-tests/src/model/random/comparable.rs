//! Texts of results, for the comparison of a store with the model. A text leaves out everything that a store may choose
//! freely.

use std::fmt::Debug;

use store_core::{
    AppendedEvents, ClaimedOutbox, Deletion, Error, Event, OutboxRow, OutboxStatus, Page, Pruned, Receipt, Repair,
    Requeued, Result, ScopeInfo, Thread, ThreadContext, Version,
};

/// A result that can be compared as text.
pub(super) trait Comparable {
    /// Returns the text.
    fn comparable_text(&self) -> String;
}

impl<T: Comparable> Comparable for Result<T> {
    fn comparable_text(&self) -> String {
        match self {
            Ok(value) => value.comparable_text(),
            Err(error) => refusal_text(error),
        }
    }
}

/// Returns the kind and the outcome of an error. The other parts may differ, because a store chooses which of several
/// reasons it names.
fn refusal_text(error: &Error) -> String {
    format!("refused: {:?}, {:?}", error.kind(), error.outcome())
}

/// Returns a version without its incarnation, which a store chooses freely.
fn without_incarnation(version: Version) -> Version {
    Version::new(version.number(), version.generation(), 0)
}

impl Comparable for Thread {
    fn comparable_text(&self) -> String {
        let mut thread = self.clone();
        thread.version = without_incarnation(self.version);
        thread.revision = without_incarnation(self.revision);
        format!("{thread:?}")
    }
}

impl Comparable for Receipt {
    fn comparable_text(&self) -> String {
        let mut receipt = self.clone();
        receipt.version = without_incarnation(self.version);
        let events: Vec<_> = receipt
            .events
            .drain(..)
            .map(|event| {
                let cursors = event.cursors;
                (cursors.thread.is_some(), cursors.run.is_some(), cursors.topics.len())
            })
            .collect();
        let rows = receipt.outbox.drain(..).count();
        receipt.document_revision = self.document_revision.map(|_| 0);
        format!("{receipt:?}, events {events:?}, {rows} rows")
    }
}

impl Comparable for OutboxRow {
    fn comparable_text(&self) -> String {
        format!("{:?}", super::outbox::without_id(self))
    }
}

impl Comparable for ClaimedOutbox {
    fn comparable_text(&self) -> String {
        let rows: Vec<_> = self.rows.iter().map(|claimed_row| claimed_row.row.comparable_text()).collect();
        format!("{rows:?}, {} unreadable", self.unreadable.len())
    }
}

impl Comparable for Requeued {
    fn comparable_text(&self) -> String {
        self.outcome.comparable_text()
    }
}

impl Comparable for OutboxStatus {
    fn comparable_text(&self) -> String {
        self.to_string()
    }
}

impl<T: Comparable> Comparable for Vec<T> {
    fn comparable_text(&self) -> String {
        let items: Vec<_> = self.iter().map(Comparable::comparable_text).collect();
        items.join("; ")
    }
}

impl Comparable for Event {
    fn comparable_text(&self) -> String {
        format!("{:?}", super::events::without_ids(self))
    }
}

impl Comparable for AppendedEvents {
    fn comparable_text(&self) -> String {
        let events: Vec<_> = self.events.iter().map(Comparable::comparable_text).collect();
        format!("deduplicated: {}, {events:?}", self.deduplicated)
    }
}

/// Only the presence of a cursor is compared, because cursors are opaque.
impl Comparable for ScopeInfo {
    fn comparable_text(&self) -> String {
        format!("{} {} {} {}", self.appended, self.floor, self.events, self.last.is_some())
    }
}

/// The repairs may be in any order.
impl Comparable for ThreadContext {
    fn comparable_text(&self) -> String {
        let mut context = self.clone();
        context.thread.version = without_incarnation(self.thread.version);
        context.thread.revision = without_incarnation(self.thread.revision);
        context
            .context
            .repairs
            .sort_by_key(|Repair { entry, kind, tool_use_id, .. }| (entry.clone(), *kind, tool_use_id.clone()));
        format!("{context:?}")
    }
}

/// The threads may be in any order.
impl Comparable for Deletion {
    fn comparable_text(&self) -> String {
        let mut deletion = self.clone();
        deletion.deleted.sort();
        deletion.detached.sort();
        format!("{deletion:?}")
    }
}

impl Comparable for Pruned {
    fn comparable_text(&self) -> String {
        let mut pruned = self.clone();
        pruned.threads.sort();
        format!("{pruned:?}")
    }
}

/// Only the presence of a next page is compared, because cursors are opaque.
impl<T: Comparable> Comparable for Page<T> {
    fn comparable_text(&self) -> String {
        let items: Vec<_> = self.items.iter().map(Comparable::comparable_text).collect();
        format!("{} and {}", items.join("; "), if self.next.is_some() { "more" } else { "the end" })
    }
}

impl<T: Comparable> Comparable for Option<T> {
    fn comparable_text(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), Comparable::comparable_text)
    }
}

/// Implements [`Comparable`] for types that are compared by their debug text.
macro_rules! compare_debug_text {
    ($($type:ty),+ $(,)?) => {$(
        impl Comparable for $type {
            fn comparable_text(&self) -> String {
                debug_text(self)
            }
        }
    )+};
}

compare_debug_text!(
    (),
    u64,
    std::sync::Arc<store_core::Entry>,
    store_core::Run,
    store_core::Leaf,
    store_core::BranchPoint,
    store_core::Snapshot,
    store_core::AppendedInputs,
    store_core::PendingInput,
    store_core::PendingQueue,
    store_core::ThreadId,
    store_core::Trimmed,
    store_core::DeletedDocuments,
    store_core::OutboxCounts,
    store_core::Timestamp,
);

fn debug_text(value: &impl Debug) -> String {
    format!("{value:?}")
}
