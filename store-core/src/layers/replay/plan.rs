//! What an append to a replay stream writes.

use super::{
    record::{NewReplay, PlacedRecord, ReplayContent, ReplayRecord},
    request::{AppendReplay, AppendedReplay},
};
use crate::{
    commit::Commit,
    document::{DocumentChange, WriteDocuments},
    error::{Error, Result},
    event::{AppendEvents, Event, NewEvent},
};

/// What has to be written so that records are appended to a replay stream. It can be part of a commit (RP-7).
///
/// The numbers of the records follow from the write. The receipt of the commit has the id of each record, and its
/// cursor in the topic of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a plan has no effect until it is part of a commit"]
pub struct ReplayPlan {
    pub(super) changes: Vec<DocumentChange>,
    pub(super) events: Vec<NewEvent>,
    pub(super) records: Vec<PlannedReplay>,
}

/// One record of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlannedReplay {
    /// It exists already.
    Known(Box<ReplayRecord>),
    /// It is appended. It has the next event of the plan.
    New(Box<NewReplay>),
}

impl ReplayPlan {
    /// Returns the records that exist already: the plan repeats them, and writes nothing for them (RP-3).
    pub fn known_records(&self) -> impl Iterator<Item = &ReplayRecord> {
        self.records.iter().filter_map(|record| match record {
            PlannedReplay::Known(record) => Some(&**record),
            PlannedReplay::New(_) => None,
        })
    }

    /// Returns whether all records exist already, so that nothing has to be written. If only one commit writes them,
    /// that commit was made.
    #[must_use]
    pub const fn is_repeat(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the changes of documents.
    #[must_use]
    pub fn documents(&self) -> &[DocumentChange] {
        &self.changes
    }

    /// Returns the events.
    #[must_use]
    pub fn events(&self) -> &[NewEvent] {
        &self.events
    }

    /// Adds the records to a commit.
    ///
    /// If another writer appends one of them first, the commit is refused with `Conflict`: make the plan again. After
    /// an unknown outcome repeat the commit as it is; a new plan would not write what exists by then.
    #[must_use]
    pub fn add_to(self, commit: Commit) -> Commit {
        let mut commit = commit.with_documents(self.changes);
        if !self.events.is_empty() {
            commit.events.get_or_insert_default().drafts.extend(self.events);
        }
        commit
    }

    /// Returns the write of an append; none if nothing has to be written.
    pub(super) fn write_for(&self, request: &AppendReplay) -> Result<Option<WriteDocuments>> {
        if self.is_repeat() {
            return Ok(None);
        }
        let mut write = WriteDocuments::new(self.changes.clone()).with_events(AppendEvents::new(self.events.clone()));
        if let Some(thread) = &request.thread {
            write.changes.push(super::keys::check_of_thread(thread)?);
            write.fence = request.fence.clone().map(|fence| (thread.clone(), fence));
        }
        Ok(Some(write))
    }

    /// Returns the records after the write. `events` are those that it appended.
    pub(super) fn answer(self, events: Vec<Event>) -> Result<AppendedReplay> {
        let (deduplicated, mut events) = (self.is_repeat(), events.into_iter());
        let mut record_of = |planned| match planned {
            PlannedReplay::Known(record) => Ok(*record),
            PlannedReplay::New(new) => {
                let missing = || Error::corrupt("the store did not return the event of a replay record");
                let placed = PlacedRecord::from_event(&events.next().ok_or_else(missing)?)?;
                Ok(placed.with_content(ReplayContent::Bytes(new.bytes)))
            }
        };
        let records = self.records.into_iter().map(&mut record_of).collect::<Result<_>>()?;
        Ok(AppendedReplay { records, deduplicated })
    }
}
