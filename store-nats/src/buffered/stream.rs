//! The stream of deltas: following it, and writing to it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_nats::jetstream::{
    self, Message,
    consumer::{DeliverPolicy, push::OrderedConfig},
};
use futures_util::StreamExt;
use store_core::{Error, IdSource, Outcome, Result, UuidSource, check_limit, codec::Codec, length};
use tokio::{
    sync::{Mutex as AsyncMutex, Notify, oneshot, watch},
    time::{Instant, sleep, timeout},
};

use super::{message::DeltaMessage, state::StreamState};
use crate::{
    connection::{Connection, NAME_HEADER, REQUEST_TIMEOUT, RETRY_DELAY, WriteResult},
    error,
    log::{is_late, published_at},
    server_names::{LogSubject, id_to_token},
};

/// How long a caller waits for the newest message before it writes another one: the newest may have been removed.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(250);
/// The time without an expected message after which the stream is subscribed to again.
const RESUBSCRIBE_AFTER: Duration = Duration::from_secs(1);
/// The delay before the task tries to follow the stream again.
const FOLLOW_RETRY_DELAY: Duration = Duration::from_millis(200);
/// The bytes of a message that are left for headers.
const HEADER_BYTES: u64 = 1 << 10;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message of this node that has not been read yet. It is not decoded when it is read.
#[derive(Debug)]
struct UnreadMessage {
    message: DeltaMessage,
    /// Tells whether the message takes effect.
    sender: oneshot::Sender<bool>,
}

/// The stream, up to the message that was read last.
#[derive(Debug)]
pub(crate) struct DeltaStream {
    pub(crate) connection: Connection,
    state: RwLock<StreamState>,
    position: watch::Sender<u64>,
    resubscribe: Notify,
    /// The number of the last request for the end of the stream, and its answer.
    end: AsyncMutex<(u64, u64)>,
    end_requests: AtomicU64,
    /// Messages of this node that have not been read yet, by number.
    own: Mutex<HashMap<u64, UnreadMessage>>,
    node_name: String,
    next_number: AtomicU64,
    /// Why the stream cannot be read any further.
    broken: Mutex<Option<String>>,
    /// Notified when a delta begins to wait.
    pub(crate) has_new_delta: Notify,
}

impl DeltaStream {
    pub(crate) fn new(connection: Connection, state: StreamState) -> Self {
        Self {
            connection,
            position: watch::Sender::new(state.position()),
            state: RwLock::new(state),
            resubscribe: Notify::new(),
            end: AsyncMutex::default(),
            end_requests: AtomicU64::new(1),
            own: Mutex::default(),
            node_name: UuidSource.next_id(),
            next_number: AtomicU64::default(),
            broken: Mutex::default(),
            has_new_delta: Notify::new(),
        }
    }

    // The code under these locks does not panic, so the data behind a poisoned lock is consistent.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, StreamState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state_mut(&self) -> RwLockWriteGuard<'_, StreamState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the subject of the deltas of a thread. Deltas of no thread have a subject of their own kind.
    pub(crate) fn subject(&self, tenant: &str, thread: &str) -> String {
        format!("{}.{}.{}", delta_subjects(&self.connection), id_to_token(tenant), id_to_token(thread))
    }

    fn check_not_broken(&self) -> Result<()> {
        match &*lock(&self.broken) {
            Some(reason) => Err(Error::corrupt(format!("the stream of the write buffer: {reason}"))),
            None => Ok(()),
        }
    }

    /// Waits until everything that was written before this call has been read. Returns the end of the stream.
    pub(crate) async fn catch_up(&self) -> Result<u64> {
        let started_at = Instant::now();
        loop {
            self.check_not_broken()?;
            let last_read = *self.position.borrow();
            let end = self.ask_end().await?;
            if end >= last_read {
                self.wait_until_read(end).await?;
                return Ok(end);
            }
            // A leader that has been replaced may report an earlier end. Only the current leader can write.
            let _result = self.write_marker().await;
            if started_at.elapsed() > self.connection.answer_timeout {
                return Err(Error::server_unavailable("the leader lacks messages that an earlier leader had"));
            }
            sleep(FOLLOW_RETRY_DELAY).await;
        }
    }

