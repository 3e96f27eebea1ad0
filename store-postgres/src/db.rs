//! Connections: making, checking and pooling them, and running statements on them.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use deadpool::{
    Runtime,
    managed::{self, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult, Timeouts},
};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection as _, Encode, Postgres, Type,
    postgres::{PgArguments, PgConnectOptions, PgConnection, PgRow},
    query::Query,
};
use store_core::{Error, Outcome, Result, TenantId};

use crate::{
    clock::Clock,
    columns::read_u64,
    config::{PLANNER_SETTINGS, Pooler, PostgresConfig},
    error::{self, Effect, corrupt},
    schema,
    sql::Sql,
    url::ServerRequirement,
};

/// A connection that was unused for longer than this is tested before it is used again.
const MAX_UNTESTED_IDLE: Duration = Duration::from_secs(30);

/// The connections to the server, and the statements.
#[derive(Debug)]
pub(crate) struct Db {
    pool: Pool<Connector>,
    pub(crate) sql: Sql,
    deadline: Duration,
    acquire_timeout: Duration,
    pub(crate) clock: Clock,
    /// Whether a transaction pooler is in front of the server. Then each statement runs in an explicit transaction, and
    /// none is prepared (PO-10).
    is_pooled: bool,
    is_closed: AtomicBool,
}

/// Makes and checks the connections of the pool.
struct Connector {
    server: PgConnectOptions,
    server_requirement: ServerRequirement,
    allows_unsafe: bool,
}

/// Leaves out the options of the server, since the driver's output would contain the password.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("allows_unsafe", &self.allows_unsafe).finish_non_exhaustive()
    }
}

impl managed::Manager for Connector {
    type Type = PgConnection;
    type Error = Error;

    async fn create(&self) -> Result<PgConnection> {
        let mut connection = self.server.connect().await.map_err(error::connection_error)?;
        schema::check_connection(&mut connection, self.server_requirement, self.allows_unsafe).await?;
        Ok(connection)
    }

    async fn recycle(&self, connection: &mut PgConnection, metrics: &Metrics) -> RecycleResult<Error> {
        if metrics.last_used() > MAX_UNTESTED_IDLE {
            let ping_result = tokio::time::timeout(Duration::from_secs(2), connection.ping()).await;
            let answered = ping_result.map_err(|_| Error::server_unavailable("an idle connection did not answer"))?;
            answered.map_err(|e| RecycleError::Backend(error::statement_error(e, Effect::None)))?;
        }
        Ok(())
    }
}

