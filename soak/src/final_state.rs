//! Reads what the store contains at the end of a run. During the run, reads ended dispatches and removes them.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    time::Duration,
};

use agentstore::{
    AttemptEnd, Body, ClaimNumber, Direction, Dispatch, DispatchOrder, DispatchQuery, DispatchStatus, EntryQuery,
    LogReader, MailboxStore, PageRequest, Purge, TenantStores, Timestamp,
};
use anyhow::{Context, Result};
use tokio::time::sleep;

use crate::{
    producer::retry,
    record::{DispatchName, thread_id, thread_number},
    worker::{DONE_KIND, DoneBy},
};

/// The number of records in a page: the largest number that is allowed.
const PAGE_SIZE: u32 = 1_000;
/// The number of attempts that a store keeps of each dispatch.
const MAX_KEPT_ATTEMPTS: usize = 20;
/// The minimum time that an ended dispatch stays in the store. After this time, no caller repeats a call about the
/// dispatch, and no dispatch with an earlier end can still appear in the store.
const MIN_RETENTION: Duration = Duration::from_secs(30);
/// The time between two removals of ended dispatches.
const REMOVAL_INTERVAL: Duration = Duration::from_secs(5);

/// What the check needs to know about a dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FinalDispatch {
    pub(crate) thread: u32,
    pub(crate) epoch: u64,
    pub(crate) status: DispatchStatus,
    /// The claim that the result of the dispatch names.
    pub(crate) done_by: Option<DoneBy>,
    /// The claim number of each attempt, and how the attempt ended.
    pub(crate) history: Vec<(ClaimNumber, AttemptEnd)>,
}

impl FinalDispatch {
    fn from_dispatch(dispatch: Dispatch) -> Result<(DispatchName, Self)> {
        let name = dispatch.id.as_str().parse()?;
        let final_state = Self {
            thread: thread_number(&dispatch.thread)?,
            epoch: dispatch.epoch,
            status: dispatch.status,
            done_by: dispatch.result.map(|result| result.to()).transpose()?,
            history: dispatch.history.iter().map(|attempt| (attempt.claim, attempt.end)).collect(),
        };
        Ok((name, final_state))
    }

    /// Returns the claim under which the dispatch was acknowledged.
    pub(crate) fn acked_by(&self) -> Option<ClaimNumber> {
        self.history.iter().rev().find(|(_, end)| *end == AttemptEnd::Acked).map(|(claim, _)| *claim)
    }

    /// Returns whether the history certainly contains all attempts.
    pub(crate) const fn has_all_attempts(&self) -> bool {
        self.history.len() < MAX_KEPT_ATTEMPTS
    }
}

/// What the store contains about a thread at the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FinalThread {
    pub(crate) epoch: u64,
    /// The claims that wrote the entries of the thread, in the order of the entries. `None` if the store keeps no
    /// threads.
    pub(crate) written_by: Option<Vec<DoneBy>>,
}

/// Dispatches that were read after they had ended, and then purged from the store. A store in normal use is purged in
/// the same way.
#[derive(Debug, Default)]
pub(crate) struct EndedDispatches {
    dispatches: BTreeMap<DispatchName, FinalDispatch>,
    /// Dispatches that were in the store again, or had changed, after they were read and removed.
    reappeared_dispatches: BTreeSet<DispatchName>,
}

impl EndedDispatches {
    /// Reads and removes the dispatches that ended at least [`MIN_RETENTION`] before the dispatch that ended last.
    /// Repeats this until the future is dropped.
    ///
    /// # Errors
    /// The errors of the store.
    pub(crate) async fn remove_periodically(&mut self, mailbox: &dyn MailboxStore) -> Result<()> {
        loop {
            sleep(REMOVAL_INTERVAL).await;
            if let Some(newest) = newest_end(mailbox).await? {
                self.read_and_remove(mailbox, newest.saturating_sub(MIN_RETENTION)).await?;
            }
        }
    }

    /// Reads and removes all dispatches that have ended. The workers must have finished all work.
    ///
    /// # Errors
    /// The errors of the store.
    pub(crate) async fn read_and_remove_all(&mut self, mailbox: &dyn MailboxStore) -> Result<()> {
        match newest_end(mailbox).await? {
            Some(newest) => self.read_and_remove(mailbox, newest.saturating_add(Duration::from_millis(1))).await,
            None => Ok(()),
        }
    }

