//! Stores to test with: calls that can be repeated, and all that a store shows as text.

use std::{
    collections::{HashMap, VecDeque},
    fmt::{Debug, Write as _},
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use conformance_tests::TestLength;
use store_core::{
    AppendEvents, AppendPending, ChildStrategy, ClaimOutbox, ClaimToken, Clock, Commit, ContextRequest, DeleteRequest,
    Direction, EntryId, EntryQuery, Error, Event, EventQuery, EventStore, Expect, IdSource, IgnoreProgress,
    ManualClock, Message, NewEntry, NewThread, OutboxFilter, OutboxQuery, OutboxRow, OutboxSettlement, OutboxStatus,
    OutboxStore, PageRequest, PendingUpdate, PruneRequest, PurgeOutbox, Receipt, Reorder, RequeueOutbox, Result,
    RunFilter, RunQuery, Scope, SettleOutbox, Store, TenantId, TenantStores, ThreadFilter, ThreadId, ThreadOrder,
    ThreadPatch, ThreadQuery, ThreadRunStore, Timestamp, TrimBefore, TrimRequest, UuidSource, WriteDocuments,
    event::EventCursors,
};
use store_file::{FileConfig, FileStore};

use crate::{
    documents,
    work::{Work, show_mailbox},
};

/// When the clock of a test begins.
pub(crate) const START: u64 = 1_763_700_000_000;

/// Runs a future to its end.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// Of how many calls of the disk one is tried, in quick tests: no divisor of what the script repeats.
const SPARSE: usize = 17;

/// The calls of the disk, of so many, at which something goes wrong: all of them but in quick tests.
pub(crate) fn swept(calls: u64) -> impl Iterator<Item = u64> {
    (0..calls).step_by(TestLength::pick_by_env(SPARSE, 1, 1))
}

/// How much of something must at least be met where this much is if all calls are tried.
pub(crate) fn at_least(of_all: usize) -> usize {
    of_all / TestLength::pick_by_env(2 * SPARSE, 1, 1)
}

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

pub(crate) fn thread(name: &str) -> ThreadId {
    ThreadId::new(name).unwrap()
}

/// A clock, and a configuration with it. One thread works, so that the same calls reach the disk in the same order.
pub(crate) fn config() -> (ManualClock, FileConfig) {
    let clock = ManualClock::new(at(0));
    // So small that halves are flushed all the time.
    let mut config = FileConfig::default().with_clock(Arc::new(clock.clone())).with_journal_bytes(16 << 10);
    config.threads = 1;
    config.ids = Arc::new(Recorded(MADE.with(Arc::clone), clock.clone()));
    (clock, config)
}

pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(START + seconds * 1000).unwrap()
}

/// A message that says `text`, with an id of its own.
pub(crate) fn said(id: &str, text: &str) -> NewEntry {
    NewEntry::new(Message::user(text)).with_id(id.parse().unwrap())
}

/// A commit of some messages under a key.
pub(crate) fn saying(to: &str, key: &str, texts: &[&str]) -> Commit {
    let entries = texts.iter().enumerate().map(|(number, text)| said(&format!("{key}.{number}"), text));
    Commit::new(thread(to)).with_key(key.parse().unwrap()).entries(entries)
}

/// One call.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Commit(Box<Commit>),
    Create(Box<NewThread>),
    Update(ThreadId, Box<ThreadPatch>),
    Delete(ThreadId, ChildStrategy),
    Prune(Duration),
    Purge,
    ResetFence(ThreadId),
    Append(AppendPending),
    Change(Box<PendingUpdate>),
    Retract(ThreadId, EntryId),
    Reorder(Reorder),
    Emit(Box<AppendEvents>),
    /// Events of a scope that are older than so many seconds go.
    Trim(Scope, u64),
    Documents(Box<WriteDocuments>),
    /// Rows of the lane `mail` are claimed.
    Claim(u32),
    /// Every row that is claimed is settled like this.
    Settle(OutboxSettlement),
    /// Dead letters of the outbox are tried again.
    Requeue,
    /// Rows that ended before so many seconds go.
    PurgeRows(u64),
    /// Something of the mailbox, or under one of its claims.
    Work(Box<Work>),
    DropTenant,
}

