//! Maps errors of SQLite and of the system to the errors of the contracts.

use std::{io, path::Path};

use rusqlite::{Error as SqlError, ErrorCode};
use store_core::{Detail, Error, UnavailableCause};

/// Converts the error of a statement whose transaction has written nothing or is rolled back. The error of SQLite
/// becomes the source of the returned error: it names tables and columns, but no values.
pub(crate) fn sql_error(error: SqlError) -> Error {
    let detail = match code(&error) {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            unavailable("another connection has locked the file")
        }
        Some(ErrorCode::DiskFull) => Detail::StorageFull,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => corrupt_file(),
        Some(ErrorCode::OperationInterrupted) => unavailable("the read took too long"),
        Some(ErrorCode::SystemIoFailure) => unavailable("the file cannot be read or written"),
        Some(ErrorCode::CannotOpen) => unavailable("the file cannot be opened"),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => unavailable("the file cannot be written to"),
        Some(ErrorCode::OutOfMemory) => unavailable("there is not enough memory"),
        // The rules and keys prevent this case, so the stored data must be inconsistent.
        Some(ErrorCode::ConstraintViolation) => Detail::Corrupt { location: "rows contradict each other".to_owned() },
        None => Detail::Corrupt { location: "a row does not have the expected form".to_owned() },
        Some(_) => unavailable("SQLite refused a statement"),
    };
    Error::new(detail).with_source(error)
}

fn corrupt_file() -> Detail {
    Detail::Corrupt { location: "SQLite found damage in the file".to_owned() }
}

fn unavailable(reason: &str) -> Detail {
    Detail::Unavailable { reason: reason.to_owned(), cause: UnavailableCause::Other }
}

pub(crate) fn code(error: &SqlError) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

/// Returns the error for a file that cannot be opened, read or written.
pub(crate) fn file_error(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull => Error::new(Detail::StorageFull).with_source(error),
        _ => Error::unavailable(format!("`{}` cannot be used", path.display())).with_source(error),
    }
}

/// Returns the error for stored data that is not what was written.
pub(crate) fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::corrupt(what.to_string())
}
