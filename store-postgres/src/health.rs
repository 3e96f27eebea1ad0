//! The state of a store: versions, the settings of the server that matter, its clock, and poolers in front of it.

use sqlx::{Connection as _, PgConnection, Row as _};
use store_core::{
    Clock as _, Result, SystemClock, Timestamp,
    health::{ClockReading, Finding, StoreHealth},
};

use crate::{
    config::{Pooler, PostgresConfig},
    error::corrupt,
    schema::{NEWEST_MIGRATION, connect, query_value, statement_error},
    sql::in_schema,
};

/// The settings of the server that are reported, in the order of `SETTINGS_SQL`.
const SETTINGS: [&str; 9] = [
    "server",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "autovacuum",
    "data_checksums",
    "max_connections",
    "standbys",
];

const SETTINGS_SQL: &str = "SELECT current_setting('server_version'), current_setting('fsync'), \
    current_setting('full_page_writes'), current_setting('synchronous_commit'), \
    current_setting('synchronous_standby_names'), current_setting('autovacuum'), current_setting('data_checksums'), \
    current_setting('max_connections'), (SELECT count(*) FROM pg_stat_replication)::text";

const ATTACHED_BUFFER: &str = "SELECT (SELECT buffer FROM $schema$.write_buffer)";

/// How often two connections are compared. A pooler gives both the same connection to the server unless others use it.
const POOLER_PROBES: u32 = 5;

/// Reads the state over connections of its own, so that a busy pool does not delay it.
pub(crate) async fn health(config: &PostgresConfig) -> Result<StoreHealth> {
    let mut connection = connect(config).await?;
    let row = sqlx::raw_sql(SETTINGS_SQL).fetch_one(&mut connection).await.map_err(statement_error)?;
    let mut health = StoreHealth::new()
        .with("library", env!("CARGO_PKG_VERSION"))
        .with("schema", format!("{}, version {NEWEST_MIGRATION}", config.schema));
    for (at, name) in SETTINGS.into_iter().enumerate() {
        let value: String = row.try_get(at).map_err(|e| corrupt("a setting").with_source(e))?;
        health = health.finding(check_setting(name, &value, config)).with(name, value);
    }
    let clock = read_clock(&mut connection, &config.schema).await?;
    let buffer = query_value::<Option<String>>(&mut connection, in_schema(ATTACHED_BUFFER, &config.schema)).await?;
    if let Some(buffer) = buffer.filter(|_| !config.behind_buffer) {
        health = health.finding(buffer_beside(&buffer));
    }
    let is_pooler_seen = is_pooled(&mut connection, config).await?;
    connection.close().await.map_err(statement_error)?;
    let pooler = if config.pooler == Pooler::Transaction { "transaction" } else { "none" };
    Ok(health
        .with("connections", config.connections.to_string())
        .with("pooler", pooler)
        .finding(check_pooler(config.pooler, is_pooler_seen))
        .with_clock(clock))
}

/// Returns the finding about a write buffer that is attached to a store, which was opened without it.
fn buffer_beside(buffer: &str) -> Finding {
    let text = format!(
        "the write buffer `{buffer}` is attached: writes that it has acknowledged may not be here yet, and writes \
         without it are refused"
    );
    Finding::note("buffer", text, "name the servers with the buffer, too, to see all writes and to write")
}

