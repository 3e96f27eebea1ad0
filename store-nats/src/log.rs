//! The log of all decisions. A task follows the log. A caller that needs the newest state waits until the task has read
//! the log to its end.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_nats::jetstream::{
    self, Message,
    consumer::{DeliverPolicy, push::OrderedConfig},
};
use futures_util::StreamExt;
use store_core::{Error, IdSource, Result, TenantId, Timestamp, UuidSource, live::Notifier};
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot, watch},
    time::{Instant, sleep, timeout},
};

use crate::{
    config::NatsConfig,
    connection::{Connection, DEADLINE_HEADER, REQUEST_TIMEOUT, WriteResult},
    garbage::{FirstRemover, Garbage},
    server_names::LogSubject,
    view::{Change, View},
};

/// The delay before the task tries to follow the log again.
const FOLLOW_RETRY_DELAY: Duration = Duration::from_millis(200);
/// How long a caller waits for the newest message. That message may have been removed after the leader reported its
/// number, so the caller then writes another one.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(250);

/// The time without an expected message after which the task subscribes to the log again.
const RESUBSCRIBE_AFTER: Duration = Duration::from_secs(1);

/// The callers that wait for the leader to report the end of the log.
#[derive(Debug, Default)]
struct LogEndRequests {
    is_asking: bool,
    waiting_callers: Vec<oneshot::Sender<Result<u64>>>,
}

/// Asks the leader for the end of the log on behalf of the waiting callers, until no caller waits. If this value is
/// dropped earlier, the callers get an error.
struct LogEndQuery {
    log: Arc<Log>,
    has_ended: bool,
}

impl LogEndQuery {
    async fn ask(mut self) {
        loop {
            let waiting_callers = {
                let mut log_end_requests = lock(&self.log.log_end_requests);
                if log_end_requests.waiting_callers.is_empty() {
                    log_end_requests.is_asking = false;
                    self.has_ended = true;
                    return;
                }
                std::mem::take(&mut log_end_requests.waiting_callers)
            };
            let answer = self.log.connection.last_sequence().await;
            for caller in waiting_callers {
                let answer_copy = answer.as_ref().copied().map_err(|error| Error::new(error.detail().clone()));
                // A dropped caller needs no answer.
                let _result = caller.send(answer_copy);
            }
        }
    }
}

impl Drop for LogEndQuery {
    fn drop(&mut self) {
        if !self.has_ended {
            *lock(&self.log.log_end_requests) = LogEndRequests::default();
        }
    }
}

