//! Closing a store.

use std::{sync::Arc, time::Duration};

use store_core::{
    AppendEvents, AppendPending, ClaimOutbox, ClaimToken, Commit, ContextRequest, DeleteRequest, EntryQuery, ErrorKind,
    EventFilter, EventQuery, EventStore, Expect, ExtendOutbox, Message, NewEvent, NewInput, NewThread, OutboxFilter,
    OutboxQuery, OutboxSettlement, OutboxStore, PageRequest, PendingStore, PendingUpdate, PruneRequest, PurgeOutbox,
    Reorder, RequeueOutbox, Result, RunFilter, RunQuery, Scope, SettleOutbox, Silent, Start, Subscribe, TenantStores,
    ThreadFilter, ThreadId, ThreadPatch, ThreadQuery, Timestamp, TrimBefore, TrimRequest,
};

use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, race, say_keyed},
};

/// Every call through the handles of a tenant.
async fn every_call(stores: &TenantStores) -> Vec<(&'static str, Result<()>)> {
    let (Some(threads), Some(commits)) = (&stores.threads, &stores.commits) else { return Vec::new() };
    let t: &ThreadId = &id("t");
    let mut calls = calls_around(stores, t).await;
    let (page, prune) = (PageRequest::default(), PruneRequest { idle: Duration::ZERO, limit: 1, dry_run: true });
    calls.extend([
        ("load_thread", threads.load_thread(t).await.map(drop)),
        ("list_threads", threads.list_threads(ThreadQuery::default()).await.map(drop)),
        ("count_threads", threads.count_threads(&ThreadFilter::default()).await.map(drop)),
        ("validate_parent", threads.validate_parent(t, &id("u")).await),
        ("load_entry", threads.load_entry(t, &id("e")).await.map(drop)),
        ("list_entries", threads.list_entries(t, EntryQuery::all()).await.map(drop)),
        ("list_leaves", threads.list_leaves(t, page.clone()).await.map(drop)),
        ("list_branch_points", threads.list_branch_points(t, page.clone()).await.map(drop)),
        ("list_snapshots", threads.list_snapshots(t, page).await.map(drop)),
        ("load_context", threads.load_context(t, ContextRequest::head()).await.map(drop)),
        ("load_run", threads.load_run(&id("r")).await.map(drop)),
        ("list_runs", threads.list_runs(RunQuery::default()).await.map(drop)),
        ("count_runs", threads.count_runs(&RunFilter::default()).await.map(drop)),
        ("create_thread", threads.create_thread(NewThread::new(id("new"))).await.map(drop)),
        ("update_thread", threads.update_thread(t, ThreadPatch::default(), Expect::Any).await.map(drop)),
        ("delete_thread", threads.delete_thread(t, DeleteRequest::default()).await.map(drop)),
        ("prune_threads", threads.prune_threads(prune).await.map(drop)),
        ("purge_deleted", threads.purge_deleted(&Silent).await.map(drop)),
        ("reset_fence", threads.reset_fence(t).await),
        ("commit", commits.commit(say_keyed(t, "k", "x")).await.map(drop)),
        ("commit of nothing", commits.commit(Commit::new(t.clone())).await.map(drop)),
    ]);
    calls
}

/// Every call that is about neither threads nor commits.
async fn calls_around(stores: &TenantStores, t: &ThreadId) -> Vec<(&'static str, Result<()>)> {
    let mut calls = Vec::new();
    if let Some(pending) = &stores.pending {
        calls.extend(calls_of_pending(&**pending, t).await);
    }
    if let Some(events) = &stores.events {
        calls.extend(calls_of_events(&**events, t).await);
    }
    if let Some(outbox) = &stores.outbox {
        calls.extend(calls_of_outbox(&**outbox).await);
    }
    calls
}

