//! A batch: one transaction for all calls that wait. If one of them fails behind its first write, each is tried alone.

#![expect(clippy::disallowed_methods, reason = "how long calls are gathered is real time")]

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use rusqlite::{Connection, Error as SqlError, ErrorCode, config::DbConfig};
use store_core::{Detail, Error, ErrorKind, IdSource, Limits, Result, TenantId, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::{Job, Message, log::Log};
use crate::{
    config::Synchronous,
    error,
    place::{self, Place},
    rows::{Kept, Known, Recent, Statements},
    schema, sql,
    tenant::{Fixed, Tenant},
};

/// Calls of one transaction.
const MOST: usize = 512;
/// How long a batch waits in all for those who were answered with the one before: they are likely to ask again.
const GATHER: Duration = Duration::from_micros(400);
/// How long it waits for the next of them.
const STEP: Duration = Duration::from_micros(40);
/// Others look by themselves for what comes later than this.
const SOON: Duration = Duration::from_secs(1);

/// Why nothing of a batch, or nobody knows how much, was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Others held the file.
    Busy,
    /// There is no space.
    Full,
    /// The commit may have happened.
    Unknown,
    /// A sync failed before.
    Poisoned(Timestamp),
    Closed,
    /// A call failed behind its first write. What it wrote cannot be taken back alone: a savepoint for each call would
    /// copy every page that it changes.
    Spoiled,
    /// Something else that changed nothing.
    Lost,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Busy => Self::unavailable("others held the file for too long"),
            Failure::Full => Self::new(Detail::StorageFull),
            Failure::Unknown => Self::commit_unknown(None),
            Failure::Poisoned(since) => place::poisoned(since),
            Failure::Closed => Self::closed(),
            Failure::Spoiled | Failure::Lost => Self::unavailable("SQLite gave the transaction up"),
        }
    }
}

/// The transaction of a batch, as a call sees it.
pub(crate) struct Turn<'d> {
    pub(crate) conn: &'d Connection,
    pub(super) statements: &'d dyn Statements,
    fixed: &'d Fixed,
    pub(crate) recent: &'d Recent,
    /// Whether no other call has part in it.
    is_alone: bool,
    /// Whether it is not to be committed.
    is_spoiled: Cell<bool>,
    /// The tenant of which nothing is due or over, and when that was.
    pub(super) looked: Cell<Option<(i64, Timestamp)>>,
    /// The tenant that was asked for last.
    known: RefCell<Option<(TenantId, Option<Known>)>>,
}

impl Turn<'_> {
    pub(crate) fn now(&self) -> Timestamp {
        self.fixed.clock.now()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.fixed.limits
    }

    pub(crate) fn ids(&self) -> &dyn IdSource {
        &*self.fixed.ids
    }

    /// A tenant as this transaction sees it.
    pub(super) fn known(&self, tenant: &Tenant) -> Result<Option<Known>> {
        if let Some((name, known)) = &*self.known.borrow()
            && *name == tenant.name
        {
            return tenant.is_still(*known).then_some(*known).ok_or_else(Error::closed);
        }
        let known = tenant.known_in(self.conn)?;
        self.is_known(tenant, known);
        Ok(known)
    }

    /// Notes a tenant as this transaction sees it.
    pub(super) fn is_known(&self, tenant: &Tenant, known: Option<Known>) {
        *self.known.borrow_mut() = Some((tenant.name.clone(), known));
    }

    /// Before a step that may change anything: what is known is asked for anew.
    pub(super) fn forget(&self) {
        *self.known.borrow_mut() = None;
        self.recent.forget();
    }

    /// The error of a call of which nothing stays, unless that ends the whole transaction.
    pub(super) fn failed(&self, error: Error, has_written: bool) -> std::result::Result<Error, Failure> {
        if self.conn.is_autocommit() {
            return Err(match error.kind() {
                ErrorKind::StorageFull => Failure::Full,
                _ => Failure::Lost,
            });
        }
        if has_written && !self.is_alone {
            return Err(Failure::Spoiled);
        }
        self.is_spoiled.set(has_written);
        Ok(error)
    }
}

fn run(conn: &Connection, text: &str) -> std::result::Result<(), SqlError> {
    conn.prepare_cached(text)?.execute([]).map(drop)
}

fn failure(error: &SqlError) -> Failure {
    match error::code(error) {
        Some(ErrorCode::DiskFull) => Failure::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Failure::Busy,
        _ => Failure::Lost,
    }
}

