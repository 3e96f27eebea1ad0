//! Stores for tests: each in a schema of its own, whose clock stands still unless it is moved.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use store_core::{Error, IdSource, Result, Uuids};

use crate::{
    config::PostgresConfig,
    error::{self, Effect},
    sql::in_schema,
    store::PostgresStore,
};

/// A schema for one test. Stores that are opened in it share its time, which begins in November 2025.
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
}

impl TestSchema {
    /// Makes a schema with a name of its own in the database of `config`, beside the one that it names.
    ///
    /// # Errors
    /// Those of [`PostgresStore::open`].
    pub async fn create(config: PostgresConfig) -> Result<Self> {
        let name = format!("test_{}", Uuids.next_id().replace('-', ""));
        let mut config = config.with_schema(&name)?;
        config.stands_still = true;
        let schema = Self { config };
        PostgresStore::migrate(&schema.config).await?;
        let stopped = "CREATE TABLE $schema$.clock (now bigint NOT NULL); \
            INSERT INTO $schema$.clock VALUES (1763700000000); \
            CREATE OR REPLACE FUNCTION $schema$.lag() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 0::bigint $$; \
            CREATE OR REPLACE FUNCTION $schema$.now() RETURNS bigint LANGUAGE sql VOLATILE AS \
            $$ SELECT now FROM $schema$.clock $$";
        schema.run(stopped).await?;
        Ok(schema)
    }

    /// The schema that `config` names, whatever is in it and whatever its time is.
    #[must_use]
    pub const fn named(config: PostgresConfig) -> Self {
        Self { config }
    }

    /// Opens a store in it. Each opening is as one of another process.
    ///
    /// # Errors
    /// Those of [`PostgresStore::open`].
    pub async fn open(&self) -> Result<PostgresStore> {
        PostgresStore::open(self.config.clone()).await
    }

    /// How its stores are opened.
    #[must_use]
    pub const fn config(&self) -> &PostgresConfig {
        &self.config
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached.
    pub async fn advance(&self, by: Duration) -> Result<()> {
        self.run(&format!("UPDATE $schema$.clock SET now = now + {}", by.as_millis())).await
    }

    /// Sets its clock back.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub async fn set_back(&self, by: Duration) -> Result<()> {
        self.run(&format!("UPDATE $schema$.clock SET now = now - {}", by.as_millis())).await
    }

    /// Removes it with everything in it. Transactions that still hold something of it are cut off: whoever began them
    /// may be waiting for this.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub async fn remove(&self) -> Result<()> {
        // Behind a pooler a connection may be with somebody else by the time it is cut off: only if nothing else helps.
        let gently = "BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL client_min_messages = error; \
            DROP SCHEMA IF EXISTS $schema$ CASCADE; COMMIT";
        if self.run(gently).await.is_ok() {
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
        let fail = |e| -> Error { error::sql(e, Effect::None) };
        let mut connection = PgConnection::connect_with(&self.config.server).await.map_err(fail)?;
        let sql = AssertSqlSafe(in_schema(sql, &self.config.schema));
        sqlx::raw_sql(sql).execute(&mut connection).await.map_err(fail)?;
        connection.close().await.map_err(fail)
    }
}

/// A connection that does nothing but add rows to a table, each in a transaction of its own: what stores are measured
/// beside.
///
/// ```no_run
/// use store_postgres::{BareInserts, PostgresConfig, TestSchema};
///
/// # async fn example() -> store_core::Result<()> {
/// let schema = TestSchema::create(PostgresConfig::new("postgres://localhost/test?allow_unsafe=true")?).await?;
/// let mut bare = BareInserts::open(&schema).await?;
/// bare.insert("a body").await
/// # }
/// ```
#[derive(Debug)]
pub struct BareInserts {
    connection: PgConnection,
    sql: String,
}

impl BareInserts {
    /// Connects, and makes the table if it is not there yet.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached.
    pub async fn open(schema: &TestSchema) -> Result<Self> {
        let config = &schema.config;
        schema
            .run("SET client_min_messages = error; CREATE TABLE IF NOT EXISTS $schema$.bare (id bigserial PRIMARY KEY, body text NOT NULL)")
            .await?;
        let connection = PgConnection::connect_with(&config.server).await.map_err(error::connecting)?;
        Ok(Self { connection, sql: in_schema("INSERT INTO $schema$.bare (body) VALUES ($1)", &config.schema) })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn insert(&mut self, body: &str) -> Result<()> {
        let insert = sqlx::query(AssertSqlSafe(self.sql.as_str())).bind(body);
        insert.execute(&mut self.connection).await.map(drop).map_err(|e| error::sql(e, Effect::None))
    }
}
