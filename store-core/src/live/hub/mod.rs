//! The live channel inside of one process.

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

use super::{DeliverLive, LiveAnswer, LiveChannel, LiveDelivery, LiveLetter, LiveReceiver, LiveTarget};
use crate::{
    codec::Codec,
    error::{Error, Result},
    sync::{Mutex, MutexGuard},
    time::elapsed,
};

/// How many commands wait for a receiver that does not read.
const MOST_LETTERS: usize = 1_000;
/// No more wait once these have so many bytes.
const MOST_BYTES: usize = 64 << 20;

/// The whole live channel, for a backend that only one process opens. A tenant has one. Where several processes open a
/// store, each has one for its own receivers, and carries to it what others send.
///
/// Beyond what [`LiveChannel`] promises: a receiver that ended accepts nothing more, and a command whose sender gave
/// up is not received, or not accepted. Closing the hub, or dropping it, ends receivers and deliveries with `Closed`.
///
/// A receiver that does not read keeps at most 1,000 commands, none for longer than its sender waits, and takes no more
/// behind 64 MiB of them: the next ones are `NoReceiver`.
#[derive(Default)]
pub struct LiveHub {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared(Mutex<State>);

/// Receivers and letters share their numbers, which grow.
#[derive(Default)]
struct State {
    is_closed: bool,
    last: u64,
    inboxes: HashMap<LiveTarget, Inbox>,
    /// Letters whose sender waits.
    letters: HashMap<u64, Sent>,
}

/// What a receiver reads from.
struct Inbox {
    number: u64,
    /// Letters that it did not take yet, the first first.
    texts: BTreeMap<u64, String>,
    /// The length of these.
    bytes: usize,
    waker: Option<Waker>,
}

impl Inbox {
    const fn new(number: u64) -> Self {
        Self { number, texts: BTreeMap::new(), bytes: 0, waker: None }
    }

