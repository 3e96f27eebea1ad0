//! A batch: one transaction for all waiting calls. If one of them fails after its first write, the batch is rolled
//! back, and each call gets a transaction of its own.

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

use super::{Job, Message, wal::WriteAheadLog};
use crate::{
    config::Synchronous,
    database_file::{self, DatabaseFile},
    error,
    rows::{RowCache, StatementCache, Statements, TenantRow},
    schema, sql,
    tenant::{StoreContext, Tenant},
};

/// The largest number of calls in one transaction.
const MAX_CALLS: usize = 512;
/// The longest time for which a batch waits for the callers that the previous batch answered, because they probably
/// call again.
const MAX_GATHER_TIME: Duration = Duration::from_micros(400);
/// The length of one step of this wait.
const GATHER_STEP: Duration = Duration::from_micros(40);
/// Other processes are notified of a dispatch if it becomes claimable within this time. They find later ones by
/// polling.
const NOTIFY_WITHIN: Duration = Duration::from_secs(1);

/// The reason why nothing of a batch was written, or why it is unknown how much was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Other connections held the lock of the file for too long.
    Busy,
    /// There is no space left.
    Full,
    /// The commit may have taken effect.
    Unknown,
    /// A sync failed earlier.
    Poisoned(Timestamp),
    Closed,
    /// A call failed after its first write. Its writes cannot be rolled back alone: a savepoint for each call would
    /// copy every page that the call changes.
    PartiallyWritten,
    /// Another failure that changed nothing.
    RolledBack,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Busy => Self::unavailable("other connections locked the file for too long"),
            Failure::Full => Self::new(Detail::StorageFull),
            Failure::Unknown => Self::commit_unknown(None),
            Failure::Poisoned(since) => database_file::poisoned_error(since),
            Failure::Closed => Self::closed(),
            Failure::PartiallyWritten | Failure::RolledBack => Self::unavailable("the transaction was rolled back"),
        }
    }
}

/// The transaction of a batch, as a call sees it.
pub(crate) struct BatchContext<'d> {
    pub(crate) conn: &'d Connection,
    pub(super) statements: &'d dyn Statements,
    store_context: &'d StoreContext,
    pub(crate) row_cache: &'d RowCache,
    /// Whether the transaction contains a single call.
    is_alone: bool,
    /// Whether the transaction must not be committed.
    must_roll_back: Cell<bool>,
    /// The tenant for which no dispatch is due and no lease has expired, and the time for which this was found.
    pub(super) nothing_due_at: Cell<Option<(i64, Timestamp)>>,
    /// The tenant that was looked up last.
    last_tenant: RefCell<Option<(TenantId, Option<TenantRow>)>>,
}

impl BatchContext<'_> {
    pub(crate) fn now(&self) -> Timestamp {
        self.store_context.clock.now()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.store_context.limits
    }

    pub(crate) fn ids(&self) -> &dyn IdSource {
        &*self.store_context.ids
    }

    /// Returns the row of a tenant as this transaction sees it.
    pub(super) fn tenant_row(&self, tenant: &Tenant) -> Result<Option<TenantRow>> {
        if let Some((name, tenant_row)) = &*self.last_tenant.borrow()
            && *name == tenant.name
        {
            return tenant.matches_row(*tenant_row).then_some(*tenant_row).ok_or_else(Error::closed);
        }
        let tenant_row = tenant.find_row(self.conn)?;
        self.remember_tenant_row(tenant, tenant_row);
        Ok(tenant_row)
    }

    /// Notes the row of a tenant as this transaction sees it.
    pub(super) fn remember_tenant_row(&self, tenant: &Tenant, tenant_row: Option<TenantRow>) {
        *self.last_tenant.borrow_mut() = Some((tenant.name.clone(), tenant_row));
    }

    /// Forgets all rows, before a step that may change any of them.
    pub(super) fn forget_rows(&self) {
        *self.last_tenant.borrow_mut() = None;
        self.row_cache.clear();
    }

    /// Returns the error as the answer of a call, if the other calls of the transaction can still be committed.
    /// Otherwise returns the failure of the whole transaction.
    pub(super) fn classify_error(&self, error: Error, has_written: bool) -> std::result::Result<Error, Failure> {
        if self.conn.is_autocommit() {
            return Err(match error.kind() {
                ErrorKind::StorageFull => Failure::Full,
                _ => Failure::RolledBack,
            });
        }
        if has_written && !self.is_alone {
            return Err(Failure::PartiallyWritten);
        }
        self.must_roll_back.set(has_written);
        Ok(error)
    }
}

