//! Helpers that make targets and commands, begin calls, and wait for their results.

use std::{sync::Arc, time::Duration};

use store_core::{
    ClaimNumber, DeliverLive, LiveChannel, LiveCommand, LiveDelivery, LiveInput, LiveReceiver, LiveTarget, Message,
    ReceivedCommand, TenantStores, WaitResult, WakeUps,
};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    check::{Failure, Verdict, expect, expect_eq, expect_some},
    given::{Given, id},
    log::entry_drafts::json,
    mailbox::helpers::expect_nothing_to_claim,
};

/// How long a case waits for something that must happen. It normally happens at once.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// How long a case waits to see that something does not happen.
pub(super) const SHORT_PAUSE: Duration = Duration::from_millis(20);

/// A task that ends with the result of a call.
pub(super) type CallTask<T> = JoinHandle<store_core::Result<T>>;

/// The live channel of a tenant.
pub(super) fn live_channel_of(stores: &TenantStores) -> Result<Arc<dyn LiveChannel>, Failure> {
    expect_some(stores.live.clone(), "live channel")
}

/// The live channel of the tenant `default`.
pub(super) fn live_channel(given: &Given) -> Result<Arc<dyn LiveChannel>, Failure> {
    live_channel_of(&given.stores()?)
}

/// The wake-ups of the tenant `default`.
pub(super) fn wake_ups(given: &Given) -> Result<Arc<dyn WakeUps>, Failure> {
    expect_some(given.stores()?.wake_ups, "wake-ups")
}

/// The target for the first claim of the dispatch `d` of the run `r` on a thread.
pub(super) fn live_target(thread: &str) -> LiveTarget {
    live_target_of_claim(thread, 1)
}

/// The target for the claim number `counter` of the dispatch `d` of the run `r` on a thread.
pub(super) fn live_target_of_claim(thread: &str, counter: u64) -> LiveTarget {
    LiveTarget::new(id(thread), id("r"), id("d"), ClaimNumber { incarnation: 1, counter })
}

/// A command that the application defines.
pub(super) fn custom_command(word: &str) -> LiveCommand {
    LiveCommand::Custom(store_core::Custom::new(word, json("null")))
}

/// Live input with this id. The text of its message is the id.
pub(super) fn live_input(name: &str) -> LiveInput {
    LiveInput::new(id(name), Message::user(name))
}

/// Begins a delivery in a task, and waits briefly, so that the command can reach its receiver.
pub(super) async fn begin_delivery(
    live: &Arc<dyn LiveChannel>,
    target: &LiveTarget,
    command: LiveCommand,
) -> CallTask<LiveDelivery> {
    let (live, request) = (Arc::clone(live), DeliverLive::new(target.clone(), command).within(DEADLINE));
    let task = tokio::spawn(async move { live.deliver(request).await });
    sleep(SHORT_PAUSE).await;
    task
}

/// Waits until a task ends, and returns its result. Fails if the task does not end in time.
pub(super) async fn join_task<T>(task: CallTask<T>) -> Result<store_core::Result<T>, Failure> {
    match timeout(DEADLINE, task).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(panic)) => Err(Failure::new(panic.to_string())),
        Err(_) => Err(Failure::new("the call does not return")),
    }
}

/// Waits until a delivery ends, and checks that its result is `wanted`.
pub(super) async fn expect_delivery(task: CallTask<LiveDelivery>, wanted: LiveDelivery) -> Verdict {
    expect_eq(join_task(task).await??, wanted)
}

/// Waits for the next command of a receiver. Returns `None` if the receiver ended. Fails if neither happens in time.
pub(super) async fn next_command(receiver: &mut LiveReceiver) -> Result<Option<ReceivedCommand>, Failure> {
    let next = timeout(DEADLINE, receiver.next()).await;
    Ok(next.map_err(|_| Failure::new("the receiver got no command"))??)
}

/// Checks that the next command is `wanted`, and accepts it.
pub(super) async fn accept_command(receiver: &mut LiveReceiver, wanted: &LiveCommand) -> Verdict {
    let received = expect_some(next_command(receiver).await?, "command")?;
    expect_eq(received.command(), wanted)?;
    expect_eq(received.accept().as_ref(), Some(wanted))
}

/// Checks that a receiver gets no command within a short time.
pub(super) async fn expect_no_command(receiver: &mut LiveReceiver) -> Verdict {
    expect(timeout(SHORT_PAUSE, receiver.next()).await.is_err(), "the receiver got a command")
}

/// Checks that nothing can be claimed, and begins to wait for work in a task.
pub(super) async fn begin_wait(given: &Given) -> Result<CallTask<WaitResult>, Failure> {
    expect_nothing_to_claim(given).await?;
    let wake_ups = wake_ups(given)?;
    let task = tokio::spawn(async move { wake_ups.wait(DEADLINE).await });
    sleep(SHORT_PAUSE).await;
    expect(!task.is_finished(), "the wait ended although there is nothing to claim")?;
    Ok(task)
}

/// Checks that a wait for work ends because it is woken.
pub(super) async fn expect_woken(task: CallTask<WaitResult>) -> Verdict {
    expect_eq(join_task(task).await??, WaitResult::Woken)
}
