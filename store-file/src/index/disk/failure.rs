//! What the errors of fjall mean for the store.

use std::{
    error::Error as StdError,
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use store_core::{Error, Result};

use crate::{error, vfs::Disk};

/// A file that says that damage was met.
pub(super) const DAMAGED: &str = "damaged";

/// Calls fjall. A panic in it, as damaged files may cause, is `Corrupt`. Damage is remembered for the next opening.
pub(super) fn guarded<T>(folder: &Path, call: impl FnOnce() -> fjall::Result<T>) -> Result<T> {
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(fjall::Error::Unrecoverable));
    result.map_err(|failure| {
        if is_damage(&failure) {
            // If it cannot be made, the next opening meets the damage again.
            let _ = fs::write(folder.join(DAMAGED), []);
        }
        report(failure)
    })
}

/// Whether an earlier call met damage in the index of a root.
pub(crate) fn is_known_damaged(disk: &Disk) -> bool {
    disk.path().join("index").join(DAMAGED).exists()
}

/// Whether the files are at fault, not the operating system.
pub(super) fn is_damage(failure: &fjall::Error) -> bool {
    match (failure, system_error(failure)) {
        (fjall::Error::Locked | fjall::Error::Poisoned, _) => false,
        (_, Some(source)) => {
            matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
        }
        (_, None) => true,
    }
}

pub(super) fn report(failure: fjall::Error) -> Error {
    if is_damage(&failure) {
        return error::corrupt("index (open the store again to rebuild it)", None).with_source(failure);
    }
    let error = match system_error(&failure) {
        Some(source) => {
            let code = source.raw_os_error();
            error::io("index", code.map_or_else(|| source.kind().into(), io::Error::from_raw_os_error))
        }
        None => Error::unavailable("the index is in use, or a write to it failed"),
    };
    error.with_source(failure)
}

/// The error of the operating system that caused fjall's error.
fn system_error(failure: &fjall::Error) -> Option<&io::Error> {
    let mut source: Option<&(dyn StdError + 'static)> = Some(failure);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        source = error.source();
    }
    None
}
