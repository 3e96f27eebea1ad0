//! Following the journal of a holder in another process: what it has changed since a batch.

use std::collections::BTreeMap;

use store_core::Result;

use super::{
    frame::{Frame, SECTOR, padded},
    half::NAMES,
    history::{Stored, changes},
    planted::Planted,
    redo::Step,
};
use crate::{
    error,
    vfs::{FilePath, Vfs},
};

/// A half, and an offset in it.
type Place = (&'static str, u64);

/// How far a reader has come in a journal. Nothing is locked: a batch that is being written, or written over, has a
/// wrong checksum or another number.
#[derive(Debug)]
pub(crate) struct Follower {
    /// The last batch that was read.
    last: u64,
    /// The half that has it, and where it ends there; none if no half has it.
    place: Option<Place>,
    /// The logs that the half has named.
    names: BTreeMap<u64, FilePath>,
}

impl Follower {
    /// A follower whose next batch is the one after `last`. The journal may have the batch `last` or not.
    ///
    /// # Errors
    /// An error of the operating system; `Corrupt` for a record of an unknown kind.
    pub(crate) fn behind(vfs: &dyn Vfs, last: u64) -> Result<Self> {
        for half in NAMES {
            let mut follower = Self { last: 0, place: None, names: BTreeMap::new() };
            while let Some((frame, bytes, end)) = batch(vfs, follower.place.unwrap_or((half, SECTOR)))? {
                let follows = follower.last == 0 || frame.number == follower.last + 1;
                if !follows || frame.number > last {
                    break;
                }
                follower.take(&frame, &bytes, end)?;
                if frame.number == last {
                    return Ok(follower);
                }
            }
        }
        Ok(Self { last, place: None, names: BTreeMap::new() })
    }

    /// The changes of the batches after the one that was read last, up to `last`. None if the journal does not have
    /// them any more: then this follower is of no use.
    ///
    /// # Errors
    /// As [`Follower::behind`].
    pub(crate) fn steps(&mut self, vfs: &dyn Vfs, last: u64) -> Result<Option<Vec<Step>>> {
        let mut steps = Vec::new();
        while self.last < last {
            let mut next = None;
            // The next batch is after the last one, or at the beginning of a half that was begun since then.
            for place in self.place.into_iter().chain(NAMES.map(|half| (half, SECTOR))) {
                next = batch(vfs, place)?.filter(|(frame, ..)| frame.number == self.last + 1);
                if next.is_some() {
                    break;
                }
            }
            let Some((frame, bytes, end)) = next else { return Ok(None) };
            steps.extend(self.take(&frame, &bytes, end)?);
        }
        Ok(Some(steps))
    }

    fn take(&mut self, frame: &Frame, batch: &[u8], place: Place) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for change in changes(batch) {
            steps.extend(Step::of(frame.number, change?, &mut self.names)?);
        }
        (self.last, self.place) = (frame.number, Some(place));
        Ok(steps)
    }
}

/// The batch at a place, and where it ends.
fn batch(vfs: &dyn Vfs, (half, at): Place) -> Result<Option<(Frame, Vec<u8>, Place)>> {
    let Some(stored) = Stored::open(vfs, half)? else { return Ok(None) };
    let batch = stored.batch(at, Planted::default()).map_err(|source| error::io(half, source))?;
    Ok(batch.map(|(frame, bytes)| {
        let end = at + padded(bytes.len() as u64);
        (frame, bytes, (half, end))
    }))
}
