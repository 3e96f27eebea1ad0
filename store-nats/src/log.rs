//! The log of all decisions: it is followed by a task, and whoever must know the newest waits until that has read it.

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
use store_core::{Error, IdSource, Result, TenantId, Timestamp, Uuids, live::Bell};
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot, watch},
    time::{Instant, sleep, timeout},
};

use crate::{
    config::NatsConfig,
    connection::{ATTEMPT, Connection, UNTIL, Written},
    garbage::Garbage,
    key::Key,
    view::{Change, View},
};

/// How long it takes to try again to follow.
const AGAIN: Duration = Duration::from_millis(200);
/// How long the newest message may be missing. It may have been removed since it was told of: the next one comes then.
const MISSING: Duration = Duration::from_millis(250);

/// After how long without a message that must be there the log is followed anew.
const SILENT: Duration = Duration::from_secs(1);

/// Who waits for the leader to say how far the log is.
#[derive(Debug, Default)]
struct Looking {
    is_asking: bool,
    waiting: Vec<oneshot::Sender<Result<u64>>>,
}

/// Asks the leader for all who wait, as long as somebody does. If it is dropped before, they are told.
struct Asking {
    log: Arc<Log>,
    is_over: bool,
}

impl Asking {
    async fn ask(mut self) {
        loop {
            let waiting = {
                let mut looking = lock(&self.log.looking);
                if looking.waiting.is_empty() {
                    looking.is_asking = false;
                    self.is_over = true;
                    return;
                }
                std::mem::take(&mut looking.waiting)
            };
            let answer = self.log.connection.last().await;
            for waiting in waiting {
                let copy = answer.as_ref().copied().map_err(|error| Error::new(error.detail().clone()));
                // Who was dropped needs no answer.
                let _gone = waiting.send(copy);
            }
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.is_over {
            *lock(&self.log.looking) = Looking::default();
        }
    }
}

/// The log, as far as it was read.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) connection: Connection,
    view: RwLock<View>,
    position: watch::Sender<u64>,
    /// The first message that somebody waits for: nobody is woken before it was read.
    wanted: AtomicU64,
    /// Told when what should come does not.
    anew: Arc<Notify>,
    looking: Mutex<Looking>,
    bells: Mutex<HashMap<TenantId, Arc<Bell>>>,
    /// Decisions of this process that were not read in the log yet. Who made one is told whether it counts.
    awaited: Mutex<HashMap<String, oneshot::Sender<bool>>>,
    pub(crate) garbage: Garbage,
    /// Names this process.
    process: String,
    last_name: AtomicU64,
    stands_still: bool,
    pub(crate) deadline: Duration,
    runtime: Handle,
    /// Whether a part of what was read is lost.
    went_back: AtomicBool,
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
            wanted: AtomicU64::new(u64::MAX),
            anew: Arc::default(),
            looking: Mutex::default(),
            bells: Mutex::default(),
            awaited: Mutex::default(),
            garbage: Garbage::new(config.garbage_kept),
            process: Uuids.next_id(),
            last_name: AtomicU64::default(),
            stands_still: config.stands_still,
            deadline: config.deadline,
            runtime,
            went_back: AtomicBool::default(),
        }
    }

    // What is done under these locks cannot panic: a poisoned one guards whole data.
    pub(crate) fn view(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn view_mut(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bell of a tenant: it is rung for whatever the log brings.
    pub(crate) fn bell(&self, tenant: &TenantId) -> Arc<Bell> {
        Arc::clone(lock(&self.bells).entry(tenant.clone()).or_default())
    }

    /// Wakes everybody who waits for work.
    pub(crate) fn ring_all(&self) {
        lock(&self.bells).values().for_each(|bell| bell.ring(Timestamp::MIN));
    }

    /// The store's time.
    pub(crate) fn now(&self) -> Result<Timestamp> {
        match self.view().clock {
            Some(clock) if self.stands_still => Ok(clock),
            _ => self.connection.clock.now(),
        }
    }

    /// A name for a decision of this process, which is looked for in the log from now on.
    pub(crate) fn await_own(&self) -> Own<'_> {
        let number = self.last_name.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{number}", self.process);
        let (sender, receiver) = oneshot::channel();
        lock(&self.awaited).insert(name.clone(), sender);
        Own { log: self, name, receiver }
    }

    /// Waits until everything is known that was written before this call.
    pub(crate) async fn look(self: &Arc<Self>) -> Result<()> {
        let mut behind = None;
        loop {
            self.check()?;
            let known = *self.position.borrow();
            let last = self.ask_last().await?;
            if last >= known {
                return self.reach(last).await;
            }
            // Either a leader that another one has replaced, which writes nothing, or the end of what was read is lost.
            let _shown = self.touch().await;
            if behind.get_or_insert_with(Instant::now).elapsed() > self.deadline {
                return self
                    .check()
                    .and(Err(Error::server_unavailable("the leader knows less than was read from another one")));
            }
            sleep(AGAIN).await;
        }
    }

    /// Refuses everything once a part of the log that was read is lost: what is decided here would rest on it.
    fn check(&self) -> Result<()> {
        if self.went_back.load(Ordering::SeqCst) {
            return Err(Error::corrupt(
                "the log on the servers, which lost a part that was read: open the mailbox anew",
            ));
        }
        Ok(())
    }

    /// What was written comes behind all that was read, or else a part of that is lost.
    fn comes_behind(&self, known: u64, sequence: u64) -> Result<()> {
        if sequence <= known {
            self.went_back.store(true, Ordering::SeqCst);
        }
        self.check()
    }

    /// Asks the leader how far the log is. Those who come while somebody asks share the next answer.
    async fn ask_last(self: &Arc<Self>) -> Result<u64> {
        let (sender, receiver) = oneshot::channel();
        let is_first = {
            let mut looking = lock(&self.looking);
            looking.waiting.push(sender);
            !std::mem::replace(&mut looking.is_asking, true)
        };
        if is_first {
            // A task of the store: whoever asks first may be dropped, with the runtime that he asks on.
            self.runtime.spawn(Asking { log: Arc::clone(self), is_over: false }.ask());
        }
        receiver.await.map_err(|lost| Error::unavailable("the call was cut off").with_source(lost))?
    }

    /// Waits until the log was read up to a message.
    pub(crate) async fn reach(&self, last: u64) -> Result<()> {
        let mut position = self.position.subscribe();
        let begun = Instant::now();
        let (mut seen, mut moved, mut asked) = (0, begun, begun);
        loop {
            let now = {
                let position = position.borrow_and_update();
                // Said while nobody moves it: whoever does so next tells.
                self.wanted.fetch_min(last, Ordering::SeqCst);
                *position
            };
            if now >= last {
                return Ok(());
            }
            if now != seen {
                (seen, moved) = (now, Instant::now());
            }
            match timeout(MISSING, position.changed()).await {
                Ok(Ok(())) => {}
                // It is on its way.
                Err(_) if *position.borrow() != seen => {}
                Ok(Err(_)) => return Err(Error::closed()),
                Err(_) => {
                    if moved.elapsed() > self.deadline {
                        return Err(Error::server_unavailable("what is written does not come from the server in time"));
                    }
                    // What cannot be written now is tried again.
                    let _lost = self.touch().await;
                    if moved.elapsed() > SILENT && asked.elapsed() > SILENT {
                        // Who sends it may be a server that is cut off.
                        self.anew.notify_waiters();
                        asked = Instant::now();
                    }
                }
            }
        }
    }

    /// Writes a message that says nothing, so that the log goes on behind whatever was removed.
    pub(crate) async fn touch(&self) -> Result<u64> {
        let (subject, known) = (self.connection.keys.subject(&Key::Touch), *self.position.borrow());
        let sequence = self.connection.write(subject, String::new()).await?;
        self.comes_behind(known, sequence).map(|()| sequence)
    }

    /// Writes a message behind the last one on its subject.
    pub(crate) async fn write(&self, key: &Key, last: u64, text: String) -> Result<Written> {
        let known = *self.position.borrow();
        let written = self.connection.write_behind(self.connection.keys.subject(key), last, text).await?;
        self.check_written(known, written)
    }

    /// Writes a message that says nothing if it comes to the log later than within the deadline (PR-21).
    pub(crate) async fn write_in_time(&self, key: &Key, last: u64, text: String) -> Result<Written> {
        let until = self.connection.clock.now()?.saturating_add(self.deadline);
        let known = *self.position.borrow();
        let written = self.connection.write_in_time(self.connection.keys.subject(key), last, text, until).await?;
        self.check_written(known, written)
    }

    fn check_written(&self, known: u64, written: Written) -> Result<Written> {
        if let Written::Accepted(sequence) = written
            && let Err(lost) = self.comes_behind(known, sequence)
        {
            return Err(Error::commit_unknown(None).with_source(lost));
        }
        Ok(written)
    }

    fn take_in(&self, sequence: u64, message: &Message) {
        let key = self.connection.keys.key(&message.subject);
        let text = String::from_utf8_lossy(&message.payload);
        let is_late = is_late(message);
        let change = self.view_mut().apply(sequence, key.clone(), &text, is_late);
        let Change { tenant, claimable_from, garbage, data, ids, by } = change;
        let mut is_own = false;
        if let Some(by) = by {
            is_own = by.starts_with(&self.process);
            if let Some(maker) = lock(&self.awaited).remove(&by) {
                // Who was dropped needs no answer.
                let _gone = maker.send(!is_late);
            }
        }
        self.garbage.add(key.as_ref(), garbage, is_own);
        self.garbage.add_data(data, is_own);
        if let Some(Key::Thread(tenant, incarnation, _)) = key
            && is_own
        {
            self.garbage.add_ids(&tenant, incarnation, ids);
        }
        self.position.send_if_modified(|position| {
            *position = sequence;
            let is_wanted = sequence >= self.wanted.load(Ordering::SeqCst);
            if is_wanted {
                self.wanted.store(u64::MAX, Ordering::SeqCst);
            }
            is_wanted
        });
        match (tenant, claimable_from) {
            (Some(tenant), Some(from)) => {
                if let Some(bell) = lock(&self.bells).get(&tenant) {
                    bell.ring(from);
                }
            }
            (None, _) => self.ring_all(),
            _ => {}
        }
    }
}