impl Db {
    pub(crate) fn new(config: &PostgresConfig) -> Result<Self> {
        let mut server = config.server.clone();
        if config.pooler == Pooler::None {
            server = server.options(PLANNER_SETTINGS);
        }
        let connector =
            Connector { server, server_requirement: config.server_requirement, allows_unsafe: config.allow_unsafe };
        let (wait, connect) = (Some(config.acquire_timeout), Some(config.acquire_timeout));
        let pool = Pool::builder(connector)
            .max_size(config.connections as usize)
            .timeouts(Timeouts { wait, create: connect, recycle: connect })
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|e| Error::unavailable("the pool of connections cannot be created").with_source(e))?;
        Ok(Self {
            pool,
            sql: Sql::new(&config.schema),
            deadline: config.answer_timeout,
            acquire_timeout: config.acquire_timeout,
            clock: Clock::new(config.uses_test_clock),
            is_pooled: config.pooler == Pooler::Transaction,
            is_closed: AtomicBool::new(false),
        })
    }

    /// Asks the server for its time and sets the clock.
    pub(crate) async fn update_clock(&self) -> Result<()> {
        let rows = self.any_connection().read(|sql| &sql.server_time, PgArguments::default()).await?;
        let millis = rows.first().map_or(Ok(0), |row| read_u64(row, 0))?;
        self.clock.set_server_time(Duration::from_millis(millis));
        Ok(())
    }

    /// Calls an SQL function that takes a tenant and returns a number. Returns 0 if the function returns nothing.
    pub(crate) async fn call_for_tenant(&self, tenant: &str, sql: impl FnOnce(&Sql) -> &Arc<str>) -> Result<u64> {
        let mut arguments = PgArguments::default();
        add(&mut arguments, tenant)?;
        let rows = self.any_connection().write(sql, arguments).await.map_err(|failed| failed.error)?;
        Ok(rows.first().and_then(|row| read_u64(row, 0).ok()).unwrap_or_default())
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { Ok(()) }
    }

    /// Refuses calls from now on. Calls that were accepted before continue.
    pub(crate) fn refuse_new_calls(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Closes the unused connections at once, and the others when they are returned.
    pub(crate) fn close(&self) {
        self.refuse_new_calls();
        self.pool.close();
    }

    /// Takes a connection from the pool, for a call that has already waited this long.
    async fn acquire(&self, waited: Duration) -> Result<Object<Connector>> {
        let wait = Some(self.acquire_timeout.saturating_sub(waited));
        let timeouts = Timeouts { wait, ..self.pool.timeouts() };
        self.pool.timeout_get(&timeouts).await.map_err(|error| match error {
            PoolError::Timeout(_) => Error::server_unavailable("no connection became free in time"),
            PoolError::Backend(error) => error,
            PoolError::Closed => Error::closed(),
            error => Error::server_unavailable("no connection is available").with_source(error),
        })
    }

    /// Returns a connection that runs each statement on any connection of the pool.
    pub(crate) const fn any_connection(&self) -> Connection<'_> {
        Connection { db: self, source: ConnectionSource::Any, waited: Duration::ZERO }
    }

    /// Wraps the connection of a caller, in a transaction of the caller.
    pub(crate) const fn caller_connection<'a>(&'a self, connection: &'a mut PgConnection) -> Connection<'a> {
        Connection { db: self, source: ConnectionSource::Caller(connection), waited: Duration::ZERO }
    }

    /// Returns one connection for all statements, in a read-only transaction that sees one snapshot.
    pub(crate) async fn begin_snapshot(&self) -> Result<Connection<'_>> {
        self.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", Duration::ZERO).await
    }

    /// Returns one connection for all statements, in a transaction.
    pub(crate) async fn begin_transaction(&self) -> Result<Connection<'_>> {
        self.begin("BEGIN", Duration::ZERO).await
    }

    /// Returns one connection for all statements, in a transaction that holds the lock of the tenant's families. Until
    /// it ends, no other call of the tenant changes parents or deletes threads.
    pub(crate) async fn begin_family_transaction(&self, tenant: &TenantId) -> Result<Connection<'_>> {
        let mut connection = self.begin_transaction().await?;
        connection.lock_family(tenant).await?;
        Ok(connection)
    }

    fn statement(&self, text: Arc<str>, arguments: PgArguments) -> Query<'static, Postgres, PgArguments> {
        sqlx::query_with(AssertSqlSafe(text), arguments).persistent(!self.is_pooled)
    }

    /// Runs a statement in a transaction of its own.
    async fn run_in_own_transaction(
        &self,
        text: Arc<str>,
        arguments: impl FnOnce() -> Result<PgArguments>,
        effect: Effect,
        waited: Duration,
    ) -> Result<Vec<PgRow>, StatementFailure> {
        let mut connection = self.begin("BEGIN", waited).await?;
        let answered = match connection.pinned_connection() {
            Some(pinned) => {
                with_deadline(self.deadline, self.statement(text, arguments()?).fetch_all(pinned), Effect::None).await
            }
            None => Ok(Vec::new()),
        };
        let end_result = connection.finish(answered.is_ok() && effect == Effect::Perhaps).await;
        let rows = answered?;
        end_result?;
        Ok(rows)
    }

    async fn begin(&self, sql: &'static str, waited: Duration) -> Result<Connection<'_>> {
        let mut connection =
            Connection { db: self, source: ConnectionSource::Own(self.acquire(waited).await?), waited };
        connection.run_control(sql, Effect::None).await?;
        Ok(connection)
    }
}

/// Where statements run: on any connection of the pool, on one connection, or on a connection of the caller.
#[derive(Debug)]
pub(crate) struct Connection<'a> {
    db: &'a Db,
    source: ConnectionSource<'a>,
    /// How long the call waited before it could ask for a connection.
    waited: Duration,
}

#[derive(Debug)]
enum ConnectionSource<'a> {
    /// Each statement on any connection of the pool.
    Any,
    /// All statements on one connection, in a transaction.
    Own(Object<Connector>),
    /// All statements on the connection of a caller, in a transaction that the caller ends.
    Caller(&'a mut PgConnection),
}

