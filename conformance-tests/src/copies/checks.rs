//! The checks of copies.

#![expect(clippy::missing_errors_doc, reason = "every error is the failure of the check")]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use store_core::{
    AppendEvents, ClaimRequest, Commit, DeleteRequest, DocumentChange, DocumentKey, ErrorKind, EventQuery, Expect,
    Fence, IgnoreProgress, Json, KeySegment, Limits, NewDispatch, NewEvent, NewThread, PageRequest, Progress, Scope,
    Settlement, TenantId, TenantStores, ThreadFilter, ThreadId, ThreadPatch, ThreadQuery, WriteDocuments,
    records::{
        CopyOptions, CopyReport, DifferenceKind, JoinedRecords, RecordList, compare_tenants, copy_tenant, digest_tenant,
    },
};

use super::{RandomStore, fixture::set_clock};
use crate::{
    Failure, Fixture, OpenedStore, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{commit_with_message, id, keyed_commit_with_message},
};

/// How many random operations a store is filled with.
const STEPS: usize = 160;

pub(super) async fn empty_store(fixture: &Arc<dyn Fixture>) -> Result<(OpenedStore, TenantStores), Failure> {
    let opened = fixture.open(Limits::default()).await?;
    let stores = opened.store.tenant(&TenantId::default_tenant())?;
    Ok((opened, stores))
}

pub(super) fn options() -> CopyOptions {
    CopyOptions::new("the source")
}

pub(super) async fn copy(from: &TenantStores, to: &TenantStores) -> Result<CopyReport, Failure> {
    Ok(copy_tenant(from, to, &options(), &IgnoreProgress).await?)
}

pub(super) fn expect_equal(report: &CopyReport) -> Verdict {
    expect_eq(&report.differences, &Vec::new())?;
    expect_eq(report.difference_count, 0)?;
    expect_eq(&report.source, &report.target)
}

/// A copy has every record of its source, and its digest; so has a copy of the copy (VF-2, VF-3, VF-6).
pub async fn a_copy_has_every_record(fixture: Arc<dyn Fixture>) -> Verdict {
    for seed in 1..=6 {
        let source = RandomStore::open(&fixture, seed, STEPS).await?;
        let (_first, first) = empty_store(&fixture).await?;
        let report = copy(&source.stores()?, &first).await?;
        expect_equal(&report)?;
        let records = report.source.as_ref().map_or(0, store_core::records::TenantDigest::records);
        expect(records > 20, "random operations write records")?;
        let (_second, second) = empty_store(&fixture).await?;
        let again = copy(&first, &second).await?;
        expect_equal(&again)?;
        expect_eq(&again.target, &report.target)?;
        expect_eq(Some(digest_tenant(&second, &IgnoreProgress).await?), report.target)?;
        // What lists show.
        let lists = |stores: &TenantStores| {
            let threads = stores.threads.clone();
            async move {
                let threads = expect_some(threads, "threads")?;
                let page = threads
                    .list_threads(ThreadQuery::new(ThreadFilter::default()).with_page(PageRequest::first(1_000)))
                    .await?;
                Ok::<_, Failure>(
                    page.items
                        .into_iter()
                        .map(|thread| (thread.id, thread.updated_at, thread.head))
                        .collect::<Vec<_>>(),
                )
            }
        };
        expect_eq(lists(&second).await?, lists(&source.stores()?).await?)?;
    }
    Ok(())
}

