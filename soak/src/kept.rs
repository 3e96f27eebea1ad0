//! What the store holds in the end, and what was taken out of it before.

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
    producer::again,
    record::{Name, thread_id, thread_of},
    worker::{DONE, DoneBy},
};

/// How many records a page has: as many as it can.
const PAGE: u32 = 1_000;
/// How many attempts a store keeps of each dispatch.
const HISTORY: usize = 20;
/// How long what ended stays, at least: until nobody repeats a call about it, and whatever was decided at an earlier
/// time is written.
const STAYS: Duration = Duration::from_secs(30);
/// How often what ended is taken over.
const ROUND: Duration = Duration::from_secs(5);

/// A dispatch when it had ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) thread: u32,
    pub(crate) epoch: u64,
    pub(crate) status: DispatchStatus,
    /// The claim that its result names.
    pub(crate) done_by: Option<DoneBy>,
    /// How its attempts ended, by their claims.
    pub(crate) history: Vec<(ClaimNumber, AttemptEnd)>,
}

impl Kept {
    fn read(dispatch: Dispatch) -> Result<(Name, Self)> {
        let name = dispatch.id.as_str().parse()?;
        let kept = Self {
            thread: thread_of(&dispatch.thread)?,
            epoch: dispatch.epoch,
            status: dispatch.status,
            done_by: dispatch.result.map(|result| result.to()).transpose()?,
            history: dispatch.history.iter().map(|attempt| (attempt.claim, attempt.end)).collect(),
        };
        Ok((name, kept))
    }

    /// The claim under which it was acknowledged.
    pub(crate) fn acked_by(&self) -> Option<ClaimNumber> {
        self.history.iter().rev().find(|(_, end)| *end == AttemptEnd::Acked).map(|(claim, _)| *claim)
    }

    /// Whether the history has all attempts.
    pub(crate) const fn is_whole(&self) -> bool {
        self.history.len() < HISTORY
    }
}

/// What a thread holds in the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeptThread {
    pub(crate) epoch: u64,
    /// Who wrote its entries, in their order; none where threads are not kept.
    pub(crate) said: Option<Vec<DoneBy>>,
}

/// Dispatches that were read when they had ended, and removed from the store then: it holds what one in use holds.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    dispatches: BTreeMap<Name, Kept>,
    /// Those that were there again as something else.
    came_back: BTreeSet<Name>,
}

impl Ended {
    /// Takes over what ended a while ago, again and again, until it is dropped.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn follow(&mut self, mailbox: &dyn MailboxStore) -> Result<()> {
        loop {
            sleep(ROUND).await;
            if let Some(newest) = newest_end(mailbox).await? {
                self.take(mailbox, newest.saturating_sub(STAYS)).await?;
            }
        }
    }

    /// Takes over all that ended, when nothing is under way any more.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn take_all(&mut self, mailbox: &dyn MailboxStore) -> Result<()> {
        match newest_end(mailbox).await? {
            Some(newest) => self.take(mailbox, newest.saturating_add(Duration::from_millis(1))).await,
            None => Ok(()),
        }
    }

    /// Takes over what ended before a time.
    async fn take(&mut self, mailbox: &dyn MailboxStore, before: Timestamp) -> Result<()> {
        let by_end = DispatchQuery::default().ordered(DispatchOrder::End, Direction::Forward);
        let is_meant = |dispatch: &Dispatch| dispatch.finished_at.is_some_and(|end| end < before);
        for (name, kept) in read(mailbox, by_end, is_meant).await? {
            // It is the same one if the removal was cut off before.
            if *self.dispatches.entry(name).or_insert_with(|| kept.clone()) != kept {
                self.came_back.insert(name);
            }
        }
        let request = Purge::new(before);
        while again(|| mailbox.purge(request.clone())).await?.removed == u64::from(request.limit) {}
        Ok(())
    }

    /// All dispatches: these, and those that are still in the store.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn and_kept(&self, mailbox: &dyn MailboxStore) -> Result<BTreeMap<Name, Kept>> {
        let mut all = read(mailbox, DispatchQuery::default(), |_| true).await?;
        all.extend(self.dispatches.iter().map(|(name, kept)| (*name, kept.clone())));
        Ok(all)
    }

    /// The same when all that ended was taken over, and those of them that are there again.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn and_rest(
        mut self,
        mailbox: &dyn MailboxStore,
    ) -> Result<(BTreeMap<Name, Kept>, BTreeSet<Name>)> {
        for (name, kept) in read(mailbox, DispatchQuery::default(), |_| true).await? {
            match self.dispatches.entry(name) {
                Entry::Occupied(_) => _ = self.came_back.insert(name),
                Entry::Vacant(free) => _ = free.insert(kept),
            }
        }
        Ok((self.dispatches, self.came_back))
    }
}

/// When the dispatch ended that ended last.
async fn newest_end(mailbox: &dyn MailboxStore) -> Result<Option<Timestamp>> {
    let last =
        DispatchQuery::default().ordered(DispatchOrder::End, Direction::Backward).with_page(PageRequest::first(1));
    let found = again(|| mailbox.list_dispatches(last.clone())).await?;
    Ok(found.items.first().and_then(|dispatch| dispatch.finished_at))
}

/// Dispatches in the order of a list, up to the first that is not meant.
async fn read(
    mailbox: &dyn MailboxStore,
    query: DispatchQuery,
    is_meant: impl Fn(&Dispatch) -> bool,
) -> Result<BTreeMap<Name, Kept>> {
    let (mut all, first) = (BTreeMap::new(), PageRequest::first(PAGE));
    let mut page = first.clone();
    loop {
        let found = again(|| mailbox.list_dispatches(query.clone().with_page(page.clone()))).await?;
        for dispatch in found.items {
            if !is_meant(&dispatch) {
                return Ok(all);
            }
            let (name, kept) = Kept::read(dispatch)?;
            all.insert(name, kept);
        }
        match found.next {
            Some(cursor) => page = first.after(cursor),
            None => return Ok(all),
        }
    }
}

/// All threads.
pub(crate) async fn threads(stores: &TenantStores, count: u32) -> Result<BTreeMap<u32, KeptThread>> {
    let mailbox = stores.mailbox.as_ref().context("the store keeps no mailbox")?;
    let mut all = BTreeMap::new();
    for thread in 0..count {
        let id = thread_id(thread)?;
        let said = match &stores.threads {
            Some(threads) => Some(said(&**threads, &id).await?),
            None => None,
        };
        let epoch = again(|| mailbox.load_epoch(&id)).await?;
        all.insert(thread, KeptThread { epoch, said });
    }
    Ok(all)
}

async fn said(threads: &(impl LogReader + ?Sized), id: &agentstore::ThreadId) -> Result<Vec<DoneBy>> {
    let (mut all, first) = (Vec::new(), PageRequest::first(PAGE));
    let mut page = first.clone();
    loop {
        let found = again(|| threads.list_entries(id, EntryQuery::all().with_page(page.clone()))).await?;
        for entry in found.items {
            if let Body::Custom(custom) = &*entry.body
                && custom.kind == DONE
            {
                all.push(custom.data.to()?);
            }
        }
        match found.next {
            Some(cursor) => page = first.after(cursor),
            None => return Ok(all),
        }
    }
}