fn run(conn: &Connection, text: &str) -> std::result::Result<(), SqlError> {
    conn.prepare_cached(text)?.execute([]).map(drop)
}

fn failure_of(error: &SqlError) -> Failure {
    match error::code(error) {
        Some(ErrorCode::DiskFull) => Failure::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Failure::Busy,
        _ => Failure::RolledBack,
    }
}

/// The action after a batch.
enum AfterBatch {
    Sync(oneshot::Sender<Result<()>>),
    Reclaim(oneshot::Sender<Result<bool>>),
    Close(oneshot::Sender<()>),
}

/// The calls of one transaction.
#[derive(Default)]
struct Batch {
    /// The calls that were started, in order. The last one may not have finished.
    started_calls: Vec<Box<dyn Job>>,
    /// The calls that were not started yet.
    waiting_calls: VecDeque<Box<dyn Job>>,
    /// The number of calls at the front of `waiting_calls` that were put before all others.
    front_calls: usize,
    after_batch: Option<AfterBatch>,
}

impl Batch {
    fn len(&self) -> usize {
        self.started_calls.len() + self.waiting_calls.len()
    }

    /// Takes waiting calls, until a message comes that must be handled after all earlier calls.
    fn take_waiting_calls(&mut self, message: Message, waiting: &mut mpsc::UnboundedReceiver<Message>) {
        let mut next_message = Some(message);
        while let Some(message) = next_message {
            match message {
                Message::Job(job) => self.waiting_calls.push_back(job),
                Message::First(job) => {
                    self.waiting_calls.insert(self.front_calls.min(self.waiting_calls.len()), job);
                    self.front_calls += 1;
                }
                Message::Sync(reply) => return self.after_batch = Some(AfterBatch::Sync(reply)),
                Message::Reclaim(reply) => return self.after_batch = Some(AfterBatch::Reclaim(reply)),
                Message::Close(reply) => return self.after_batch = Some(AfterBatch::Close(reply)),
            }
            next_message = if self.len() < MAX_CALLS { waiting.try_recv().ok() } else { None };
        }
    }

    /// Runs the next calls.
    fn run(&mut self, context: &BatchContext<'_>) -> std::result::Result<(), Failure> {
        while let Some(mut job) = self.waiting_calls.pop_front() {
            self.front_calls = self.front_calls.saturating_sub(1);
            let result = job.run(context);
            self.started_calls.push(job);
            // SQLite has ended the transaction. The writes of the other calls are lost, and a further call would run in
            // a transaction of its own.
            if context.conn.is_autocommit() {
                return result.and(Err(Failure::RolledBack));
            }
            result?;
        }
        Ok(())
    }
}

/// The state of the writer thread.
pub(super) struct WriterLoop<'c> {
    conn: &'c Connection,
    statement_cache: StatementCache<'c>,
    database_file: Arc<DatabaseFile>,
    store_context: Arc<StoreContext>,
    wal: WriteAheadLog,
    row_cache: RowCache,
    /// The data version of the file. It changes when another connection has written.
    data_version: i64,
    /// The number of calls in the last batch.
    last_batch_size: usize,
    /// When this thread noticed a failed sync.
    poisoned_at: Option<Timestamp>,
}

