//! Maps errors of the operating system to the errors of the contracts.

use std::{fmt::Display, io};

use rustix::io::Errno;
use store_core::{Detail, Error};

use crate::vfs::Damaged;

/// The error of a failed call on the file or folder `what`. The error of the operating system is kept as its source.
pub(crate) fn io(what: impl Display, error: io::Error) -> Error {
    if let Some(damaged) = Damaged::of(&error) {
        return corrupt(damaged, None).with_source(error);
    }
    let reason = match Errno::from_io_error(&error) {
        Some(Errno::NOSPC | Errno::DQUOT) => return Error::new(Detail::StorageFull).with_source(error),
        Some(Errno::ACCESS | Errno::PERM) => "permission denied",
        Some(Errno::ROFS) => "the file system is read-only",
        Some(Errno::LOOP | Errno::MLINK) => "it is a symbolic link, and links inside the root are not followed",
        Some(Errno::NOTDIR) => "a part of its path is not a folder",
        Some(Errno::MFILE | Errno::NFILE) => "too many open files",
        Some(Errno::FBIG) => "the file is too large for its file system",
        Some(Errno::IO) => "the disk reported an error",
        Some(Errno::NOENT) => "it does not exist",
        Some(_) | None => match error.kind() {
            io::ErrorKind::StorageFull => return Error::new(Detail::StorageFull).with_source(error),
            io::ErrorKind::NotFound => "it does not exist",
            io::ErrorKind::UnexpectedEof => return corrupt(what, None).with_source(error),
            _ => "the system refused the call",
        },
    };
    Error::unavailable(format!("cannot use {what}: {reason}")).with_source(error)
}

/// The damage of a compressed log that an error is about, if it is about any.
pub(crate) fn damage(error: &Error) -> Option<&Damaged> {
    Damaged::of(std::error::Error::source(error)?.downcast_ref()?)
}

/// Whether a write failed for lack of space, so that nothing of it was accepted (FI-7).
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT))
        || error.kind() == io::ErrorKind::StorageFull
}

/// Damage in the file `what`, at `offset` if it is known (FI-4).
pub(crate) fn corrupt(what: impl Display, offset: Option<u64>) -> Error {
    Error::corrupt(offset.map_or_else(|| what.to_string(), |offset| format!("{what} at byte {offset}")))
}

#[cfg(test)]
mod tests {
    use std::{error::Error as _, io};

    use rustix::io::Errno;
    use store_core::ErrorKind;

    #[test]
    fn system_errors_map_to_error_kinds() {
        for (errno, kind, text) in [
            (Errno::NOSPC, ErrorKind::StorageFull, "no space"),
            (Errno::DQUOT, ErrorKind::StorageFull, "no space"),
            (Errno::ACCESS, ErrorKind::Unavailable, "a.log: permission denied"),
            (Errno::ROFS, ErrorKind::Unavailable, "read-only"),
            (Errno::LOOP, ErrorKind::Unavailable, "symbolic link"),
            (Errno::IO, ErrorKind::Unavailable, "disk"),
            (Errno::MFILE, ErrorKind::Unavailable, "too many"),
        ] {
            let error = super::io("a.log", errno.into());
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.source().is_some());
        }
        assert_eq!(super::io("a", io::ErrorKind::UnexpectedEof.into()).kind(), ErrorKind::Corrupt);
    }
}