impl Call {
    /// Makes the call. What it answered, as text.
    pub(crate) async fn make(&self, store: &FileStore, of: &str) -> Result<String> {
        if let Self::DropTenant = self {
            return store.delete_tenant(&tenant(of)).await.map(text);
        }
        let stores = store.tenant(&tenant(of))?;
        if let Self::Work(work) = self {
            return work.make(stores).await;
        }
        let missing = || Error::unavailable("the store has no threads");
        let (threads, commits) = (stores.threads.ok_or_else(missing)?, stores.commits.ok_or_else(missing)?);
        match self {
            Self::Commit(commit) => commits.commit(Commit::clone(commit)).await.map(plain).map(text),
            Self::Create(new) => threads.create_thread(NewThread::clone(new)).await.map(text),
            Self::Update(id, patch) => {
                threads.update_thread(id, ThreadPatch::clone(patch), Expect::Any).await.map(text)
            }
            Self::Delete(id, children) => {
                let request = DeleteRequest { children: *children, expect: Expect::Any };
                threads.delete_thread(id, request).await.map(text)
            }
            Self::Prune(idle) => {
                let request = PruneRequest { idle: *idle, limit: 100, dry_run: false };
                threads.prune_threads(request).await.map(text)
            }
            // How many logs there are to remove depends on what others removed behind a deletion.
            Self::Purge => threads.purge_deleted(&IgnoreProgress).await.map(|_| String::new()),
            Self::ResetFence(id) => threads.reset_fence(id).await.map(text),
            Self::Append(request) => commits.pending().append_pending(request.clone()).await.map(text),
            Self::Change(request) => commits.pending().update_pending((**request).clone()).await.map(text),
            Self::Retract(id, input) => commits.pending().retract_pending(id, input).await.map(text),
            Self::Reorder(request) => commits.pending().reorder_pending(request.clone()).await.map(text),
            Self::Emit(request) => {
                let appended = stores.events.ok_or_else(missing)?.append_events(AppendEvents::clone(request)).await?;
                Ok(format!("{} {}", appended.deduplicated, appended.events.iter().map(fact).collect::<String>()))
            }
            Self::Trim(scope, seconds) => {
                let trim = TrimRequest::new(scope.clone(), TrimBefore::Time(at(*seconds)));
                stores.events.ok_or_else(missing)?.trim_events(trim).await.map(text)
            }
            Self::Documents(request) => {
                let written = stores.documents.ok_or_else(missing)?;
                documents::write(&*written, WriteDocuments::clone(request)).await
            }
            Self::Claim(_) | Self::Settle(_) | Self::Requeue | Self::PurgeRows(_) => {
                self.make_of_outbox(&*stores.outbox.ok_or_else(missing)?).await
            }
            Self::Work(_) | Self::DropTenant => Ok(String::new()),
        }
    }

