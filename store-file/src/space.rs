//! Space on the disk: what a write leaves free, and a little that is kept for deletions (FI-7).

use std::{io, sync::atomic::Ordering};

use crate::{
    shared::Shared,
    vfs::{FilePath, Open, Vfs},
};

const NAME: &str = "reserve";
const RESERVE: u64 = 1 << 20;
/// What stays free beside a write, for facts about several threads.
const HEADROOM: u64 = 2 << 20;
/// What a fact needs beside its own bytes, for the index.
const FACT: u64 = 256 << 10;

fn take_reserve(vfs: &dyn Vfs) -> io::Result<()> {
    let path = FilePath::new(NAME).map_err(io::Error::other)?;
    vfs.open(&path, Open::Create)?.allocate(RESERVE)
}

/// `true` if there was a reserve.
fn release_reserve(vfs: &dyn Vfs) -> bool {
    FilePath::new(NAME).is_ok_and(|path| vfs.unlink(&path).is_ok())
}

/// Lets a root on a full disk be opened: deleting in it is a way out.
pub(crate) fn make_room_to_open(vfs: &dyn Vfs) {
    if vfs.free_space().is_ok_and(|free| free < FACT) {
        release_reserve(vfs);
    }
}

impl Shared {
    /// Takes the reserve. Where that fails the store works without, until a write finds enough space.
    pub(crate) fn take_reserve(&self) {
        self.reserve_missing.store(take_reserve(&*self.vfs).is_err(), Ordering::SeqCst);
    }

    /// Refuses a write that would leave no room for what is derived from it: the index must not be what finds the disk
    /// full, as it takes no more changes then until it is opened again.
    pub(crate) fn check_space(&self, bytes: u64) -> io::Result<()> {
        let needed = bytes.saturating_mul(2).saturating_add(HEADROOM + self.index.headroom());
        let Some(spare) = self.vfs.free_space()?.checked_sub(needed) else {
            return Err(io::ErrorKind::StorageFull.into());
        };
        if spare >= RESERVE && self.reserve_missing.load(Ordering::SeqCst) {
            self.take_reserve();
        }
        Ok(())
    }

    /// Makes room for a fact about several threads. Deleting makes space, so it must not need any: the reserve is for
    /// this. A fact that even so finds no room is refused.
    pub(crate) fn make_room(&self, bytes: u64) -> io::Result<()> {
        let needed = bytes.saturating_mul(4).saturating_add(FACT);
        let fits = || self.vfs.free_space().map(|free| free >= needed);
        if fits()? || (self.use_reserve() && fits()?) { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    /// Gives the reserve back until a write finds enough space. `true` if there was one.
    pub(crate) fn use_reserve(&self) -> bool {
        self.reserve_missing.store(true, Ordering::SeqCst);
        release_reserve(&*self.vfs)
    }
}
