//! The journal: changes of any number of logs, committed together with one sync.
//!
//! The store hands in a [`Batch`]: logs to make, bytes to append at their offsets, logs to drop. It is written to the
//! journal with one checksum, and synced once. Then its changes are made in the logs, without a sync. So a batch is
//! atomic over all its logs, and the logs have the batch before its callers are answered.
//!
//! ```text
//!   journal.0 │ batch 7 │ batch 8 │ … full: its logs are flushed in the background, then it is used again
//!   journal.1 │ batch 9 │ …           takes the next batch
//!                      │  after the sync of the journal; relaxed durability does not wait for it
//!                      ▼
//!   logs      appended, not synced
//! ```
//!
//! After a crash [`History::read`] finds the batches that the logs may lack, and [`History::redo`] makes their changes
//! again. A batch at the end whose checksum is wrong was not answered, or it was answered with relaxed durability,
//! before it was durable. An earlier batch with a wrong checksum, which the logs may lack, is damage: the journal is
//! refused.
//!
//! Numbers of batches:
//! - `base`: the first batch that the logs may lack after a power cut. They have all batches before it, durably. A
//!   flush raises it, and each batch states it.
//! - `synced`: the last batch that is durable in the journal.
//! - `last`: the last batch that was committed.
//!
//! Before a half is written over, a durable batch has to state a `base` above all batches of that half. If no batch
//! does, the journal writes a control batch: one without changes, which states the new `base`.
//!
//! Rules, each with a crash test:
//! - The logs are written only after the journal was synced (but for relaxed durability).
//! - A half is used again only after a flush: its logs and folders are durable, and a durable batch says so (`base`).
//! - Numbers of batches never go back: a recovered journal goes on after its last batch.
//! - A batch is taken only if there is space for it in the journal and, in reserve, for its logs.
//! - After a failed sync, or a failed write to a log, the journal takes no further batch. The next opening makes the
//!   journal durable first, because what it reads may be only in the memory of the operating system. Then it redoes the
//!   batches.
//! - With relaxed durability a power cut takes the last batches, never one in the middle. The logs may then be ahead of
//!   the journal: the next opening sets aside the bytes of a log that follow the end which the journal states.

mod apply;
mod batch;
mod flush;
mod follow;
mod frame;
mod half;
mod history;
mod planted;
mod published;
mod redo;
mod reserve;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    fmt, io,
    sync::{Arc, Condvar, Mutex, Weak},
    time::Duration,
};

use store_core::Result;

pub(crate) use self::{
    batch::{Batch, LogName},
    follow::Follower,
    history::{History, is_of_journal, lacks_batches},
    published::{PUBLISHED, published},
    redo::{LogAppends, Redone, Step, StepKind},
};
use self::{
    flush::Flushing,
    frame::HalfHeader,
    half::Half,
    planted::{Bug, Planted},
    published::Published,
    reserve::Reserve,
    writer::Writer,
};
use crate::{error, files::Files, mutex::guard, vfs::Vfs};

/// How large the journal is if nothing else is said, both halves together.
pub(crate) const DEFAULT_BYTES: u64 = 64 << 20;

/// A half has at least this many bytes: some batches, so that the number of the next one is settled by the last.
const LEAST_HALF: u64 = 2048;

/// When what was acknowledged is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Before it is acknowledged: it survives a power cut.
    #[default]
    Sync,
    /// At most this long after it was acknowledged: it survives a killed process, and a power cut may take the last of
    /// it, never the middle and never half a commit (FI-12).
    Interval(Duration),
    /// The operating system decides when: as `Interval`, without a bound.
    None,
}

/// How a journal is opened.
#[derive(Debug, Clone)]
pub(crate) struct JournalConfig {
    /// Which root it belongs to: a journal with another name is refused.
    pub(crate) root: String,
    /// The incarnation of the root.
    pub(crate) incarnation: u64,
    /// The number of the first batch: above that of every earlier batch.
    pub(crate) next: u64,
    /// When batches are durable.
    pub(crate) durability: Durability,
    /// A half that has this many bytes takes no further batch.
    pub(crate) half_bytes: u64,
    /// Whether full halves are flushed by a thread of their own, at once. Otherwise the caller that needs the space
    /// does it.
    pub(crate) in_background: bool,
}

