//! Calls of the mailbox, and of what is written under its claims: for scripts that are played again on other stores,
//! where the tokens that were given out are not at hand.

use std::{collections::BTreeSet, fmt::Write, time::Duration};

use store_core::{
    AppendEvents, ClaimRef, ClaimRequest, ClaimToken, Commit, Direction, Dispatch, DispatchFilter, DispatchId,
    DispatchOrder, DispatchQuery, DispatchStatus, Error, ErrorKind, Expect, Fence, Interrupt, MailboxStore,
    NewDispatch, PageRequest, Purge, Requeue, Result, Settlement, TenantStores, ThreadId, ThreadPatch,
};

use crate::world::{agree, at, fact, made_at, plain, text};

/// A call of the mailbox.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    Enqueue(Vec<NewDispatch>),
    Claim(ClaimRequest),
    Interrupt(Interrupt),
    Cancel(DispatchId),
    Reclaim,
    /// What ended before so many seconds goes.
    Purge(u64),
    Requeue(DispatchId),
    /// Something under the claim of a dispatch.
    Under(DispatchId, Under),
}

/// What is done under a claim.
#[derive(Debug, Clone)]
pub(crate) enum Under {
    Settle(Settlement),
    Extend(Duration),
    Start,
    Commit(Box<Commit>),
    Emit(Box<AppendEvents>),
    Update(ThreadId, Box<ThreadPatch>),
}

impl Work {
    pub(crate) async fn make(&self, stores: TenantStores) -> Result<String> {
        let mailbox = stores.mailbox.clone().ok_or_else(missing)?;
        match self {
            Self::Enqueue(dispatches) => {
                let answers = mailbox.enqueue(dispatches.clone()).await?;
                Ok(text(answers.into_iter().map(|answer| answer.map_err(|error| error.kind())).collect::<Vec<_>>()))
            }
            Self::Claim(request) => {
                let claims = mailbox.claim(request.clone()).await?;
                let claimed =
                    claims.claimed.iter().map(|claimed| format!("{:?} {}; ", claimed.dispatch, claimed.number));
                Ok(format!("{}{:?} {}", claimed.collect::<String>(), claims.missed, claims.unreadable.len()))
            }
            Self::Interrupt(request) => {
                let interrupted = mailbox.interrupt(request.clone()).await?;
                Ok(format!("{} {:?}", interrupted.epoch, interrupted.superseded))
            }
            Self::Cancel(id) => mailbox.cancel(id).await.map(text),
            Self::Reclaim => mailbox.reclaim(100).await.map(text),
            Self::Purge(seconds) => mailbox.purge(Purge::new(at(*seconds))).await.map(text),
            Self::Requeue(id) => {
                let answers = mailbox.requeue(Requeue::ids([id.clone()])).await?;
                Ok(text(answers.into_iter().map(|(_, answer)| answer.map_err(|e| e.kind())).collect::<Vec<_>>()))
            }
            Self::Under(id, under) => make_under(&stores, &*mailbox, id, under).await,
        }
    }
}

fn missing() -> Error {
    Error::unavailable("the store lacks a part")
}

/// Tries the tokens that were made when the dispatch was claimed: the answer of the claim may have been lost with the
/// store that gave it.
async fn make_under(
    stores: &TenantStores,
    mailbox: &dyn MailboxStore,
    id: &DispatchId,
    under: &Under,
) -> Result<String> {
    let claim = mailbox.load_dispatch(id).await?.and_then(|dispatch| dispatch.claim);
    let (number, time) = match &claim {
        Some(claim) => (claim.number, claim.claimed_at),
        None => (store_core::ClaimNumber { incarnation: 0, counter: 0 }, at(0)),
    };
    let mut tokens = made_at(time).into_iter();
    loop {
        let token = tokens.next();
        let is_last = token.is_none();
        let token = ClaimToken::new(token.unwrap_or_else(|| "token".to_owned()));
        let answer = try_under(stores, mailbox, Fence::new(id.clone(), token, 0, number), under).await;
        match answer {
            Err(error) if error.kind() == ErrorKind::ClaimLost && !is_last => {}
            answer => return answer,
        }
    }
}

async fn try_under(stores: &TenantStores, mailbox: &dyn MailboxStore, fence: Fence, under: &Under) -> Result<String> {
    let claim = ClaimRef::from(&fence);
    match under {
        Under::Settle(settlement) => {
            let mut answers = mailbox.settle(vec![(claim, settlement.clone())]).await?;
            answers.pop().ok_or_else(missing)?.map(text)
        }
        Under::Extend(by) => mailbox.extend(&claim, *by).await.map(text),
        Under::Start => mailbox.start(&claim, "i-1".parse()?).await.map(text),
        Under::Commit(commit) => {
            let commits = stores.commits.as_ref().ok_or_else(missing)?;
            commits.commit(Commit::clone(commit).fenced(fence)).await.map(plain).map(text)
        }
        Under::Emit(request) => {
            let mut request = AppendEvents::clone(request);
            request.fence = Some(fence);
            let appended = stores.events.as_ref().ok_or_else(missing)?.append_events(request).await?;
            Ok(appended.events.iter().map(fact).collect())
        }
        Under::Update(id, patch) => {
            let mut patch = ThreadPatch::clone(patch);
            patch.fence = Some(fence);
            stores.threads.as_ref().ok_or_else(missing)?.update_thread(id, patch, Expect::Any).await.map(text)
        }
    }
}

/// Everything that a mailbox shows and that does not depend on the time.
pub(crate) async fn show_mailbox(out: &mut String, mailbox: &dyn MailboxStore) -> Result<()> {
    let list = async |filter, order| {
        let query = DispatchQuery::new(filter).ordered(order, Direction::Forward);
        Ok::<_, Error>(mailbox.list_dispatches(query.with_page(PageRequest::first(1000))).await?.items)
    };
    let ids = |found: Vec<Dispatch>| found.into_iter().map(|dispatch| dispatch.id.to_string()).collect::<Vec<_>>();
    let all = list(DispatchFilter::default(), DispatchOrder::Creation).await?;
    for dispatch in &all {
        let loaded = mailbox.load_dispatch(&dispatch.id).await?;
        agree(loaded.as_ref() == Some(dispatch), format!("dispatch {}", dispatch.id))?;
        let _ = writeln!(out, "{dispatch:?}");
    }
    for thread in all.iter().map(|dispatch| &dispatch.thread).collect::<BTreeSet<_>>() {
        let (epoch, counts) = (mailbox.load_epoch(thread).await?, mailbox.count_dispatches(Some(thread)).await?);
        let queue = list(DispatchFilter::of_thread(thread.clone()), DispatchOrder::Claim).await?;
        let _ = writeln!(out, "{thread} {epoch} {counts:?} {:?}", ids(queue));
    }
    for status in DispatchStatus::ALL {
        let found = list(DispatchFilter::default().in_status([*status]), DispatchOrder::Creation).await?;
        let _ = writeln!(out, "{status} {:?}", ids(found));
    }
    let ended = list(DispatchFilter::default(), DispatchOrder::End).await?;
    let _ = writeln!(out, "{:?} {:?}", ids(ended), mailbox.count_dispatches(None).await?);
    Ok(())
}