    /// Takes a letter in; `false` if there is no room.
    fn put(&mut self, number: u64, text: String) -> bool {
        let has_room = self.texts.len() < MOST_LETTERS && self.bytes < MOST_BYTES;
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

/// A letter, as its sender sees it.
struct Sent {
    target: LiveTarget,
    inbox: u64,
    answer: Option<LiveAnswer>,
    waker: Option<Waker>,
}

type Wakers = Vec<Waker>;

impl Shared {
    /// Changes the state, then wakes who is to be woken, with the lock given back: nobody knows what a waker does.
    fn change<T>(&self, change: impl FnOnce(&mut State, &mut Wakers) -> T) -> T {
        let mut wakers = Vec::new();
        let answer = change(&mut self.lock(), &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        answer
    }

    // What is done under the lock cannot panic: a poisoned one guards whole data.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check_open(&self) -> Result<()> {
        if self.is_closed { Err(Error::closed()) } else { Ok(()) }
    }

    const fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn open(&mut self, target: &LiveTarget, wakers: &mut Wakers) -> Result<u64> {
        self.check_open()?;
        let number = self.next();
        if let Some(earlier) = self.inboxes.insert(target.clone(), Inbox::new(number)) {
            self.end(earlier, wakers);
        }
        Ok(number)
    }

    /// Tells a receiver that it ended, and the senders of all that it did not answer.
    fn end(&mut self, inbox: Inbox, wakers: &mut Wakers) {
        wakers.extend(inbox.waker);
        for sent in self.letters.values_mut().filter(|sent| sent.inbox == inbox.number && sent.answer.is_none()) {
            sent.answer = Some(LiveAnswer::Dropped);
            wakers.extend(sent.waker.take());
        }
    }

    /// Puts a letter into the inbox of its target; none if there is none, or no room in it.
    fn send(&mut self, target: LiveTarget, text: String, wakers: &mut Wakers) -> Result<Option<u64>> {
        self.check_open()?;
        let number = self.next();
        let Some(inbox) = self.inboxes.get_mut(&target) else { return Ok(None) };
        if !inbox.put(number, text) {
            return Ok(None);
        }
        wakers.extend(inbox.waker.take());
        self.letters.insert(number, Sent { target, inbox: inbox.number, answer: None, waker: None });
        Ok(Some(number))
    }

    /// The sender waits no more. Gives the answer, if there is one; without, the letter is nowhere any more.
    fn withdraw(&mut self, number: u64) -> Option<LiveAnswer> {
        let sent = self.letters.remove(&number)?;
        if let Some(inbox) = self.inboxes.get_mut(&sent.target) {
            inbox.remove(number);
        }
        sent.answer
    }

    /// Notes the answer to a letter. Returns whether its sender gets it.
    fn answer(&mut self, number: u64, answer: LiveAnswer, wakers: &mut Wakers) -> bool {
        let waiting = self.letters.get_mut(&number).filter(|sent| sent.answer.is_none());
        let Some(sent) = waiting.filter(|_| !self.is_closed) else { return false };
        sent.answer = Some(answer);
        wakers.extend(sent.waker.take());
        true
    }

    fn poll_answer(&mut self, number: u64, context: &Context<'_>) -> Poll<Result<LiveAnswer>> {
        match self.letters.get_mut(&number) {
            Some(sent) if sent.answer.is_none() && !self.is_closed => {
                sent.waker = Some(context.waker().clone());
                Poll::Pending
            }
            Some(sent) if sent.answer.is_none() => Poll::Ready(Err(Error::closed())),
            // With the answer goes the letter: nobody gives it another one.
            _ => Poll::Ready(Ok(self.withdraw(number).unwrap_or(LiveAnswer::Dropped))),
        }
    }

    /// The next letter for a receiver; none if it ended.
    fn poll_letter(&mut self, at: &Opened, context: &Context<'_>) -> Poll<Option<Result<(u64, String)>>> {
        if self.is_closed {
            return Poll::Ready(Some(Err(Error::closed())));
        }
        let own = self.inboxes.get_mut(&at.target).filter(|inbox| inbox.number == at.number);
        let Some(inbox) = own else { return Poll::Ready(None) };
        if let Some(letter) = inbox.pop() {
            return Poll::Ready(Some(Ok(letter)));
        }
        inbox.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn close(&mut self, wakers: &mut Wakers) {
        self.is_closed = true;
        wakers.extend(self.inboxes.drain().filter_map(|(_, inbox)| inbox.waker));
        wakers.extend(self.letters.values_mut().filter_map(|sent| sent.waker.take()));
    }
}

impl LiveHub {
    /// Ends receivers and deliveries with `Closed`; later calls are refused with it.
    pub fn close(&self) {
        self.shared.change(State::close);
    }

    /// The targets that are open here.
    #[must_use]
    pub fn targets(&self) -> Vec<LiveTarget> {
        self.shared.lock().inboxes.keys().cloned().collect()
    }

    /// Ends the receiver of a target: another process has opened it (LV-3).
    pub fn end(&self, target: &LiveTarget) {
        self.shared.change(|state, wakers| {
            if let Some(inbox) = state.inboxes.remove(target) {
                state.end(inbox, wakers);
            }
        });
    }

    /// Carries a command, as it is written, to its receiver here; none if the deadline passed without an answer.
    ///
    /// # Errors
    /// `Closed`.
    pub async fn carry(&self, target: LiveTarget, text: String, deadline: Duration) -> Result<Option<LiveAnswer>> {
        let Some(number) = self.shared.change(|state, wakers| state.send(target, text, wakers))? else {
            return Ok(Some(LiveAnswer::Dropped));
        };
        let letter = Letter { shared: &self.shared, number };
        let answer = poll_fn(|context| self.shared.lock().poll_answer(number, context));
        match select(answer, pin!(elapsed(deadline))).await {
            Either::Left((answer, _)) => answer.map(Some),
            // The answer may have come in this very moment.
            Either::Right(_) => Ok(letter.withdraw()),
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
        let number = self.shared.change(|state, wakers| state.open(&target, wakers))?;
        let opened = Opened { shared: Arc::clone(&self.shared), target, number };
        let letters = stream::poll_fn(move |context| {
            let letter = opened.shared.lock().poll_letter(&opened, context);
            letter.map(|letter| Some(letter?.map(|(number, text)| opened.letter(number, text))))
        });
        Ok(LiveReceiver::new(Box::pin(letters)))
    }

    async fn deliver(&self, request: DeliverLive) -> Result<LiveDelivery> {
        let DeliverLive { target, command, deadline } = request;
        let answer = self.carry(target, command.encode(), deadline).await?;
        answer.map_or(Ok(LiveDelivery::Unknown), LiveAnswer::into_delivery)
    }
}

/// The receiving end of a target. Dropping it ends the receiver.
struct Opened {
    shared: Arc<Shared>,
    target: LiveTarget,
    number: u64,
}

impl Opened {
    fn letter(&self, number: u64, text: String) -> LiveLetter {
        let shared = Arc::clone(&self.shared);
        LiveLetter::new(text, move |answer| shared.change(|state, wakers| state.answer(number, answer, wakers)))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.shared.change(|state, wakers| {
            if state.inboxes.get(&self.target).is_some_and(|inbox| inbox.number == self.number)
                && let Some(own) = state.inboxes.remove(&self.target)
            {
                state.end(own, wakers);
            }
        });
    }
}

/// A letter of a sender that waits. Dropping it withdraws the letter.
struct Letter<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Letter<'_> {
    fn withdraw(&self) -> Option<LiveAnswer> {
        self.shared.lock().withdraw(self.number)
    }
}

impl Drop for Letter<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
mod tests;