async fn calls_of_pending(pending: &dyn PendingStore, t: &ThreadId) -> Vec<(&'static str, Result<()>)> {
    let update = PendingUpdate::new(t.clone(), id("i"));
    let append = AppendPending::new(t.clone(), [NewInput::message(Message::user("x"))]);
    let page = PageRequest::default();
    vec![
        ("append_pending", pending.append_pending(append).await.map(drop)),
        ("load_queue", pending.load_queue(t).await.map(drop)),
        ("update_pending", pending.update_pending(update).await.map(drop)),
        ("retract_pending", pending.retract_pending(t, &id("i")).await.map(drop)),
        ("reorder_pending", pending.reorder_pending(Reorder::new(t.clone(), 0, vec![])).await.map(drop)),
        ("list_threads_with_pending", pending.list_threads_with_pending(page).await.map(drop)),
    ]
}

async fn calls_of_events(events: &dyn EventStore, t: &ThreadId) -> Vec<(&'static str, Result<()>)> {
    let scope = Scope::Thread(t.clone());
    let append = AppendEvents::new([NewEvent::new(id("kind"), [scope.clone()])]);
    let trim = TrimRequest::new(scope.clone(), TrimBefore::Time(Timestamp::MIN));
    vec![
        ("append_events", events.append_events(append).await.map(drop)),
        ("load_event", events.load_event(&id("e")).await.map(drop)),
        ("list_events", events.list_events(EventQuery::new(scope.clone())).await.map(drop)),
        ("count_events", events.count_events(&scope, &EventFilter::default()).await.map(drop)),
        ("load_scope", events.load_scope(&scope).await.map(drop)),
        ("subscribe", events.subscribe(Subscribe::new(scope, Start::First)).await.map(drop)),
        ("trim_events", events.trim_events(trim).await.map(drop)),
    ]
}

async fn calls_of_outbox(outbox: &dyn OutboxStore) -> Vec<(&'static str, Result<()>)> {
    let (row, token) = (|| id("row"), || ClaimToken::new("token"));
    let claim = ClaimOutbox::new(id("lane"), id("worker"), 1);
    let extend = ExtendOutbox::new(row(), token(), Duration::from_secs(1));
    let settle = SettleOutbox::new(row(), token(), OutboxSettlement::Delivered);
    vec![
        ("claim_outbox", outbox.claim_outbox(claim).await.map(drop)),
        ("extend_outbox", outbox.extend_outbox(extend).await.map(drop)),
        ("settle_outbox", outbox.settle_outbox(vec![settle]).await.map(drop)),
        ("load_outbox", outbox.load_outbox(&row()).await.map(drop)),
        ("list_outbox", outbox.list_outbox(OutboxQuery::default()).await.map(drop)),
        ("count_outbox", outbox.count_outbox(&OutboxFilter::default()).await.map(drop)),
        ("requeue_outbox", outbox.requeue_outbox(RequeueOutbox::oldest(1)).await.map(drop)),
        ("purge_outbox", outbox.purge_outbox(PurgeOutbox::new(Timestamp::MIN)).await.map(drop)),
    ]
}

/// After `close` every call is refused with `Closed`, through handles from before, too; closing again is no error.
pub(super) async fn a_closed_store_refuses_every_call(given: &Given) -> Verdict {
    given.a_log("t", &["x"]).await?;
    let (store, stores) = (given.store(), given.stores()?);
    let own = stores.commits.as_ref().map(|commits| commits.threads());
    let before = store.capabilities().clone();
    store.close().await?;
    for (call, ended) in every_call(&stores).await {
        expect_kind(ended, ErrorKind::Closed).map_err(|failure| failure.about(call))?;
    }
    let own = own.ok_or_else(|| Failure::new("no commits"))?;
    expect_kind(own.load_thread(&id("t")).await, ErrorKind::Closed)?;
    expect_kind(store.tenant(&id("default")), ErrorKind::Closed)?;
    expect_kind(store.list_tenants(PageRequest::default()).await, ErrorKind::Closed)?;
    expect_kind(store.delete_tenant(&id("default")).await, ErrorKind::Closed)?;
    expect_kind(store.sync().await, ErrorKind::Closed)?;
    expect_eq(store.capabilities(), &before)?;
    Ok(store.close().await?)
}

