//! Space that is kept for what the journal has taken: a committed batch can always be written to its logs.

use std::io;

use super::planted::{Bug, Planted};
use crate::vfs::{FilePath, Open, Vfs};

const NAME: &str = "reserve";
/// What is kept at least.
const LEAST: u64 = 1 << 20;

/// The file that keeps space.
#[derive(Debug)]
pub(super) struct Reserve {
    /// How many bytes it keeps, 0 if it is not there.
    kept: u64,
    planted: Planted,
}

impl Reserve {
    /// Takes the space as far as there is some. Without it the store works until a batch needs it.
    pub(super) fn take(vfs: &dyn Vfs, planted: Planted) -> Self {
        let mut reserve = Self { kept: 0, planted };
        let _ = reserve.keep(vfs, LEAST);
        reserve
    }

    /// Makes sure that so many bytes are kept.
    ///
    /// # Errors
    /// `StorageFull` if there is no space for them.
    pub(super) fn keep(&mut self, vfs: &dyn Vfs, bytes: u64) -> io::Result<()> {
        if bytes <= self.kept || self.planted.has(Bug::NoSpaceCheck) {
            return Ok(());
        }
        let wanted = bytes.max(LEAST).next_multiple_of(LEAST);
        vfs.open(&path()?, Open::Create)?.allocate(wanted)?;
        self.kept = wanted;
        Ok(())
    }

    /// Makes sure that a batch which frees space or ends work has so many bytes. If the reserve keeps less, it is given
    /// up for the batch.
    ///
    /// # Errors
    /// `StorageFull` if there is no space even so.
    pub(super) fn keep_or_use(&mut self, vfs: &dyn Vfs, bytes: u64) -> io::Result<()> {
        if bytes <= self.kept {
            return Ok(());
        }
        self.give_up(vfs)?;
        // Twice, because the journal gets the bytes, too.
        let needed = bytes.saturating_mul(2);
        if vfs.free_space()? < needed { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Gives the space up, for what must be written.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(super) fn give_up(&mut self, vfs: &dyn Vfs) -> io::Result<()> {
        self.kept = 0;
        Self::remove(vfs)
    }

    /// Removes the file. A redo removes the file of an earlier opening, before this opening has taken a reserve.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(super) fn remove(vfs: &dyn Vfs) -> io::Result<()> {
        match vfs.unlink(&path()?) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(source),
            _ => Ok(()),
        }
    }

    /// Takes the least again that is kept, if nothing is and there is more than enough space.
    pub(super) fn take_again(&mut self, vfs: &dyn Vfs) {
        if self.kept == 0 && vfs.free_space().is_ok_and(|free| free >= 4 * LEAST) {
            let _ = self.keep(vfs, LEAST);
        }
    }
}

fn path() -> io::Result<FilePath> {
    FilePath::new(NAME).map_err(io::Error::other)
}
