//! Translates errors of the driver and the server to the errors of the contracts.

use sqlx::{
    Error as SqlError,
    postgres::{PgDatabaseError, PgSeverity},
};
use store_core::{Detail, Error, SchemaRemedy, UnavailableCause};

/// The effect that a statement may have had if it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// No effect: the statement only read, or the server had not been asked to commit.
    None,
    /// All or nothing. If the answer was lost, it is unknown which.
    Perhaps,
}

/// Returns whether the whole call should be retried at once (PO-12).
pub(crate) fn is_transient(error: &SqlError) -> bool {
    matches!(sql_state(error).as_deref(), Some("40001" | "40P01"))
}

/// Returns the name of the unique constraint that refused a row.
pub(crate) fn violated_constraint(error: &SqlError) -> Option<&str> {
    error.as_database_error().filter(|error| error.is_unique_violation())?.constraint()
}

/// Returns whether the connection can no longer be used: the error did not come from the server, or the server ended
/// the connection with it.
pub(crate) fn ends_connection(error: &SqlError) -> bool {
    let server_error = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    server_error.is_none_or(|server_error| matches!(server_error.severity(), PgSeverity::Panic | PgSeverity::Fatal))
}

/// Returns the error for a failed statement, with the error of the driver as its source.
pub(crate) fn statement_error(error: SqlError, effect: Effect) -> Error {
    let detail = match &error {
        SqlError::PoolTimedOut => unavailable("no connection became free in time"),
        SqlError::PoolClosed => Detail::Closed,
        SqlError::Tls(_) => unavailable("no secure connection to the server can be established"),
        SqlError::Configuration(_) => unavailable("the connection to the server is not configured correctly"),
        SqlError::Database(_) => return refusal_error(error, effect),
        SqlError::ColumnDecode { .. }
        | SqlError::Decode(_)
        | SqlError::ColumnNotFound(_)
        | SqlError::ColumnIndexOutOfBounds { .. }
        | SqlError::TypeNotFound { .. }
        | SqlError::RowNotFound => Detail::Corrupt { location: "a row does not have the expected form".to_owned() },
        _ if effect == Effect::Perhaps => Detail::CommitUnknown { key: None },
        _ => unavailable("the connection to the server was lost"),
    };
    Error::new(detail).with_source(error)
}

/// Returns the error for a connection that could not be made.
pub(crate) fn connection_error(error: SqlError) -> Error {
    match &error {
        SqlError::Io(_) => Error::server_unavailable("the server cannot be reached").with_source(error),
        _ => statement_error(error, Effect::None),
    }
}

/// Returns the error for a statement that the server refused. Such a statement had no effect, unless the server ended
/// while it ran the statement.
fn refusal_error(error: SqlError, effect: Effect) -> Error {
    let code = sql_state(&error).unwrap_or_default();
    let detail = match code.as_str() {
        _ if effect == Effect::Perhaps && ends_connection(&error) => Detail::CommitUnknown { key: None },
        "53100" => Detail::StorageFull,
        "53300" => unavailable("the server accepts no more connections"),
        "42P01" | "3F000" | "42883" | "42703" => Detail::SchemaMismatch {
            found: "an incomplete schema".to_owned(),
            supported: "the one that `agentstore migrate` creates".to_owned(),
            remedy: SchemaRemedy::Migrate,
        },
        "42501" => unavailable("the user of the server lacks the privilege for this"),
        "28P01" | "28000" => unavailable("the server rejected the user or the password"),
        "3D000" => unavailable("the database does not exist"),
        "25006" => unavailable("the server is a standby, or read-only"),
        "40001" | "40P01" => {
            return Error::unavailable("other transactions kept conflicting with this one").with_source(error);
        }
        "57014" => unavailable("the server took too long"),
        _ if code.starts_with("57P") => unavailable("the server is shutting down or starting up"),
        "XX001" | "XX002" => Detail::Corrupt { location: "the server found damaged data".to_owned() },
        _ => unavailable(&format!("the server refused the statement with code {code}")),
    };
    Error::new(detail).with_source(error)
}

fn unavailable(reason: &str) -> Detail {
    Detail::Unavailable { reason: reason.to_owned(), cause: UnavailableCause::Server }
}

fn sql_state(error: &SqlError) -> Option<String> {
    error.as_database_error()?.code().map(std::borrow::Cow::into_owned)
}

/// Returns the error for a server that did not answer in time.
pub(crate) fn timeout_error(effect: Effect) -> Error {
    match effect {
        Effect::None => Error::server_unavailable("the server did not answer in time"),
        Effect::Perhaps => Error::commit_unknown(None),
    }
}

/// Returns the error for a row that differs from what was written.
pub(crate) fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::corrupt(what.to_string())
}