/// Writes what must be remembered: a keyed commit, events, a claim that wrote, a deleted thread, a document.
async fn write_what_is_remembered(stores: &TenantStores) -> Result<Fence, Failure> {
    let (commits, threads) =
        (expect_some(stores.commits.clone(), "commits")?, expect_some(stores.threads.clone(), "threads")?);
    let mailbox = expect_some(stores.mailbox.clone(), "a mailbox")?;
    let thread: ThreadId = id("t");
    let _ = commits.commit(keyed_commit_with_message(&thread, "k", "hello")).await?;
    let dispatch = NewDispatch::new(thread.clone(), id("r")).with_id(id("d"));
    mailbox.enqueue(vec![dispatch]).await?.remove(0)?;
    let claimed = mailbox.claim(ClaimRequest::new(id("w"), std::time::Duration::from_mins(1))).await?;
    let claimed = expect_some(claimed.claimed.into_iter().next(), "a claim")?;
    let _ = commits.commit(keyed_commit_with_message(&thread, "claimed", "claimed").fenced(claimed.fence())).await?;
    mailbox.settle(vec![(claimed.claim(), Settlement::Ack { result: None })]).await?.remove(0)?;
    let events = expect_some(stores.events.clone(), "events")?;
    let event = || NewEvent::new(id("happened"), [Scope::Thread(thread.clone()), Scope::Topic(id("topic"))]);
    events.append_events(AppendEvents::new([event(), event()]).with_key(id("writer"), id("key"))).await?;
    threads.create_thread(NewThread::new(id("gone"))).await?;
    threads.delete_thread(&id("gone"), DeleteRequest::default()).await?;
    put_document(stores).await?;
    Ok(claimed.fence())
}

fn document_key() -> Result<DocumentKey, Failure> {
    Ok(DocumentKey::new(id("notes"), [KeySegment::id("a")?])?)
}

async fn put_document(stores: &TenantStores) -> Result<u64, Failure> {
    let documents = expect_some(stores.documents.clone(), "documents")?;
    let change = DocumentChange::put(document_key()?, Json::null());
    let written = documents.write_documents(WriteDocuments::new([change])).await?;
    expect_some(written.revision, "a revision")
}

/// A copy remembers keys, claims and ids, and gives no number again (VF-4, VF-6).
pub async fn a_copy_has_what_was_given(fixture: Arc<dyn Fixture>) -> Verdict {
    let (opened_source, source) = empty_store(&fixture).await?;
    let fence = write_what_is_remembered(&source).await?;
    // A number that no record has any more is remembered, too.
    let revision = put_document(&source).await?;
    let documents = expect_some(source.documents.clone(), "documents")?;
    documents.write_documents(WriteDocuments::new([DocumentChange::delete(document_key()?)])).await?;
    let (opened_target, target) = empty_store(&fixture).await?;
    // Otherwise new work might be due later.
    set_clock(&*fixture, (&opened_source, &opened_target)).await?;
    expect_equal(&copy(&source, &target).await?)?;
    let commits = expect_some(target.commits.clone(), "commits")?;
    let threads = expect_some(target.threads.clone(), "threads")?;
    let thread: ThreadId = id("t");
    let repeated = commits.commit(keyed_commit_with_message(&thread, "k", "hello")).await?;
    expect(repeated.deduplicated, "the commit key is remembered")?;
    let version = repeated.version;
    expect_eq(version.number(), 1)?;
    let stale = commits.commit(keyed_commit_with_message(&thread, "late", "late").fenced(fence)).await;
    expect(stale.is_err(), "the claim ended in the source")?;
    let events = expect_some(target.events.clone(), "events")?;
    let event =
        |thread: &ThreadId| NewEvent::new(id("happened"), [Scope::Thread(thread.clone()), Scope::Topic(id("topic"))]);
    let same = AppendEvents::new([event(&thread), event(&thread)]).with_key(id("writer"), id("key"));
    expect(events.append_events(same).await?.deduplicated, "the event key is remembered")?;
    let appended = events.append_events(AppendEvents::new([event(&thread)])).await?;
    expect_eq(appended.events[0].number(&Scope::Topic(id("topic"))), Some(3))?;
    let again = threads.create_thread(NewThread::new(id("gone"))).await?;
    expect_eq(again.generation(), 2)?;
    expect(put_document(&target).await? > revision, "a later revision is larger")?;
    let mailbox = expect_some(target.mailbox.clone(), "a mailbox")?;
    mailbox.enqueue(vec![NewDispatch::new(thread.clone(), id("r"))]).await?.remove(0)?;
    let claimed = mailbox.claim(ClaimRequest::new(id("w"), std::time::Duration::from_mins(1))).await?;
    let claimed = expect_some(claimed.claimed.into_iter().next(), "a claim")?;
    let _ = commits.commit(Commit::new(thread.clone()).fenced(claimed.fence())).await?;
    let guarded = commits.commit(commit_with_message(&thread, Expect::Version(version), "old guard")).await;
    expect_kind(guarded, ErrorKind::Conflict)?;
    Ok(())
}

