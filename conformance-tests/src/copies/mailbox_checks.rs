//! The checks of copies of mailboxes. They need no threads, so stores that keep mailboxes only have them, too.

#![expect(clippy::missing_errors_doc, reason = "every error is the failure of the check")]

use std::{sync::Arc, time::Duration};

use store_core::{
    ClaimRef, ClaimRequest, DispatchStatus, ErrorKind, IgnoreProgress, Interrupt, Json, MailboxStore, NewDispatch,
    NewThread, Settlement, TenantStores, When,
    records::{CopyOptions, RecordList, RecordQuery, StoredRecord, compare_tenants, copy_tenant},
};

use super::{
    checks::{StopAfter, copy, empty_store, expect_equal, options},
    fixture::set_clock,
};
use crate::{
    Failure, Fixture, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, keyed_commit_with_message},
};

const LEASE: Duration = Duration::from_mins(10);

fn mailbox_of(stores: &TenantStores) -> Result<Arc<dyn MailboxStore>, Failure> {
    expect_some(stores.mailbox.clone(), "a mailbox")
}

fn work(thread: &str, dispatch: &str) -> NewDispatch {
    NewDispatch::new(id(thread), id("r")).with_id(id(dispatch))
}

async fn enqueue(mailbox: &dyn MailboxStore, dispatch: NewDispatch) -> Result<bool, Failure> {
    Ok(mailbox.enqueue(vec![dispatch]).await?.remove(0)?.deduplicated)
}

/// Claims work of a thread.
async fn claim(mailbox: &dyn MailboxStore, thread: &str) -> Result<ClaimRef, Failure> {
    let claims = mailbox.claim(ClaimRequest::new(id("w"), LEASE).of_thread(id(thread))).await?;
    Ok(expect_some(claims.claimed.into_iter().next(), "a claim")?.claim())
}

async fn claim_and_settle(mailbox: &dyn MailboxStore, thread: &str, how: Settlement) -> Verdict {
    let claim = claim(mailbox, thread).await?;
    mailbox.settle(vec![(claim, how)]).await?.remove(0)?;
    Ok(())
}

fn large(text: &str) -> Result<Json, Failure> {
    Ok(Json::parse(&format!("\"{}\"", text.repeat(2_000)))?)
}

/// Puts dispatches in every state into a mailbox, and returns a claim that goes on.
///
/// The ids are not in the order of creation: a store that restores dispatches in the order of their ids meets the one
/// that has a dedupe key before others that had it.
async fn fill(mailbox: &dyn MailboxStore) -> Result<ClaimRef, Failure> {
    let key = || id("key");
    for how in [
        Settlement::Ack { result: Some(large("result")?) },
        Settlement::DeadLetter { error: "failed".to_owned() },
        Settlement::Cancel { reason: "not needed".to_owned() },
        Settlement::Retry { after: Duration::from_mins(1), error: "again".to_owned() },
        Settlement::Snooze { after: Duration::from_mins(2) },
    ] {
        let thread = format!("t-{}", how_name(&how));
        let dispatch = work(&thread, &format!("d-{thread}")).with_payload(large("payload")?);
        enqueue(mailbox, dispatch).await?;
        claim_and_settle(mailbox, &thread, how).await?;
    }
    // A key that three dispatches had, one after another: it ended, it was superseded, it is queued.
    enqueue(mailbox, work("keyed", "z-ended").with_dedupe_key(key())).await?;
    claim_and_settle(mailbox, "keyed", Settlement::Ack { result: None }).await?;
    enqueue(mailbox, work("keyed", "y-superseded").with_dedupe_key(key())).await?;
    enqueue(mailbox, work("keyed", "x-superseded").with_priority(9)).await?;
    mailbox.interrupt(Interrupt::new(id("keyed")).because("stop").with_key(id("stop"))).await?;
    enqueue(mailbox, work("keyed", "a-holder").with_dedupe_key(key())).await?;
    // The same with a holder that runs.
    enqueue(mailbox, work("running", "z-before").with_dedupe_key(key())).await?;
    claim_and_settle(mailbox, "running", Settlement::Ack { result: None }).await?;
    enqueue(mailbox, work("running", "b-running").with_dedupe_key(key())).await?;
    let running = claim(mailbox, "running").await?;
    // A queue with priorities, and one that is due later.
    for (number, priority) in [(4, 9), (2, 1), (3, 5), (1, 5)] {
        enqueue(mailbox, work("queue", &format!("q-{number}")).with_priority(priority)).await?;
    }
    enqueue(mailbox, work("later", "later").available(When::In(Duration::from_hours(1)))).await?;
    Ok(running)
}

