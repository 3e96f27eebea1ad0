//! The schema: checks of the server's durability and of the migrations, and the migrations themselves.

use sqlx::{AssertSqlSafe, Connection as _, Decode, PgConnection, Postgres, Row as _, Type};
use store_core::{CursorKey, Detail, Error, ErrorKind, Result, SchemaRemedy, StoreIdentity, Survives};

use crate::{
    config::{Migrate, PostgresConfig},
    error::{self, Effect, corrupt},
    sql::in_schema,
    url::ServerRequirement,
};

/// The migrations, numbered from 1.
const MIGRATIONS: [&str; 4] = [
    include_str!("../migrations/0001.sql"),
    include_str!("../migrations/0002.sql"),
    include_str!("../migrations/0003.sql"),
    include_str!("../migrations/0004.sql"),
];

/// The number of the newest migration, which is the version of the schema.
pub(crate) const NEWEST_MIGRATION: usize = MIGRATIONS.len();

/// The properties of the schema that are read when a store is opened.
#[derive(Debug)]
pub(crate) struct SchemaMeta {
    pub(crate) incarnation: u64,
    pub(crate) cursor_key: CursorKey,
    pub(crate) identity: StoreIdentity,
    /// What acknowledged data survives with the present settings of the server.
    pub(crate) survives: Survives,
}

/// Refuses a server that may lose data that it acknowledged (PO-6).
async fn check_durability(connection: &mut PgConnection) -> Result<()> {
    let query = "SELECT current_setting('fsync'), current_setting('full_page_writes'), \
        current_setting('synchronous_commit'), pg_is_in_recovery()::text";
    let row = sqlx::raw_sql(query).fetch_one(connection).await.map_err(statement_error)?;
    for (at, setting) in ["fsync", "full_page_writes", "synchronous_commit", "a standby"].into_iter().enumerate() {
        let value: String = row.try_get(at).map_err(|e| corrupt("a setting").with_source(e))?;
        let is_bad = if at == 3 { value == "true" } else { value == "off" };
        if is_bad {
            let setting = if at == 3 { setting.to_owned() } else { format!("{setting}=off") };
            return Err(Error::new(Detail::UnsafeDurability { setting, option: "allow_unsafe=true".to_owned() }));
        }
    }
    Ok(())
}

/// Checks a new connection. Refuses a server without the property that the URL asks for. Unless `allow_unsafe` is set,
/// also refuses a server that may lose data that it acknowledged (PO-6).
pub(crate) async fn check_connection(
    connection: &mut PgConnection,
    server_requirement: ServerRequirement,
    allow_unsafe: bool,
) -> Result<()> {
    check_requirement(connection, server_requirement).await?;
    if allow_unsafe { Ok(()) } else { check_durability(connection).await }
}

async fn check_requirement(connection: &mut PgConnection, server_requirement: ServerRequirement) -> Result<()> {
    if server_requirement == ServerRequirement::Any {
        return Ok(());
    }
    let query = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean";
    let row = sqlx::raw_sql(query).fetch_one(connection).await.map_err(statement_error)?;
    let read = || -> Result<(bool, bool), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
    let (is_standby, is_read_only) = read().map_err(|e| corrupt("a setting").with_source(e))?;
    let refuse = |why| Err(Error::invalid("target_session_attrs", why));
    if is_standby {
        return refuse("the server is a standby: name the server that accepts writes");
    }
    if server_requirement == ServerRequirement::ReadWrite && is_read_only {
        return refuse("sessions of the server are read-only: check `default_transaction_read_only`");
    }
    Ok(())
}

/// The result of a migration. A version is the number of the last migration; 0 means that there is no schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// The version before.
    pub from: usize,
    /// The version now.
    pub to: usize,
}