/// What is to be done behind a batch.
enum Then {
    Sync(oneshot::Sender<Result<()>>),
    Close(oneshot::Sender<()>),
}

/// The calls of one transaction.
#[derive(Default)]
struct Batch {
    /// Those that ran, in order; the last of them perhaps not to its end.
    ran: Vec<Box<dyn Job>>,
    next: VecDeque<Box<dyn Job>>,
    /// Of those that are next, how many come before all others.
    firsts: usize,
    then: Option<Then>,
}

impl Batch {
    fn len(&self) -> usize {
        self.ran.len() + self.next.len()
    }

    /// Takes what waits, up to what is to be done behind all calls before it.
    fn take(&mut self, message: Message, waiting: &mut mpsc::UnboundedReceiver<Message>) {
        let mut next = Some(message);
        while let Some(message) = next {
            match message {
                Message::Job(job) => self.next.push_back(job),
                Message::First(job) => {
                    self.next.insert(self.firsts.min(self.next.len()), job);
                    self.firsts += 1;
                }
                Message::Sync(reply) => return self.then = Some(Then::Sync(reply)),
                Message::Close(reply) => return self.then = Some(Then::Close(reply)),
            }
            next = if self.len() < MOST { waiting.try_recv().ok() } else { None };
        }
    }

    /// Runs what is next.
    fn run(&mut self, turn: &Turn<'_>) -> std::result::Result<(), Failure> {
        while let Some(mut job) = self.next.pop_front() {
            self.firsts = self.firsts.saturating_sub(1);
            let ran = job.run(turn);
            self.ran.push(job);
            // Without a transaction nothing of the others is there any more, and what comes next would be by itself.
            if turn.conn.is_autocommit() {
                return ran.and(Err(Failure::Lost));
            }
            ran?;
        }
        Ok(())
    }
}

/// What the thread has.
pub(super) struct Desk<'c> {
    conn: &'c Connection,
    kept: Kept<'c>,
    place: Arc<Place>,
    fixed: Arc<Fixed>,
    log: Log,
    recent: Recent,
    /// Tells whether somebody else has written since.
    version: i64,
    /// How many calls the last batch had.
    last: usize,
    poisoned: Option<Timestamp>,
}

impl<'c> Desk<'c> {
    pub(super) fn new(conn: &'c Connection, place: Arc<Place>, fixed: Arc<Fixed>) -> Self {
        let (kept, log) = (Kept::new(conn), Log::new(conn, Arc::clone(&fixed)));
        Self { conn, kept, place, fixed, log, recent: Recent::default(), version: 0, last: 0, poisoned: None }
    }

    /// Works until it is closed, or nobody can ask any more. Gives who is to be told when the file is closed.
    pub(super) fn serve(mut self, mut waiting: mpsc::UnboundedReceiver<Message>) -> Option<oneshot::Sender<()>> {
        let mut closing = None;
        while closing.is_none() {
            let Some(first) = waiting.blocking_recv() else { break };
            let mut batch = Batch::default();
            batch.take(first, &mut waiting);
            if batch.len() > 0 {
                self.settle(&mut batch, &mut waiting);
            }
            match batch.then {
                Some(Then::Sync(reply)) => drop(reply.send(self.sync())),
                Some(Then::Close(reply)) => closing = Some(reply),
                None => {}
            }
            if self.log.keep_small(self.conn).is_err() {
                self.poison();
            }
        }
        waiting.close();
        while let Ok(message) = waiting.try_recv() {
            if let Message::Job(mut job) | Message::First(mut job) = message {
                job.end(Err(Failure::Closed));
            }
        }
        closing
    }

    /// Takes those who were answered with the batch before and ask again. They come back one by one while others run,
    /// and if none is there they are waited for, shortly. Gives whether there are some.
    fn join(&self, batch: &mut Batch, waiting: &mut mpsc::UnboundedReceiver<Message>, waited: &mut Duration) -> bool {
        while batch.ran.len() < self.last && batch.then.is_none() {
            if let Ok(message) = waiting.try_recv() {
                batch.take(message, waiting);
                return !batch.next.is_empty();
            }
            if *waited >= GATHER {
                break;
            }
            let began = Instant::now();
            sleep(STEP);
            *waited += began.elapsed();
        }
        false
    }

