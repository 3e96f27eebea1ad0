//! Writing: takes batches into the journal, makes them durable, and then makes their changes in the logs.

use std::{collections::BTreeSet, io, sync::MutexGuard};

use super::{
    Durability, Failure, Inner,
    batch::{Batch, Change},
    flush::Flushing,
    frame::{FRAME, Frame},
    half::Half,
    planted::{Bug, Planted},
    reserve::Reserve,
};
use crate::{
    error,
    mutex::guard,
    vfs::{FilePath, Vfs},
};

/// The state of an open journal.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) halves: [Half; 2],
    /// The half that takes the next batch.
    pub(super) active: usize,
    /// The number of the next batch.
    pub(super) next: u64,
    /// The last batch that is durable in the journal.
    pub(super) synced: u64,
    /// The first batch that the logs may lack after a power cut. They have all batches before it, durably.
    pub(super) base: u64,
    /// The highest `base` that a durable batch states.
    told: u64,
    pub(super) reserve: Reserve,
    /// It is unknown what is durable. The journal refuses further batches. The store has a mark of its own, which is
    /// set when it uses the journal the next time.
    pub(super) is_poisoned: bool,
    /// Everything is in the logs, and the journal takes no further batch.
    pub(super) is_closed: bool,
}

impl Writer {
    pub(super) const fn new(halves: [Half; 2], next: u64, reserve: Reserve) -> Self {
        Self {
            halves,
            active: 0,
            next,
            synced: next - 1,
            base: next,
            told: 0,
            reserve,
            is_poisoned: false,
            is_closed: false,
        }
    }

    /// Goes on with empty files. Nothing in the former ones is needed.
    pub(super) fn begin_anew(&mut self, halves: [Half; 2]) {
        self.halves = halves;
        (self.active, self.base, self.told) = (0, self.next, 0);
    }

    const fn half_ref(&self) -> &Half {
        let [first, second] = &self.halves;
        if self.active == 0 { first } else { second }
    }

    pub(super) fn half(&mut self) -> &mut Half {
        let [first, second] = &mut self.halves;
        if self.active == 0 { first } else { second }
    }

    pub(super) fn other(&mut self) -> &mut Half {
        let [first, second] = &mut self.halves;
        if self.active == 0 { second } else { first }
    }

