//! The capabilities that a store declares, and whether the store has them.

use std::{sync::Arc, time::Duration};

use store_core::{CommitCoordinator, ErrorKind, PageRequest, Store, Survives, TenantStores, ThreadRunStore};

use crate::{
    Given, Verdict,
    case::Need,
    check::{expect, expect_eq, expect_kind},
    fixture::UnmetReason,
    given::{id, keyed_commit_with_message},
    record_list::first_record_list,
};

/// A store has the capabilities that its fixture declares. They are known as soon as the store is open, and do not
/// change while it is open.
pub(super) async fn a_store_has_the_declared_capabilities(given: &Given) -> Verdict {
    let (store, declared_capabilities) = (given.store(), given.fixture().capabilities());
    expect_eq(store.capabilities(), &declared_capabilities)?;
    first_record_list(given.contract()).write(&given.stores()?, "x").await?;
    store.list_tenants(PageRequest::default()).await?;
    store.delete_tenant(&id("default")).await?;
    expect_eq(store.capabilities(), &declared_capabilities)?;
    let is_unsupported = |need| matches!(given.fixture().why_unmet(need), Some(UnmetReason::Unsupported(_)));
    expect_eq(is_unsupported(Need::Reopen), declared_capabilities.survives == Survives::Nothing)?;
    let stores = given.stores()?;
    let lacks_threads = is_unsupported(Need::Threads);
    expect_eq((stores.threads.is_none(), stores.commits.is_none()), (lacks_threads, lacks_threads))
}

/// `sync` succeeds on a store whose acknowledged data survives a power cut. It is refused with `Unsupported` on a store
/// whose data survives nothing. If the data survives only the end of the process, both answers are right.
pub(super) async fn sync_succeeds_or_is_unsupported(given: &Given) -> Verdict {
    first_record_list(given.contract()).write(&given.stores()?, "x").await?;
    let answer = given.store().sync().await;
    match given.store().capabilities().survives {
        Survives::Power => Ok(answer?),
        Survives::Nothing => expect_kind(answer, ErrorKind::Unsupported).map(drop),
        Survives::Process => match answer {
            Ok(()) => Ok(()),
            refused => expect_kind(refused, ErrorKind::Unsupported).map(drop),
        },
    }
}

/// If the caller does not give a time, the store uses store time. The clock of the caller's process does not matter.
pub(super) async fn times_come_from_the_clock_of_the_store(given: &Given) -> Verdict {
    let thread = given.create_empty_thread("t").await?;
    for days in [1, 400, 4000] {
        let last_update = given.thread(&thread.id).await?.updated_at;
        let by = Duration::from_secs(days * 86_400);
        given.advance(by).await;
        let receipt = given.commit(keyed_commit_with_message(&thread.id, &format!("{days}"), "x")).await?;
        let elapsed = Duration::from_millis(receipt.time.as_millis() - last_update.as_millis());
        expect(
            elapsed >= by && elapsed < by + Duration::from_secs(60),
            format!("{elapsed:?} passed instead of {by:?}"),
        )?;
        let entry = given.threads()?.load_entry(&thread.id, &receipt.entry_ids[0]).await?;
        expect_eq(entry.map(|entry| entry.timestamp), Some(receipt.time))?;
        let created_at = given.create_empty_thread(&format!("t-{days}")).await?.created_at;
        let elapsed = Duration::from_millis(created_at.as_millis().saturating_sub(receipt.time.as_millis()));
        expect(
            created_at >= receipt.time && elapsed < Duration::from_secs(60),
            format!("created {elapsed:?} after the commit"),
        )?;
    }
    Ok(())
}

/// Stores and their contracts are `Send` and `Sync`, can be trait objects, and can be cloned. A clone of the handles
/// reaches the same store.
pub(super) async fn handles_can_be_sent_and_cloned(given: &Given) -> Verdict {
    const fn assert_send_and_sync<T: Send + Sync + ?Sized>() {}
    assert_send_and_sync::<dyn Store>();
    assert_send_and_sync::<dyn ThreadRunStore>();
    assert_send_and_sync::<dyn CommitCoordinator>();
    assert_send_and_sync::<TenantStores>();
    let (stores, contract) = (given.stores()?, given.contract());
    for at in 0..8 {
        let cloned_stores = stores.clone();
        let task =
            tokio::spawn(async move { first_record_list(contract).write(&cloned_stores, &format!("id-{at}")).await });
        task.await.map_err(|panic| crate::Failure::new(panic.to_string()))??;
    }
    expect_eq(first_record_list(contract).ids(&stores).await?.len(), 8)
}

/// `threads()` of a coordinator returns the thread store that the coordinator writes to.
pub(super) async fn a_coordinator_returns_its_own_thread_store(given: &Given) -> Verdict {
    let (commits, threads) = (given.commits()?, given.threads()?);
    let _receipt = commits.commit(keyed_commit_with_message(&id("t"), "k", "x")).await?;
    let coordinator_threads = Arc::clone(&commits).threads();
    expect_eq(coordinator_threads.load_thread(&id("t")).await?, threads.load_thread(&id("t")).await?)?;
    threads.create_thread(store_core::NewThread::new(id("u"))).await?;
    expect(coordinator_threads.load_thread(&id("u")).await?.is_some(), "the coordinator has another thread store")
}
