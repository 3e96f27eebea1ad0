//! Dropped calls on the live channel, and dropped waits for work.

use store_core::{DeliverLive, Waited};
use tokio::time::timeout;

use super::draft::{SHORT_PAUSE, begin_delivery, custom_command, expect_delivery, live, next, target, wake_ups};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_some},
    mailbox::draft::{ack, claim_next, enqueue_all, new_dispatch, settle},
    sweep::{CALL_TIMEOUT, poll_then_drop},
};

/// Calls are dropped after fewer polls than this. The case cannot poll until a call ends, because a delivery that no
/// receiver accepts ends only at its deadline.
const POLLS: usize = 5;

/// A call on the live channel that is dropped at any await leaves nothing locked. The next receiver that opens the
/// target gets all later commands, and gets the command of the dropped call at most once.
pub(super) async fn a_dropped_call_on_a_target_leaves_nothing_locked(given: &Given) -> Verdict {
    let live = live(given)?;
    for polls in 0..POLLS {
        let to = target(&format!("t-{polls}"), 1);
        let _earlier = live.open_live(to.clone()).await?;
        drop(poll_then_drop(live.open_live(to.clone()), polls).await?);
        let opened = timeout(CALL_TIMEOUT, live.open_live(to.clone())).await;
        let mut receiver = opened.map_err(|_| Failure::new("the next opening does not return"))??;
        poll_then_drop(
            live.deliver(DeliverLive::new(to.clone(), custom_command("dropped")).within(SHORT_PAUSE)),
            polls,
        )
        .await?;
        let sent = begin_delivery(&live, &to, custom_command("next")).await;
        let mut heard = Vec::new();
        while heard.last() != Some(&custom_command("next")) {
            let received = expect_some(next(&mut receiver).await?, "command")?;
            heard.push(received.command().clone());
            let _accepted = received.accept();
        }
        expect_delivery(sent, store_core::LiveDelivery::Delivered).await?;
        let dropped = heard.iter().filter(|command| **command == custom_command("dropped")).count();
        expect(dropped + 1 == heard.len() && dropped <= 1, format!("after {polls} polls the receiver got {heard:?}"))?;
    }
    Ok(())
}

/// A wait that is dropped at any await leaves nothing locked: the next wait is woken.
pub(super) async fn a_dropped_wait_leaves_nothing_locked(given: &Given) -> Verdict {
    let wake_ups = wake_ups(given)?;
    for polls in 0..POLLS {
        poll_then_drop(wake_ups.wait(SHORT_PAUSE), polls).await?;
        enqueue_all(given, [new_dispatch("t", &format!("d-{polls}"))]).await?;
        let woken = timeout(CALL_TIMEOUT, wake_ups.wait(CALL_TIMEOUT)).await;
        expect_eq(woken.map_err(|_| Failure::new("the next wait does not return"))??, Waited::Woken)?;
        let held = expect_some(claim_next(given).await?, "dispatch")?;
        settle(given, &held, ack()).await?;
    }
    Ok(())
}
