//! Texts of results, for the comparison of a store with the model. A text leaves out what a store may choose freely.

use std::fmt::Debug;

use store_core::{
    AppendedEvents, ClaimedOutbox, Deletion, Error, Event, OutboxRow, OutboxStatus, Page, Pruned, Receipt, Repair,
    Requeued, Result, ScopeInfo, Thread, ThreadContext, Version,
};

/// A result that can be compared as text.
pub(super) trait Seen {
    /// Returns the text.
    fn seen(&self) -> String;
}

impl<T: Seen> Seen for Result<T> {
    fn seen(&self) -> String {
        match self {
            Ok(value) => value.seen(),
            Err(error) => refusal(error),
        }
    }
}

/// Returns the kind and the outcome of an error. The rest may differ, because a store chooses which of several reasons
/// it names.
fn refusal(error: &Error) -> String {
    format!("refused: {:?}, {:?}", error.kind(), error.outcome())
}

/// Returns a version without its incarnation, which a store chooses freely.
fn plain(version: Version) -> Version {
    Version::new(version.number(), version.generation(), 0)
}

impl Seen for Thread {
    fn seen(&self) -> String {
        let mut thread = self.clone();
        thread.version = plain(self.version);
        thread.revision = plain(self.revision);
        format!("{thread:?}")
    }
}

impl Seen for Receipt {
    fn seen(&self) -> String {
        let mut receipt = self.clone();
        receipt.version = plain(self.version);
        let events: Vec<_> = receipt
            .events
            .drain(..)
            .map(|event| (event.cursors.thread.is_some(), event.cursors.run.is_some()))
            .collect();
        let rows = receipt.outbox.drain(..).count();
        format!("{receipt:?}, events {events:?}, {rows} rows")
    }
}

impl Seen for OutboxRow {
    fn seen(&self) -> String {
        format!("{:?}", super::outbox::plain(self))
    }
}

impl Seen for ClaimedOutbox {
    fn seen(&self) -> String {
        let rows: Vec<_> = self.rows.iter().map(|held| held.row.seen()).collect();
        format!("{rows:?}, {} unreadable", self.unreadable.len())
    }
}

impl Seen for Requeued {
    fn seen(&self) -> String {
        self.outcome.seen()
    }
}

impl Seen for OutboxStatus {
    fn seen(&self) -> String {
        self.to_string()
    }
}

impl<T: Seen> Seen for Vec<T> {
    fn seen(&self) -> String {
        let items: Vec<_> = self.iter().map(Seen::seen).collect();
        items.join("; ")
    }
}

impl Seen for Event {
    fn seen(&self) -> String {
        format!("{:?}", super::events::plain(self))
    }
}

impl Seen for AppendedEvents {
    fn seen(&self) -> String {
        let events: Vec<_> = self.events.iter().map(Seen::seen).collect();
        format!("deduplicated: {}, {events:?}", self.deduplicated)
    }
}

/// Only the presence of a cursor is compared, because cursors are opaque.
impl Seen for ScopeInfo {
    fn seen(&self) -> String {
        format!("{} {} {} {}", self.appended, self.floor, self.events, self.last.is_some())
    }
}

/// The repairs may be in any order.
impl Seen for ThreadContext {
    fn seen(&self) -> String {
        let mut context = self.clone();
        context.thread.version = plain(self.thread.version);
        context.thread.revision = plain(self.thread.revision);
        context
            .context
            .repairs
            .sort_by_key(|Repair { entry, kind, tool_use_id, .. }| (entry.clone(), *kind, tool_use_id.clone()));
        format!("{context:?}")
    }
}

/// The threads may be in any order.
impl Seen for Deletion {
    fn seen(&self) -> String {
        let mut deletion = self.clone();
        deletion.deleted.sort();
        deletion.detached.sort();
        format!("{deletion:?}")
    }
}

impl Seen for Pruned {
    fn seen(&self) -> String {
        let mut pruned = self.clone();
        pruned.threads.sort();
        format!("{pruned:?}")
    }
}

/// Only the presence of a next page is compared, because cursors are opaque.
impl<T: Seen> Seen for Page<T> {
    fn seen(&self) -> String {
        let items: Vec<_> = self.items.iter().map(Seen::seen).collect();
        format!("{} and {}", items.join("; "), if self.next.is_some() { "more" } else { "the end" })
    }
}

impl<T: Seen> Seen for Option<T> {
    fn seen(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), Seen::seen)
    }
}

/// Implements [`Seen`] for types that are compared by their debug text.
macro_rules! as_it_is {
    ($($type:ty),+ $(,)?) => {$(
        impl Seen for $type {
            fn seen(&self) -> String {
                debug(self)
            }
        }
    )+};
}

as_it_is!(
    (),
    u64,
    std::sync::Arc<store_core::Entry>,
    store_core::Run,
    store_core::Leaf,
    store_core::BranchPoint,
    store_core::Snapshot,
    store_core::Appended,
    store_core::PendingInput,
    store_core::PendingQueue,
    store_core::ThreadId,
    store_core::Trimmed,
    store_core::OutboxCounts,
    store_core::Timestamp,
);

fn debug(value: &impl Debug) -> String {
    format!("{value:?}")
}