/// Whether a message came to the log later than it was to. Everybody who reads the log finds the same.
fn is_late(message: &Message) -> bool {
    let until = message.headers.as_ref().and_then(|headers| headers.get(UNTIL)?.as_str().parse::<u128>().ok());
    let Some((until, info)) = until.zip(message.info().ok()) else { return false };
    let stored = SystemTime::from(info.published).duration_since(UNIX_EPOCH).unwrap_or_default();
    stored.as_millis() > until
}

/// A decision on its way.
pub(crate) struct Own<'a> {
    log: &'a Log,
    pub(crate) name: String,
    receiver: oneshot::Receiver<bool>,
}

impl Own<'_> {
    /// Whether it counts, once it was read in the log. It is told once.
    pub(crate) fn counts(&mut self) -> Option<bool> {
        self.receiver.try_recv().ok()
    }

    /// Waits until it was read in the log, where the server said it is.
    pub(crate) async fn wait(&mut self, sequence: u64) -> Option<bool> {
        match timeout(MISSING, &mut self.receiver).await {
            Ok(counts) => counts.ok(),
            Err(_) => {
                self.log.reach(sequence).await.ok()?;
                self.counts()
            }
        }
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        lock(&self.log.awaited).remove(&self.name);
    }
}

/// Reads the log as it grows, until the store is closed. Who lost the connection goes on where he was.
pub(crate) async fn follow(log: Weak<Log>) {
    loop {
        let Some(strong) = log.upgrade() else { return };
        let (mut context, keys) = (jetstream::new(strong.connection.client.clone()), strong.connection.keys.clone());
        context.set_timeout(ATTEMPT);
        let anew = Arc::clone(&strong.anew);
        let config = OrderedConfig {
            deliver_subject: strong.connection.client.new_inbox(),
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: strong.view().position + 1 },
            ..OrderedConfig::default()
        };
        drop(strong);
        if let Ok(consumer) = context.create_consumer_on_stream(config, keys.log()).await
            && let Ok(mut messages) = consumer.messages().await
        {
            loop {
                let next = tokio::select! {
                    next = messages.next() => next,
                    () = anew.notified() => None,
                };
                let Some(Ok(message)) = next else { break };
                let Some(log) = log.upgrade() else { return };
                let Ok(info) = message.info() else { break };
                let sequence = info.stream_sequence;
                if sequence > log.view().position {
                    log.take_in(sequence, &message);
                }
            }
        }
        sleep(AGAIN).await;
    }
}