impl<'c> WriterLoop<'c> {
    pub(super) fn new(
        conn: &'c Connection,
        database_file: Arc<DatabaseFile>,
        store_context: Arc<StoreContext>,
    ) -> Self {
        let (statement_cache, wal) = (StatementCache::new(conn), WriteAheadLog::new(conn, Arc::clone(&store_context)));
        Self {
            conn,
            statement_cache,
            database_file,
            store_context,
            wal,
            row_cache: RowCache::default(),
            data_version: 0,
            last_batch_size: 0,
            poisoned_at: None,
        }
    }

    /// Serves calls until it is closed or no caller is left. Returns the sender to notify when the file is closed.
    pub(super) fn serve(mut self, mut waiting: mpsc::UnboundedReceiver<Message>) -> Option<oneshot::Sender<()>> {
        let mut close_reply = None;
        while close_reply.is_none() {
            let Some(first) = waiting.blocking_recv() else { break };
            let mut batch = Batch::default();
            batch.take_waiting_calls(first, &mut waiting);
            if batch.len() > 0 {
                self.commit_and_answer(&mut batch, &mut waiting);
            }
            match batch.after_batch {
                Some(AfterBatch::Sync(reply)) => drop(reply.send(self.sync())),
                Some(AfterBatch::Reclaim(reply)) => drop(reply.send(self.wal.reclaim(self.conn))),
                Some(AfterBatch::Close(reply)) => close_reply = Some(reply),
                None => {}
            }
            if self.wal.checkpoint_if_long(self.conn).is_err() {
                self.poison();
            }
        }
        waiting.close();
        while let Ok(message) = waiting.try_recv() {
            if let Message::Job(mut job) | Message::First(mut job) = message {
                job.finish(Err(Failure::Closed));
            }
        }
        close_reply
    }

    /// Takes new calls of the callers that the previous batch answered. These callers call again one by one, while
    /// other calls run. If no new call has come, waits for one for a short time. Returns whether there are new calls.
    fn wait_for_more_calls(
        &self,
        batch: &mut Batch,
        waiting: &mut mpsc::UnboundedReceiver<Message>,
        waited: &mut Duration,
    ) -> bool {
        while batch.started_calls.len() < self.last_batch_size && batch.after_batch.is_none() {
            if let Ok(message) = waiting.try_recv() {
                batch.take_waiting_calls(message, waiting);
                return !batch.waiting_calls.is_empty();
            }
            if *waited >= MAX_GATHER_TIME {
                break;
            }
            let began = Instant::now();
            sleep(GATHER_STEP);
            *waited += began.elapsed();
        }
        false
    }

    /// Commits a batch and answers its calls. If it cannot be committed as a whole, each call is tried alone.
    fn commit_and_answer(&mut self, batch: &mut Batch, waiting: &mut mpsc::UnboundedReceiver<Message>) {
        let batch_result = self.try_commit(batch, Some(waiting));
        batch.started_calls.extend(batch.waiting_calls.drain(..));
        self.last_batch_size = batch.started_calls.len();
        let runs_each_alone = match batch_result {
            Err(Failure::PartiallyWritten) => true,
            Err(Failure::Full | Failure::RolledBack) => batch.started_calls.len() > 1,
            _ => false,
        };
        let mut claimable_from = None;
        if runs_each_alone {
            for job in std::mem::take(&mut batch.started_calls) {
                let mut single = Batch { waiting_calls: VecDeque::from([job]), ..Batch::default() };
                let single_result = self.try_commit(&mut single, None);
                single.started_calls.extend(single.waiting_calls);
                batch.started_calls.extend(single.started_calls);
                let last_call = batch.started_calls.last_mut();
                claimable_from = earlier(claimable_from, last_call.and_then(|job| job.finish(single_result)));
            }
        } else {
            for job in &mut batch.started_calls {
                claimable_from = earlier(claimable_from, job.finish(batch_result));
            }
        }
        // Dropping the calls lets callers that wait for them continue. This happens only after all calls were answered.
        batch.started_calls.clear();
        // Callers in other processes find dispatches by polling if these become claimable later.
        if claimable_from.is_some_and(|from| from <= self.store_context.clock.now().saturating_add(NOTIFY_WITHIN)) {
            self.store_context.notify_processes();
        }
    }