fn how_name(how: &Settlement) -> &'static str {
    match how {
        Settlement::Ack { .. } => "acked",
        Settlement::DeadLetter { .. } => "dead",
        Settlement::Cancel { .. } => "cancelled",
        Settlement::Retry { .. } => "retried",
        _ => "snoozed",
    }
}

/// A copy of a mailbox has every record of it, and so has a copy of the copy (VF-2, VF-3, VF-6).
pub async fn a_copied_mailbox_has_every_record(fixture: Arc<dyn Fixture>) -> Verdict {
    let (_source, source) = empty_store(&fixture).await?;
    fill(&*mailbox_of(&source)?).await?;
    let (_first, first) = empty_store(&fixture).await?;
    let report = copy(&source, &first).await?;
    expect_equal(&report)?;
    let copied: Vec<_> = report.copied.iter().map(|list| (list.list, list.records)).collect();
    let expected = [(RecordList::Mailboxes, 9), (RecordList::Interrupts, 1), (RecordList::Dispatches, 16)];
    expect_eq(copied, expected.map(|(list, records)| (list.name(), records)).to_vec())?;
    let (_second, second) = empty_store(&fixture).await?;
    let again = copy(&first, &second).await?;
    expect_equal(&again)?;
    expect_eq(again.target, report.target)?;
    let (from, to) = (mailbox_of(&source)?, mailbox_of(&second)?);
    expect_eq(to.count_dispatches(None).await?, from.count_dispatches(None).await?)?;
    for dispatch in ["d-t-acked", "d-t-dead", "y-superseded", "b-running", "later"] {
        expect_eq(to.load_dispatch(&id(dispatch)).await?, from.load_dispatch(&id(dispatch)).await?)?;
    }
    Ok(())
}

/// Work goes on in a copy as it would in its source: claims go on under their tokens, keys are held by who held them,
/// the queue has its order, and claim numbers go on (VF-6).
pub async fn work_goes_on_in_a_copied_mailbox(fixture: Arc<dyn Fixture>) -> Verdict {
    let (opened, source) = empty_store(&fixture).await?;
    let running = fill(&*mailbox_of(&source)?).await?;
    let (opened_target, target) = empty_store(&fixture).await?;
    // Otherwise the work might be due later.
    set_clock(&*fixture, (&opened, &opened_target)).await?;
    expect_equal(&copy(&source, &target).await?)?;
    let mailbox = mailbox_of(&target)?;
    for thread in ["keyed", "running"] {
        let repeated = work(thread, &format!("new-{thread}")).with_dedupe_key(id("key"));
        let refused = mailbox.enqueue(vec![repeated]).await?.remove(0);
        match refused {
            Ok(enqueued) => expect(enqueued.deduplicated, format!("the key of `{thread}` is held"))?,
            Err(error) => expect_eq(error.kind(), ErrorKind::AlreadyExists)?,
        }
    }
    let key = Interrupt::new(id("keyed")).because("stop").with_key(id("stop"));
    expect_eq(mailbox.interrupt(key).await?.epoch, 1)?;
    let superseded = expect_some(mailbox.load_dispatch(&id("y-superseded")).await?, "a dispatch")?;
    expect_eq(superseded.status, DispatchStatus::Superseded)?;
    let extended = mailbox.extend(&running, LEASE).await?;
    mailbox.settle(vec![(running.clone(), Settlement::Ack { result: None })]).await?.remove(0)?;
    let mut order = Vec::new();
    for _ in 0..4 {
        let claimed = claim(&*mailbox, "queue").await?;
        order.push(claimed.dispatch.as_str().to_owned());
        mailbox.settle(vec![(claimed, Settlement::Ack { result: None })]).await?.remove(0)?;
    }
    expect_eq(order, ["q-2", "q-3", "q-1", "q-4"].map(str::to_owned).to_vec())?;
    // The next claim of the thread has a larger number than the last one in the source.
    enqueue(&*mailbox, work("running", "next")).await?;
    let next = claim(&*mailbox, "running").await?;
    let next = mailbox.extend(&next, LEASE).await?;
    expect(next.number > extended.number, "claim numbers go on")
}

