//! How a store is opened.

use std::{fmt, sync::Arc, time::Duration};

use sqlx::postgres::PgConnectOptions;
use store_core::{IdSource, Limits, Result, Uuids};

use crate::url::{self, Parts, Target};

/// What an opening does about the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Migrate {
    /// It is made, or brought up to date.
    #[default]
    Always,
    /// It is only looked at: one that is missing or older is `SchemaMismatch`.
    Never,
}

/// What stands between a process and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooler {
    /// Nothing, or what gives a connection to one process for as long as it wants it.
    #[default]
    None,
    /// A transaction pooler such as pgbouncer: the next transaction may run on another connection. Nothing is prepared
    /// and nobody listens then (PO-10).
    Transaction,
}

/// How a store is opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresConfig {
    /// Where the server is, and who connects.
    pub(crate) server: PgConnectOptions,
    /// What each new connection is looked at for.
    pub(crate) target: Target,
    /// The schema that everything lives in.
    pub(crate) schema: String,
    /// What stands between this process and the server.
    pub pooler: Pooler,
    /// What an opening does about the schema.
    pub migrate: Migrate,
    /// Reads only: the schema is not made, and what writes is `Unsupported`.
    pub read_only: bool,
    /// How many connections there are at most.
    pub connections: u32,
    /// How long a call waits for one of them.
    pub acquire: Duration,
    /// How long a call waits for the server.
    pub deadline: Duration,
    /// Opens although the server may lose what it acknowledged.
    pub allow_unsafe: bool,
    /// Where generated ids come from.
    pub ids: Arc<dyn IdSource>,
    /// For tests alone: the schema's clock stands still unless it is moved.
    #[doc(hidden)]
    pub stands_still: bool,
    /// Limits, none above the defaults.
    pub limits: Limits,
}

impl PostgresConfig {
    /// The store at a URL such as `postgres://user:password@host:5432/database?schema=agentstore`.
    ///
    /// Of the server it knows `host` (also the folder of a socket), `port`, `user`, `password`, `dbname`, `sslmode`,
    /// `sslrootcert`, `sslcert`, `sslkey`, `application_name`, `options`, `connect_timeout` (which is also how long a
    /// call waits for a connection) and `target_session_attrs`. Whatever else libpq knows is accepted where it holds,
    /// and else refused by name. A host that is neither a socket nor this machine is
    /// verified, unless `sslmode` says otherwise (PO-11). Of the store it knows
    ///
    /// - `schema=NAME`: the schema that everything lives in, `agentstore` unless given;
    /// - `connections=N`: how many there are at most, 10 unless given;
    /// - `pooler=transaction`: a transaction pooler such as pgbouncer stands between. Nothing is prepared and nobody
    ///   listens then: each call takes more round trips, and what other processes write is found by looking (PO-10);
    /// - `allow_unsafe=true`: opens although the server may lose what it acknowledged (PO-6).
    ///
    /// # Errors
    /// `Invalid` for anything else. No error shows the password.
    pub fn new(url: &str) -> Result<Self> {
        let Parts { server, schema, connections, is_pooled, allow_unsafe, connect_within, target, .. } =
            url::parse(url)?;
        Ok(Self {
            server,
            target,
            schema,
            pooler: if is_pooled { Pooler::Transaction } else { Pooler::None },
            migrate: Migrate::Always,
            read_only: false,
            connections: connections.unwrap_or(10),
            acquire: connect_within.unwrap_or(Duration::from_secs(5)),
            deadline: Duration::from_secs(30),
            allow_unsafe,
            ids: Arc::new(Uuids),
            stands_still: false,
            limits: Limits::default(),
        })
    }

    /// The schema that everything lives in.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The same for another schema of the same database.
    ///
    /// # Errors
    /// `Invalid` for a name that would need quotes.
    pub fn with_schema(mut self, name: &str) -> Result<Self> {
        self.schema = url::schema(name)?;
        Ok(self)
    }
}

/// Says where, and not with which password.
impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("host", &self.server.get_host())
            .field("database", &self.server.get_database())
            .field("schema", &self.schema)
            .field("migrate", &self.migrate)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}
