//! Input that goes to work that runs, or else waits in the queue.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    error::{Error, ErrorKind, Outcome, Result},
    id::ThreadId,
    limits::Limits,
    live::{DeliverLive, LIVE_DEADLINE, LiveChannel, LiveCommand, LiveDelivery, LiveInput, LiveTarget},
    pending::{AppendPending, Appended, Boundary, Delivery, NewInput, PendingStore, check},
};

/// Writes to a queue over several calls.
///
/// ```
/// use store_core::{DeliverOrQueue, Dispatch, LiveInput, LiveTarget, PendingStoreExt, Routed, TenantStores};
///
/// /// Says something to a thread: to the attempt that runs, if `dispatch` shows one, or to the next that reads.
/// async fn say(stores: &TenantStores, dispatch: &Dispatch, input: LiveInput) -> store_core::Result<bool> {
///     let Some(pending) = &stores.pending else { return Ok(false) };
///     let request = DeliverOrQueue::new(dispatch.thread.clone(), [input]).to(LiveTarget::of(dispatch));
///     let routed = pending.deliver_or_queue(stores.live(), request).await?;
///     Ok(matches!(routed, Routed::Delivered))
/// }
/// ```
#[async_trait]
pub trait PendingStoreExt: PendingStore {
    /// Delivers messages live, if there is somebody who accepts them, or else appends them to the queue, under the same
    /// ids (LV-12).
    ///
    /// Who accepts them commits entries of these ids, in one commit. If that is refused with `AlreadyExists` the
    /// sender has given up waiting meanwhile: the messages are in the queue, to be taken from there.
    ///
    /// # Guarantees
    /// - Whichever way it went, and however often it is repeated, each id enters the log at most once (LV-12,
    ///   `live::input_enters_the_log_once`): an id that is in the log or in the queue is taken (EN-16, PI-2).
    /// - A live channel that is away or does not answer only makes it the queue.
    ///
    /// What was delivered is not durable before it is committed (LV-7): what must not be lost is queued, without a
    /// target.
    ///
    /// # Errors
    /// Those of [`append_pending`](PendingStore::append_pending), whichever way it goes as far as they can be told
    /// without looking at the thread. `Invalid` for a target on another thread.
    /// After an `Unknown` outcome: repeat it. `AlreadyConsumed` says then that it had arrived.
    async fn deliver_or_queue(&self, live: Option<&dyn LiveChannel>, request: DeliverOrQueue) -> Result<Routed> {
        let DeliverOrQueue { thread, inputs, target, deadline, delivery } = request;
        if target.as_ref().is_some_and(|target| target.thread != thread) {
            return Err(Error::invalid("target", "it is on another thread"));
        }
        let queued = |input: &LiveInput| {
            NewInput::message(input.message.clone()).with_id(input.id.clone()).with_delivery(delivery.clone())
        };
        let append = AppendPending::new(thread, inputs.iter().map(queued));
        check(&append, &Limits::default())?;
        let mut may_have_arrived = false;
        if let (Some(live), Some(target)) = (live, target) {
            let command = DeliverLive::new(target, LiveCommand::Input(inputs)).within(deadline);
            may_have_arrived = match live.deliver(command).await {
                Ok(LiveDelivery::Delivered) => return Ok(Routed::Delivered),
                Ok(LiveDelivery::NoReceiver) => false,
                Ok(LiveDelivery::Unknown) => true,
                Err(error) => error.outcome() == Outcome::Unknown,
            };
        }
        match self.append_pending(append).await {
            // It was accepted and committed: only the answer came too late.
            Err(error) if may_have_arrived && error.kind() == ErrorKind::AlreadyConsumed => Ok(Routed::Delivered),
            appended => appended.map(Routed::Queued),
        }
    }
}

impl<S: PendingStore + ?Sized> PendingStoreExt for S {}

/// Messages that go to work that runs, or else to the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliverOrQueue {
    /// The thread.
    pub thread: ThreadId,
    /// The messages, with the ids of the entries that they become.
    pub inputs: Vec<LiveInput>,
    /// Who may get them live; without one they are queued.
    pub target: Option<LiveTarget>,
    /// How long to wait for an answer, in real time.
    pub deadline: Duration,
    /// When they may be taken from the queue, and with what.
    pub delivery: Delivery,
}

impl DeliverOrQueue {
    /// Messages for the queue of `thread`, to be taken before the next step of a run, or by the next run.
    #[must_use]
    pub fn new(thread: ThreadId, inputs: impl IntoIterator<Item = LiveInput>) -> Self {
        let delivery = Delivery::at(Boundary::NextStep);
        Self { thread, inputs: inputs.into_iter().collect(), target: None, deadline: LIVE_DEADLINE, delivery }
    }

    /// The same, to this attempt if it accepts them within five seconds.
    #[must_use]
    pub fn to(mut self, target: impl Into<Option<LiveTarget>>) -> Self {
        self.target = target.into();
        self
    }

    /// The same, to be answered within this time.
    #[must_use]
    pub const fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same, taken from the queue like this.
    #[must_use]
    pub fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }
}

/// Which way messages went.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "what was delivered is not durable, what is queued waits"]
pub enum Routed {
    /// Who runs accepted them.
    Delivered,
    /// They are in the queue.
    Queued(Appended),
}