/// The log, up to the message that was read last.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) connection: Connection,
    view: RwLock<View>,
    /// The sequence number of the last message that was read.
    position: watch::Sender<u64>,
    /// The lowest sequence number that a caller waits for. No caller is woken before the message with that number
    /// has been read.
    lowest_awaited: AtomicU64,
    /// Notified when an expected message does not come.
    resubscribe: Arc<Notify>,
    log_end_requests: Mutex<LogEndRequests>,
    notifiers: Mutex<HashMap<TenantId, Arc<Notifier>>>,
    /// Decisions of this process that have not been read from the log yet, by name. When one is read, its sender tells
    /// the caller that made it whether it took effect.
    pending_decisions: Mutex<HashMap<String, oneshot::Sender<bool>>>,
    pub(crate) garbage: Garbage,
    /// The name of this process.
    process_name: String,
    next_decision_number: AtomicU64,
    uses_test_clock: bool,
    pub(crate) answer_timeout: Duration,
    runtime: Handle,
    /// Whether the servers lost a part of the log that this process has read.
    is_truncated: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    pub(crate) fn new(connection: Connection, config: &NatsConfig, runtime: Handle) -> Self {
        Self {
            connection,
            view: RwLock::default(),
            position: watch::Sender::new(0),
            lowest_awaited: AtomicU64::new(u64::MAX),
            resubscribe: Arc::default(),
            log_end_requests: Mutex::default(),
            notifiers: Mutex::default(),
            pending_decisions: Mutex::default(),
            garbage: Garbage::new(config.garbage_retention),
            process_name: UuidSource.next_id(),
            next_decision_number: AtomicU64::default(),
            uses_test_clock: config.uses_test_clock,
            answer_timeout: config.answer_timeout,
            runtime,
            is_truncated: AtomicBool::default(),
        }
    }

    // The code under these locks cannot panic, so the data behind a poisoned lock is consistent.
    pub(crate) fn view(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn view_mut(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the notifier of a tenant. It wakes waiting callers when a message that may make a dispatch claimable has
    /// been read.
    pub(crate) fn notifier(&self, tenant: &TenantId) -> Arc<Notifier> {
        Arc::clone(lock(&self.notifiers).entry(tenant.clone()).or_default())
    }

    /// Wakes all callers that wait for work.
    pub(crate) fn notify_all(&self) {
        lock(&self.notifiers).values().for_each(|notifier| notifier.notify(Timestamp::MIN));
    }

    /// Returns store time.
    pub(crate) fn now(&self) -> Result<Timestamp> {
        match self.view().clock {
            Some(clock) if self.uses_test_clock => Ok(clock),
            _ => self.connection.clock.now(),
        }
    }

    /// Returns a name for a decision of this process, and registers it so that it is recognised in the log.
    pub(crate) fn register_decision(&self) -> PendingDecision<'_> {
        let number = self.next_decision_number.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{number}", self.process_name);
        let (sender, receiver) = oneshot::channel();
        lock(&self.pending_decisions).insert(name.clone(), sender);
        PendingDecision { log: self, name, receiver }
    }

    /// Waits until all messages that were written before this call have been read.
    pub(crate) async fn catch_up(self: &Arc<Self>) -> Result<()> {
        let mut behind_since = None;
        loop {
            self.check_not_truncated()?;
            let last_read = *self.position.borrow();
            let last = self.ask_log_end().await?;
            if last >= last_read {
                return self.wait_until_read(last).await;
            }
            // The leader reports an earlier end of the log than this process has read. Either that leader has not
            // noticed that it was replaced, or the servers lost the end of the log. A write shows which: only the
            // current leader can write.
            let _result = self.write_marker().await;
            if behind_since.get_or_insert_with(Instant::now).elapsed() > self.answer_timeout {
                return self
                    .check_not_truncated()
                    .and(Err(Error::server_unavailable("the leader lacks messages that an earlier leader had")));
            }
            sleep(FOLLOW_RETRY_DELAY).await;
        }
    }

    /// Returns an error if the servers lost a part of the log that was read, because the view is based on that part.
    fn check_not_truncated(&self) -> Result<()> {
        if self.is_truncated.load(Ordering::SeqCst) {
            return Err(Error::corrupt(
                "the servers lost a part of the log that was already read: open the mailbox again",
            ));
        }
        Ok(())
    }

    /// Checks that a new message comes after all messages read so far. Otherwise the servers lost a part of the log.
    fn check_sequence(&self, last_read: u64, sequence: u64) -> Result<()> {
        if sequence <= last_read {
            self.is_truncated.store(true, Ordering::SeqCst);
        }
        self.check_not_truncated()
    }

    /// Asks the leader for the end of the log. Callers that arrive while a request is in progress share the answer of
    /// the next request.
    async fn ask_log_end(self: &Arc<Self>) -> Result<u64> {
        let (sender, receiver) = oneshot::channel();
        let is_first = {
            let mut log_end_requests = lock(&self.log_end_requests);
            log_end_requests.waiting_callers.push(sender);
            !std::mem::replace(&mut log_end_requests.is_asking, true)
        };
        if is_first {
            // The request runs in a task of the store, because the first caller may be dropped together with its
            // runtime.
            self.runtime.spawn(LogEndQuery { log: Arc::clone(self), has_ended: false }.ask());
        }
        receiver
            .await
            .map_err(|error| Error::unavailable("the task of the call ended without a result").with_source(error))?
    }

    /// Waits until the log has been read up to the message with this sequence number.
    pub(crate) async fn wait_until_read(&self, last: u64) -> Result<()> {
        let mut position = self.position.subscribe();
        let started_at = Instant::now();
        let (mut last_seen, mut moved_at, mut resubscribed_at) = (0, started_at, started_at);
        loop {
            let current_position = {
                let position = position.borrow_and_update();
                // This number is set while the position is borrowed, so the next change of the position takes it into
                // account.
                self.lowest_awaited.fetch_min(last, Ordering::SeqCst);
                *position
            };
            if current_position >= last {
                return Ok(());
            }
            if current_position != last_seen {
                (last_seen, moved_at) = (current_position, Instant::now());
            }
            match timeout(MESSAGE_TIMEOUT, position.changed()).await {
                Ok(Ok(())) => {}
                // Messages are still coming in.
                Err(_) if *position.borrow() != last_seen => {}
                Ok(Err(_)) => return Err(Error::closed()),
                Err(_) => {
                    if moved_at.elapsed() > self.answer_timeout {
                        return Err(Error::server_unavailable("the server did not deliver the log in time"));
                    }
                    // If this write fails, it is tried again.
                    let _result = self.write_marker().await;
                    if moved_at.elapsed() > RESUBSCRIBE_AFTER && resubscribed_at.elapsed() > RESUBSCRIBE_AFTER {
                        // The server that delivers the messages may be cut off from the cluster.
                        self.resubscribe.notify_waiters();
                        resubscribed_at = Instant::now();
                    }
                }
            }
        }
    }

    /// Writes a message without content. If a caller waits for a removed message, it continues when this message is
    /// read.
    pub(crate) async fn write_marker(&self) -> Result<u64> {
        let (subject, last_read) = (self.connection.names.subject_text(&LogSubject::Marker), *self.position.borrow());
        let sequence = self.connection.write(subject, String::new()).await?;
        self.check_sequence(last_read, sequence).map(|()| sequence)
    }

    /// Writes a message on a subject if the message with the number `last` is still the last one on that subject.
    pub(crate) async fn write(&self, log_subject: &LogSubject, last: u64, text: String) -> Result<WriteResult> {
        let last_read = *self.position.borrow();
        let result = self.connection.write_if_last(self.connection.names.subject_text(log_subject), last, text).await?;
        self.check_write_result(last_read, result)
    }

    /// Writes a message as `write` does. The message has no effect if it reaches the log later than `answer_timeout`
    /// from now (PR-21).
    pub(crate) async fn write_in_time(&self, log_subject: &LogSubject, last: u64, text: String) -> Result<WriteResult> {
        let until = self.connection.clock.now()?.saturating_add(self.answer_timeout);
        let last_read = *self.position.borrow();
        let result = self
            .connection
            .write_in_time(self.connection.names.subject_text(log_subject), last, (None, text), until)
            .await?;
        self.check_write_result(last_read, result)
    }

    /// If the message was accepted, checks that it comes after the message with the number `last_read`. That is the
    /// last message that was read before.
    fn check_write_result(&self, last_read: u64, result: WriteResult) -> Result<WriteResult> {
        if let WriteResult::Accepted(sequence) = result
            && let Err(error) = self.check_sequence(last_read, sequence)
        {
            return Err(Error::commit_unknown(None).with_source(error));
        }
        Ok(result)
    }

    fn apply_message(&self, sequence: u64, message: &Message) {
        let log_subject = self.connection.names.parse_log_subject(&message.subject);
        let text = String::from_utf8_lossy(&message.payload);
        let is_late = is_late(message);
        let change = self.view_mut().apply(sequence, log_subject.clone(), &text, is_late);
        let Change { tenant, claimable_from, superseded_messages, unneeded_data, unused_ids, decision_name } = change;
        let mut is_own = false;
        if let Some(decision_name) = decision_name {
            is_own = decision_name.starts_with(&self.process_name);
            if let Some(sender) = lock(&self.pending_decisions).remove(&decision_name) {
                // A dropped caller needs no answer.
                let _result = sender.send(!is_late);
            }
        }
        let first_remover = if is_own { FirstRemover::ThisProcess } else { FirstRemover::OtherProcess };
        self.garbage.add_messages(log_subject.as_ref(), superseded_messages, first_remover);
        self.garbage.add_data(unneeded_data, first_remover);
        if let Some(LogSubject::Thread(tenant, incarnation, _)) = log_subject
            && is_own
        {
            self.garbage.add_ids(&tenant, incarnation, unused_ids);
        }
        self.position.send_if_modified(|position| {
            *position = sequence;
            let is_awaited = sequence >= self.lowest_awaited.load(Ordering::SeqCst);
            if is_awaited {
                self.lowest_awaited.store(u64::MAX, Ordering::SeqCst);
            }
            is_awaited
        });
        match (tenant, claimable_from) {
            (Some(tenant), Some(from)) => {
                if let Some(notifier) = lock(&self.notifiers).get(&tenant) {
                    notifier.notify(from);
                }
            }
            (None, _) => self.notify_all(),
            _ => {}
        }
    }
}

