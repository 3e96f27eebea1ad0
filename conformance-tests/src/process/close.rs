//! Closing a store.

use std::{sync::Arc, time::Duration};

use store_core::{
    ClaimNumber, DeliverLive, ErrorKind, IgnoreProgress, LiveCommand, LiveDelivery, LiveTarget, PageRequest,
    ReceivedCommand, Result, TenantStores, ThreadFilter,
};

use crate::{
    Failure, Given, Verdict,
    call::{
        document_calls, event_calls, live_calls, mailbox_calls, outbox_calls, pending_calls, read_calls, write_calls,
    },
    check::{expect, expect_eq, expect_kind},
    given::{id, run_concurrently},
    record_list::{first_record_list, has_record, write_record},
};

/// Makes every call through the handles of a tenant. Returns the name and the result of each call.
async fn make_every_call(stores: &TenantStores) -> Vec<(&'static str, Result<()>)> {
    let (t, pending) = (&id("t"), stores.commits.as_ref().map(|commits| commits.pending()));
    let mut calls = Vec::new();
    if let (Some(threads), Some(commits), Some(pending)) = (&stores.threads, &stores.commits, &pending) {
        calls.extend(read_calls(&**threads, t));
        calls.extend(write_calls(&**threads, &**commits, t));
        let queue_revision = 0;
        calls.extend(pending_calls(&**pending, t, queue_revision));
    }
    if let Some(events) = &stores.events {
        calls.extend(event_calls(&**events, t, &id("e")));
    }
    if let Some(outbox) = &stores.outbox {
        calls.extend(outbox_calls(&**outbox));
    }
    if let Some(documents) = &stores.documents {
        calls.extend(document_calls(&**documents));
    }
    if let Some(mailbox) = &stores.mailbox {
        calls.extend(mailbox_calls(&**mailbox, t));
    }
    if let Some(live) = stores.live() {
        calls.extend(live_calls(live));
    }
    if let Some(wake_ups) = stores.wake_ups() {
        calls.push(("wait", Box::pin(async { wake_ups.wait(Duration::ZERO).await.map(drop) })));
    }
    let mut results = Vec::new();
    for (name, call) in calls {
        results.push((name, call.await));
    }
    results
}

async fn expect_every_call_refused(stores: &TenantStores) -> Verdict {
    let results = make_every_call(stores).await;
    expect(!results.is_empty(), "the store has no contract")?;
    for (call, result) in results {
        expect_kind(result, ErrorKind::Closed).map_err(|failure| failure.about(call))?;
    }
    Ok(())
}

/// After `close` every call is refused with `Closed`, also through handles that were made before. Closing again is not
/// an error.
pub(super) async fn a_closed_store_refuses_every_call(given: &Given) -> Verdict {
    write_record(given.contract(), &given.stores()?, "t").await?;
    let (store, stores) = (given.store(), given.stores()?);
    let coordinator_threads = stores.commits.as_ref().map(|commits| commits.threads());
    let capabilities_before = store.capabilities().clone();
    store.close().await?;
    expect_every_call_refused(&stores).await?;
    if let Some(coordinator_threads) = coordinator_threads {
        expect_kind(coordinator_threads.load_thread(&id("t")).await, ErrorKind::Closed)?;
    }
    expect_kind(store.tenant(&id("default")), ErrorKind::Closed)?;
    expect_kind(store.list_tenants(PageRequest::default()).await, ErrorKind::Closed)?;
    expect_kind(store.delete_tenant(&id("default")).await, ErrorKind::Closed)?;
    expect_kind(store.sync().await, ErrorKind::Closed)?;
    expect_kind(store.reclaim_space(&IgnoreProgress).await, ErrorKind::Closed)?;
    expect_eq(store.capabilities(), &capabilities_before)?;
    Ok(store.close().await?)
}

/// The handles of a deleted tenant refuse every call with `Closed`, even after its name was used again.
pub(super) async fn a_deleted_tenant_refuses_every_call(given: &Given) -> Verdict {
    let (stores, contract) = (given.stores()?, given.contract());
    write_record(contract, &stores, "t").await?;
    given.store().delete_tenant(&id("default")).await?;
    expect_every_call_refused(&stores).await?;
    let new_stores = given.stores()?;
    expect(!has_record(contract, &new_stores, "t").await?, "a new handle shows deleted data")?;
    write_record(contract, &new_stores, "u").await?;
    expect_every_call_refused(&stores).await?;
    expect(has_record(contract, &new_stores, "u").await?, "a call through an old handle changed new data")
}

