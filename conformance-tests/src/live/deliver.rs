//! Delivery of commands.

use std::sync::Arc;

use futures_util::future::join_all;
use store_core::{
    ClaimNumber, Decision, DecisionAction, DeliverLive, ErrorKind, LiveCommand, LiveDelivery, LiveTarget, Settlement,
};

use super::helpers::{
    DEADLINE, SHORT_PAUSE, accept_command, begin_delivery, custom_command, expect_delivery, expect_no_command,
    join_task, live_channel, live_channel_of, live_input, live_target, live_target_of_claim, next_command,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, run_concurrently},
    log::entry_drafts::json,
    mailbox::helpers::{enqueue_and_claim, expect_next_claim, load_dispatch, settle},
};

/// A receiver gets the commands for its target as they were sent, whatever their kind.
pub(super) async fn commands_arrive_as_they_were_sent(given: &Given) -> Verdict {
    let (live, target) = (live_channel(given)?, live_target("t"));
    let mut receiver = live.open_live(target.clone()).await?;
    for command in [
        LiveCommand::Input(vec![live_input("a"), live_input("b")]),
        LiveCommand::PendingChanged,
        LiveCommand::Cancel,
        LiveCommand::Decision(Decision::new(id("r"), "ticket", DecisionAction::Resume)),
        LiveCommand::Custom(store_core::Custom::new("k", json("{\"n\":1e2,\"a\":\"\\u0000\"}"))),
    ] {
        let task = begin_delivery(&live, &target, command.clone()).await;
        accept_command(&mut receiver, &command).await?;
        expect_delivery(task, LiveDelivery::Delivered).await?;
    }
    Ok(())
}

/// A receiver gets no command for a target that differs from its own in thread, run, dispatch or claim number.
pub(super) async fn a_command_reaches_only_its_target(given: &Given) -> Verdict {
    let (live, target) = (live_channel(given)?, live_target("t"));
    let target_of =
        |thread: &str, run: &str, dispatch: &str, claim| LiveTarget::new(id(thread), id(run), id(dispatch), claim);
    let other_claims = [(1, 2), (2, 1)].map(|(incarnation, counter)| ClaimNumber { incarnation, counter });
    let other_targets = [
        target_of("u", "r", "d", target.claim),
        target_of("t", "s", "d", target.claim),
        target_of("t", "r", "e", target.claim),
        target_of("t", "r", "d", other_claims[0]),
        target_of("t", "r", "d", other_claims[1]),
    ];
    let mut receivers = Vec::new();
    for other_target in other_targets {
        receivers.push(live.open_live(other_target).await?);
    }
    expect_delivery(begin_delivery(&live, &target, custom_command("unreceived")).await, LiveDelivery::NoReceiver)
        .await?;
    let mut own_receiver = live.open_live(target.clone()).await?;
    let task = begin_delivery(&live, &target, custom_command("own")).await;
    for receiver in &mut receivers {
        expect_no_command(receiver).await?;
    }
    accept_command(&mut own_receiver, &custom_command("own")).await?;
    expect_delivery(task, LiveDelivery::Delivered).await
}

/// A delivery ends with `Delivered` when the receiver has accepted the command, and not before. It ends with
/// `NoReceiver` if no receiver has the target open, or if the receiver drops the command or ends. A receiver that opens
/// the target later does not get the command.
pub(super) async fn delivered_means_accepted(given: &Given) -> Verdict {
    let (live, target) = (live_channel(given)?, live_target("t"));
    expect_delivery(begin_delivery(&live, &target, custom_command("early")).await, LiveDelivery::NoReceiver).await?;
    let mut receiver = live.open_live(target.clone()).await?;
    expect_no_command(&mut receiver).await?;
    let task = begin_delivery(&live, &target, custom_command("a")).await;
    let received = expect_some(next_command(&mut receiver).await?, "command")?;
    expect(!task.is_finished(), "the delivery ended before the command was accepted")?;
    expect_eq(received.accept(), Some(custom_command("a")))?;
    expect_delivery(task, LiveDelivery::Delivered).await?;
    let task = begin_delivery(&live, &target, custom_command("b")).await;
    drop(next_command(&mut receiver).await?);
    expect_delivery(task, LiveDelivery::NoReceiver).await?;
    let task = begin_delivery(&live, &target, custom_command("c")).await;
    drop(receiver);
    expect_delivery(task, LiveDelivery::NoReceiver).await?;
    expect_delivery(begin_delivery(&live, &target, custom_command("d")).await, LiveDelivery::NoReceiver).await?;
    expect_no_command(&mut live.open_live(target).await?).await
}