fn check_setting(name: &'static str, value: &str, config: &PostgresConfig) -> Option<Finding> {
    let lost = |text: &str| {
        let advice = format!("set `{name} = on` on the server, for its database or its user, and start it again");
        Finding::problem(name, format!("`{name}` is off: {text}"), advice)
    };
    match (name, value) {
        ("fsync", "off") => Some(lost("a power cut loses acknowledged data, and may damage the database")),
        ("full_page_writes", "off") => Some(lost("a power cut may damage the database")),
        ("synchronous_commit", "off") => Some(lost("a crash of the server loses acknowledged data")),
        ("autovacuum", "off") => {
            Some(Finding::problem(name, "`autovacuum` is off: tables grow, and calls become slower", "set it to `on`"))
        }
        ("data_checksums", "off") => Some(Finding::note(
            name,
            "the server does not notice if a disk changes stored bytes",
            "switch data checksums on with `pg_checksums --enable` while the server is stopped",
        )),
        ("max_connections", max) if max.parse().is_ok_and(|max: u32| max < config.connections) => {
            Some(Finding::problem(
                name,
                format!("the store may open {} connections, and the server allows {max} in all", config.connections),
                "lower `connections=` in the URL, or raise `max_connections`",
            ))
        }
        _ => None,
    }
}

async fn read_clock(connection: &mut PgConnection, schema: &str) -> Result<ClockReading> {
    let query = in_schema("SELECT $schema$.now()", schema);
    let asked_at = SystemClock.now();
    let millis: i64 = query_value(connection, query).await?;
    let answered_at = SystemClock.now();
    let store_time = Timestamp::from_millis(u64::try_from(millis).unwrap_or_default())?;
    Ok(ClockReading::new(asked_at, store_time, answered_at))
}

/// Returns whether a pooler gives a connection to the server to several clients: two open connections of this process
/// are then served by one process of the server.
async fn is_pooled(connection: &mut PgConnection, config: &PostgresConfig) -> Result<bool> {
    let mut other = connect(config).await?;
    let server_process = || "SELECT pg_backend_pid()".to_owned();
    for _ in 0..POOLER_PROBES {
        let one: i32 = query_value(connection, server_process()).await?;
        if query_value::<i32>(&mut other, server_process()).await? == one {
            return Ok(true);
        }
    }
    other.close().await.map_err(statement_error)?;
    Ok(false)
}

fn check_pooler(configured: Pooler, is_seen: bool) -> Option<Finding> {
    match (configured, is_seen) {
        (Pooler::None, true) => Some(Finding::problem(
            "pooler",
            "a transaction pooler is in front of the server, and the URL does not say so: notifications get lost",
            "add `pooler=transaction` to the URL, or connect to the server itself",
        )),
        (Pooler::Transaction, false) => Some(Finding::note(
            "pooler",
            "the URL names a transaction pooler, and none is in use: each call takes more round trips than it needs",
            "omit `pooler=transaction` if the URL leads to the server itself",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use store_core::health::Severity;

    use super::{check_pooler, check_setting};
    use crate::config::{Pooler, PostgresConfig};

    #[test]
    fn wrong_settings_are_found() {
        let config = PostgresConfig::new("postgres://db/x?connections=20").unwrap();
        for (name, value, expected) in [
            ("fsync", "on", None),
            ("fsync", "off", Some(Severity::Problem)),
            ("full_page_writes", "off", Some(Severity::Problem)),
            ("synchronous_commit", "off", Some(Severity::Problem)),
            ("synchronous_commit", "local", None),
            ("autovacuum", "off", Some(Severity::Problem)),
            ("data_checksums", "off", Some(Severity::Note)),
            ("max_connections", "19", Some(Severity::Problem)),
            ("max_connections", "20", None),
            ("server", "off", None),
        ] {
            let found = check_setting(name, value, &config).map(|finding| finding.severity);
            assert_eq!(found, expected, "{name}={value}");
        }
    }

    #[test]
    fn a_pooler_that_the_url_does_not_name_is_a_problem() {
        let severity = |configured, is_seen| check_pooler(configured, is_seen).map(|finding| finding.severity);
        assert_eq!(severity(Pooler::None, true), Some(Severity::Problem));
        assert_eq!(severity(Pooler::None, false), None);
        assert_eq!(severity(Pooler::Transaction, false), Some(Severity::Note));
        assert_eq!(severity(Pooler::Transaction, true), None);
    }
}
