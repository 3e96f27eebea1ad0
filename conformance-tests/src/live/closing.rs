//! Which stores have a live channel and wake-ups, and how receivers and waits end when the store is closed.

use store_core::{DeliverLive, ErrorKind, LiveDelivery};

use super::helpers::{
    CallTask, DEADLINE, accept_command, begin_delivery, begin_wait, custom_command, expect_delivery, expect_no_command,
    expect_woken, join_task, live_channel, live_target, wake_ups,
};
use crate::{
    Given, Need, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::id,
    mailbox::helpers::{enqueue_all, new_dispatch},
};

/// A store has a live channel, and wake-ups, unless its fixture declares that it does not.
pub(super) async fn live_channel_and_wake_ups_exist_if_and_only_if_declared(given: &Given) -> Verdict {
    let stores = given.stores()?;
    let is_declared = |need| given.fixture().why_unmet(need).is_none();
    expect_eq(
        (stores.live().is_some(), stores.wake_ups().is_some()),
        (is_declared(Need::Live), is_declared(Need::WakeUps)),
    )
}

/// Deletes the tenant `default` if `delete_tenant` is set. Otherwise closes the store.
async fn close_store_or_delete_tenant(given: &Given, delete_tenant: bool) -> Verdict {
    if delete_tenant {
        return Ok(given.store().delete_tenant(&id("default")).await?);
    }
    Ok(given.store().close().await?)
}

/// When the store is closed or the tenant is deleted, receivers end with `Closed`, and a running delivery ends, but not
/// with `Delivered`. Later calls are refused.
pub(super) async fn closing_ends_receivers(given: &Given) -> Verdict {
    for delete_tenant in [true, false] {
        let (live, target) = (live_channel(given)?, live_target("t"));
        let mut receiver = live.open_live(target.clone()).await?;
        let mut idle_receiver = live.open_live(live_target("u")).await?;
        let receiving_task: CallTask<()> = tokio::spawn(async move { receiver.next().await.map(drop) });
        let delivery = begin_delivery(&live, &live_target("u"), custom_command("a")).await;
        close_store_or_delete_tenant(given, delete_tenant).await?;
        expect_kind(join_task(receiving_task).await?, ErrorKind::Closed)?;
        let delivery_result = join_task(delivery).await?;
        expect(!matches!(delivery_result, Ok(LiveDelivery::Delivered)), "the command was delivered, but not accepted")?;
        expect_kind(idle_receiver.next().await.map(drop), ErrorKind::Closed)?;
        expect_kind(live.open_live(target.clone()).await.map(drop), ErrorKind::Closed)?;
        expect_kind(live.deliver(DeliverLive::new(target, custom_command("b"))).await, ErrorKind::Closed)?;
    }
    Ok(())
}

/// When the store is closed or the tenant is deleted, waits for work end with `Closed`.
pub(super) async fn closing_ends_waits(given: &Given) -> Verdict {
    for delete_tenant in [true, false] {
        let (wake_ups, task) = (wake_ups(given)?, begin_wait(given).await?);
        close_store_or_delete_tenant(given, delete_tenant).await?;
        expect_kind(join_task(task).await?, ErrorKind::Closed)?;
        expect_kind(wake_ups.wait(DEADLINE).await, ErrorKind::Closed)?;
    }
    Ok(())
}

/// If a read of a receiver is dropped, no command is lost. If a wait for work is dropped, no later wait misses a
/// wake-up.
pub(super) async fn a_dropped_call_loses_no_command_and_no_wake_up(given: &Given) -> Verdict {
    let (live, target) = (live_channel(given)?, live_target("t"));
    let mut receiver = live.open_live(target.clone()).await?;
    for name in ["a", "b"] {
        // This read gets nothing and is dropped.
        expect_no_command(&mut receiver).await?;
        let task = begin_delivery(&live, &target, custom_command(name)).await;
        accept_command(&mut receiver, &custom_command(name)).await?;
        expect_delivery(task, LiveDelivery::Delivered).await?;
    }
    begin_wait(given).await?.abort();
    let task = begin_wait(given).await?;
    enqueue_all(given, [new_dispatch("t", "d")]).await?;
    expect_woken(task).await
}