/// A delivery whose command is not accepted before the deadline ends with `Unknown`, whether or not the receiver has
/// read the command. This does not affect the next delivery.
pub(super) async fn a_delivery_without_a_timely_answer_is_unknown(given: &Given) -> Verdict {
    let (live, target) = (live_channel(given)?, live_target("t"));
    let mut receiver = live.open_live(target.clone()).await?;
    let request = |name| DeliverLive::new(target.clone(), custom_command(name)).within(SHORT_PAUSE);
    expect_eq(live.deliver(request("a")).await?, LiveDelivery::Unknown)?;
    let (_unanswered, delivery_result) = tokio::join!(next_command(&mut receiver), live.deliver(request("b")));
    expect_eq(delivery_result?, LiveDelivery::Unknown)?;
    let task = begin_delivery(&live, &target, custom_command("c")).await;
    loop {
        let received = expect_some(next_command(&mut receiver).await?, "command")?;
        if *received.command() == custom_command("c") {
            expect_eq(received.accept(), Some(custom_command("c")))?;
            return expect_delivery(task, LiveDelivery::Delivered).await;
        }
    }
}

/// A command that is accepted after more than half of the time until its deadline counts as delivered.
pub(super) async fn a_receiver_may_answer_until_the_deadline(given: &Given) -> Verdict {
    let (live, target) = (live_channel(given)?, live_target("t"));
    let mut receiver = live.open_live(target.clone()).await?;
    let task = begin_delivery(&live, &target, custom_command("a")).await;
    tokio::time::sleep(DEADLINE.mul_f32(0.6)).await;
    accept_command(&mut receiver, &custom_command("a")).await?;
    expect_delivery(task, LiveDelivery::Delivered).await
}

/// When a target is opened again, the earlier receiver ends: it gets `None` instead of a command. All later commands go
/// to the new receiver.
pub(super) async fn opening_again_ends_the_earlier_receiver(given: &Given) -> Verdict {
    let (live, target) = (live_channel(given)?, live_target("t"));
    let mut earlier_receiver = live.open_live(target.clone()).await?;
    let receiving_task = tokio::spawn(async move {
        let command = next_command(&mut earlier_receiver).await;
        (earlier_receiver, command)
    });
    tokio::time::sleep(SHORT_PAUSE).await;
    expect(!receiving_task.is_finished(), "the receiver ended before another was opened")?;
    let mut later_receiver = live.open_live(target.clone()).await?;
    let (mut earlier_receiver, command) = receiving_task.await.map_err(|panic| Failure::new(panic.to_string()))?;
    expect(command?.is_none(), "the earlier receiver got a command")?;
    let task = begin_delivery(&live, &target, custom_command("a")).await;
    expect(next_command(&mut earlier_receiver).await?.is_none(), "the earlier receiver got a command")?;
    drop(earlier_receiver);
    accept_command(&mut later_receiver, &custom_command("a")).await?;
    expect_delivery(task, LiveDelivery::Delivered).await
}