/// Returns a hash of the text of all migrations.
pub(crate) fn migrations_hash() -> u32 {
    // FNV-1a suffices: it only has to distinguish a changed text from the previous one.
    MIGRATIONS
        .iter()
        .flat_map(|text| text.bytes())
        .fold(0x811c_9dc5, |sum: u32, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Creates the schema, or migrates it to the current version.
pub(crate) async fn create_or_migrate(config: &PostgresConfig) -> Result<Migrated> {
    let mut connection = connect(config).await?;
    let from = applied_version(&mut connection, &config.schema).await?;
    let to = if from < NEWEST_MIGRATION { migrate(&mut connection, &config.schema).await? } else { from };
    check_version(to)?;
    connection.close().await.map_err(statement_error)?;
    Ok(Migrated { from, to })
}

/// What the schema knows about itself, and where it is: the database, and the start of the server. A copy of a database
/// has the same key. A copy of a whole server also has the same number of the database, but starts at another time.
const LOAD_META: &str = "SELECT incarnation, cursor_key, concat_ws(' ', \
    (SELECT oid::bigint FROM pg_database WHERE datname = current_database()), \
    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint) FROM $schema$.meta";

/// Creates, migrates or checks the schema as configured, and returns its properties.
pub(crate) async fn open_schema(config: &PostgresConfig) -> Result<SchemaMeta> {
    let mut connection = connect(config).await?;
    let mut version = applied_version(&mut connection, &config.schema).await?;
    if version < NEWEST_MIGRATION && config.migrate == Migrate::Always && !config.read_only {
        version = migrate(&mut connection, &config.schema).await?;
    }
    check_version(version)?;
    let row = sqlx::raw_sql(AssertSqlSafe(in_schema(LOAD_META, &config.schema)))
        .fetch_one(&mut connection)
        .await
        .map_err(statement_error)?;
    let read =
        || -> Result<(i64, Vec<u8>, String), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)) };
    let (incarnation, key, place) = read().map_err(|e| corrupt("the store's own row").with_source(e))?;
    let key = <[u8; 32]>::try_from(key).map_err(|_| corrupt("the key of cursors"))?;
    let cursor_key = CursorKey::new(key);
    let identity = cursor_key.identity(&format!("postgres {place} {}", config.schema));
    let incarnation = u64::try_from(incarnation).map_err(|_| corrupt("the incarnation"))?;
    let survives = match check_durability(&mut connection).await {
        Ok(()) => Survives::Power,
        Err(error) if error.kind() == ErrorKind::UnsafeDurability => Survives::Process,
        Err(error) => return Err(error),
    };
    connection.close().await.map_err(statement_error)?;
    Ok(SchemaMeta { incarnation, cursor_key, identity, survives })
}

/// Removes the stamps of order keys that no row of the outbox has any more. A stamp that is missing is made anew. The
/// lock keeps a stamp whose first row is written at the same time.
const REMOVE_UNUSED_ORDER_KEYS: &str = "BEGIN; LOCK TABLE $schema$.outbox_order IN EXCLUSIVE MODE; \
    DELETE FROM $schema$.outbox_order z WHERE NOT EXISTS (SELECT FROM $schema$.outbox o WHERE o.tenant = z.tenant \
    AND o.lane = z.lane AND o.target = z.target AND o.order_key = z.key); COMMIT";

/// Removes order keys that are not used any more, and lets the server use the space of removed rows again, table by
/// table. `go_on` is asked before each table. Returns whether it was done to the end.
pub(crate) async fn vacuum(config: &PostgresConfig, go_on: impl Fn(u64, u64) -> bool) -> Result<bool> {
    let mut connection = connect(config).await?;
    let unused = AssertSqlSafe(in_schema(REMOVE_UNUSED_ORDER_KEYS, &config.schema));
    sqlx::raw_sql(unused).execute(&mut connection).await.map_err(statement_error)?;
    let query = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = '$schema$' ORDER BY 1";
    let query = AssertSqlSafe(in_schema(query, &config.schema));
    let rows = sqlx::raw_sql(query).fetch_all(&mut connection).await.map_err(statement_error)?;
    let total = rows.len() as u64;
    for (done, row) in (0..).zip(&rows) {
        if !go_on(done, total) {
            return Ok(false);
        }
        let table: String = row.try_get(0).map_err(|e| corrupt("the list of tables").with_source(e))?;
        let statement = AssertSqlSafe(format!("VACUUM {table}"));
        sqlx::raw_sql(statement).execute(&mut connection).await.map_err(statement_error)?;
    }
    connection.close().await.map_err(statement_error)?;
    Ok(true)
}

