//! The lists that the cases of every contract write to, search and read. Each contract has its own lists.

mod documents;
mod events;
mod logs;
mod mailbox;
mod outbox;
mod threads;

use std::fmt;

use async_trait::async_trait;
use store_core::{Cursor, Direction, EventStream, Page, PageRequest, Result, TenantStores};

use crate::{
    case::Contract,
    check::Failure,
    given::{keyed_commit_with_message, read_all_pages},
};

/// A list of one contract, and how a case writes and finds the records in it.
#[async_trait]
pub(crate) trait RecordList: Send + Sync {
    /// The name of the list, which failures show.
    fn name(&self) -> &'static str;

    /// The directions in which the list can be walked.
    fn directions(&self) -> &'static [Direction];

    /// Whether a cursor of one direction is refused in the other direction.
    fn is_cursor_bound_to_direction(&self) -> bool {
        true
    }

    /// Writes a record with this id or name.
    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()>;

    /// Whether the store has the record. The call does not read the list.
    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool>;

    /// A page of the list.
    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<ListedRecord>>;

    /// Subscribes to the records after a cursor. Returns `None` if the list has no subscriptions.
    async fn subscribe_after(&self, _stores: &TenantStores, _after: Cursor) -> Option<Result<EventStream>> {
        None
    }
}

/// A record in a list. Records are ordered by rank, and records of equal rank by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListedRecord {
    /// The time or the sequence number that the list is ordered by. It is 0 in a list that is ordered only by id or
    /// name.
    pub(crate) rank: u64,
    /// The id or the name.
    pub(crate) id: String,
}

impl ListedRecord {
    fn new(rank: u64, id: impl fmt::Display) -> Self {
        Self { rank, id: id.to_string() }
    }
}

/// Both directions.
const BOTH_DIRECTIONS: &[Direction] = &[Direction::Forward, Direction::Backward];
/// The direction of a list that can be walked only from its beginning.
const FORWARD_ONLY: &[Direction] = &[Direction::Forward];

/// The lists of a contract.
pub(crate) fn record_lists(contract: Contract) -> Vec<Box<dyn RecordList>> {
    match contract {
        Contract::ThreadRunStore => vec![Box::new(threads::ThreadsByCreation), Box::new(threads::ThreadsByActivity)],
        Contract::CommitCoordinator => vec![
            Box::new(logs::Entries),
            Box::new(logs::Leaves),
            Box::new(logs::BranchPoints),
            Box::new(logs::Snapshots),
            Box::new(logs::Runs),
        ],
        Contract::PendingStore => vec![Box::new(threads::ThreadsWithInput)],
        Contract::EventStore => vec![Box::new(events::EventsOfThread)],
        Contract::MailboxStore | Contract::LiveChannel => {
            vec![Box::new(mailbox::DispatchesOfTenant), Box::new(mailbox::DispatchesOfThread)]
        }
        Contract::OutboxStore => vec![Box::new(outbox::OutboxRows)],
        Contract::DocumentStore | Contract::ObjectStore => {
            vec![Box::new(documents::DocumentsOfTenant), Box::new(documents::DocumentsOfThread)]
        }
    }
}

/// The first list of a contract, for cases that are not about lists.
pub(crate) fn first_record_list(contract: Contract) -> Box<dyn RecordList> {
    match contract {
        Contract::ThreadRunStore => Box::new(threads::ThreadsByCreation),
        Contract::CommitCoordinator => Box::new(logs::Entries),
        Contract::PendingStore => Box::new(threads::ThreadsWithInput),
        Contract::EventStore => Box::new(events::EventsOfThread),
        Contract::MailboxStore | Contract::LiveChannel => Box::new(mailbox::DispatchesOfTenant),
        Contract::OutboxStore => Box::new(outbox::OutboxRows),
        Contract::DocumentStore | Contract::ObjectStore => Box::new(documents::DocumentsOfTenant),
    }
}

/// Writes a record with this name. If the store has commits, the record is a thread that a commit creates. Otherwise it
/// is a record of the contract.
pub(crate) async fn write_record(contract: Contract, stores: &TenantStores, name: &str) -> Result<()> {
    match &stores.commits {
        Some(commits) => commits.commit(keyed_commit_with_message(&name.parse()?, "k", "x")).await.map(drop),
        None => first_record_list(contract).write(stores, name).await,
    }
}

/// Whether the store has the record that [`write_record`] wrote.
pub(crate) async fn has_record(contract: Contract, stores: &TenantStores, name: &str) -> Result<bool> {
    match &stores.threads {
        Some(threads) => Ok(threads.load_thread(&name.parse()?).await?.is_some()),
        None => first_record_list(contract).has(stores, name).await,
    }
}

impl dyn RecordList {
    /// Reads the whole list, in pages of `limit` records.
    pub(crate) async fn read_all_pages(
        &self,
        stores: &TenantStores,
        direction: Direction,
        limit: u32,
    ) -> Result<Vec<ListedRecord>, Failure> {
        read_all_pages(PageRequest::first(limit), |page| self.list(stores, direction, page))
            .await
            .map_err(|failure| failure.about(self.name()))
    }

    /// The ids of the whole list, sorted.
    pub(crate) async fn ids(&self, stores: &TenantStores) -> Result<Vec<String>, Failure> {
        let mut ids: Vec<_> =
            self.read_all_pages(stores, Direction::Forward, 1000).await?.into_iter().map(|item| item.id).collect();
        ids.sort();
        Ok(ids)
    }

    /// Writes records with these ids, in this order.
    pub(crate) async fn write_all(&self, stores: &TenantStores, ids: &[String]) -> Result<(), Failure> {
        for id in ids {
            self.write(stores, id).await.map_err(|error| Failure::from(error).about(self.name()))?;
        }
        Ok(())
    }
}
