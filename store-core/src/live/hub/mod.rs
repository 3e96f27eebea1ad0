//! The live channel within one process.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::poll_fn,
    pin::pin,
    sync::{Arc, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{
    future::{Either, select},
    stream,
};

use super::{DeliverLive, LiveAnswer, LiveChannel, LiveDelivery, LiveMessage, LiveReceiver, LiveTarget};
use crate::{
    codec::Codec,
    error::{Error, Result},
    sync::{Mutex, MutexGuard},
    time::sleep_in_real_time,
};

/// The maximum number of commands that are queued for one receiver.
const MAX_QUEUED_MESSAGES: usize = 1_000;
/// Once the commands that are queued for a receiver have this many bytes in total, further commands are refused.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// The live channel within one process. It is a complete implementation for a backend that only one process opens.
/// Each tenant has one.
///
/// If several processes open a store, each process has a hub for its own receivers, and passes the commands from other
/// processes to this hub.
///
/// In addition to what [`LiveChannel`] promises, a receiver that has ended accepts nothing more. If a sender gives up
/// before the receiver takes the command, the receiver does not get it. If the sender gives up later, the receiver can
/// no longer accept the command. Closing or dropping the hub ends receivers and deliveries with `Closed`.
///
/// If a receiver does not read, the hub queues at most 1,000 commands for it, and no more once the queued commands
/// total 64 MiB. Further commands end with `NoReceiver`. When a sender stops waiting, the hub removes its command from
/// the queue.
#[derive(Default)]
pub struct LiveHub {
    shared: Arc<SharedHubState>,
}

#[derive(Default)]
struct SharedHubState(Mutex<HubState>);

/// Receivers and messages are numbered from one counter.
#[derive(Default)]
struct HubState {
    is_closed: bool,
    last_number: u64,
    inboxes: HashMap<LiveTarget, Inbox>,
    /// Messages whose senders wait for an answer.
    messages: HashMap<u64, SentMessage>,
}

/// The messages for one receiver.
struct Inbox {
    receiver_number: u64,
    /// The texts of the messages that the receiver has not taken yet, by message number: oldest first.
    texts: BTreeMap<u64, String>,
    /// The total length of these texts in bytes.
    bytes: usize,
    waker: Option<Waker>,
}

impl Inbox {
    const fn new(receiver_number: u64) -> Self {
        Self { receiver_number, texts: BTreeMap::new(), bytes: 0, waker: None }
    }

    /// Adds a message; returns `false` if there is no room.
    fn put(&mut self, number: u64, text: String) -> bool {
        let has_room = self.texts.len() < MAX_QUEUED_MESSAGES && self.bytes < MAX_QUEUED_BYTES;
        if has_room {
            self.bytes += text.len();
            self.texts.insert(number, text);
        }
        has_room
    }

    fn pop(&mut self) -> Option<(u64, String)> {
        let (number, text) = self.texts.pop_first()?;
        self.bytes -= text.len();
        Some((number, text))
    }

    fn remove(&mut self, number: u64) {
        self.bytes -= self.texts.remove(&number).map_or(0, |text| text.len());
    }
}

/// A message whose sender waits for the answer.
struct SentMessage {
    target: LiveTarget,
    /// The number of the receiver into whose inbox the message was put.
    receiver_number: u64,
    answer: Option<LiveAnswer>,
    waker: Option<Waker>,
}

type Wakers = Vec<Waker>;

impl SharedHubState {
    /// Changes the state, then calls the wakers that `update` adds to its list. The lock is released first, because a
    /// waker may run any code.
    fn update_and_wake<T>(&self, update: impl FnOnce(&mut HubState, &mut Wakers) -> T) -> T {
        let mut wakers = Vec::new();
        let result = update(&mut self.lock(), &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    // A poisoned lock is ignored: the code that runs under the lock cannot panic, so the data is consistent.
    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HubState {
    fn check_open(&self) -> Result<()> {
        if self.is_closed { Err(Error::closed()) } else { Ok(()) }
    }

    const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Adds a receiver for a target, and ends the earlier one. Returns the number of the new receiver.
    fn open(&mut self, target: &LiveTarget, wakers: &mut Wakers) -> Result<u64> {
        self.check_open()?;
        let number = self.next_number();
        if let Some(earlier_inbox) = self.inboxes.insert(target.clone(), Inbox::new(number)) {
            self.end(earlier_inbox, wakers);
        }
        Ok(number)
    }

    /// Ends a receiver, and answers the senders of all messages that it has not answered.
    fn end(&mut self, inbox: Inbox, wakers: &mut Wakers) {
        wakers.extend(inbox.waker);
        for message in self
            .messages
            .values_mut()
            .filter(|message| message.receiver_number == inbox.receiver_number && message.answer.is_none())
        {
            message.answer = Some(LiveAnswer::Dropped);
            wakers.extend(message.waker.take());
        }
    }

    /// Puts a message into the inbox of its target, and returns the number of the message. Returns none if there is no
    /// inbox, or no room in it.
    fn send(&mut self, target: LiveTarget, text: String, wakers: &mut Wakers) -> Result<Option<u64>> {
        self.check_open()?;
        let number = self.next_number();
        let Some(inbox) = self.inboxes.get_mut(&target) else { return Ok(None) };
        if !inbox.put(number, text) {
            return Ok(None);
        }
        wakers.extend(inbox.waker.take());
        let receiver_number = inbox.receiver_number;
        self.messages.insert(number, SentMessage { target, receiver_number, answer: None, waker: None });
        Ok(Some(number))
    }

    /// Removes a message whose sender no longer waits. Returns the answer, if there is one.
    fn withdraw(&mut self, number: u64) -> Option<LiveAnswer> {
        let message = self.messages.remove(&number)?;
        if let Some(inbox) = self.inboxes.get_mut(&message.target) {
            inbox.remove(number);
        }
        message.answer
    }

    /// Records the answer to a message. Returns whether its sender gets the answer.
    fn answer(&mut self, number: u64, answer: LiveAnswer, wakers: &mut Wakers) -> bool {
        let unanswered_message = self.messages.get_mut(&number).filter(|message| message.answer.is_none());
        let Some(message) = unanswered_message.filter(|_| !self.is_closed) else { return false };
        message.answer = Some(answer);
        wakers.extend(message.waker.take());
        true
    }

    fn poll_answer(&mut self, number: u64, context: &Context<'_>) -> Poll<Result<LiveAnswer>> {
        match self.messages.get_mut(&number) {
            Some(message) if message.answer.is_none() && !self.is_closed => {
                message.waker = Some(context.waker().clone());
                Poll::Pending
            }
            Some(message) if message.answer.is_none() => Poll::Ready(Err(Error::closed())),
            // The message is removed when its sender takes the answer, so that it cannot be answered again.
            _ => Poll::Ready(Ok(self.withdraw(number).unwrap_or(LiveAnswer::Dropped))),
        }
    }

    /// Returns the next message for a receiver, or none if the receiver has ended.
    fn poll_message(&mut self, guard: &ReceiverGuard, context: &Context<'_>) -> Poll<Option<Result<(u64, String)>>> {
        if self.is_closed {
            return Poll::Ready(Some(Err(Error::closed())));
        }
        let own_inbox =
            self.inboxes.get_mut(&guard.target).filter(|inbox| inbox.receiver_number == guard.receiver_number);
        let Some(inbox) = own_inbox else { return Poll::Ready(None) };
        if let Some(message) = inbox.pop() {
            return Poll::Ready(Some(Ok(message)));
        }
        inbox.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn close(&mut self, wakers: &mut Wakers) {
        self.is_closed = true;
        wakers.extend(self.inboxes.drain().filter_map(|(_, inbox)| inbox.waker));
        wakers.extend(self.messages.values_mut().filter_map(|message| message.waker.take()));
    }
}

impl LiveHub {
    /// Ends receivers and deliveries with `Closed`. Later calls are refused with `Closed`.
    pub fn close(&self) {
        self.shared.update_and_wake(HubState::close);
    }

    /// Returns the targets that are open in this hub.
    #[must_use]
    pub fn targets(&self) -> Vec<LiveTarget> {
        self.shared.lock().inboxes.keys().cloned().collect()
    }

    /// Ends the receiver of a target, because another process has opened the target (LV-3).
    pub fn end(&self, target: &LiveTarget) {
        self.shared.update_and_wake(|state, wakers| {
            if let Some(inbox) = state.inboxes.remove(target) {
                state.end(inbox, wakers);
            }
        });
    }

    /// Delivers an encoded command to its receiver in this hub. Returns none if the deadline passed without an answer.
    ///
    /// # Errors
    /// `Closed` if the hub was closed.
    pub async fn send_encoded(
        &self,
        target: LiveTarget,
        text: String,
        deadline: Duration,
    ) -> Result<Option<LiveAnswer>> {
        let Some(number) = self.shared.update_and_wake(|state, wakers| state.send(target, text, wakers))? else {
            return Ok(Some(LiveAnswer::Dropped));
        };
        let message = SenderGuard { shared: &self.shared, message_number: number };
        let answer = poll_fn(|context| self.shared.lock().poll_answer(number, context));
        match select(answer, pin!(sleep_in_real_time(deadline))).await {
            Either::Left((answer, _)) => answer.map(Some),
            // The answer may have come at the same moment.
            Either::Right(_) => Ok(message.withdraw()),
        }
    }
}

impl Drop for LiveHub {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for LiveHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveHub").field("receivers", &self.shared.lock().inboxes.len()).finish_non_exhaustive()
    }
}

#[async_trait]
impl LiveChannel for LiveHub {
    async fn open_live(&self, target: LiveTarget) -> Result<LiveReceiver> {
        let receiver_number = self.shared.update_and_wake(|state, wakers| state.open(&target, wakers))?;
        let guard = ReceiverGuard { shared: Arc::clone(&self.shared), target, receiver_number };
        let messages = stream::poll_fn(move |context| {
            let message = guard.shared.lock().poll_message(&guard, context);
            message.map(|message| Some(message?.map(|(number, text)| guard.message(number, text))))
        });
        Ok(LiveReceiver::new(Box::pin(messages)))
    }

    async fn deliver(&self, request: DeliverLive) -> Result<LiveDelivery> {
        let DeliverLive { target, command, deadline } = request;
        let answer = self.send_encoded(target, command.encode(), deadline).await?;
        answer.map_or(Ok(LiveDelivery::Unknown), LiveAnswer::into_delivery)
    }
}

/// Belongs to the receiver of a target. Dropping it ends the receiver.
struct ReceiverGuard {
    shared: Arc<SharedHubState>,
    target: LiveTarget,
    receiver_number: u64,
}

impl ReceiverGuard {
    fn message(&self, number: u64, text: String) -> LiveMessage {
        let shared = Arc::clone(&self.shared);
        LiveMessage::new(text, move |answer| {
            shared.update_and_wake(|state, wakers| state.answer(number, answer, wakers))
        })
    }
}

impl Drop for ReceiverGuard {
    fn drop(&mut self) {
        self.shared.update_and_wake(|state, wakers| {
            if state.inboxes.get(&self.target).is_some_and(|inbox| inbox.receiver_number == self.receiver_number)
                && let Some(own_inbox) = state.inboxes.remove(&self.target)
            {
                state.end(own_inbox, wakers);
            }
        });
    }
}

/// Belongs to the sender of a message, while it waits for the answer. Dropping it withdraws the message.
struct SenderGuard<'a> {
    shared: &'a SharedHubState,
    message_number: u64,
}

impl SenderGuard<'_> {
    fn withdraw(&self) -> Option<LiveAnswer> {
        self.shared.lock().withdraw(self.message_number)
    }
}

impl Drop for SenderGuard<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
mod tests;
