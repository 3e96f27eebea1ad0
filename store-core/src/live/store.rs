//! The contracts of the live channel and of wake-ups. A store may have one, both or neither (PR-2).

use std::time::Duration;

use async_trait::async_trait;

use super::{DeliverLive, LiveDelivery, LiveReceiver, LiveTarget, WaitResult};
use crate::error::Result;

/// Carries commands to running work.
///
/// Nothing is stored. What must not be lost belongs in pending input or in the mailbox (LV-7), for example through
/// [`PendingStoreExt::deliver_or_queue`](crate::PendingStoreExt::deliver_or_queue).
///
/// ```
/// use store_core::{ClaimedDispatch, DeliverLive, Dispatch, LiveChannel, LiveCommand, LiveDelivery, LiveTarget};
///
/// /// The worker, while the work runs.
/// async fn listen(live: &dyn LiveChannel, claimed: &ClaimedDispatch) -> store_core::Result<()> {
///     let mut receiver = live.open_live(LiveTarget::from(claimed)).await?;
///     while let Some(received) = receiver.next().await? {
///         if let Some(LiveCommand::Cancel) = received.accept() {
///             break;
///         }
///     }
///     Ok(())
/// }
///
/// /// Another process.
/// async fn stop(live: &dyn LiveChannel, dispatch: &Dispatch) -> store_core::Result<bool> {
///     let Some(target) = LiveTarget::of(dispatch) else { return Ok(false) };
///     let answer = live.deliver(DeliverLive::new(target, LiveCommand::Cancel)).await?;
///     Ok(answer == LiveDelivery::Delivered)
/// }
/// ```
#[async_trait]
pub trait LiveChannel: Send + Sync {
    /// Opens a receiver for the commands to exactly this target, from now on (LV-1,
    /// `live::commands_arrive_as_they_were_sent`).
    ///
    /// The call does not check whether there is such a dispatch or which worker claimed it.
    ///
    /// # Guarantees
    /// - A target has one receiver. If the target is opened again, the earlier receiver ends, and its `next` returns
    ///   none (LV-3, `live::opening_again_ends_the_earlier_receiver`).
    /// - Commands of one sender arrive in order (LV-4, `live::commands_of_a_sender_arrive_in_order`).
    /// - The receiver of an earlier attempt gets no commands for the current attempt (LV-5,
    ///   `live::an_earlier_attempt_gets_nothing`).
    /// - Dropping the receiver ends it. The senders of commands that it has not accepted get `NoReceiver`. Closing the
    ///   store, or deleting the tenant, ends the receiver with `Closed` (PR-8, `live::closing_ends_receivers`).
    ///
    /// If the receiver does not read, the store keeps a limited number of commands for it. The senders of further
    /// commands get `NoReceiver`.
    ///
    /// # Errors
    /// `Closed`; `Unavailable` if the channel uses a network.
    async fn open_live(&self, target: LiveTarget) -> Result<LiveReceiver>;

    /// Delivers a command to the receiver of its target, and returns when the receiver has answered.
    ///
    /// # Guarantees
    /// - `Delivered` means that the receiver accepted the command. `NoReceiver` means that no receiver accepted it and
    ///   none will (LV-2, `live::delivered_means_accepted`).
    /// - The receiver may answer until the deadline (LV-2, `live::a_receiver_may_answer_until_the_deadline`). When the
    ///   deadline passes, the call returns `Unknown` (LV-2,
    ///   `live::a_delivery_without_a_timely_answer_is_unknown`).
    /// - A command that the receiver cannot read is not dropped but refused (LV-6,
    ///   `live::an_unreadable_command_is_refused`).
    ///
    /// # Errors
    /// `Invalid`, which names the kind, for a command that the receiver cannot read; `Closed`. After an `Unknown`
    /// delivery there is no way to learn what became of the command. If the caller repeats it, it may be received
    /// twice.
    async fn deliver(&self, request: DeliverLive) -> Result<LiveDelivery>;
}

/// Wakes workers that wait for something to claim.
#[async_trait]
pub trait WakeUps: Send + Sync {
    /// Waits until something may be claimable, or until `timeout` has passed in real time. If something is claimable
    /// already, the call returns at once (LV-8, `live::new_work_wakes_waiting_workers`).
    ///
    /// Nothing is reserved: another worker may claim it first.
    ///
    /// # Guarantees
    /// - When a dispatch becomes available or a lease ends, by store time, waiting workers are woken (LV-10,
    ///   `live::a_dispatch_that_becomes_due_wakes_waiting_workers`).
    /// - A lost wake-up only costs time: a worker that claims after every wait, however the wait ended, finds all work
    ///   (LV-11, `live::a_worker_that_never_waits_finds_all_work`).
    ///
    /// If a worker was woken and its claim then returns nothing, it should pause briefly before it waits again. The
    /// reason may be a thread whose records cannot be read: such a thread can look claimable.
    ///
    /// # Errors
    /// Any error of reading the store, such as `Unavailable` or `Corrupt`. Closing the store, or deleting the tenant,
    /// ends the wait with `Closed` (PR-8, `live::closing_ends_waits`).
    async fn wait(&self, timeout: Duration) -> Result<WaitResult>;
}