/// Why a batch was not committed, or may not be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// There is no space. No log changed, and the batch is not in the journal.
    #[error("no space for the journal")]
    Full(#[source] io::Error),
    /// The operating system refused a call, or the batch is too large. No log changed, and the batch is not in the
    /// journal.
    #[error("the journal cannot be written")]
    Refused(#[source] io::Error),
    /// It is unknown whether the batch is durable. The journal refuses further batches; the next opening finds out.
    #[error("writing the journal or a log failed")]
    Failed(#[source] io::Error),
    /// An earlier write, sync or flush failed. The journal takes no further batch.
    #[error("the journal takes nothing after a failed write")]
    Poisoned,
    /// The journal was closed. It takes no further batch.
    #[error("the journal is closed")]
    Closed,
}

impl Failure {
    fn unchanged(source: io::Error) -> Self {
        if error::is_full(&source) { Self::Full(source) } else { Self::Refused(source) }
    }
}

/// Makes durable what is derived from the logs, when a half is flushed whose last batch has this number.
pub(crate) type Persist = Box<dyn Fn(u64) -> io::Result<()> + Send + Sync>;

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal(Arc<Inner>);

struct Inner {
    vfs: Arc<dyn Vfs>,
    files: Arc<Files>,
    config: JournalConfig,
    persist: Persist,
    writer: Mutex<Writer>,
    /// Only the thread that holds the writer writes it.
    published: Published,
    /// Rung when a half is free, and when the journal is poisoned.
    flushed: Condvar,
    /// For a thread that flushes.
    this: Weak<Self>,
    planted: Planted,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Journal {
    /// Begins an empty journal. The batches of a former journal must be in the logs, durably: they are ignored from
    /// here on.
    ///
    /// # Errors
    /// An error of the operating system. The next opening then finds the former journal or the new one.
    pub(crate) fn start(vfs: Arc<dyn Vfs>, files: Arc<Files>, config: JournalConfig, persist: Persist) -> Result<Self> {
        Self::start_with(vfs, files, (config, persist), Planted::default())
    }

    fn start_with(
        vfs: Arc<dyn Vfs>,
        files: Arc<Files>,
        how: (JournalConfig, Persist),
        planted: Planted,
    ) -> Result<Self> {
        let (mut config, persist) = how;
        config.half_bytes = config.half_bytes.max(LEAST_HALF);
        let next = if planted.has(Bug::NumbersGoBack) { 1 } else { config.next };
        let halves = Half::fresh(&*vfs, &header(&config, next))?;
        let published = Published::begin(&*vfs, next - 1).map_err(|source| error::io("journal.last", source))?;
        let writer = Mutex::new(Writer::new(halves, next, Reserve::take(&*vfs, planted)));
        Ok(Self(Arc::new_cyclic(|this| Inner {
            vfs,
            files,
            config,
            persist,
            writer,
            published,
            flushed: Condvar::new(),
            this: Weak::clone(this),
            planted,
        })))
    }

    /// Commits a batch, and returns its number. The logs then have the batch.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(crate) fn commit(&self, batch: &Batch) -> Result<u64, Failure> {
        match self.0.write(batch) {
            Err(Failure::Full(_)) if batch.uses_reserve() => {
                // `free_space` does not know quotas. So a batch may find no space although the check passed.
                self.use_reserve().map_err(Failure::Refused)?;
                self.0.write(batch)
            }
            written => written,
        }
    }

    /// Makes every batch durable that was committed so far.
    ///
    /// # Errors
    /// [`Failure::Failed`] if it is unknown what is durable; [`Failure::Poisoned`].
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        let mut writer = guard(&self.0.writer);
        match self.0.check(&writer) {
            Err(Failure::Closed) => return Ok(()),
            checked => checked?,
        }
        match writer.sync() {
            Ok(()) => Ok(()),
            Err(source) => Err(self.0.poison(writer, source)),
        }
    }

    /// The number of the last batch that was committed.
    #[cfg(test)]
    fn last(&self) -> u64 {
        guard(&self.0.writer).next - 1
    }

    /// Whether a write or a sync failed.
    #[cfg(test)]
    fn is_poisoned(&self) -> bool {
        guard(&self.0.writer).is_poisoned
    }

    /// Gives up the space in reserve, for what is derived from the logs. The next batch takes it again, if there is
    /// enough.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(crate) fn use_reserve(&self) -> io::Result<()> {
        guard(&self.0.writer).reserve.give_up(&*self.0.vfs)
    }

    /// Makes sure that the active half takes a batch, and returns the number of that batch. A change of halves may wait
    /// for a flush, and may use a number for a control batch.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(crate) fn prepare_next(&self) -> Result<u64, Failure> {
        self.0.prepare().map(|writer| writer.next)
    }

    /// Makes everything durable in the logs, and begins the journal anew: its files keep nothing of former batches.
    /// While this runs, the caller commits no batch.
    ///
    /// # Errors
    /// As [`Self::close`].
    pub(crate) fn begin_anew(&self) -> Result<(), Failure> {
        let next = self.flush_all()?;
        let halves = Half::fresh(&*self.0.vfs, &header(&self.0.config, next));
        let mut writer = guard(&self.0.writer);
        match halves {
            Ok(halves) => writer.begin_anew(halves),
            Err(error) => return Err(self.0.poison(writer, io::Error::other(error))),
        }
        Ok(())
    }

    /// Makes everything durable in the logs, and leaves an empty journal. While this runs, the caller commits no batch.
    ///
    /// # Errors
    /// [`Failure::Failed`] if something is not durable: the journal then stays as it is, and the next opening redoes
    /// it; [`Failure::Poisoned`].
    pub(crate) fn close(&self) -> Result<(), Failure> {
        let next = self.flush_all()?;
        let mut writer = guard(&self.0.writer);
        writer.is_closed = true;
        Half::fresh(&*self.0.vfs, &header(&self.0.config, next))
            .map_err(|error| Failure::Failed(io::Error::other(error)))?;
        Ok(())
    }

    /// Makes everything durable in the logs. Returns the number of the next batch.
    fn flush_all(&self) -> Result<u64, Failure> {
        let mut writer = guard(&self.0.writer);
        self.0.check(&writer)?;
        while writer.other().is_needed {
            writer = self.0.wait_for_flush(writer)?;
        }
        if let Err(source) = writer.sync() {
            return Err(self.0.poison(writer, source));
        }
        let mut flushing = Flushing::of(&writer, writer.active);
        let next = writer.next;
        flushing.last = next - 1;
        drop(writer);
        self.0.flush(&flushing)?;
        Ok(next)
    }
}

fn header(config: &JournalConfig, next: u64) -> HalfHeader {
    HalfHeader { root: config.root.clone(), incarnation: config.incarnation, next }
}