impl Connection<'_> {
    pub(crate) fn set_server_time(&self, server_time: Duration) {
        self.db.clock.set_server_time(server_time);
    }

    /// Returns the maximum time that a call waits before it can send to the server.
    pub(crate) const fn acquire_timeout(&self) -> Duration {
        self.db.acquire_timeout
    }

    /// Records how long the call has already waited.
    pub(crate) const fn set_waited(&mut self, waited: Duration) {
        self.waited = waited;
    }

    /// Runs a statement that only reads.
    pub(crate) async fn read(
        &mut self,
        sql: impl FnOnce(&Sql) -> &Arc<str>,
        arguments: PgArguments,
    ) -> Result<Vec<PgRow>> {
        Box::pin(self.run(sql, || Ok(arguments), Effect::None)).await.map_err(|failed| failed.error)
    }

    /// Runs a statement that writes. If its answer is lost outside of a transaction, its effect is unknown.
    pub(crate) async fn write(
        &mut self,
        sql: impl FnOnce(&Sql) -> &Arc<str>,
        arguments: PgArguments,
    ) -> Result<Vec<PgRow>, StatementFailure> {
        self.write_with_arguments_at_send(sql, || Ok(arguments)).await
    }

    /// Does the same as `write`. `arguments` is called immediately before the statement is sent.
    pub(crate) async fn write_with_arguments_at_send(
        &mut self,
        sql: impl FnOnce(&Sql) -> &Arc<str>,
        arguments: impl FnOnce() -> Result<PgArguments>,
    ) -> Result<Vec<PgRow>, StatementFailure> {
        let effect = if self.is_transaction() { Effect::None } else { Effect::Perhaps };
        if !matches!(self.source, ConnectionSource::Caller(_)) {
            return Box::pin(self.run(sql, arguments, effect)).await;
        }
        // The savepoint keeps a failed statement from aborting the transaction of the caller.
        self.run_control("SAVEPOINT agentstore", effect).await?;
        let answered = Box::pin(self.run(sql, arguments, effect)).await;
        let is_usable = answered.as_ref().map_or_else(|failed| failed.exchange != Exchange::Lost, |_| true);
        match &answered {
            Ok(_) => self.run_control("RELEASE SAVEPOINT agentstore", effect).await?,
            Err(_) if is_usable => {
                self.run_control("ROLLBACK TO SAVEPOINT agentstore; RELEASE SAVEPOINT agentstore", effect).await?;
            }
            Err(_) => {}
        }
        answered
    }

    /// Returns whether each statement is a transaction of its own, on a connection that keeps prepared statements.
    pub(crate) const fn is_unpooled_autocommit(&self) -> bool {
        matches!(self.source, ConnectionSource::Any) && !self.db.is_pooled
    }

    /// Runs a statement that was composed for this call, in a transaction of its own.
    pub(crate) async fn write_text(
        &mut self,
        text: &str,
        arguments: impl FnOnce() -> Result<PgArguments>,
    ) -> Result<Vec<PgRow>, StatementFailure> {
        let text = self.db.sql.in_schema(text).into();
        Box::pin(self.run_text(text, arguments, Effect::Perhaps)).await
    }

    async fn run(
        &mut self,
        sql: impl FnOnce(&Sql) -> &Arc<str>,
        arguments: impl FnOnce() -> Result<PgArguments>,
        effect: Effect,
    ) -> Result<Vec<PgRow>, StatementFailure> {
        let text = Arc::clone(sql(&self.db.sql));
        self.run_text(text, arguments, effect).await
    }

    async fn run_text(
        &mut self,
        text: Arc<str>,
        arguments: impl FnOnce() -> Result<PgArguments>,
        effect: Effect,
    ) -> Result<Vec<PgRow>, StatementFailure> {
        let (db, deadline) = (self.db, self.db.deadline);
        if let Some(pinned) = self.pinned_connection() {
            return with_deadline(deadline, db.statement(text, arguments()?).fetch_all(pinned), effect).await;
        }
        if db.is_pooled {
            return Box::pin(db.run_in_own_transaction(text, arguments, effect, self.waited)).await;
        }
        let mut connection = db.acquire(self.waited).await?;
        let answered =
            with_deadline(deadline, db.statement(text, arguments()?).fetch_all(&mut *connection), effect).await;
        if answered.as_ref().is_err_and(|failed| failed.exchange == Exchange::Lost) {
            drop(Object::take(connection));
        }
        answered
    }

    async fn run_control(&mut self, sql: &'static str, effect: Effect) -> Result<()> {
        let deadline = self.db.deadline;
        let Some(pinned) = self.pinned_connection() else { return Ok(()) };
        let result = with_deadline(deadline, sqlx::raw_sql(sql).execute(pinned), effect).await;
        result.map(|_| ()).map_err(|failed| failed.error)
    }

    fn pinned_connection(&mut self) -> Option<&mut PgConnection> {
        match &mut self.source {
            ConnectionSource::Any => None,
            ConnectionSource::Own(pinned) => Some(pinned),
            ConnectionSource::Caller(pinned) => Some(pinned),
        }
    }

    /// Takes the lock of the tenant's families. Until the transaction ends, no other call of the tenant changes parents
    /// or deletes threads.
    pub(crate) async fn lock_family(&mut self, tenant: &TenantId) -> Result<()> {
        let mut arguments = PgArguments::default();
        add(&mut arguments, tenant.as_str())?;
        let rows = self.read(|sql| &sql.lock_family, arguments).await?;
        self.set_server_time(Duration::from_millis(rows.first().map_or(Ok(0), |row| read_u64(row, 1))?));
        Ok(())
    }

    pub(crate) const fn is_transaction(&self) -> bool {
        !matches!(self.source, ConnectionSource::Any)
    }

    /// Returns whether the transaction belongs to a caller, so that it is unknown when and whether its writes take
    /// effect.
    pub(crate) const fn belongs_to_caller(&self) -> bool {
        matches!(self.source, ConnectionSource::Caller(_))
    }

    /// Returns whether another statement can follow one that failed in this way.
    pub(crate) const fn can_continue_after(&self, failed: &StatementFailure) -> bool {
        match self.source {
            ConnectionSource::Any => true,
            ConnectionSource::Own(_) => false,
            // After a violated unique key the transaction can continue. After a conflict with other transactions, the
            // caller must begin its transaction again.
            ConnectionSource::Caller(_) => failed.violates_unique_key,
        }
    }

    /// Commits the transaction, unless it belongs to a caller.
    pub(crate) async fn commit(self) -> Result<()> {
        self.finish(true).await
    }

    /// Rolls the transaction back, unless it belongs to a caller.
    pub(crate) async fn roll_back(self) -> Result<()> {
        self.finish(false).await
    }

    /// Ends the transaction: commits it if `should_commit`, else rolls it back. The transaction of a caller stays open.
    pub(crate) async fn finish(mut self, should_commit: bool) -> Result<()> {
        if let ConnectionSource::Own(_) = self.source {
            let (sql, effect) = if should_commit { ("COMMIT", Effect::Perhaps) } else { ("ROLLBACK", Effect::None) };
            self.run_control(sql, effect).await?;
        }
        // From here on the pool may lend the connection to other calls.
        drop(std::mem::replace(&mut self.source, ConnectionSource::Any));
        Ok(())
    }
}