/// The commands of one sender arrive in order, and only at their target, even if other senders send at the same time.
pub(super) async fn commands_of_a_sender_arrive_in_order(given: &Given) -> Verdict {
    const COMMANDS: usize = 30;
    let live = live_channel(given)?;
    let results = run_concurrently(4, |task| {
        let (live, target) = (Arc::clone(&live), live_target_of_claim(["t", "u"][task % 2], task as u64));
        async move {
            let mut receiver = live.open_live(target.clone()).await?;
            let send = |at| DeliverLive::new(target.clone(), custom_command(&format!("{task}-{at}"))).within(DEADLINE);
            // The deliveries begin one after another, and then run at the same time.
            let sending = join_all((0..COMMANDS).map(|at| live.deliver(send(at))));
            let receiving = async {
                tokio::time::sleep(SHORT_PAUSE).await;
                for at in 0..COMMANDS {
                    accept_command(&mut receiver, &custom_command(&format!("{task}-{at}"))).await?;
                }
                Ok::<_, Failure>(())
            };
            let (sent, received) = tokio::join!(sending, receiving);
            received?;
            for delivery in sent {
                expect_eq(delivery?, LiveDelivery::Delivered)?;
            }
            Ok::<_, Failure>(())
        }
    });
    results.await.into_iter().collect()
}

/// The receiver of an earlier attempt gets no command for the current attempt, even if the current attempt has no
/// receiver.
pub(super) async fn an_earlier_attempt_gets_nothing(given: &Given) -> Verdict {
    let live = live_channel(given)?;
    let first_claim = enqueue_and_claim(given, "a").await?;
    let mut earlier_receiver = live.open_live(LiveTarget::from(&first_claim)).await?;
    settle(given, &first_claim, Settlement::Release).await?;
    expect_eq(LiveTarget::of(&load_dispatch(given, "a").await?), None)?;
    let second_claim = expect_next_claim(given, "a").await?;
    let target = expect_some(LiveTarget::of(&load_dispatch(given, "a").await?), "target")?;
    expect_delivery(begin_delivery(&live, &target, custom_command("unreceived")).await, LiveDelivery::NoReceiver)
        .await?;
    let mut current_receiver = live.open_live(LiveTarget::from(&second_claim)).await?;
    let task = begin_delivery(&live, &target, custom_command("a")).await;
    expect_no_command(&mut earlier_receiver).await?;
    accept_command(&mut current_receiver, &custom_command("a")).await?;
    expect_delivery(task, LiveDelivery::Delivered).await
}

/// If the receiver does not know the kind of a command, the delivery ends with an error. The receiver does not get this
/// command, but gets the next one.
pub(super) async fn an_unreadable_command_is_refused(given: &Given) -> Verdict {
    let (live, target) = (live_channel(given)?, live_target("t"));
    let mut receiver = live.open_live(target.clone()).await?;
    let unknown_command = LiveCommand::Unknown { kind: "pause".to_owned(), data: json("{}") };
    let (refused_delivery, next_delivery) = (
        begin_delivery(&live, &target, unknown_command).await,
        begin_delivery(&live, &target, custom_command("a")).await,
    );
    accept_command(&mut receiver, &custom_command("a")).await?;
    let error = expect_kind(join_task(refused_delivery).await?, ErrorKind::Invalid)?;
    expect(error.to_string().contains("pause"), "the error does not name the kind")?;
    expect_delivery(next_delivery, LiveDelivery::Delivered).await
}

/// A command of one tenant never reaches a receiver of another tenant, even if their targets are equal.
pub(super) async fn tenants_have_their_own_targets(given: &Given) -> Verdict {
    let (first_live, second_live) = (live_channel_of(&given.tenant("acme")?)?, live_channel_of(&given.tenant("acm")?)?);
    let target = live_target("t");
    let mut first_receiver = first_live.open_live(target.clone()).await?;
    expect_delivery(begin_delivery(&second_live, &target, custom_command("a")).await, LiveDelivery::NoReceiver).await?;
    let mut second_receiver = second_live.open_live(target.clone()).await?;
    let task = begin_delivery(&first_live, &target, custom_command("b")).await;
    expect_no_command(&mut second_receiver).await?;
    accept_command(&mut first_receiver, &custom_command("b")).await?;
    expect_delivery(task, LiveDelivery::Delivered).await
}