/// Whether a message reached the log after its deadline. The result depends on the message only, so it is the same for
/// every reader of the log.
pub(crate) fn is_late(message: &Message) -> bool {
    let until =
        message.headers.as_ref().and_then(|headers| headers.get(DEADLINE_HEADER)?.as_str().parse::<u128>().ok());
    until.is_some_and(|until| u128::from(published_at(message).as_millis()) > until)
}

/// Returns when the server stored a message; the earliest time if the message does not say so.
pub(crate) fn published_at(message: &Message) -> Timestamp {
    let stored_at = message.info().map(|info| SystemTime::from(info.published)).unwrap_or(UNIX_EPOCH);
    let millis = stored_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(millis).ok().and_then(|millis| Timestamp::from_millis(millis).ok()).unwrap_or(Timestamp::MIN)
}

/// A decision of this process that is being written.
pub(crate) struct PendingDecision<'a> {
    log: &'a Log,
    pub(crate) name: String,
    receiver: oneshot::Receiver<bool>,
}

impl PendingDecision<'_> {
    /// Returns whether the decision took effect, or `None` if it has not been read from the log yet. Once a call has
    /// returned the result, later calls return `None`.
    pub(crate) fn took_effect(&mut self) -> Option<bool> {
        self.receiver.try_recv().ok()
    }

    /// Waits until the decision has been read from the log, at the sequence number that the server reported. Returns
    /// whether it took effect.
    pub(crate) async fn wait(&mut self, sequence: u64) -> Option<bool> {
        match timeout(MESSAGE_TIMEOUT, &mut self.receiver).await {
            Ok(took_effect) => took_effect.ok(),
            Err(_) => {
                self.log.wait_until_read(sequence).await.ok()?;
                self.took_effect()
            }
        }
    }
}

