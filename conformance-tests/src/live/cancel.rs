//! Dropped calls on the live channel, and dropped waits for work.

use store_core::{DeliverLive, Waited};
use tokio::time::timeout;

use super::draft::{MOMENT, expect_end, live, next, sending, target, wake_ups, word};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_some},
    mailbox::draft::{ack, claim_next, put, settle, work},
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
        poll_then_drop(live.deliver(DeliverLive::new(to.clone(), word("dropped")).within(MOMENT)), polls).await?;
        let sent = sending(&live, &to, word("next")).await;
        let mut heard = Vec::new();
        while heard.last() != Some(&word("next")) {
            let received = expect_some(next(&mut receiver).await?, "command")?;
            heard.push(received.command().clone());
            let _accepted = received.accept();
        }
        expect_end(sent, store_core::LiveDelivery::Delivered).await?;
        let dropped = heard.iter().filter(|command| **command == word("dropped")).count();
        expect(dropped + 1 == heard.len() && dropped <= 1, format!("after {polls} polls the receiver got {heard:?}"))?;
    }
    Ok(())
}

/// A wait that is dropped at any await leaves nothing locked: the next wait is woken.
pub(super) async fn a_dropped_wait_leaves_nothing_locked(given: &Given) -> Verdict {
    let wake_ups = wake_ups(given)?;
    for polls in 0..POLLS {
        poll_then_drop(wake_ups.wait(MOMENT), polls).await?;
        put(given, [work("t", &format!("d-{polls}"))]).await?;
        let woken = timeout(CALL_TIMEOUT, wake_ups.wait(CALL_TIMEOUT)).await;
        expect_eq(woken.map_err(|_| Failure::new("the next wait does not return"))??, Waited::Woken)?;
        let held = expect_some(claim_next(given).await?, "dispatch")?;
        settle(given, &held, ack()).await?;
    }
    Ok(())
}
