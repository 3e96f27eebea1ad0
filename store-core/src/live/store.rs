//! The contracts of the live channel and of wake-ups: each is there or not (PR-2).

use std::time::Duration;

use async_trait::async_trait;

use super::{DeliverLive, LiveDelivery, LiveReceiver, LiveTarget, Waited};
use crate::error::Result;

/// Carries commands to work that runs. Nothing is kept: what must not be lost goes to pending input or the mailbox
/// (LV-7), as with [`PendingStoreExt::deliver_or_queue`](crate::PendingStoreExt::deliver_or_queue).
///
/// ```
/// use store_core::{ClaimedDispatch, DeliverLive, Dispatch, LiveChannel, LiveCommand, LiveDelivery, LiveTarget};
///
/// /// The worker, beside its work.
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
/// /// Somebody else.
/// async fn stop(live: &dyn LiveChannel, dispatch: &Dispatch) -> store_core::Result<bool> {
///     let Some(target) = LiveTarget::of(dispatch) else { return Ok(false) };
///     let answer = live.deliver(DeliverLive::new(target, LiveCommand::Cancel)).await?;
///     Ok(answer == LiveDelivery::Delivered)
/// }
/// ```
#[async_trait]
pub trait LiveChannel: Send + Sync {
    /// Receives the commands for exactly this target from now on (LV-1, `live::commands_arrive_as_they_were_sent`).
    /// Whether there is such a dispatch, and who claimed it, is not asked.
    ///
    /// # Guarantees
    /// - A target has one receiver: an earlier one ends, and is told (LV-3,
    ///   `live::opening_again_ends_the_earlier_receiver`).
    /// - Commands of one sender arrive in order (LV-4, `live::commands_of_a_sender_arrive_in_order`).
    /// - Who receives for an earlier attempt gets nothing for the current one (LV-5,
    ///   `live::an_earlier_attempt_gets_nothing`).
    /// - Dropping the receiver ends it; what it did not accept has no receiver then. Closing the store, or deleting the
    ///   tenant, ends it with `Closed` (PR-8, `live::closing_ends_receivers`).
    ///
    /// A receiver that does not read holds no more than its store's bound of commands: the next ones have no receiver.
    ///
    /// # Errors
    /// `Closed`; `Unavailable` where the channel goes over a network.
    async fn open_live(&self, target: LiveTarget) -> Result<LiveReceiver>;

    /// Delivers a command to who receives for its target, and returns when that has answered.
    ///
    /// # Guarantees
    /// - `Delivered` says that the receiver accepted it, `NoReceiver` that nobody did or will (LV-2,
    ///   `live::delivered_means_accepted`).
    /// - It returns when the deadline passes, with `Unknown` (LV-2, `live::a_late_answer_is_unknown`).
    /// - A command that the receiver cannot read is not dropped but refused (LV-6,
    ///   `live::what_cannot_be_read_is_refused`).
    ///
    /// # Errors
    /// `Invalid`, naming the kind, for a command that the receiver cannot read; `Closed`. What became of an `Unknown`
    /// delivery nobody tells: who repeats it may have it received twice.
    async fn deliver(&self, request: DeliverLive) -> Result<LiveDelivery>;
}

/// Wakes workers that wait for something to claim.
#[async_trait]
pub trait WakeUps: Send + Sync {
    /// Returns when something may be claimable, at once if it is already, or else when `timeout` is over, in real time
    /// (LV-8, `live::new_work_wakes_who_waits`). It reserves nothing: somebody else may be faster.
    ///
    /// # Guarantees
    /// - What becomes available later, and a lease that ends, wakes at that time, by store time (LV-10,
    ///   `live::what_becomes_due_wakes_who_waits`).
    /// - A lost wake-up only costs time: who claims after every wait, however it ended, finds everything (LV-11,
    ///   `live::polling_alone_finds_everything`).
    ///
    /// Who gets nothing from a claim although it was woken waits a little by itself before it comes back: a thread
    /// whose records cannot be read may look as if it had something.
    ///
    /// # Errors
    /// Those of reading. Closing the store, or deleting the tenant, ends it with `Closed` (PR-8,
    /// `live::closing_ends_waits`).
    async fn wait(&self, timeout: Duration) -> Result<Waited>;
}