    /// Makes the active half durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let last = self.next - 1;
        if self.synced < last {
            self.half().sync()?;
            self.synced = last;
            self.told = self.told.max(self.half().told);
        }
        Ok(())
    }

    /// The bytes of the next batch, but for its frame, and the logs that it names for the first time in its half.
    fn encode(&mut self, batch: &Batch) -> (Vec<u8>, BTreeSet<u64>) {
        let mut bytes = Vec::with_capacity(usize::try_from(batch.bytes() + 1024).unwrap_or_default());
        bytes.resize(FRAME, 0);
        let mut named = BTreeSet::new();
        for log in batch.logs() {
            if !self.half().named.contains(&log.number) && named.insert(log.number) {
                Change::Name { log: log.number, path: log.path.clone() }.encode(&mut bytes);
            }
        }
        batch.changes().for_each(|(change, _)| change.encode(&mut bytes));
        (bytes, named)
    }

    /// Makes sure that a batch has space in the journal and in its logs.
    fn make_room(&mut self, vfs: &dyn Vfs, batch: &Batch, len: u64) -> io::Result<()> {
        let bytes = batch.space();
        if !batch.uses_reserve() {
            self.reserve.keep(vfs, bytes)?;
            return self.half().reserve(vfs, len);
        }
        self.reserve.keep_or_use(vfs, bytes)?;
        match self.half().reserve(vfs, len) {
            Err(source) if error::is_full(&source) => {}
            reserved => return reserved,
        }
        self.reserve.give_up(vfs)?;
        self.half().reserve(vfs, len)?;
        if vfs.free_space()? < bytes { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Remembers what the flush of the half has to make durable.
    fn note(&mut self, batch: &Batch) {
        for (change, path) in batch.changes() {
            match change {
                Change::Make { log } | Change::Append { log, .. } | Change::Overwrite { log, .. } => {
                    self.half().written.insert(log, path.clone());
                }
                Change::Drop { log } => {
                    self.halves.iter_mut().for_each(|half| drop(half.written.remove(&log)));
                }
                Change::Name { .. } => {}
            }
            if !matches!(change, Change::Append { .. } | Change::Overwrite { .. }) {
                self.half().folders.extend(above(path));
            }
        }
    }
}

/// The folders whose names a change of this file may change.
pub(super) fn above(path: &FilePath) -> Vec<FilePath> {
    let mut folders = vec![path.parent()];
    while let Some(folder) = folders.last().filter(|folder| !folder.as_str().is_empty()) {
        folders.push(folder.parent());
    }
    folders
}

impl Inner {
    /// Writes a batch to the journal, syncs it if the batch or the store demands that, and makes its changes in the
    /// logs. After `Ok` the logs have the batch. A change of halves before that has syncs of its own.
    pub(super) fn write(&self, batch: &Batch) -> Result<u64, Failure> {
        let mut writer = self.prepare()?;
        self.open_logs(batch).map_err(Failure::unchanged)?;
        let (mut bytes, named) = writer.encode(batch);
        if u32::try_from(bytes.len()).is_err() {
            return Err(Failure::Refused(io::Error::other("the batch has more than 4 GiB")));
        }
        let frame = writer.frame();
        frame.seal(&mut bytes);
        writer.make_room(&*self.vfs, batch, bytes.len() as u64).map_err(Failure::unchanged)?;
        if let Err(source) = writer.half().write(&bytes) {
            return Err(self.withdraw_or_poison(writer, source));
        }
        writer.took(frame, bytes.len() as u64);
        writer.half().named.extend(named);
        writer.note(batch);
        let early = self.planted.has(Bug::LogsFirst);
        if early && let Err(source) = self.apply(&mut writer, batch) {
            return Err(self.poison(writer, source));
        }
        if (batch.must_sync() || self.config.durability == Durability::Sync)
            && !self.planted.has(Bug::NoSync)
            && let Err(source) = writer.sync()
        {
            return Err(self.poison(writer, source));
        }
        if !early && let Err(source) = self.apply(&mut writer, batch) {
            return Err(self.poison(writer, source));
        }
        if let Err(source) = self.publish(&mut writer, frame.number) {
            return Err(self.poison(writer, source));
        }
        writer.reserve.take_again(&*self.vfs);
        Ok(frame.number)
    }

    /// The writer, with space in its half.
    pub(super) fn prepare(&self) -> Result<MutexGuard<'_, Writer>, Failure> {
        let writer = guard(&self.writer);
        self.check(&writer)?;
        if writer.half_ref().end >= self.config.half_bytes { self.switch(writer) } else { Ok(writer) }
    }

    pub(super) fn check(&self, writer: &Writer) -> Result<(), Failure> {
        if writer.is_poisoned && !self.planted.has(Bug::PoisonForgotten) {
            return Err(Failure::Poisoned);
        }
        if writer.is_closed { Err(Failure::Closed) } else { Ok(()) }
    }

    /// Refuses further batches, because it is unknown what is durable. The next opening finds out.
    pub(super) fn poison(&self, mut writer: MutexGuard<'_, Writer>, source: io::Error) -> Failure {
        writer.is_poisoned = true;
        drop(writer);
        self.flushed.notify_all();
        Failure::Failed(source)
    }

    /// Erases what was written of a batch that found no space: no opening may find the batch. Any other error poisons
    /// the journal.
    fn withdraw_or_poison(&self, mut writer: MutexGuard<'_, Writer>, source: io::Error) -> Failure {
        if !error::is_full(&source) {
            return self.poison(writer, source);
        }
        if !self.planted.has(Bug::HeadLeft)
            && let Err(later) = writer.half().erase_head()
        {
            return self.poison(writer, later);
        }
        Failure::Full(source)
    }

    /// Changes halves: the other half takes the next batch, and the full one is flushed.
    fn switch<'a>(&'a self, mut writer: MutexGuard<'a, Writer>) -> Result<MutexGuard<'a, Writer>, Failure> {
        while writer.other().is_needed {
            writer = self.wait_for_flush(writer)?;
        }
        if let Err(failure) = writer.close_half(self.planted) {
            return Err(match failure {
                Failure::Failed(source) => self.poison(writer, source),
                other => other,
            });
        }
        // The other half is free, so it takes batches while the full one is flushed.
        let full = writer.active;
        writer.active = 1 - full;
        writer.half().reuse();
        if self.config.in_background && !self.flush_behind(Flushing::of(&writer, full)) {
            // No thread was started. It would have taken the first `Flushing`, so this thread makes another one.
            let flushing = Flushing::of(&writer, full);
            drop(writer);
            self.flush(&flushing)?;
            writer = guard(&self.writer);
            self.check(&writer)?;
        }
        Ok(writer)
    }

    /// Waits until the other half is free. If nothing flushes in the background, this thread flushes it.
    pub(super) fn wait_for_flush<'a>(
        &'a self,
        mut writer: MutexGuard<'a, Writer>,
    ) -> Result<MutexGuard<'a, Writer>, Failure> {
        if self.config.in_background {
            writer = self.flushed.wait(writer).unwrap_or_else(std::sync::PoisonError::into_inner);
        } else {
            let flushing = Flushing::of(&writer, 1 - writer.active);
            drop(writer);
            self.flush(&flushing)?;
            writer = guard(&self.writer);
        }
        self.check(&writer)?;
        Ok(writer)
    }
}

impl Writer {
    /// The frame of the next batch.
    const fn frame(&self) -> Frame {
        Frame { number: self.next, synced: self.synced, base: self.base }
    }

    /// Counts a batch that was written.
    fn took(&mut self, frame: Frame, bytes: u64) {
        self.half().advance(&frame, bytes);
        self.next += 1;
    }

    /// Makes the active half durable and final. A power cut may leave old batches in the other half, which is written
    /// over next. The next opening has to know that it may ignore them, so a durable batch states that before.
    fn close_half(&mut self, planted: Planted) -> Result<(), Failure> {
        self.sync().map_err(Failure::Failed)?;
        let last = self.other().last;
        if last > 0 && self.told <= last && !planted.has(Bug::NoControlBatch) {
            let mut bytes = vec![0; FRAME];
            let frame = self.frame();
            frame.seal(&mut bytes);
            // This is a control batch. It has space: each batch before it has reserved a sector more than it took.
            if let Err(source) = self.half().write(&bytes) {
                let is_erased = error::is_full(&source) && self.half().erase_head().is_ok();
                return Err(if is_erased { Failure::Full(source) } else { Failure::Failed(source) });
            }
            self.took(frame, bytes.len() as u64);
            self.sync().map_err(Failure::Failed)?;
        }
        Ok(())
    }
}