    /// Asks the leader for the end of the stream. A call that waits while another one asks takes the answer to the
    /// next request, which began after it.
    async fn ask_end(&self) -> Result<u64> {
        let arrived_after = self.end_requests.load(Ordering::SeqCst);
        let mut last_answer = self.end.lock().await;
        if last_answer.0 > arrived_after {
            return Ok(last_answer.1);
        }
        let number = self.end_requests.fetch_add(1, Ordering::SeqCst) + 1;
        let end = self.connection.last_sequence().await?;
        *last_answer = (number, end);
        Ok(end)
    }

    /// Waits until the stream has been read up to this message.
    pub(crate) async fn wait_until_read(&self, last: u64) -> Result<()> {
        let mut position = self.position.subscribe();
        let (mut last_seen, mut moved_at, mut resubscribed_at) = (0, Instant::now(), Instant::now());
        loop {
            let current = *position.borrow_and_update();
            if current >= last {
                return Ok(());
            }
            self.check_not_broken()?;
            if current != last_seen {
                (last_seen, moved_at) = (current, Instant::now());
            }
            match timeout(MESSAGE_TIMEOUT, position.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Error::closed()),
                Err(_) if *position.borrow() != last_seen => {}
                Err(_) => {
                    if moved_at.elapsed() > self.connection.answer_timeout {
                        return Err(Error::server_unavailable("the server did not deliver the stream in time"));
                    }
                    // If this write fails, it is tried again.
                    let _result = self.write_marker().await;
                    if moved_at.elapsed() > RESUBSCRIBE_AFTER && resubscribed_at.elapsed() > RESUBSCRIBE_AFTER {
                        self.resubscribe.notify_waiters();
                        resubscribed_at = Instant::now();
                    }
                }
            }
        }
    }

    /// Writes that the buffer is detached, or attached again, and waits until it has been read.
    pub(crate) async fn write_attachment(&self, detached: bool) -> Result<u64> {
        let text = DeltaMessage::of_attachment(detached).encode();
        let sequence = self.connection.write(attachment_subject(&self.connection), text).await?;
        self.wait_until_read(sequence).await?;
        Ok(sequence)
    }

    /// Writes a message without content.
    async fn write_marker(&self) -> Result<u64> {
        self.connection.write(self.connection.names.subject_text(&LogSubject::Marker), String::new()).await
    }

    /// Notes a message of this node, so that it is recognised in the stream.
    fn register(&self, message: DeltaMessage) -> OwnMessage<'_> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        lock(&self.own).insert(number, UnreadMessage { message, sender });
        OwnMessage { stream: self, number, receiver }
    }

    /// Writes a message on a subject, and waits until it has been read.
    pub(crate) async fn publish(&self, subject: &str, message: DeltaMessage) -> Result<Published<'_>> {
        let text = message.encode();
        let max_payload = u64::try_from(self.connection.client.server_info().max_payload).unwrap_or_default();
        check_limit("bytes of a buffered write", length(text.len()), max_payload.saturating_sub(HEADER_BYTES))?;
        let mut own = self.register(message);
        let last = self.state().last_of_subject(subject);
        let until = self.connection.clock.now()?.saturating_add(self.connection.answer_timeout);
        let name = Some(format!("{} {}", self.node_name, own.number));
        let error = match self.connection.write_in_time(subject.to_owned(), last, (name, text), until).await {
            Ok(WriteResult::Accepted(sequence)) => match own.wait(sequence).await {
                Some(is_effective) => return Ok(Published::known(is_effective)),
                None => Error::commit_unknown(None),
            },
            Ok(WriteResult::Busy) => return Ok(self.refused(own)),
            Ok(WriteResult::Conflict) => {
                return match self.learn_last_of_subject(subject).await {
                    Err(error) if !self.is_clustered() => Err(error),
                    _ => Ok(self.refused(own)),
                };
            }
            Err(error) if error.outcome() == Outcome::Unknown => error,
            Err(error) if self.is_clustered() && error::is_refusal(&error) => error,
            Err(error) => return Err(error),
        };
        match self.resolve(&mut own, subject).await {
            Some(false) if error.outcome() == Outcome::NotApplied => Err(error),
            Some(is_effective) => Ok(Published::known(is_effective)),
            None => Err(as_unknown(error)),
        }
    }

    /// Whether several servers may take one message. A server that was the leader, and has not learned yet that another
    /// one leads, refuses messages that the leader stores. The client gets the first answer.
    fn is_clustered(&self) -> bool {
        self.connection.client.server_info().cluster.is_some()
    }

    fn refused<'a>(&self, own: OwnMessage<'a>) -> Published<'a> {
        if self.is_clustered() { Published::Refused(own) } else { Published::Ineffective }
    }

    /// Learns which message is the last one on a subject, after the server has refused a message.
    async fn learn_last_of_subject(&self, subject: &str) -> Result<()> {
        let last = self.connection.load_last(&self.connection.names.log_stream(), subject).await?;
        let last = last.map_or(0, |(sequence, _)| sequence);
        self.wait_until_read(last).await?;
        let mut state = self.state_mut();
        // A message that was read in the meantime is newer.
        if last == 0 || state.last_of_subject(subject) < last {
            state.set_last_of_subject(subject, last);
        }
        Ok(())
    }

    /// Finds out whether a message whose answer was lost takes effect. Returns none if that is not possible in time, or
    /// if the message may have been removed from the stream, as an applied one is, before this node read it.
    pub(crate) async fn resolve(&self, own: &mut OwnMessage<'_>, subject: &str) -> Option<bool> {
        let started_at = Instant::now();
        while started_at.elapsed() < self.connection.answer_timeout {
            if self.catch_up().await.is_ok()
                && let Some(is_effective) = own.is_effective()
            {
                return Some(is_effective);
            }
            // After a message that writes the same keys, the lost one can take no effect any more.
            let barrier = lock(&self.own).get(&own.number).map(|unread| unread.message.barrier());
            if let Some(barrier) = barrier
                && let Ok(sequence) = self.connection.write(subject.to_owned(), barrier.encode()).await
                && self.wait_until_read(sequence).await.is_ok()
            {
                let has_read_all = self.state().has_read_all_since(barrier.as_of);
                return own.is_effective().or(has_read_all.then_some(false));
            }
            sleep(RETRY_DELAY).await;
        }
        None
    }

    /// Takes a message that this node has written and not read yet.
    fn take_own(&self, message: &Message) -> Option<UnreadMessage> {
        let name = message.headers.as_ref()?.get(NAME_HEADER)?.as_str();
        let number = name.strip_prefix(&self.node_name)?.trim_start().parse().ok()?;
        lock(&self.own).remove(&number)
    }

    fn read_message(&self, sequence: u64, message: &Message) {
        let (mut delta_message, mut sender) = (None, None);
        if let Some(own) = self.take_own(message) {
            (delta_message, sender) = (Some(own.message), Some(own.sender));
        } else if message.subject.starts_with(&delta_subjects(&self.connection)) {
            match DeltaMessage::read(&String::from_utf8_lossy(&message.payload)) {
                Ok(read) => delta_message = Some(read),
                Err(error) => {
                    *lock(&self.broken) = Some(format!("message {sequence} cannot be read: {error}"));
                    // Those that wait for the message see the error.
                    self.position.send_modify(|_| ());
                    return;
                }
            }
        }
        let is_effective = {
            let times = (published_at(message), is_late(message));
            self.state_mut().read(sequence, &message.subject, delta_message, times)
        };
        match is_effective {
            // A caller that has gone needs no answer. Without an answer the outcome is unknown.
            Some(is_effective) => drop(sender.map(|sender| sender.send(is_effective))),
            None => drop(sender),
        }
        if is_effective == Some(true) {
            self.has_new_delta.notify_one();
        }
        self.position.send_replace(sequence);
    }

    /// Removes the messages that no node needs any more: those more than a window before `applied`.
    pub(crate) async fn remove_applied(&self, applied: u64) -> Result<()> {
        self.remove_upto(applied.saturating_sub(super::state::WINDOW)).await
    }

    /// Removes the messages up to this one.
    pub(crate) async fn remove_upto(&self, last: u64) -> Result<()> {
        let marker = self.connection.names.subject_text(&LogSubject::Marker);
        for subjects in [format!("{}.>", delta_subjects(&self.connection)), marker] {
            self.connection.purge_upto(&self.connection.names.log_stream(), &subjects, last).await?;
        }
        Ok(())
    }
}

