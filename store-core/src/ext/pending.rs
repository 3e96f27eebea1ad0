//! Input that is delivered to a running attempt, or else queued.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    error::{Error, ErrorKind, Outcome, Result},
    id::ThreadId,
    limits::Limits,
    live::{DEFAULT_LIVE_DEADLINE, DeliverLive, LiveChannel, LiveCommand, LiveDelivery, LiveInput, LiveTarget},
    pending::{AppendPending, AppendedInputs, Boundary, Delivery, NewInput, PendingStore, check_append},
};

/// Deliveries of input that take several calls.
///
/// ```
/// use store_core::{DeliverOrQueue, Dispatch, LiveInput, LiveTarget, PendingStoreExt, DeliveredOrQueued, TenantStores};
///
/// /// Sends a message to a thread: to the running attempt if `dispatch` shows one, or else to the queue.
/// async fn say(stores: &TenantStores, dispatch: &Dispatch, input: LiveInput) -> store_core::Result<bool> {
///     let Some(pending) = &stores.pending else { return Ok(false) };
///     let request = DeliverOrQueue::new(dispatch.thread.clone(), [input]).with_target(LiveTarget::of(dispatch));
///     let result = pending.deliver_or_queue(stores.live(), request).await?;
///     Ok(matches!(result, DeliveredOrQueued::Delivered))
/// }
/// ```
#[async_trait]
pub trait PendingStoreExt: PendingStore {
    /// Delivers messages live if a receiver accepts them, or else appends them to the queue under the same ids (LV-12).
    ///
    /// The receiver that accepts the messages commits entries with these ids, in one commit. If the sender stopped
    /// waiting for the answer, and queued the messages before this commit, the commit is refused with `AlreadyExists`.
    /// The messages then have to be consumed from the queue.
    ///
    /// # Guarantees
    /// - Whether the messages are delivered or queued, and however often the call is repeated, each id enters the log
    ///   at most once (LV-12, `live::input_enters_the_log_once`): an id that is in the log or in the queue cannot be
    ///   used again (EN-16, PI-2).
    /// - If the live channel is not available or does not answer, the messages are queued.
    ///
    /// What was delivered is not durable before it is committed (LV-7). To queue messages that must not be lost, name
    /// no target.
    ///
    /// # Errors
    /// The errors of [`append_pending`](PendingStore::append_pending). Errors that can be found without reading the
    /// thread are returned even if the messages would be delivered live. `Invalid` for a target on another thread.
    /// After an `Unknown` outcome, repeat the call: `AlreadyConsumed` then means that the messages had arrived.
    async fn deliver_or_queue(
        &self,
        live: Option<&dyn LiveChannel>,
        request: DeliverOrQueue,
    ) -> Result<DeliveredOrQueued> {
        let DeliverOrQueue { thread, inputs, target, deadline, delivery } = request;
        if target.as_ref().is_some_and(|target| target.thread != thread) {
            return Err(Error::invalid("target", "it belongs to another thread"));
        }
        let queued_input = |input: &LiveInput| {
            NewInput::message(input.message.clone()).with_id(input.id.clone()).with_delivery(delivery.clone())
        };
        let append_request = AppendPending::new(thread, inputs.iter().map(queued_input));
        check_append(&append_request, &Limits::default())?;
        let mut may_have_arrived = false;
        if let (Some(live), Some(target)) = (live, target) {
            let command = DeliverLive::new(target, LiveCommand::Input(inputs)).within(deadline);
            may_have_arrived = match live.deliver(command).await {
                Ok(LiveDelivery::Delivered) => return Ok(DeliveredOrQueued::Delivered),
                Ok(LiveDelivery::NoReceiver) => false,
                Ok(LiveDelivery::Unknown) => true,
                Err(error) => error.outcome() == Outcome::Unknown,
            };
        }
        match self.append_pending(append_request).await {
            // The receiver accepted and committed the messages; only its answer came too late.
            Err(error) if may_have_arrived && error.kind() == ErrorKind::AlreadyConsumed => {
                Ok(DeliveredOrQueued::Delivered)
            }
            result => result.map(DeliveredOrQueued::Queued),
        }
    }
}

impl<S: PendingStore + ?Sized> PendingStoreExt for S {}

/// A request to deliver messages to a running attempt, or else to queue them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliverOrQueue {
    /// The thread of the messages.
    pub thread: ThreadId,
    /// The messages, with the ids of the entries that they become.
    pub inputs: Vec<LiveInput>,
    /// The attempt that may get the messages live; absent to queue them.
    pub target: Option<LiveTarget>,
    /// How long to wait for an answer of the receiver, in real time.
    pub deadline: Duration,
    /// When queued messages may be taken, and together with which other inputs.
    pub delivery: Delivery,
}

impl DeliverOrQueue {
    /// Makes a request to queue messages for `thread`, to be taken before the next step of a run, or by the next run.
    #[must_use]
    pub fn new(thread: ThreadId, inputs: impl IntoIterator<Item = LiveInput>) -> Self {
        let delivery = Delivery::at(Boundary::NextStep);
        Self { thread, inputs: inputs.into_iter().collect(), target: None, deadline: DEFAULT_LIVE_DEADLINE, delivery }
    }

    /// Sets the attempt to which the messages are delivered if it accepts them within the deadline, by default five
    /// seconds.
    #[must_use]
    pub fn with_target(mut self, target: impl Into<Option<LiveTarget>>) -> Self {
        self.target = target.into();
        self
    }

    /// Sets the deadline.
    #[must_use]
    pub const fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the delivery for messages that are queued.
    #[must_use]
    pub fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }
}

/// Whether messages were delivered or queued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "delivered messages are not stored, queued ones wait for a run"]
pub enum DeliveredOrQueued {
    /// The running attempt accepted the messages.
    Delivered,
    /// The messages are in the queue.
    Queued(AppendedInputs),
}