/// A copy of a mailbox that was stopped is repeated with `merge`, and has each record once; another record under a key
/// of the source is refused (VF-2).
pub async fn a_stopped_copy_of_a_mailbox_is_repeated(fixture: Arc<dyn Fixture>) -> Verdict {
    let (_source, source) = empty_store(&fixture).await?;
    fill(&*mailbox_of(&source)?).await?;
    let (_whole, whole) = empty_store(&fixture).await?;
    let digest = copy(&source, &whole).await?.target;
    let (_target, target) = empty_store(&fixture).await?;
    let merging = options().merging(true);
    for pages in [1, 2, 3] {
        let stopped = copy_tenant(&source, &target, &merging, &StopAfter::pages(pages)).await?;
        expect(stopped.stopped, "the copy stops when its progress says so")?;
    }
    let report = copy_tenant(&source, &target, &merging, &IgnoreProgress).await?;
    expect_eq(&report.differences, &Vec::new())?;
    expect_eq(&report.target, &digest)?;
    // Restored again, the same records change nothing.
    let (from, to) = (expect_some(source.records.clone(), "records")?, expect_some(target.records.clone(), "records")?);
    let query = RecordQuery::new(RecordList::Dispatches);
    to.restore_records(from.dump_records(&query).await?).await?;
    expect_equal(&compare_tenants(&source, &target, &options(), &IgnoreProgress).await?)?;
    let mailbox = mailbox_of(&target)?;
    claim_and_settle(&*mailbox, "queue", Settlement::Ack { result: None }).await?;
    let changed = compare_tenants(&source, &target, &options(), &IgnoreProgress).await?;
    let keys: Vec<_> = changed.differences.iter().map(|found| (found.list, found.key.as_str())).collect();
    expect_eq(keys, vec![(RecordList::Mailboxes.name(), "queue"), (RecordList::Dispatches.name(), "q-2")])?;
    let refused = copy_tenant(&source, &target, &CopyOptions::new("another").merging(true), &IgnoreProgress).await;
    expect_kind(refused, ErrorKind::AlreadyExists)?;
    Ok(())
}

/// While the writes of a tenant are held, none of them ends, and reads do. Writes go on when the hold is dropped. A
/// store that cannot hold them says so: its copies are compared with what it has at the end (VF-6).
pub async fn a_hold_keeps_writers_away(fixture: Arc<dyn Fixture>) -> Verdict {
    let (_source, source) = empty_store(&fixture).await?;
    let mailbox = mailbox_of(&source)?;
    enqueue(&*mailbox, work("t", "before")).await?;
    let hold = expect_some(source.records.clone(), "records")?.hold_writes().await?;
    if !hold.is_exclusive() {
        return enqueue(&*mailbox, work("t", "meanwhile")).await.map(drop);
    }
    // A read after a write whose caller gave up would wait for it, so it comes first.
    expect_some(mailbox.load_dispatch(&id("before")).await?, "a dispatch")?;
    expect_not_written(mailbox.enqueue(vec![work("t", "meanwhile")])).await?;
    expect_not_written(mailbox.claim(ClaimRequest::new(id("w"), LEASE))).await?;
    if let Some(commits) = &source.commits {
        expect_not_written(commits.commit(keyed_commit_with_message(&id("t"), "k", "meanwhile"))).await?;
    }
    if let Some(threads) = &source.threads {
        expect_not_written(threads.create_thread(NewThread::new(id("new")))).await?;
    }
    drop(hold);
    enqueue(&*mailbox, work("t", "after")).await?;
    expect_some(mailbox.load_dispatch(&id("after")).await?, "a dispatch").map(drop)
}

/// Expects that a write is refused, or that it waits.
async fn expect_not_written<T: std::fmt::Debug>(write: impl Future<Output = store_core::Result<T>>) -> Verdict {
    match tokio::time::timeout(Duration::from_millis(50), write).await {
        Ok(refused) => expect_kind(refused, ErrorKind::Unavailable).map(drop),
        Err(_) => Ok(()),
    }
}

/// A store refuses records of lists that it does not have, and writes nothing of the call (VF-3, VF-6).
pub async fn records_without_a_place_are_refused(fixture: Arc<dyn Fixture>) -> Verdict {
    let (_source, source) = empty_store(&fixture).await?;
    let records = expect_some(source.records.clone(), "records")?;
    let Some(missing) = RecordList::ALL.iter().find(|list| !records.holds(**list)) else { return Ok(()) };
    let query = RecordQuery::new(*missing);
    expect_kind(records.dump_records(&query).await, ErrorKind::Unsupported)?;
    let mailbox = mailbox_of(&source)?;
    enqueue(&*mailbox, work("t", "d")).await?;
    let found = records.dump_records(&RecordQuery::new(RecordList::Dispatches)).await?;
    let Some(StoredRecord::Dispatch(mut stored)) = found.into_iter().next() else {
        return Err(Failure::new("the dispatch is not dumped"));
    };
    Arc::make_mut(&mut stored.body).id = id("another");
    let state = StoredRecord::State { thread: id("t"), name: "name".to_owned(), value: Json::null() };
    let refused = records.restore_records(vec![StoredRecord::Dispatch(stored), state]).await;
    expect_kind(refused, ErrorKind::Unsupported)?;
    expect_eq(mailbox.load_dispatch(&id("another")).await?, None)
}