    async fn make_of_outbox(&self, outbox: &dyn OutboxStore) -> Result<String> {
        match self {
            Self::Claim(limit) => {
                let request = ClaimOutbox::new("mail".parse()?, "w".parse()?, *limit);
                let rows = outbox.claim_outbox(request.with_lease(Duration::from_secs(20))).await?.rows;
                Ok(rows.iter().map(|held| row(&held.row)).collect())
            }
            Self::Settle(settlement) => {
                let claimed = OutboxFilter::default().in_status([OutboxStatus::Claimed]);
                let rows = outbox.list_outbox(OutboxQuery::new(claimed).with_page(whole())).await?.items;
                // The answer of the claim may have been lost with the store that gave it.
                let ends = rows.iter().flat_map(|row| {
                    made_at(row.updated_at)
                        .into_iter()
                        .map(move |id| ClaimToken::new(format!("0.{id}")))
                        .map(move |token| SettleOutbox::new(row.id.clone(), token, settlement.clone()))
                });
                let ends: Vec<_> = ends.collect();
                let mut answers = Vec::new();
                for ends in ends.chunks(1_000) {
                    answers.extend(outbox.settle_outbox(ends.to_vec()).await?.into_iter().filter_map(Result::ok));
                }
                Ok(text(answers))
            }
            Self::Requeue => {
                let answers = outbox.requeue_outbox(RequeueOutbox::oldest(10)).await?;
                Ok(text(answers.into_iter().map(|answer| answer.outcome.is_ok()).collect::<Vec<_>>()))
            }
            Self::PurgeRows(seconds) => outbox.purge_outbox(PurgeOutbox::new(at(*seconds))).await.map(text),
            _ => Ok(String::new()),
        }
    }
}

/// The newest ids that were made at a time.
type Made = Arc<Mutex<HashMap<Timestamp, VecDeque<String>>>>;

thread_local! {
    /// Those of stores that a thread opened: what proves a claim is made of an id that was made with the claim.
    static MADE: Made = Arc::default();
}

/// The newest ids that were made at a time, the last one first.
pub(crate) fn made_at(time: Timestamp) -> VecDeque<String> {
    MADE.with(|made| made.lock().unwrap().get(&time).cloned().unwrap_or_default())
}

/// Makes ids, and keeps the newest.
#[derive(Debug)]
struct Recorded(Made, ManualClock);

impl IdSource for Recorded {
    fn next_id(&self) -> String {
        let id = UuidSource.next_id();
        let mut made = self.0.lock().unwrap();
        let ids = made.entry(self.1.now()).or_default();
        ids.push_front(id.clone());
        ids.truncate(400);
        id
    }
}

/// A row without what the store chose.
fn row(row: &OutboxRow) -> String {
    let mut row = row.clone();
    row.id = "row".parse().unwrap();
    format!("{row:?}; ")
}

pub(crate) fn text(answer: impl Debug) -> String {
    format!("{answer:?}")
}

/// A receipt without what the store chose.
pub(crate) fn plain(mut receipt: Receipt) -> Receipt {
    for event in &mut receipt.events {
        event.id = "event".parse().unwrap();
        event.cursors = EventCursors::default();
    }
    receipt.outbox.fill("row".parse().unwrap());
    receipt.document_revision = receipt.document_revision.map(|_| 0);
    receipt
}

/// An event without what the store chose.
pub(crate) fn fact(event: &Event) -> String {
    let Event { created_at, thread, run, kind, payload, visibility, .. } = event;
    format!("{created_at} {thread:?} {run:?} {kind} {payload:?} {visibility:?}; ")
}

fn whole() -> PageRequest {
    PageRequest::first(1000)
}

/// Two answers of a store agree.
pub(crate) fn agree(is: bool, what: impl Into<String>) -> Result<()> {
    if is { Ok(()) } else { Err(Error::corrupt(what)) }
}

/// Everything that a store shows, through every list.
pub(crate) async fn shown(store: &FileStore) -> Result<String> {
    let mut out = String::new();
    for tenant in store.list_tenants(whole()).await?.items {
        let _ = writeln!(out, "tenant {tenant}");
        out += &shown_of(store.tenant(&tenant)?).await?;
    }
    Ok(out)
}

