//! Which stores have a live channel and wake-ups, and how receivers and waits end when the store is closed.

use store_core::{DeliverLive, ErrorKind, LiveDelivery};

use super::draft::{
    PATIENCE, Task, accept, end, expect_end, expect_woken, hears_nothing, live, sending, target, waiting, wake_ups,
    word,
};
use crate::{
    Given, Need, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::id,
    mailbox::draft::{put, work},
};

/// A store has a live channel, and wake-ups, unless its fixture declares that it does not.
pub(super) async fn live_channel_and_wake_ups_exist_exactly_if_declared(given: &Given) -> Verdict {
    let stores = given.stores()?;
    let has = |need| given.fixture().lack(need).is_none();
    expect_eq((stores.live().is_some(), stores.wake_ups().is_some()), (has(Need::Live), has(Need::WakeUps)))
}

/// Deletes the tenant `default` if `how` is 0. Otherwise closes the store.
async fn close(given: &Given, how: usize) -> Verdict {
    match how {
        0 => Ok(given.store().delete_tenant(&id("default")).await?),
        _ => Ok(given.store().close().await?),
    }
}

/// When the store is closed or the tenant is deleted, receivers end with `Closed`, and a running delivery ends, but not
/// with `Delivered`. Later calls are refused.
pub(super) async fn closing_ends_receivers(given: &Given) -> Verdict {
    for how in 0..2 {
        let (live, to) = (live(given)?, target("t", 1));
        let mut receiver = live.open_live(to.clone()).await?;
        let mut unread = live.open_live(target("u", 1)).await?;
        let receiving: Task<()> = tokio::spawn(async move { receiver.next().await.map(drop) });
        let task = sending(&live, &target("u", 1), word("a")).await;
        close(given, how).await?;
        expect_kind(end(receiving).await?, ErrorKind::Closed)?;
        let ended = end(task).await?;
        expect(!matches!(ended, Ok(LiveDelivery::Delivered)), "the command was delivered, but not accepted")?;
        expect_kind(unread.next().await.map(drop), ErrorKind::Closed)?;
        expect_kind(live.open_live(to.clone()).await.map(drop), ErrorKind::Closed)?;
        expect_kind(live.deliver(DeliverLive::new(to, word("b"))).await, ErrorKind::Closed)?;
    }
    Ok(())
}

/// When the store is closed or the tenant is deleted, waits for work end with `Closed`.
pub(super) async fn closing_ends_waits(given: &Given) -> Verdict {
    for how in 0..2 {
        let (wake_ups, task) = (wake_ups(given)?, waiting(given).await?);
        close(given, how).await?;
        expect_kind(end(task).await?, ErrorKind::Closed)?;
        expect_kind(wake_ups.wait(PATIENCE).await, ErrorKind::Closed)?;
    }
    Ok(())
}

/// If a read of a receiver is dropped, no command is lost. If a wait for work is dropped, no later wait misses a
/// wake-up.
pub(super) async fn a_dropped_call_loses_no_command_and_no_wake_up(given: &Given) -> Verdict {
    let (live, to) = (live(given)?, target("t", 1));
    let mut receiver = live.open_live(to.clone()).await?;
    for name in ["a", "b"] {
        // This read gets nothing and is dropped.
        hears_nothing(&mut receiver).await?;
        let task = sending(&live, &to, word(name)).await;
        accept(&mut receiver, &word(name)).await?;
        expect_end(task, LiveDelivery::Delivered).await?;
    }
    waiting(given).await?.abort();
    let task = waiting(given).await?;
    put(given, [work("t", "d")]).await?;
    expect_woken(task).await
}