/// Writes from several tasks. One of the tasks closes the store meanwhile. Each write succeeds or is refused with
/// `Closed`. Returns the names of the records that were written.
async fn write_until_closed(given: &Given) -> std::result::Result<Vec<String>, Failure> {
    let (store, contract, stores) = (given.store(), given.contract(), given.stores()?);
    let results = run_concurrently(8, |task| {
        let (store, stores) = (Arc::clone(&store), stores.clone());
        async move {
            let mut written_names = Vec::new();
            for at in 0..200 {
                if (task, at) == (0, 20) {
                    store.close().await?;
                }
                let name = format!("t-{task}-{at}");
                match write_record(contract, &stores, &name).await {
                    Ok(()) => written_names.push(name),
                    Err(error) if error.kind() == ErrorKind::Closed => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(written_names)
        }
    });
    Ok(results.await.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

/// A write that races with `close` succeeds or is refused with `Closed`.
pub(super) async fn writes_racing_with_close_succeed_or_are_refused(given: &Given) -> Verdict {
    let written_names = write_until_closed(given).await?;
    // The task that closes the store first writes 20 records.
    expect(written_names.len() >= 20, format!("only {} writes were done", written_names.len()))
}

/// `close` completes the calls that were accepted: each acknowledged write is there after the store was opened again.
pub(super) async fn closing_finishes_accepted_calls(given: &Given) -> Verdict {
    let written_names = write_until_closed(given).await?;
    given.reopen().await?;
    let stores = given.stores()?;
    for name in &written_names {
        expect(has_record(given.contract(), &stores, name).await?, format!("the write of {name} is lost"))?;
    }
    let Some(threads) = &stores.threads else { return Ok(()) };
    for name in &written_names {
        expect_eq(given.thread(&id(name)).await?.version.number(), 1)?;
    }
    expect(threads.count_threads(&ThreadFilter::default()).await? >= written_names.len() as u64, "writes are lost")
}

/// Dropping the last handle also closes the store: each acknowledged write is there after the store was opened again.
pub(super) async fn dropping_the_last_handle_closes_the_store(given: &Given) -> Verdict {
    let records = first_record_list(given.contract());
    for round in 0..5 {
        records.write(&given.stores()?, &format!("{round}")).await?;
        given.reopen_without_closing().await?;
        expect_eq(records.ids(&given.stores()?).await?.len(), round + 1)?;
    }
    Ok(())
}

/// Handles of a tenant keep the store open, even after the handle of the store was dropped: their calls still work.
pub(super) async fn handles_keep_the_store_open(given: &Given) -> Verdict {
    let (records, stores) = (first_record_list(given.contract()), given.stores()?);
    records.write(&stores, "a").await?;
    given.drop_store().await?;
    records.write(&stores, "b").await?;
    expect_eq(records.ids(&stores).await?, ["a", "b"])?;
    let Some(live) = stores.live() else { return Ok(()) };
    let claim = ClaimNumber { incarnation: 1, counter: 1 };
    let target = LiveTarget::new(id("t"), id("r"), id("d"), claim);
    let mut receiver = live.open_live(target.clone()).await?;
    let cancel = DeliverLive::new(target, LiveCommand::Cancel);
    let delivering = async { expect_eq(live.deliver(cancel).await?, LiveDelivery::Delivered) };
    let receiving = async {
        let received = receiver.next().await?.and_then(ReceivedCommand::accept);
        expect_eq(received, Some(LiveCommand::Cancel))
    };
    tokio::try_join!(delivering, receiving).map(drop)
}

/// A process that opens a store twice gets two handles of the same store, or an error. It never gets a second store
/// that overwrites the first.
pub(super) async fn opening_twice_returns_one_store_or_an_error(given: &Given) -> Verdict {
    let records = first_record_list(given.contract());
    records.write(&given.stores()?, "a").await?;
    let second_store = match given.open_second_time().await? {
        Ok(second_store) => second_store,
        Err(error) => {
            // Every kind of error is allowed, but its outcome must be `NotApplied`.
            let kind = error.kind();
            expect_kind::<()>(Err(error), kind)?;
            return Ok(records.write(&given.stores()?, "b").await?);
        }
    };
    let (first_stores, second_stores) = (given.stores()?, second_store.tenant(&id("default"))?);
    records.write(&second_stores, "b").await?;
    records.write(&first_stores, "c").await?;
    expect_eq(records.ids(&first_stores).await?, ["a", "b", "c"])?;
    expect_eq(records.ids(&second_stores).await?, ["a", "b", "c"])
}
