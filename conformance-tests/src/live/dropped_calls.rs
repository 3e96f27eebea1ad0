//! Dropped calls on the live channel, and dropped waits for work.

use store_core::{DeliverLive, WaitResult};
use tokio::time::timeout;

use super::helpers::{
    SHORT_PAUSE, begin_delivery, custom_command, expect_delivery, live_channel, live_target, next_command, wake_ups,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_some},
    drop_points::{CALL_TIMEOUT, poll_then_drop},
    mailbox::helpers::{ack, claim_next, enqueue_all, new_dispatch, settle},
};

/// Calls are dropped after fewer polls than this. The case cannot poll until a call ends, because a delivery that no
/// receiver accepts ends only at its deadline.
const POLL_COUNT_LIMIT: usize = 5;

/// If a call on the live channel is dropped at any await, nothing stays locked. The next receiver that opens the
/// target gets all later commands, and gets the command of the dropped call at most once.
pub(super) async fn a_dropped_call_on_a_target_leaves_nothing_locked(given: &Given) -> Verdict {
    let live = live_channel(given)?;
    for polls in 0..POLL_COUNT_LIMIT {
        let target = live_target(&format!("t-{polls}"));
        let _earlier_receiver = live.open_live(target.clone()).await?;
        drop(poll_then_drop(live.open_live(target.clone()), polls).await?);
        let opened = timeout(CALL_TIMEOUT, live.open_live(target.clone())).await;
        let mut receiver = opened.map_err(|_| Failure::new("the next opening does not return"))??;
        poll_then_drop(
            live.deliver(DeliverLive::new(target.clone(), custom_command("dropped")).within(SHORT_PAUSE)),
            polls,
        )
        .await?;
        let delivery = begin_delivery(&live, &target, custom_command("next")).await;
        let mut received_commands = Vec::new();
        while received_commands.last() != Some(&custom_command("next")) {
            let received = expect_some(next_command(&mut receiver).await?, "command")?;
            received_commands.push(received.command().clone());
            let _accepted = received.accept();
        }
        expect_delivery(delivery, store_core::LiveDelivery::Delivered).await?;
        let dropped_count = received_commands.iter().filter(|command| **command == custom_command("dropped")).count();
        expect(
            dropped_count + 1 == received_commands.len() && dropped_count <= 1,
            format!("after {polls} polls the receiver got {received_commands:?}"),
        )?;
    }
    Ok(())
}

/// If a wait is dropped at any await, nothing stays locked: the next wait is woken.
pub(super) async fn a_dropped_wait_leaves_nothing_locked(given: &Given) -> Verdict {
    let wake_ups = wake_ups(given)?;
    for polls in 0..POLL_COUNT_LIMIT {
        poll_then_drop(wake_ups.wait(SHORT_PAUSE), polls).await?;
        enqueue_all(given, [new_dispatch("t", &format!("d-{polls}"))]).await?;
        let answer = timeout(CALL_TIMEOUT, wake_ups.wait(CALL_TIMEOUT)).await;
        expect_eq(answer.map_err(|_| Failure::new("the next wait does not return"))??, WaitResult::Woken)?;
        let claimed = expect_some(claim_next(given).await?, "dispatch")?;
        settle(given, &claimed, ack()).await?;
    }
    Ok(())
}
