//! Ids of the mailbox: thread, run, dispatch, dedupe key, worker, instance of a worker, key of an interrupt.

use store_core::{
    ClaimRequest, Dispatch, DispatchFilter, DispatchQuery, ErrorKind, Interrupt, MailboxStore, NewDispatch,
    PageRequest, ReadyThread, ThreadId,
};

use super::sorted;
use crate::{
    Failure, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, read_all_pages},
    mailbox::helpers::{LEASE, ack},
};

/// A dispatch with the dedupe key `text`, in a thread that has a dispatch for each of the texts.
fn dispatch_in_shared_thread(text: &str) -> NewDispatch {
    NewDispatch::new(id("shared"), id("run")).with_dedupe_key(id(text))
}

/// Writes records with `text` as each of their ids.
pub(super) async fn write_records(mailbox: &dyn MailboxStore, text: &str) -> Verdict {
    let own_dispatch = NewDispatch::new(id(text), id(text)).with_id(id(text)).with_dedupe_key(id(text));
    for answer in mailbox.enqueue(vec![own_dispatch, dispatch_in_shared_thread(text)]).await? {
        answer?;
    }
    Ok(())
}

/// Returns the dispatch `text`. Checks that `filter` finds this dispatch and no other.
async fn expect_single_match(
    mailbox: &dyn MailboxStore,
    text: &str,
    filter: DispatchFilter,
) -> Result<Dispatch, Failure> {
    let mut found = mailbox.list_dispatches(DispatchQuery::new(filter)).await?.items;
    expect_eq(found.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), [text])?;
    expect_some(found.pop(), "dispatch")
}

/// Checks that the dispatch `text` is found by each of its ids. Then claims and acknowledges it, and interrupts its
/// thread.
pub(super) async fn expect_found_by_each_id(mailbox: &dyn MailboxStore, text: &str) -> Verdict {
    let (mut by_run, mut by_key) = (DispatchFilter::default(), DispatchFilter::of_thread(id(text)));
    (by_run.run, by_key.dedupe_key) = (Some(id(text)), Some(id(text)));
    let stored = expect_single_match(mailbox, text, by_run).await?;
    expect_eq((&stored.thread, &stored.run, &stored.dedupe_key), (&id(text), &id(text), &Some(id(text))))?;
    expect_eq(&expect_single_match(mailbox, text, by_key).await?, &stored)?;
    expect_eq(mailbox.load_dispatch(&id(text)).await?.as_ref(), Some(&stored))?;
    expect_kind(mailbox.enqueue(vec![dispatch_in_shared_thread(text)]).await?.remove(0), ErrorKind::AlreadyExists)?;
    let request = ClaimRequest::new(id(text), LEASE).of_thread(id(text)).up_to(10);
    let mut claims = mailbox.claim(request).await?;
    let claimed = expect_some(claims.claimed.pop(), "claim")?;
    expect_eq((claimed.dispatch.id.as_str(), claims.claimed.len()), (text, 0))?;
    mailbox.start(&claimed.claim(), id(text)).await?;
    let mut by_worker = DispatchFilter::default();
    by_worker.worker = Some(id(text));
    let claim = expect_some(expect_single_match(mailbox, text, by_worker).await?.claim, "claim")?;
    expect_eq((claim.worker.as_str(), claim.instance), (text, Some(id(text))))?;
    mailbox.settle(vec![(claimed.claim(), ack())]).await?.remove(0)?;
    expect_eq(mailbox.count_dispatches(Some(&id(text))).await?.acked, 1)?;
    expect_eq(mailbox.interrupt(Interrupt::new(id(text))).await?.epoch, 1)?;
    expect_eq(mailbox.load_epoch(&id(text)).await?, 1)
}

/// Checks that each text works as the key of an interrupt of one thread, and as a dedupe key in the thread that all
/// texts share.
pub(super) async fn expect_texts_work_together(mailbox: &dyn MailboxStore, texts: &[String]) -> Verdict {
    let count = texts.len() as u64;
    let shared: ThreadId = id("shared");
    // Each interrupt is repeated at once, because only the last 20 keys of a thread are remembered.
    for (text, is_repeat) in texts.iter().flat_map(|text| [(text, false), (text, true)]) {
        let interrupt = Interrupt::new(id("interrupted")).with_key(id(text));
        expect_eq(mailbox.interrupt(interrupt).await?.deduplicated, is_repeat)
            .map_err(|failure| failure.about(text))?;
    }
    expect_eq(mailbox.load_epoch(&id("interrupted")).await?, count)?;
    expect_eq(mailbox.count_dispatches(Some(&shared)).await?.queued, count)?;
    let query = DispatchQuery::new(DispatchFilter::of_thread(shared));
    let found =
        read_all_pages(PageRequest::first(100), |page| mailbox.list_dispatches(query.clone().with_page(page))).await?;
    let keys = found.iter().filter_map(|found| found.dedupe_key.as_ref()).map(AsRef::as_ref);
    expect_eq(sorted(keys), sorted(texts.iter().map(String::as_str)))?;
    let new_dispatches = texts.iter().map(|text| NewDispatch::new(id(text), id("run"))).collect();
    for answer in mailbox.enqueue(new_dispatches).await? {
        expect_eq(answer?.epoch, 1)?;
    }
    let ready = read_all_pages(PageRequest::first(100), |page| mailbox.list_ready_threads(page)).await?;
    let ready = ready.iter().map(|ReadyThread { thread, .. }| thread.as_str());
    expect_eq(sorted(ready), sorted(texts.iter().map(String::as_str).chain(["shared"])))?;
    expect(mailbox.count_dispatches(None).await?.acked == count, "not every dispatch was acknowledged")
}