/// Stops after so many calls.
#[derive(Debug)]
pub(super) struct StopAfter(AtomicU64);

impl StopAfter {
    pub(super) const fn pages(pages: u64) -> Self {
        Self(AtomicU64::new(pages))
    }
}

impl Progress for StopAfter {
    fn advance(&self, _done: u64, _total: Option<u64>) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) > 1
    }
}

/// A copy that was stopped at any batch continues, and does nothing twice (VF-2, PR-17).
pub async fn a_stopped_copy_continues(fixture: Arc<dyn Fixture>) -> Verdict {
    let source = RandomStore::open(&fixture, 7, STEPS).await?;
    let source = source.stores()?;
    let (_whole, whole) = empty_store(&fixture).await?;
    let digest = copy(&source, &whole).await?.target;
    let (_target, target) = empty_store(&fixture).await?;
    for batches in [1, 2, 1] {
        let stopped = copy_tenant(&source, &target, &options(), &StopAfter::pages(batches)).await?;
        expect(stopped.stopped, "the copy stops when its progress says so")?;
        // It is no copy of another store, and not complete.
        let other = copy_tenant(&source, &target, &CopyOptions::new("another source"), &IgnoreProgress).await;
        expect_kind(other, ErrorKind::AlreadyExists)?;
        let (_next, next) = empty_store(&fixture).await?;
        expect_kind(copy_tenant(&target, &next, &options(), &IgnoreProgress).await, ErrorKind::Invalid)?;
    }
    let report = copy(&source, &target).await?;
    expect(report.continued, "the copy continues")?;
    expect_equal(&report)?;
    expect_eq(report.target, digest)?;
    let again = copy_tenant(&source, &target, &options(), &IgnoreProgress).await;
    expect_kind(again, ErrorKind::AlreadyExists)?;
    Ok(())
}

/// A target with other data is refused; merged, it keeps its data, unless a key is in both (VF-2).
pub async fn a_target_with_other_data_is_refused(fixture: Arc<dyn Fixture>) -> Verdict {
    let (_source, source) = empty_store(&fixture).await?;
    write_what_is_remembered(&source).await?;
    let (_target, target) = empty_store(&fixture).await?;
    let commits = expect_some(target.commits.clone(), "commits")?;
    let _ = commits.commit(commit_with_message(&id("own"), Expect::Absent, "own")).await?;
    expect_kind(copy_tenant(&source, &target, &options(), &IgnoreProgress).await, ErrorKind::AlreadyExists)?;
    let threads = expect_some(target.threads.clone(), "threads")?;
    expect_eq(threads.load_thread(&id("t")).await?, None)?;
    let report = copy_tenant(&source, &target, &options().merging(true), &IgnoreProgress).await?;
    expect_eq(report.difference_count, 0)?;
    expect_some(threads.load_thread(&id("own")).await?, "the thread of the target")?;
    expect_some(threads.load_thread(&id("t")).await?, "the thread of the source")?;
    // Now a thread of the target has the id of another one of the source.
    let (_third, third) = empty_store(&fixture).await?;
    let commits = expect_some(third.commits.clone(), "commits")?;
    let _ = commits.commit(commit_with_message(&id("own"), Expect::Absent, "another")).await?;
    let refused = copy_tenant(&third, &target, &options().merging(true), &IgnoreProgress).await;
    expect_kind(refused, ErrorKind::AlreadyExists)?;
    Ok(())
}