pub(crate) async fn connect(config: &PostgresConfig) -> Result<PgConnection> {
    let connected = tokio::time::timeout(config.acquire_timeout, PgConnection::connect_with(&config.server)).await;
    let timeout_error = |_| Error::server_unavailable("the server could not be reached in time");
    let mut connection = connected.map_err(timeout_error)?.map_err(error::connection_error)?;
    check_connection(&mut connection, config.server_requirement, config.allow_unsafe).await?;
    Ok(connection)
}

fn check_version(version: usize) -> Result<()> {
    if version == NEWEST_MIGRATION {
        return Ok(());
    }
    let found = if version == 0 { "none".to_owned() } else { format!("version {version}") };
    let supported = format!("version {NEWEST_MIGRATION}, which `agentstore migrate` creates");
    Err(Error::schema_mismatch(found, supported, SchemaRemedy::Migrate))
}

/// Returns the number of the last migration that was applied, or 0 if there is no schema.
async fn applied_version(connection: &mut PgConnection, schema: &str) -> Result<usize> {
    let exists = in_schema("SELECT to_regclass('$schema$.migration') IS NOT NULL", schema);
    if !query_value::<bool>(connection, exists).await? {
        return Ok(0);
    }
    let newest = in_schema("SELECT coalesce(max(number), 0) FROM $schema$.migration", schema);
    usize::try_from(query_value::<i32>(connection, newest).await?).map_err(|_| corrupt("the schema's version"))
}

/// Asks for one value. Such statements are not prepared, because a pooler may be in front of the server.
pub(crate) async fn query_value<T>(connection: &mut PgConnection, query: String) -> Result<T>
where
    T: for<'r> Decode<'r, Postgres> + Type<Postgres>,
{
    let row = sqlx::raw_sql(AssertSqlSafe(query)).fetch_one(connection).await.map_err(statement_error)?;
    row.try_get(0).map_err(statement_error)
}

pub(crate) fn statement_error(error: sqlx::Error) -> Error {
    error::statement_error(error, Effect::None)
}

/// Applies the missing migrations, each completely or not at all. A lock keeps other processes from doing so at the
/// same time.
async fn migrate(connection: &mut PgConnection, schema: &str) -> Result<usize> {
    let mut applied = 0;
    for number in 1..=NEWEST_MIGRATION {
        let mut transaction = connection.begin().await.map_err(statement_error)?;
        let lock =
            in_schema("SELECT pg_advisory_xact_lock(hashtext('agentstore.$schema$'), hashtext('schema'))", schema);
        sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *transaction).await.map_err(statement_error)?;
        applied = applied_version(&mut transaction, schema).await?;
        if applied >= number {
            transaction.rollback().await.map_err(statement_error)?;
            continue;
        }
        if number == 1 {
            let create_schema = "CREATE SCHEMA IF NOT EXISTS $schema$; CREATE TABLE $schema$.migration \
                (number integer PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT now());";
            sqlx::raw_sql(AssertSqlSafe(in_schema(create_schema, schema)))
                .execute(&mut *transaction)
                .await
                .map_err(statement_error)?;
        }
        let text = MIGRATIONS.get(number - 1).copied().unwrap_or_default();
        sqlx::raw_sql(AssertSqlSafe(in_schema(text, schema)))
            .execute(&mut *transaction)
            .await
            .map_err(statement_error)?;
        if number == 1 {
            let mut key = [0; 32];
            let random_error = |e| Error::unavailable("random bytes are not available").with_source(e);
            getrandom::fill(&mut key).map_err(random_error)?;
            let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            let meta = format!("INSERT INTO $schema$.meta (cursor_key) VALUES (decode('{key}', 'hex'))");
            sqlx::raw_sql(AssertSqlSafe(in_schema(&meta, schema)))
                .execute(&mut *transaction)
                .await
                .map_err(statement_error)?;
        }
        let record_migration = format!("INSERT INTO $schema$.migration (number) VALUES ({number})");
        sqlx::raw_sql(AssertSqlSafe(in_schema(&record_migration, schema)))
            .execute(&mut *transaction)
            .await
            .map_err(statement_error)?;
        transaction.commit().await.map_err(statement_error)?;
        applied = number;
    }
    Ok(applied)
}
