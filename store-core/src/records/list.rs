//! The lists of records that a store has, in the order in which they can be restored.

use crate::codec::named_enum;

/// A list of the records of a tenant. [`RecordList::ALL`] has the order in which lists are dumped and restored: what a
/// record refers to is in an earlier list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordList {
    /// The numbers that a store must not give again: one record.
    Numbers,
    /// What is kept about the ids of threads, with the threads that exist. Key: thread.
    Threads,
    /// The entries of the logs. Key: thread, sequence number.
    Entries,
    /// The runs. Key: run.
    Runs,
    /// The values of the states of threads. Key: thread, name.
    State,
    /// The pending input. Key: thread, rank.
    Inputs,
    /// The decisions about tickets. Key: thread, run, ticket.
    Decisions,
    /// The keys of commits. Key: thread, commit key.
    CommitKeys,
    /// The documents of threads. Key: thread, collection, encoded key.
    ThreadDocuments,
    /// The documents of the tenant. Key: collection, encoded key.
    Documents,
    /// The scopes of events. Key: kind (`run`, `thread`, `topic`), id.
    Scopes,
    /// The events that at least one of their scopes still has. Key: event.
    Events,
    /// The keys of appends of events. Key: writer, event key.
    EventKeys,
    /// The rows of the outbox. Key: row.
    Outbox,
    /// The mailboxes of threads. Key: thread.
    Mailboxes,
    /// The interrupts of threads. Key: thread, epoch.
    Interrupts,
    /// The dispatches. Key: dispatch.
    Dispatches,
}

named_enum!(RecordList as "list of records" {
    Numbers = "numbers",
    Threads = "threads",
    Entries = "entries",
    Runs = "runs",
    State = "state",
    Inputs = "inputs",
    Decisions = "decisions",
    CommitKeys = "commit_keys",
    ThreadDocuments = "thread_documents",
    Documents = "documents",
    Scopes = "scopes",
    Events = "events",
    EventKeys = "event_keys",
    Outbox = "outbox",
    Mailboxes = "mailboxes",
    Interrupts = "interrupts",
    Dispatches = "dispatches",
});

/// Which part of a composition has a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordPart {
    /// What the coordinator writes: threads, events, the outbox, documents.
    Threads,
    /// The mailbox.
    Mailbox,
}

impl RecordList {
    /// Returns whether a store that keeps mailboxes only has the list.
    #[must_use]
    pub const fn is_of_mailbox(self) -> bool {
        matches!(self, Self::Numbers | Self::Mailboxes | Self::Interrupts | Self::Dispatches)
    }

    /// Returns the part that has the list. The numbers belong to both parts.
    #[must_use]
    pub const fn part(self) -> RecordPart {
        match self {
            Self::Mailboxes | Self::Interrupts | Self::Dispatches => RecordPart::Mailbox,
            _ => RecordPart::Threads,
        }
    }

    /// Returns what an error calls a store that has no such list.
    #[must_use]
    pub const fn operation(self) -> &'static str {
        match self.part() {
            RecordPart::Threads => "keeping threads, events, outbox rows and documents",
            RecordPart::Mailbox => "keeping a mailbox",
        }
    }

    /// Returns the singular noun of the records, for errors and reports.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Numbers => "numbers",
            Self::Threads => "thread",
            Self::Entries => "entry",
            Self::Runs => "run",
            Self::State => "state value",
            Self::Inputs => "pending input",
            Self::Decisions => "decision",
            Self::CommitKeys => "commit key",
            Self::ThreadDocuments | Self::Documents => "document",
            Self::Scopes => "scope",
            Self::Events => "event",
            Self::EventKeys => "event key",
            Self::Outbox => "outbox row",
            Self::Mailboxes => "mailbox",
            Self::Interrupts => "interrupt",
            Self::Dispatches => "dispatch",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RecordList, RecordPart};

    #[test]
    fn the_mailbox_comes_last() {
        let parts: Vec<_> = RecordList::ALL.iter().map(|list| list.part()).collect();
        assert!(parts.is_sorted());
        assert_eq!(parts.iter().filter(|part| **part == RecordPart::Mailbox).count(), 3);
        assert!(RecordList::ALL.is_sorted());
    }
}
