//! Space on the disk: what a write leaves free, and a little that is kept for settlements and deletions (FI-7).

use std::io;

use crate::{
    shared::Shared,
    vfs::{FilePath, Vfs},
};

/// The file that `journal/reserve.rs` keeps.
const NAME: &str = "reserve";
/// What stays free beside a write, for the writes that [`Shared::make_room`] lets through.
const HEADROOM: u64 = 2 << 20;
/// What such a write needs beside its own bytes, for the index.
const FACT: u64 = 256 << 10;

/// Lets a root on a full disk be opened: deleting in it is a way out.
pub(crate) fn make_room_to_open(vfs: &dyn Vfs) {
    if vfs.free_space().is_ok_and(|free| free < FACT) {
        // Without the file the journal has no reserve until there is space for it.
        let _ = FilePath::new(NAME).map(|path| vfs.unlink(&path));
    }
}

impl Shared {
    /// Refuses a write that would leave no room for what is derived from it. If the index finds the disk full, it takes
    /// no changes until the store is opened again. So this check keeps space for the index.
    pub(crate) fn check_space(&self, bytes: u64) -> io::Result<()> {
        let needed = bytes.saturating_mul(2).saturating_add(HEADROOM + self.index.headroom());
        if self.vfs.free_space()? < needed { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Makes room for a write that ends work or frees space: settlements, a fact about several threads, a step of a
    /// purge. Such a write must be possible on a full disk, so it may use the reserve. If that is not enough, it is
    /// refused.
    pub(crate) fn make_room(&self, bytes: u64) -> io::Result<()> {
        let needed = bytes.saturating_mul(4).saturating_add(FACT);
        let fits = || self.vfs.free_space().map(|free| free >= needed);
        if fits()? {
            return Ok(());
        }
        if let Some(journal) = &self.journal {
            journal.use_reserve()?;
        }
        if fits()? { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}
