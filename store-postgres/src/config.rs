//! The options with which a store is opened.

use std::{fmt, sync::Arc, time::Duration};

use sqlx::postgres::PgConnectOptions;
use store_core::{IdSource, Limits, Result, UuidSource};

use crate::url::{self, ServerRequirement, UrlParts};

/// Planner settings. Plans are made once, possibly while tables are still small. So these settings force plans that
/// look rows up by their keys. A plan that has to scan even a table of one row then counts as very expensive, and the
/// server would compile it each time (`jit`), which takes 30 ms.
pub(crate) const PLANNER_SETTINGS: [(&str, &str); 6] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];

/// What happens to the schema when a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Migrate {
    /// The schema is created, or migrated to the current version.
    #[default]
    Always,
    /// The schema is only checked. If the schema is missing or older, the store is not opened and the error is
    /// `SchemaMismatch`.
    Never,
}

/// The kind of pooler between a process and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooler {
    /// No pooler, or a session pooler, which reserves a connection for one process as long as the process uses it.
    #[default]
    None,
    /// A transaction pooler such as pgbouncer: the next transaction may run on another connection. The store then
    /// neither prepares statements nor listens for notifications (PO-10).
    Transaction,
}

/// The options with which a store is opened.
#[derive(Clone)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct PostgresConfig {
    /// The address of the server, and the user that connects.
    pub(crate) server: PgConnectOptions,
    /// What each new connection requires of the server.
    pub(crate) server_requirement: ServerRequirement,
    /// The schema that contains the whole store.
    pub(crate) schema: String,
    /// The kind of pooler between this process and the server.
    pub pooler: Pooler,
    /// What happens to the schema when the store is opened.
    pub migrate: Migrate,
    /// Opens the store for reading only. The schema is not created, and calls that write return `Unsupported`.
    pub read_only: bool,
    /// The maximum number of connections.
    pub connections: u32,
    /// How long a call waits for a connection.
    pub acquire_timeout: Duration,
    /// How long a call waits for an answer of the server.
    pub answer_timeout: Duration,
    /// Opens the store even if the server may lose data that it acknowledged.
    pub allow_unsafe: bool,
    /// Whether the store is opened behind a write buffer. Without this, a store to which a buffer is attached is not
    /// opened for writing (NB-14).
    pub behind_buffer: bool,
    /// The source of generated ids.
    pub ids: Arc<dyn IdSource>,
    /// For tests only: the schema has a clock of its own, which stands still unless the test moves it.
    #[doc(hidden)]
    pub uses_test_clock: bool,
    /// The limits of the store. A limit above the default is lowered to the default.
    pub limits: Limits,
}

impl PostgresConfig {
    /// Returns the options for a URL such as `postgres://user:password@host:5432/database?schema=agentstore`.
    ///
    /// The parameters of the server are `host` (also the folder of a socket), `port`, `user`, `password`, `dbname`,
    /// `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, `application_name`, `options`, `connect_timeout` (also the time
    /// that a call waits for a connection) and `target_session_attrs`. Any other parameter of libpq is accepted if the
    /// driver already behaves as the parameter asks. Otherwise it is refused, and the error names it. The certificate
    /// of a server on another machine is verified unless `sslmode` says otherwise (PO-11). A server that is reached by
    /// a socket or on this machine is verified only if `sslmode` asks for it.
    ///
    /// The parameters of the store are:
    ///
    /// - `schema=NAME`: the schema that contains the whole store, `agentstore` by default.
    /// - `connections=N`: the maximum number of connections, 10 by default.
    /// - `pooler=transaction`: a transaction pooler such as pgbouncer is in front of the server. The store then neither
    ///   prepares statements nor listens for notifications. Each call takes more round trips, and the store polls for
    ///   what other processes write (PO-10).
    /// - `allow_unsafe=true`: opens the store even if the server may lose data that it acknowledged (PO-6).
    ///
    /// # Errors
    /// `Invalid` for any other URL, parameter or value. No error shows the password.
    pub fn new(url: &str) -> Result<Self> {
        let UrlParts {
            server, schema, connections, is_pooled, allow_unsafe, connect_timeout, server_requirement, ..
        } = url::parse(url)?;
        Ok(Self {
            server,
            server_requirement,
            schema,
            pooler: if is_pooled { Pooler::Transaction } else { Pooler::None },
            migrate: Migrate::Always,
            read_only: false,
            connections: connections.unwrap_or(10),
            acquire_timeout: connect_timeout.unwrap_or(Duration::from_secs(5)),
            answer_timeout: Duration::from_secs(30),
            allow_unsafe,
            behind_buffer: false,
            ids: Arc::new(UuidSource),
            uses_test_clock: false,
            limits: Limits::default(),
        })
    }

    /// Returns the name of the schema that contains the whole store.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns the same options for another schema of the same database.
    ///
    /// # Errors
    /// `Invalid` for a name that would need quotes.
    pub fn with_schema(mut self, name: &str) -> Result<Self> {
        self.schema = url::check_schema_name(name)?;
        Ok(self)
    }
}

/// Shows the address of the server and leaves out the password.
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
