//! A little space kept for deletions on a full disk (FI-7).

use crate::{
    shared::Shared,
    vfs::{FilePath, Open, Vfs},
};

const NAME: &str = "reserve";
const BYTES: u64 = 1 << 20;

/// Takes the space. Where that fails there is none to keep, and the store works without.
pub(crate) fn take(vfs: &dyn Vfs) {
    let Ok(path) = FilePath::new(NAME) else { return };
    if let Ok(file) = vfs.open(&path, Open::Create) {
        let _ = file.allocate(BYTES);
    }
}

/// Gives the space back. `true` if there was some; the next opening takes it again.
pub(crate) fn release(shared: &Shared) -> bool {
    FilePath::new(NAME).is_ok_and(|path| shared.vfs.unlink(&path).is_ok())
}