/// Returns the part that the subjects of all deltas begin with.
fn delta_subjects(connection: &Connection) -> String {
    let all = connection.names.all_log_subjects();
    format!("{}.delta", all.trim_end_matches(".>"))
}

/// Returns the subject of the messages that detach the buffer and attach it again. No thread has it.
fn attachment_subject(connection: &Connection) -> String {
    format!("{}.-.-", delta_subjects(connection))
}

/// Returns whether the newest message about it says that the buffer is detached.
pub(crate) async fn is_detached(connection: &Connection) -> Result<bool> {
    let last = connection.load_last(&connection.names.log_stream(), &attachment_subject(connection)).await?;
    let Some((sequence, text)) = last else { return Ok(false) };
    let message = DeltaMessage::read(&text)
        .map_err(|error| Error::corrupt(format!("message {sequence} of the write buffer: {error}")))?;
    Ok(message.detached == Some(true))
}

/// Returns whether the stream contains deltas.
pub(crate) async fn has_deltas(connection: &Connection) -> Result<bool> {
    let subjects = format!("{}.>", delta_subjects(connection));
    Ok(connection.load_last(&connection.names.log_stream(), &subjects).await?.is_some())
}

/// What became of a message that was written.
pub(crate) enum Published<'a> {
    /// It takes effect.
    Effective,
    /// It never takes effect: the decision must be made again.
    Ineffective,
    /// A server of a cluster has refused it, and it was not seen in the stream. The decision must be made again. Only
    /// one of both takes effect, but it may be the first one: [`DeltaStream::resolve`] finds out.
    Refused(OwnMessage<'a>),
}