/// What a store shows of one tenant.
pub(crate) async fn shown_of(stores: TenantStores) -> Result<String> {
    let mut out = String::new();
    let (Some(threads), Some(pending)) = (stores.threads, stores.pending) else { return Ok(out) };
    let by = |order, direction| ThreadQuery::default().ordered(order, direction).with_page(whole());
    let all = threads.list_threads(by(ThreadOrder::Creation, Direction::Forward)).await?.items;
    let active = threads.list_threads(by(ThreadOrder::LastActivity, Direction::Backward)).await?.items;
    let _ = writeln!(out, "{} {:?}", all.len(), active.iter().map(|thread| &thread.id).collect::<Vec<_>>());
    let _ = writeln!(out, "{}", threads.count_threads(&ThreadFilter::default()).await?);
    for thread in all {
        let _ = writeln!(out, "{thread:?}");
        show_log(&mut out, &*threads, &thread.id).await?;
        let _ = writeln!(out, "{:?}", pending.load_queue(&thread.id).await?);
    }
    let _ = writeln!(out, "{:?}", pending.list_threads_with_pending(whole()).await?.items);
    let mut query = RunQuery::new(RunFilter::default());
    query.page = whole();
    let runs = threads.list_runs(query).await?;
    let _ = writeln!(out, "{:?} {}", runs.items, threads.count_runs(&RunFilter::default()).await?);
    if let Some(events) = stores.events {
        show_events(&mut out, &*events).await?;
    }
    if let Some(documents) = stores.documents {
        documents::show(&mut out, &*documents).await?;
    }
    if let Some(outbox) = stores.outbox {
        show_outbox(&mut out, &*outbox).await?;
    }
    if let Some(mailbox) = stores.mailbox {
        show_mailbox(&mut out, &*mailbox).await?;
    }
    Ok(out)
}

/// The scopes that tests append events to.
const SCOPES: [(&str, &str); 5] = [("a", "r-5"), ("e", "r-9"), ("d-2", "r-6"), ("w", "r-7"), ("w-2", "r-7")];

pub(crate) fn scopes() -> impl Iterator<Item = Scope> {
    let scopes = SCOPES.map(|(thread, run)| [Scope::Thread(thread.parse().unwrap()), Scope::Run(run.parse().unwrap())]);
    scopes.into_iter().flatten().chain(["a", "t"].map(documents::topic))
}

async fn show_events(out: &mut String, events: &dyn EventStore) -> Result<()> {
    for scope in scopes() {
        let info = events.load_scope(&scope).await?;
        let page = events.list_events(EventQuery::new(scope.clone()).with_page(whole())).await?;
        agree(info.events == page.items.len() as u64, format!("the events of {scope}"))?;
        if let Some(event) = page.items.last() {
            agree(events.load_event(&event.id).await?.as_ref() == Some(event), format!("event {}", event.id))?;
        }
        let facts: String = page.items.iter().map(fact).collect();
        let _ = writeln!(out, "{scope}: {} {} {facts}", info.appended, info.floor);
    }
    Ok(())
}

async fn show_outbox(out: &mut String, outbox: &dyn OutboxStore) -> Result<()> {
    let rows = outbox.list_outbox(OutboxQuery::default().with_page(whole())).await?.items;
    for found in &rows {
        agree(outbox.load_outbox(&found.id).await?.as_ref() == Some(found), format!("row {}", found.id))?;
    }
    let counts = outbox.count_outbox(&OutboxFilter::default()).await?;
    let shown: String = rows.iter().map(row).collect();
    let _ = writeln!(out, "{counts:?} {shown}");
    Ok(())
}

async fn show_log(out: &mut String, threads: &dyn ThreadRunStore, id: &ThreadId) -> Result<()> {
    for entry in threads.list_entries(id, EntryQuery::all().with_page(whole())).await?.items {
        let _ = writeln!(out, "{entry:?}");
    }
    let leaves = threads.list_leaves(id, whole()).await?.items;
    let branches = threads.list_branch_points(id, whole()).await?.items;
    let snapshots = threads.list_snapshots(id, whole()).await?.items;
    let context = threads.load_context(id, ContextRequest::head()).await?;
    let _ = writeln!(out, "{leaves:?} {branches:?} {snapshots:?} {context:?}");
    Ok(())
}
