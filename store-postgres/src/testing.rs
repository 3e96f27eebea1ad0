//! Stores for tests: each in a schema of its own, whose clock stands still unless it is moved.

use std::{sync::Arc, time::Duration};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use store_core::{Error, IdSource, Result, Uuids};

use crate::{
    config::PostgresConfig,
    error::{self, Effect},
    schema,
    sql::in_schema,
    store::PostgresStore,
};

/// Makes the clock of a schema stand still.
const STOPPED: &str = "CREATE TABLE $schema$.clock (now bigint NOT NULL); \
    CREATE OR REPLACE FUNCTION $schema$.lag() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 0::bigint $$; \
    CREATE OR REPLACE FUNCTION $schema$.now() RETURNS bigint LANGUAGE sql VOLATILE AS \
    $$ SELECT now FROM $schema$.clock $$; \
    INSERT INTO $schema$.clock VALUES (1763700000000)";

/// Ends what an earlier test left running in a schema, and removes its rows. Tables that have grown get new files:
/// deleted rows would stay in them until they are vacuumed.
const EMPTIED: &str = "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '$schema$' AND l.pid <> pg_backend_pid(); \
    DO $do$ DECLARE name regclass; BEGIN \
    FOR name IN SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE n.nspname = '$schema$' AND c.relkind = 'r' AND c.relname NOT IN ('migration', 'meta', 'clock') LOOP \
        IF pg_relation_size(name) > 65536 THEN EXECUTE 'TRUNCATE ' || name; \
        ELSIF pg_relation_size(name) > 0 THEN EXECUTE 'DELETE FROM ' || name; END IF; \
    END LOOP; END $do$; \
    UPDATE $schema$.meta SET incarnation = DEFAULT, cursor_key = sha256(convert_to(gen_random_uuid()::text, 'UTF8')); \
    UPDATE $schema$.clock SET now = 1763700000000";

/// A schema that this test alone uses, as long as it holds the connection with the lock.
struct Lease {
    _connection: PgConnection,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").finish_non_exhaustive()
    }
}

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
    /// If others use it afterwards.
    lease: Option<Arc<Lease>>,
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
        let schema = Self { config, lease: None };
        PostgresStore::migrate(&schema.config).await?;
        schema.run(STOPPED).await?;
        Ok(schema)
    }

    /// A schema that earlier tests have left, emptied, or a new one if all are in use. That takes a fraction of the
    /// time that making and removing one takes. `config` is how its stores are opened, `direct` how the server is
    /// reached without a pooler.
    ///
    /// # Errors
    /// Those of [`PostgresStore::open`].
    pub async fn lease(direct: &PostgresConfig, config: PostgresConfig) -> Result<Self> {
        let mut connection = PgConnection::connect_with(&direct.server).await.map_err(error::connecting)?;
        // A server that outlives a change of the schema has schemas of both.
        let made_by = schema::fingerprint();
        let mut number = 0;
        let name = loop {
            let name = format!("test_{made_by:08x}_{number}");
            let locked = sqlx::query_scalar("SELECT pg_try_advisory_lock(hashtext('agentstore tests'), hashtext($1))");
            if locked.bind(&name).fetch_one(&mut connection).await.map_err(failed)? {
                break name;
            }
            number += 1;
        };
        let mut config = config.with_schema(&name)?;
        config.stands_still = true;
        let direct = direct.clone().with_schema(&name)?;
        // The table of its clock is the last that is made.
        let there: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
            .bind(format!("{name}.clock"))
            .fetch_one(&mut connection)
            .await
            .map_err(failed)?;
        if !there {
            Self { config: direct.clone(), lease: None }.remove().await?;
            PostgresStore::migrate(&direct).await?;
        }
        let prepared = AssertSqlSafe(in_schema(if there { EMPTIED } else { STOPPED }, &name));
        sqlx::raw_sql(prepared).execute(&mut connection).await.map_err(failed)?;
        Ok(Self { config, lease: Some(Arc::new(Lease { _connection: connection })) })
    }

    /// The schema that `config` names, whatever is in it and whatever its time is.
    #[must_use]
    pub const fn named(config: PostgresConfig) -> Self {
        Self { config, lease: None }
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
    /// may be waiting for this. One that was [leased](Self::lease) stays, for the next test.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub async fn remove(&self) -> Result<()> {
        if self.lease.is_some() {
            return Ok(());
        }
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
        let mut connection = PgConnection::connect_with(&self.config.server).await.map_err(failed)?;
        let sql = AssertSqlSafe(in_schema(sql, &self.config.schema));
        sqlx::raw_sql(sql).execute(&mut connection).await.map_err(failed)?;
        connection.close().await.map_err(failed)
    }
}

fn failed(error: sqlx::Error) -> Error {
    error::sql(error, Effect::None)
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