    /// Runs a batch in a transaction, which other waiting calls may join.
    fn try_commit(
        &mut self,
        batch: &mut Batch,
        mut joinable_calls: Option<&mut mpsc::UnboundedReceiver<Message>>,
    ) -> std::result::Result<(), Failure> {
        if let Some(since) = self.poisoned_since() {
            return Err(Failure::Poisoned(since));
        }
        let next_write_lock = self.database_file.lock_for_next_write();
        let begin_result = run(self.conn, sql::BEGIN_WRITE);
        drop(next_write_lock);
        begin_result.map_err(|error| failure_of(&error))?;
        if let Err(error) = self.check_for_other_writers() {
            self.roll_back();
            return Err(failure_of(&error));
        }
        let (nothing_due_at, last_tenant, must_roll_back) = (Cell::default(), RefCell::default(), Cell::default());
        let is_alone = joinable_calls.is_none() || batch.len() == 1 && self.last_batch_size <= 1;
        let (conn, statements, store_context, row_cache) =
            (self.conn, &self.statement_cache, &*self.store_context, &self.row_cache);
        let context = BatchContext {
            conn,
            statements,
            store_context,
            row_cache,
            is_alone,
            must_roll_back,
            nothing_due_at,
            last_tenant,
        };
        let mut waited = Duration::ZERO;
        loop {
            if let Err(failure) = batch.run(&context) {
                self.roll_back();
                return Err(failure);
            }
            if !joinable_calls.as_mut().is_some_and(|waiting| self.wait_for_more_calls(batch, waiting, &mut waited)) {
                break;
            }
        }
        if context.must_roll_back.get() {
            self.roll_back();
            return Ok(());
        }
        let Err(error) = run(self.conn, sql::COMMIT) else { return Ok(()) };
        self.roll_back();
        match failure_of(&error) {
            Failure::RolledBack => {
                // The frames of the commit may be in the WAL, and may be found there after a crash.
                self.poison();
                Err(Failure::Unknown)
            }
            failure => Err(failure),
        }
    }

    /// Clears the cache of rows if another connection has written since the last batch.
    fn check_for_other_writers(&mut self) -> std::result::Result<(), SqlError> {
        let current = self.conn.prepare_cached(sql::DATA_VERSION)?.query_row([], |row| row.get(0))?;
        if std::mem::replace(&mut self.data_version, current) != current {
            self.row_cache.clear();
        }
        Ok(())
    }

    /// Syncs the WAL with a commit. The commit's sync covers all earlier frames of the WAL.
    fn sync(&mut self) -> Result<()> {
        if let Some(since) = self.poisoned_since() {
            return Err(database_file::poisoned_error(since));
        }
        schema::set_synchronous(self.conn, Synchronous::Full)?;
        let sync_result = run(self.conn, sql::BEGIN_WRITE)
            .and_then(|()| run(self.conn, sql::FORCE_SYNC))
            .and_then(|()| run(self.conn, sql::COMMIT));
        self.roll_back();
        schema::set_synchronous(self.conn, Synchronous::Normal)?;
        sync_result.map_err(|error| match failure_of(&error) {
            Failure::RolledBack => {
                self.poison();
                Failure::Unknown.into()
            }
            failure => failure.into(),
        })
    }

    /// Clears the cache of rows, and rolls the transaction back if it has not ended.
    fn roll_back(&self) {
        self.row_cache.clear();
        if !self.conn.is_autocommit() {
            let _rolled_back = run(self.conn, sql::ROLLBACK);
        }
    }

    fn poisoned_since(&mut self) -> Option<Timestamp> {
        // Another opening of the file in this process may have noticed the failed sync.
        if self.poisoned_at.is_none() && self.database_file.is_poisoned() {
            self.poisoned_at = Some(self.store_context.clock.now());
        }
        self.poisoned_at
    }

    fn poison(&mut self) {
        self.database_file.poison();
        // The WAL is kept for the next opening.
        let _kept = self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        self.poisoned_since();
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}
