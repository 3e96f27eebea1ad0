//! Closing a store.

use std::{sync::Arc, time::Duration};

use store_core::{ErrorKind, PageRequest, Result, TenantStores, ThreadFilter, ThreadId};

use crate::{
    Failure, Given, Verdict,
    call::{of_events, of_live, of_mailbox, of_outbox, of_pending, reads, writes},
    check::{expect, expect_eq, expect_kind},
    given::{id, race, say_keyed},
};

/// How every call through the handles of a tenant ends.
async fn every_call(stores: &TenantStores) -> Vec<(&'static str, Result<()>)> {
    let (Some(threads), Some(commits)) = (&stores.threads, &stores.commits) else { return Vec::new() };
    let (pending, t) = (commits.pending(), &id("t"));
    let mut calls = reads(&**threads, t);
    calls.extend(writes(&**threads, &**commits, t));
    calls.extend(of_pending(&*pending, t, 0));
    if let Some(events) = &stores.events {
        calls.extend(of_events(&**events, t));
    }
    if let Some(outbox) = &stores.outbox {
        calls.extend(of_outbox(&**outbox));
    }
    if let Some(mailbox) = &stores.mailbox {
        calls.extend(of_mailbox(&**mailbox, t));
    }
    if let Some(live) = stores.live() {
        calls.extend(of_live(live));
    }
    if let Some(wake_ups) = stores.wake_ups() {
        calls.push(("wait", Box::pin(async { wake_ups.wait(Duration::ZERO).await.map(drop) })));
    }
    let mut ends = Vec::new();
    for (name, call) in calls {
        ends.push((name, call.await));
    }
    ends
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