/// Discards a connection whose transaction has not ended, so that it is not used again.
impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if let ConnectionSource::Own(pinned) = std::mem::replace(&mut self.source, ConnectionSource::Any) {
            drop(Object::take(pinned));
        }
    }
}

/// The failure of a statement.
#[derive(Debug)]
pub(crate) struct StatementFailure {
    pub(crate) error: Error,
    /// Whether a retry may succeed.
    pub(crate) is_transient: bool,
    /// Whether a row with the same unique key existed already.
    pub(crate) violates_unique_key: bool,
    exchange: Exchange,
}

/// What happened to the exchange with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exchange {
    /// Nothing was sent to the server.
    NotSent,
    Answered,
    /// The connection can no longer be used.
    Lost,
}

impl StatementFailure {
    /// Returns the failure of a statement that took effect but whose answer cannot be used.
    pub(crate) fn after_answer(error: Error) -> Self {
        Self { exchange: Exchange::Answered, ..error.into() }
    }

    /// Returns whether anything was sent to the server.
    pub(crate) fn was_sent(&self) -> bool {
        self.exchange != Exchange::NotSent
    }

    /// Returns whether it is unknown if the statement took effect.
    pub(crate) fn is_outcome_unknown(&self) -> bool {
        self.error.outcome() == Outcome::Unknown
    }
}

impl From<Error> for StatementFailure {
    fn from(error: Error) -> Self {
        Self { error, is_transient: false, violates_unique_key: false, exchange: Exchange::NotSent }
    }
}

async fn with_deadline<T>(
    deadline: Duration,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
    effect: Effect,
) -> Result<T, StatementFailure> {
    match tokio::time::timeout(deadline, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(StatementFailure {
            is_transient: error::is_transient(&error),
            violates_unique_key: error::violated_constraint(&error).is_some(),
            exchange: if error::ends_connection(&error) { Exchange::Lost } else { Exchange::Answered },
            error: error::statement_error(error, effect),
        }),
        Err(_) => {
            Err(StatementFailure { exchange: Exchange::Lost, ..StatementFailure::from(error::timeout_error(effect)) })
        }
    }
}

/// Appends an argument of a statement.
pub(crate) fn add<'q, T: Encode<'q, Postgres> + Type<Postgres>>(to: &mut PgArguments, value: T) -> Result<()> {
    use sqlx::Arguments as _;
    to.add(value).map_err(|_| Error::invalid("value", "it cannot be sent to the server"))
}

/// Converts an unsigned number of the contracts to a signed one, because the server stores only signed numbers.
pub(crate) fn signed(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| Error::invalid("number", "it is larger than the server can store"))
}

pub(crate) fn unsigned(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| corrupt("a negative number"))
}
