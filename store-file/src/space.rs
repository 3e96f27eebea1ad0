//! Space on the disk: what a write leaves free, and a little that is kept for deletions (FI-7).

use std::io;

use crate::{
    shared::Shared,
    vfs::{FilePath, Vfs},
};

const NAME: &str = "reserve";
/// What stays free beside a write, for facts about several threads.
const HEADROOM: u64 = 2 << 20;
/// What a fact needs beside its own bytes, for the index.
const FACT: u64 = 256 << 10;

/// Lets a root on a full disk be opened: deleting in it is a way out.
pub(crate) fn make_room_to_open(vfs: &dyn Vfs) {
    if vfs.free_space().is_ok_and(|free| free < FACT) {
        // Without it the journal takes none until there is space.
        let _ = FilePath::new(NAME).map(|path| vfs.unlink(&path));
    }
}

impl Shared {
    /// Refuses a write that would leave no room for what is derived from it: the index must not be what finds the disk
    /// full, as it takes no more changes then until it is opened again.
    pub(crate) fn check_space(&self, bytes: u64) -> io::Result<()> {
        let needed = bytes.saturating_mul(2).saturating_add(HEADROOM + self.index.headroom());
        if self.vfs.free_space()? < needed { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Makes room for a fact about several threads. Deleting makes space, so it must not need any: the reserve is for
    /// this. A fact that even so finds no room is refused.
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