    /// Commits a batch and answers its calls. If it cannot be committed as a whole, each call is tried alone.
    fn settle(&mut self, batch: &mut Batch, waiting: &mut mpsc::UnboundedReceiver<Message>) {
        let tried = self.attempt(batch, Some(waiting));
        batch.ran.extend(batch.next.drain(..));
        self.last = batch.ran.len();
        let goes_alone = match tried {
            Err(Failure::Spoiled) => true,
            Err(Failure::Full | Failure::Lost) => batch.ran.len() > 1,
            _ => false,
        };
        let mut from = None;
        if goes_alone {
            for job in std::mem::take(&mut batch.ran) {
                let mut alone = Batch { next: VecDeque::from([job]), ..Batch::default() };
                let tried = self.attempt(&mut alone, None);
                alone.ran.extend(alone.next);
                batch.ran.extend(alone.ran);
                from = earlier(from, batch.ran.last_mut().and_then(|job| job.end(tried)));
            }
        } else {
            for job in &mut batch.ran {
                from = earlier(from, job.end(tried));
            }
        }
        // What they hold is given up behind all answers.
        batch.ran.clear();
        // Whoever waits in another process looks by itself for what comes later.
        if from.is_some_and(|from| from <= self.fixed.clock.now().saturating_add(SOON)) {
            self.fixed.ring();
        }
    }

    /// Runs a batch in a transaction, which others that wait may join.
    fn attempt(
        &mut self,
        batch: &mut Batch,
        mut joining: Option<&mut mpsc::UnboundedReceiver<Message>>,
    ) -> std::result::Result<(), Failure> {
        if let Some(since) = self.poisoned_since() {
            return Err(Failure::Poisoned(since));
        }
        let turn = self.place.next();
        let begun = run(self.conn, sql::BEGIN_WRITE);
        drop(turn);
        begun.map_err(|error| failure(&error))?;
        if let Err(error) = self.look_for_others() {
            self.roll_back();
            return Err(failure(&error));
        }
        let (looked, known, is_spoiled) = (Cell::default(), RefCell::default(), Cell::default());
        let is_alone = joining.is_none() || batch.len() == 1 && self.last <= 1;
        let (conn, statements, fixed, recent) = (self.conn, &self.kept, &*self.fixed, &self.recent);
        let turn = Turn { conn, statements, fixed, recent, is_alone, is_spoiled, looked, known };
        let mut waited = Duration::ZERO;
        loop {
            if let Err(failure) = batch.run(&turn) {
                self.roll_back();
                return Err(failure);
            }
            if !joining.as_mut().is_some_and(|waiting| self.join(batch, waiting, &mut waited)) {
                break;
            }
        }
        if turn.is_spoiled.get() {
            self.roll_back();
            return Ok(());
        }
        let Err(error) = run(self.conn, sql::COMMIT) else { return Ok(()) };
        self.roll_back();
        match failure(&error) {
            Failure::Lost => {
                // Its frames may be in the log, and may be found there after a crash.
                self.poison();
                Err(Failure::Unknown)
            }
            failure => Err(failure),
        }
    }

    /// Forgets what is known, if somebody else has written since.
    fn look_for_others(&mut self) -> std::result::Result<(), SqlError> {
        let now = self.conn.prepare_cached(sql::DATA_VERSION)?.query_row([], |row| row.get(0))?;
        if std::mem::replace(&mut self.version, now) != now {
            self.recent.forget();
        }
        Ok(())
    }

    /// A commit with a sync takes all of the log with it.
    fn sync(&mut self) -> Result<()> {
        if let Some(since) = self.poisoned_since() {
            return Err(place::poisoned(since));
        }
        schema::synchronous(self.conn, Synchronous::Full)?;
        let synced = run(self.conn, sql::BEGIN_WRITE)
            .and_then(|()| run(self.conn, sql::TOUCH))
            .and_then(|()| run(self.conn, sql::COMMIT));
        self.roll_back();
        schema::synchronous(self.conn, Synchronous::Normal)?;
        synced.map_err(|error| match failure(&error) {
            Failure::Lost => {
                self.poison();
                Failure::Unknown.into()
            }
            failure => failure.into(),
        })
    }

    fn roll_back(&self) {
        self.recent.forget();
        if !self.conn.is_autocommit() {
            let _rolled_back = run(self.conn, sql::ROLLBACK);
        }
    }

    fn poisoned_since(&mut self) -> Option<Timestamp> {
        // Somebody else with the file open in this process may have noticed.
        if self.poisoned.is_none() && self.place.is_poisoned() {
            self.poisoned = Some(self.fixed.clock.now());
        }
        self.poisoned
    }

    fn poison(&mut self) {
        self.place.poison();
        // The log stays as it is for the next opening.
        let _kept = self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        self.poisoned_since();
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}