/// A comparison finds each record that is missing, is another one, or is only in the target (VF-3).
pub async fn changed_records_are_found(fixture: Arc<dyn Fixture>) -> Verdict {
    let (_source, source) = empty_store(&fixture).await?;
    write_what_is_remembered(&source).await?;
    let (_target, target) = empty_store(&fixture).await?;
    copy(&source, &target).await?;
    let options = options();
    let compare = || compare_tenants(&source, &target, &options, &IgnoreProgress);
    expect_equal(&compare().await?)?;
    let threads = expect_some(target.threads.clone(), "threads")?;
    threads.update_thread(&id("t"), ThreadPatch::default().with_title("changed"), Expect::Any).await?;
    let report = compare().await?;
    let found: Vec<_> = report.differences.iter().map(|found| (found.list, found.key.as_str(), found.kind)).collect();
    expect_eq(found, vec![(RecordList::Threads.name(), "t", DifferenceKind::Changed)])?;
    expect(report.source != report.target, "the digests differ")?;
    threads.create_thread(NewThread::new(id("more"))).await?;
    let source_threads = expect_some(source.threads.clone(), "threads")?;
    source_threads.create_thread(NewThread::new(id("less"))).await?;
    let kinds: Vec<_> = compare().await?.differences.iter().map(|found| (found.key.clone(), found.kind)).collect();
    let expected = [("less", DifferenceKind::Missing), ("more", DifferenceKind::Extra), ("t", DifferenceKind::Changed)];
    expect_eq(kinds, expected.map(|(key, kind)| (key.to_owned(), kind)).to_vec())
}

/// A cursor of the source is refused by the copy (VF-4).
pub async fn a_cursor_of_the_source_is_refused(fixture: Arc<dyn Fixture>) -> Verdict {
    let (_source, source) = empty_store(&fixture).await?;
    write_what_is_remembered(&source).await?;
    let (_target, target) = empty_store(&fixture).await?;
    copy(&source, &target).await?;
    let events = expect_some(source.events.clone(), "events")?;
    let scope = Scope::Topic(id("topic"));
    let query = EventQuery::new(scope.clone()).with_page(PageRequest::first(1));
    let page = events.list_events(query).await?;
    let cursor = expect_some(page.next, "another page")?;
    let events = expect_some(target.events.clone(), "events")?;
    let query = EventQuery::new(scope).with_page(PageRequest::first(1).after(cursor));
    expect_kind(events.list_events(query).await, ErrorKind::InvalidCursor)?;
    Ok(())
}

/// A dry run counts what would be copied, and writes nothing (VF-2).
pub async fn a_dry_run_writes_nothing(fixture: Arc<dyn Fixture>) -> Verdict {
    let (_source, source) = empty_store(&fixture).await?;
    write_what_is_remembered(&source).await?;
    let (opened, target) = empty_store(&fixture).await?;
    let planned = copy_tenant(&source, &target, &options().dry_run(true), &IgnoreProgress).await?;
    expect(planned.dry_run && planned.source.is_none(), "nothing was compared")?;
    expect_eq(opened.store.list_tenants(PageRequest::default()).await?.items, Vec::new())?;
    let report = copy(&source, &target).await?;
    expect_eq(planned.copied, report.copied)
}

/// What the target has no place for is reported before anything is written, and left out only if the caller says so
/// (VF-3).
pub async fn what_has_no_place_is_reported_first(fixture: Arc<dyn Fixture>) -> Verdict {
    let (_source, source) = empty_store(&fixture).await?;
    write_what_is_remembered(&source).await?;
    let (opened, target) = empty_store(&fixture).await?;
    let without_mailbox = || {
        let mut stores = target.clone();
        stores.records = Some(Arc::new(JoinedRecords::new(target.records.clone(), None)));
        stores
    };
    let target = without_mailbox();
    let planned = copy_tenant(&source, &target, &options().dry_run(true), &IgnoreProgress).await?;
    let left_out: Vec<_> = planned.left_out.iter().map(|missing| (missing.list, missing.records)).collect();
    expect_eq(left_out, vec![(RecordList::Mailboxes.name(), 1), (RecordList::Dispatches.name(), 1)])?;
    expect_kind(copy_tenant(&source, &target, &options(), &IgnoreProgress).await, ErrorKind::Unsupported)?;
    expect_eq(opened.store.list_tenants(PageRequest::default()).await?.items, Vec::new())?;
    let report = copy_tenant(&source, &target, &options().leaving_out(true), &IgnoreProgress).await?;
    expect_eq(report.left_out, planned.left_out)?;
    expect_eq(report.difference_count, 0)?;
    let mailbox = expect_some(target.mailbox.clone(), "a mailbox")?;
    expect_eq(mailbox.load_dispatch(&id("d")).await?, None)
}