impl Drop for PendingDecision<'_> {
    fn drop(&mut self) {
        lock(&self.log.pending_decisions).remove(&self.name);
    }
}

/// Reads the log as it grows, until the store is closed. After a lost connection it continues from its last position.
pub(crate) async fn follow(log: Weak<Log>) {
    loop {
        let Some(open_log) = log.upgrade() else { return };
        let (mut context, names) =
            (jetstream::new(open_log.connection.client.clone()), open_log.connection.names.clone());
        context.set_timeout(REQUEST_TIMEOUT);
        let resubscribe = Arc::clone(&open_log.resubscribe);
        let config = OrderedConfig {
            deliver_subject: open_log.connection.client.new_inbox(),
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: open_log.view().position + 1 },
            ..OrderedConfig::default()
        };
        drop(open_log);
        if let Ok(consumer) = context.create_consumer_on_stream(config, names.log_stream()).await
            && let Ok(mut messages) = consumer.messages().await
        {
            loop {
                let next = tokio::select! {
                    next = messages.next() => next,
                    () = resubscribe.notified() => None,
                };
                let Some(Ok(message)) = next else { break };
                let Some(log) = log.upgrade() else { return };
                let Ok(info) = message.info() else { break };
                let sequence = info.stream_sequence;
                if sequence > log.view().position {
                    log.apply_message(sequence, &message);
                }
            }
        }
        sleep(FOLLOW_RETRY_DELAY).await;
    }
}