impl Published<'_> {
    const fn known(is_effective: bool) -> Self {
        if is_effective { Self::Effective } else { Self::Ineffective }
    }
}

/// Returns the error of a write of which it is not known whether it took effect.
fn as_unknown(error: Error) -> Error {
    match error.outcome() {
        Outcome::Unknown => error,
        Outcome::NotApplied => Error::commit_unknown(None).with_source(error),
    }
}

/// A message of this node that is being written.
pub(crate) struct OwnMessage<'a> {
    stream: &'a DeltaStream,
    number: u64,
    receiver: oneshot::Receiver<bool>,
}

impl OwnMessage<'_> {
    /// Returns whether the message takes effect, or none if it has not been read yet.
    fn is_effective(&mut self) -> Option<bool> {
        self.receiver.try_recv().ok()
    }

    /// Waits until the message with this sequence number has been read.
    async fn wait(&mut self, sequence: u64) -> Option<bool> {
        match timeout(MESSAGE_TIMEOUT, &mut self.receiver).await {
            Ok(is_effective) => is_effective.ok(),
            Err(_) => {
                self.stream.wait_until_read(sequence).await.ok()?;
                self.is_effective()
            }
        }
    }
}

impl Drop for OwnMessage<'_> {
    fn drop(&mut self) {
        lock(&self.stream.own).remove(&self.number);
    }
}

/// Reads the stream as it grows, until the buffer is closed. After a lost connection it continues where it was.
pub(crate) async fn follow(stream: Weak<DeltaStream>) {
    loop {
        let Some(open) = stream.upgrade() else { return };
        if open.check_not_broken().is_err() {
            return;
        }
        let mut context = jetstream::new(open.connection.client.clone());
        context.set_timeout(REQUEST_TIMEOUT);
        let config = OrderedConfig {
            deliver_subject: open.connection.client.new_inbox(),
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: open.state().position() + 1 },
            ..OrderedConfig::default()
        };
        if let Ok(consumer) = context.create_consumer_on_stream(config, open.connection.names.log_stream()).await
            && let Ok(mut messages) = consumer.messages().await
        {
            let weak = Arc::downgrade(&open);
            drop(open);
            while let Some(open) = weak.upgrade() {
                let next = tokio::select! {
                    next = messages.next() => next,
                    () = open.resubscribe.notified() => None,
                };
                let Some(Ok(message)) = next else { break };
                let Ok(info) = message.info() else { break };
                if info.stream_sequence > open.state().position() {
                    open.read_message(info.stream_sequence, &message);
                }
                if open.check_not_broken().is_err() {
                    return;
                }
            }
        }
        sleep(FOLLOW_RETRY_DELAY).await;
    }
}