/// The handles of a deleted tenant refuse every call with `Closed`.
pub(super) async fn a_deleted_tenant_refuses_every_call(given: &Given) -> Verdict {
    given.a_log("t", &["x"]).await?;
    let stores = given.stores()?;
    given.store().delete_tenant(&id("default")).await?;
    for (call, ended) in every_call(&stores).await {
        expect_kind(ended, ErrorKind::Closed).map_err(|failure| failure.about(call))?;
    }
    expect(given.threads()?.load_thread(&id("t")).await?.is_none(), "the thread is there through a new handle")
}

/// Writes racing with `close` are done or refused with `Closed`, and everything ends.
async fn write_until_closed(given: &Given) -> std::result::Result<Vec<ThreadId>, Failure> {
    let commits = given.commits()?;
    let store = given.store();
    let ends = race(8, |task| {
        let (commits, store) = (Arc::clone(&commits), Arc::clone(&store));
        async move {
            let mut done = Vec::new();
            for at in 0..200 {
                if (task, at) == (0, 20) {
                    store.close().await?;
                }
                let thread: ThreadId = id(&format!("t-{task}-{at}"));
                match commits.commit(say_keyed(&thread, "k", "x")).await {
                    Ok(_) => done.push(thread),
                    Err(error) if error.kind() == ErrorKind::Closed => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(done)
        }
    });
    Ok(ends.await.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

/// Calls racing with `close` end, with success or `Closed`.
pub(super) async fn closing_races_with_writes(given: &Given) -> Verdict {
    let done = write_until_closed(given).await?;
    expect(done.len() >= 20, format!("only {} writes were done", done.len()))
}

/// `close` finishes what was accepted: each write that was acknowledged is there after a reopen.
pub(super) async fn closing_finishes_what_was_accepted(given: &Given) -> Verdict {
    let done = write_until_closed(given).await?;
    given.reopen().await?;
    for thread in &done {
        expect_eq(given.thread(thread).await?.version.number(), 1)?;
    }
    expect(given.threads()?.count_threads(&ThreadFilter::default()).await? >= done.len() as u64, "writes are lost")
}

/// Dropping the last handle closes the store too: everything acknowledged is there when it is opened again.
pub(super) async fn dropping_the_last_handle_closes(given: &Given) -> Verdict {
    for round in 0..5 {
        given.accept(say_keyed(&id("t"), &format!("{round}"), "x")).await?;
        given.reopen_without_closing().await?;
        expect_eq(given.thread(&id("t")).await?.version.number(), round + 1)?;
    }
    Ok(())
}

/// Opening a store a second time gives a handle of the same store or a typed error, never a store that overwrites it.
pub(super) async fn opening_twice_gives_one_store(given: &Given) -> Verdict {
    let thread: ThreadId = id("t");
    given.accept(say_keyed(&thread, "one", "x")).await?;
    let other = match given.open_beside().await? {
        Ok(other) => other,
        Err(error) => {
            let kind = error.kind();
            expect_kind::<()>(Err(error), kind)?;
            return given.accept(say_keyed(&thread, "two", "x")).await;
        }
    };
    let commits = other.tenant(&id("default"))?.commits.ok_or_else(|| Failure::new("no commits"))?;
    let receipt = commits.commit(say_keyed(&thread, "two", "x")).await?;
    given.accept(say_keyed(&thread, "three", "x")).await?;
    expect_eq((receipt.version.number(), given.log(&thread).await?.len()), (2, 3))?;
    let seen = commits.threads().load_thread(&thread).await?.map(|thread| thread.version.number());
    expect_eq(seen, Some(3))
}