    /// Reads and removes the dispatches that ended before a time.
    async fn read_and_remove(&mut self, mailbox: &dyn MailboxStore, before: Timestamp) -> Result<()> {
        let query_by_end = DispatchQuery::default().ordered(DispatchOrder::End, Direction::Forward);
        let is_included = |dispatch: &Dispatch| dispatch.finished_at.is_some_and(|end| end < before);
        for (name, final_state) in read_dispatches(mailbox, query_by_end, is_included).await? {
            // If an earlier removal did not complete, the same record is read again, without a change.
            if *self.dispatches.entry(name).or_insert_with(|| final_state.clone()) != final_state {
                self.reappeared_dispatches.insert(name);
            }
        }
        let request = Purge::new(before);
        while retry(|| mailbox.purge(request.clone())).await?.removed == u64::from(request.limit) {}
        Ok(())
    }

    /// Returns all dispatches: those that were removed, and those that are still in the store.
    ///
    /// # Errors
    /// The errors of the store.
    pub(crate) async fn all_dispatches(
        &self,
        mailbox: &dyn MailboxStore,
    ) -> Result<BTreeMap<DispatchName, FinalDispatch>> {
        let mut all = read_dispatches(mailbox, DispatchQuery::default(), |_| true).await?;
        all.extend(self.dispatches.iter().map(|(name, final_state)| (*name, final_state.clone())));
        Ok(all)
    }

    /// Returns all dispatches, and the names of those that were in the store again after their removal. The caller must
    /// have called [`read_and_remove_all`](Self::read_and_remove_all) before.
    ///
    /// # Errors
    /// The errors of the store.
    pub(crate) async fn into_all_dispatches(
        mut self,
        mailbox: &dyn MailboxStore,
    ) -> Result<(BTreeMap<DispatchName, FinalDispatch>, BTreeSet<DispatchName>)> {
        for (name, final_state) in read_dispatches(mailbox, DispatchQuery::default(), |_| true).await? {
            match self.dispatches.entry(name) {
                Entry::Occupied(_) => _ = self.reappeared_dispatches.insert(name),
                Entry::Vacant(vacant_entry) => _ = vacant_entry.insert(final_state),
            }
        }
        Ok((self.dispatches, self.reappeared_dispatches))
    }
}

/// Returns the latest time at which a dispatch ended.
async fn newest_end(mailbox: &dyn MailboxStore) -> Result<Option<Timestamp>> {
    let newest_first =
        DispatchQuery::default().ordered(DispatchOrder::End, Direction::Backward).with_page(PageRequest::first(1));
    let found = retry(|| mailbox.list_dispatches(newest_first.clone())).await?;
    Ok(found.items.first().and_then(|dispatch| dispatch.finished_at))
}

/// Reads the dispatches in the order of the query. Stops before the first one for which `is_included` returns false.
async fn read_dispatches(
    mailbox: &dyn MailboxStore,
    query: DispatchQuery,
    is_included: impl Fn(&Dispatch) -> bool,
) -> Result<BTreeMap<DispatchName, FinalDispatch>> {
    let (mut dispatches, first_page) = (BTreeMap::new(), PageRequest::first(PAGE_SIZE));
    let mut page = first_page.clone();
    loop {
        let found = retry(|| mailbox.list_dispatches(query.clone().with_page(page.clone()))).await?;
        for dispatch in found.items {
            if !is_included(&dispatch) {
                return Ok(dispatches);
            }
            let (name, final_state) = FinalDispatch::from_dispatch(dispatch)?;
            dispatches.insert(name, final_state);
        }
        match found.next {
            Some(cursor) => page = first_page.after(cursor),
            None => return Ok(dispatches),
        }
    }
}

/// Reads what the store contains about each thread.
pub(crate) async fn read_threads(stores: &TenantStores, count: u32) -> Result<BTreeMap<u32, FinalThread>> {
    let mailbox = stores.mailbox.as_ref().context("the store has no mailbox")?;
    let mut all = BTreeMap::new();
    for thread in 0..count {
        let id = thread_id(thread)?;
        let written_by = match &stores.threads {
            Some(threads) => Some(entry_writers(&**threads, &id).await?),
            None => None,
        };
        let epoch = retry(|| mailbox.load_epoch(&id)).await?;
        all.insert(thread, FinalThread { epoch, written_by });
    }
    Ok(all)
}

async fn entry_writers(threads: &(impl LogReader + ?Sized), id: &agentstore::ThreadId) -> Result<Vec<DoneBy>> {
    let (mut writers, first_page) = (Vec::new(), PageRequest::first(PAGE_SIZE));
    let mut page = first_page.clone();
    loop {
        let found = retry(|| threads.list_entries(id, EntryQuery::all().with_page(page.clone()))).await?;
        for entry in found.items {
            if let Body::Custom(custom) = &*entry.body
                && custom.kind == DONE_KIND
            {
                writers.push(custom.data.to()?);
            }
        }
        match found.next {
            Some(cursor) => page = first_page.after(cursor),
            None => return Ok(writers),
        }
    }
}
