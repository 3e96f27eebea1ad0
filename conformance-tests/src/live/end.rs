//! The live channel and the wake-ups that a store declares, and how they end when the store is closed.

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

/// The live channel and the wake-ups have an accessor if and only if the fixture does not declare them as lacking.
pub(super) async fn live_channel_and_wake_ups_exist_exactly_if_declared(given: &Given) -> Verdict {
    let stores = given.stores()?;
    let has = |need| given.fixture().lack(need).is_none();
    expect_eq((stores.live().is_some(), stores.wake_ups().is_some()), (has(Need::Live), has(Need::WakeUps)))
}

/// Closes the store, or deletes the tenant `default`.
async fn close(given: &Given, how: usize) -> Verdict {
    match how {
        0 => Ok(given.store().delete_tenant(&id("default")).await?),
        _ => Ok(given.store().close().await?),
    }
}

/// When the store is closed or the tenant is deleted, receivers end with `Closed`, and a delivery that runs
/// ends without being accepted. Later calls are refused.
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

/// A receiver whose read was dropped loses no command, and a dropped wait takes no wake-up from a later wait.
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
