//! Stores for tests. Each has a schema of its own, whose clock stands still unless the test moves it.

use std::{sync::Arc, time::Duration};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use store_core::{Error, IdSource, Result, UuidSource};
use tokio::sync::Mutex;

use crate::{
    config::PostgresConfig,
    error::{self, Effect},
    schema,
    sql::in_schema,
    store::PostgresStore,
};

/// Replaces the clock of a schema with one that stands still.
const STOP_CLOCK_SQL: &str = "CREATE TABLE $schema$.clock (now bigint NOT NULL); \
    CREATE OR REPLACE FUNCTION $schema$.lag() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 0::bigint $$; \
    CREATE OR REPLACE FUNCTION $schema$.now() RETURNS bigint LANGUAGE sql VOLATILE AS \
    $$ SELECT now FROM $schema$.clock $$; \
    INSERT INTO $schema$.clock VALUES (1763700000000)";

/// Ends the sessions that an earlier test left running in a schema, and removes all rows. Tables that have grown are
/// truncated, since deleted rows would stay in their files until a vacuum.
const EMPTY_SCHEMA_SQL: &str = "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '$schema$' AND l.pid <> pg_backend_pid(); \
    DO $do$ DECLARE name regclass; BEGIN \
    FOR name IN SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE n.nspname = '$schema$' AND c.relkind = 'r' AND c.relname NOT IN ('migration', 'meta', 'clock') LOOP \
        IF pg_relation_size(name) > 65536 THEN EXECUTE 'TRUNCATE ' || name; \
        ELSIF pg_relation_size(name) > 0 THEN EXECUTE 'DELETE FROM ' || name; END IF; \
    END LOOP; END $do$; \
    UPDATE $schema$.meta SET incarnation = DEFAULT, cursor_key = sha256(convert_to(gen_random_uuid()::text, 'UTF8')); \
    UPDATE $schema$.clock SET now = 1763700000000";

/// The exclusive right of a test to use a schema. Lasts as long as the connection that holds the lock. The connection
/// also moves the clock, because each new session costs the server milliseconds.
struct SchemaLock {
    connection: Mutex<PgConnection>,
}

impl std::fmt::Debug for SchemaLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchemaLock").finish_non_exhaustive()
    }
}

/// A schema for one test. All stores opened in it share its clock, which starts in November 2025.
///
/// ```no_run
/// use std::time::Duration;
///
/// use store_postgres::{PostgresConfig, TestSchema};
///
/// # async fn example() -> store_core::Result<()> {
/// let config = PostgresConfig::new("postgres://localhost/test?allow_unsafe=true")?;
/// let schema = TestSchema::create(config).await?;
/// let store = schema.open().await?;
/// schema.advance(Duration::from_mins(5)).await?;
/// schema.remove().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TestSchema {
    config: PostgresConfig,
    /// Set if other tests reuse the schema afterwards.
    lock: Option<Arc<SchemaLock>>,
}

impl TestSchema {
    /// Creates a schema with a unique name in the database of `config`. The schema that `config` names is not used.
    ///
    /// # Errors
    /// Those of [`PostgresStore::open`].
    pub async fn create(config: PostgresConfig) -> Result<Self> {
        let name = format!("test_{}", UuidSource.next_id().replace('-', ""));
        let mut config = config.with_schema(&name)?;
        config.uses_test_clock = true;
        let schema = Self { config, lock: None };
        PostgresStore::migrate(&schema.config).await?;
        schema.run(STOP_CLOCK_SQL).await?;
        Ok(schema)
    }

    /// Empties and returns a schema that an earlier test has left. If all such schemas are in use, returns a new one.
    ///
    /// This takes a fraction of the time of creating and removing a schema. The stores of the schema are opened with
    /// `config`. The schema itself is prepared over a connection with the options `direct`, which name no pooler.
    ///
    /// # Errors
    /// Those of [`PostgresStore::open`].
    pub async fn reuse_or_create(direct: &PostgresConfig, config: PostgresConfig) -> Result<Self> {
        let mut connection = PgConnection::connect_with(&direct.server).await.map_err(error::connection_error)?;
        // The name contains a hash of the migrations, because a server that was running before they changed still has
        // schemas with the old ones.
        let migrations_hash = schema::migrations_hash();
        let mut number = 0;
        let name = loop {
            let name = format!("test_{migrations_hash:08x}_{number}");
            let try_lock =
                sqlx::query_scalar("SELECT pg_try_advisory_lock(hashtext('agentstore tests'), hashtext($1))");
            if try_lock.bind(&name).fetch_one(&mut connection).await.map_err(statement_error)? {
                break name;
            }
            number += 1;
        };
        let mut config = config.with_schema(&name)?;
        config.uses_test_clock = true;
        let direct = direct.clone().with_schema(&name)?;
        // The table of the clock is created last. If it exists, the schema is complete.
        let exists: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
            .bind(format!("{name}.clock"))
            .fetch_one(&mut connection)
            .await
            .map_err(statement_error)?;
        if !exists {
            Self { config: direct.clone(), lock: None }.remove().await?;
            PostgresStore::migrate(&direct).await?;
        }
        let prepare_sql = AssertSqlSafe(in_schema(if exists { EMPTY_SCHEMA_SQL } else { STOP_CLOCK_SQL }, &name));
        sqlx::raw_sql(prepare_sql).execute(&mut connection).await.map_err(statement_error)?;
        Ok(Self { config, lock: Some(Arc::new(SchemaLock { connection: Mutex::new(connection) })) })
    }

