//! What the store holds in the end.

use std::collections::BTreeMap;

use agentstore::{
    AttemptEnd, Body, ClaimNumber, Dispatch, DispatchQuery, DispatchStatus, EntryQuery, LogReader, MailboxStore,
    PageRequest, TenantStores,
};
use anyhow::{Context, Result};

use crate::{
    producer::again,
    record::{Name, thread_id, thread_of},
    worker::{DONE, DoneBy},
};

/// How many records a page has: as many as it can.
const PAGE: u32 = 1_000;
/// How many attempts a store keeps of each dispatch.
const HISTORY: usize = 20;

/// A dispatch in the end.
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

/// All dispatches.
pub(crate) async fn dispatches(mailbox: &dyn MailboxStore) -> Result<BTreeMap<Name, Kept>> {
    let (mut all, first) = (BTreeMap::new(), PageRequest::first(PAGE));
    let mut page = first.clone();
    loop {
        let found = again(|| mailbox.list_dispatches(DispatchQuery::default().with_page(page.clone()))).await?;
        for dispatch in found.items {
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