    /// Returns the schema that `config` names, with its present content and clock.
    #[must_use]
    pub const fn from_config(config: PostgresConfig) -> Self {
        Self { config, lock: None }
    }

    /// Opens a store in the schema. Each opened store behaves like one in another process.
    ///
    /// # Errors
    /// Those of [`PostgresStore::open`].
    pub async fn open(&self) -> Result<PostgresStore> {
        PostgresStore::open(self.config.clone()).await
    }

    /// Returns the options with which the stores of the schema are opened.
    #[must_use]
    pub const fn config(&self) -> &PostgresConfig {
        &self.config
    }

    /// Moves the clock forward.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached.
    pub async fn advance(&self, by: Duration) -> Result<()> {
        self.run(&format!("UPDATE $schema$.clock SET now = now + {}", by.as_millis())).await
    }

    /// Moves the clock back.
    ///
    /// # Errors
    /// Those of [`advance`](Self::advance).
    pub async fn set_back(&self, by: Duration) -> Result<()> {
        self.run(&format!("UPDATE $schema$.clock SET now = now - {}", by.as_millis())).await
    }

    /// Removes the schema and everything in it.
    ///
    /// Sessions whose transactions still hold locks in it are terminated, because their clients may themselves wait for
    /// the end of the removal. A schema from [`reuse_or_create`](Self::reuse_or_create) is kept for the next test.
    ///
    /// # Errors
    /// Those of [`advance`](Self::advance).
    pub async fn remove(&self) -> Result<()> {
        if self.lock.is_some() {
            return Ok(());
        }
        // With a pooler, a session may already serve another client when it is terminated. So the removal is first
        // tried without terminating sessions.
        let without_terminating = "BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL client_min_messages = error; \
            DROP SCHEMA IF EXISTS $schema$ CASCADE; COMMIT";
        if self.run(without_terminating).await.is_ok() {
            return Ok(());
        }
        self.run(
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
                JOIN pg_namespace n ON n.oid = c.relnamespace \
                WHERE n.nspname = '$schema$' AND l.pid <> pg_backend_pid(); \
            SET client_min_messages = error; DROP SCHEMA IF EXISTS $schema$ CASCADE",
        )
        .await
    }

    async fn run(&self, sql: &str) -> Result<()> {
        let sql = AssertSqlSafe(in_schema(sql, &self.config.schema));
        if let Some(lock) = &self.lock {
            sqlx::raw_sql(sql).execute(&mut *lock.connection.lock().await).await.map_err(statement_error)?;
            return Ok(());
        }
        let mut connection = PgConnection::connect_with(&self.config.server).await.map_err(statement_error)?;
        sqlx::raw_sql(sql).execute(&mut connection).await.map_err(statement_error)?;
        connection.close().await.map_err(statement_error)
    }
}

fn statement_error(error: sqlx::Error) -> Error {
    error::statement_error(error, Effect::None)
}

/// A connection that only inserts rows into a table, each in a transaction of its own. Benchmarks compare the speed of
/// a store with it.
///
/// ```no_run
/// use store_postgres::{BaselineInserts, PostgresConfig, TestSchema};
///
/// # async fn example() -> store_core::Result<()> {
/// let schema = TestSchema::create(PostgresConfig::new("postgres://localhost/test?allow_unsafe=true")?).await?;
/// let mut bare = BaselineInserts::open(&schema).await?;
/// bare.insert("a body").await
/// # }
/// ```
#[derive(Debug)]
pub struct BaselineInserts {
    connection: PgConnection,
    sql: String,
}

impl BaselineInserts {
    /// Connects, and creates the table if it does not exist.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached.
    pub async fn open(schema: &TestSchema) -> Result<Self> {
        let config = &schema.config;
        schema
            .run("SET client_min_messages = error; CREATE TABLE IF NOT EXISTS $schema$.bare (id bigserial PRIMARY KEY, body text NOT NULL)")
            .await?;
        let connection = PgConnection::connect_with(&config.server).await.map_err(error::connection_error)?;
        Ok(Self { connection, sql: in_schema("INSERT INTO $schema$.bare (body) VALUES ($1)", &config.schema) })
    }

    /// Inserts a row.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub async fn insert(&mut self, body: &str) -> Result<()> {
        let insert = sqlx::query(AssertSqlSafe(self.sql.as_str())).bind(body);
        insert.execute(&mut self.connection).await.map(drop).map_err(|e| error::statement_error(e, Effect::None))
    }
}
