//! What a journal holds: the batches that were committed and that the logs may lack.

use std::{collections::BTreeMap, io, sync::Arc};

use store_core::{Detail, Error, Result};

use super::{
    batch::{Change, Changes},
    frame::{FRAME, Frame, HalfHeader, Head, MAGIC, SECTOR, padded},
    half::NAMES,
    planted::{Bug, Planted},
};
use crate::{
    error,
    vfs::{FilePath, Open, Vfs, VfsFile, read_exact_at},
};

/// How much is read together when nothing but beginnings of batches is looked for.
const CHUNK: usize = 1 << 20;

/// The batches that a crash left in a journal.
#[derive(Debug)]
pub(crate) struct History {
    /// Those that may be missing in the logs, in their order.
    batches: Vec<Kept>,
    last: u64,
    base: u64,
    incarnation: u64,
}

/// A batch, and where it stands in the journal.
#[derive(Debug)]
struct Kept {
    name: &'static str,
    at: u64,
    frame: Frame,
    /// With its frame.
    bytes: Vec<u8>,
}

/// A half as it is read.
pub(super) struct Stored {
    name: &'static str,
    file: Arc<dyn VfsFile>,
    len: u64,
}

/// Batches of a half that follow each other from its beginning.
struct Chain {
    batches: Vec<Kept>,
    /// Where the first thing begins that is no further batch.
    end: u64,
}

impl History {
    /// Reads the journal of the root with this name; nothing if there is no file of it. Nothing is written.
    ///
    /// # Errors
    /// `Corrupt` if one of its files is missing or belongs to another root, or if a batch is damaged that was
    /// committed: what the logs lack would be lost. Otherwise an error of the operating system.
    pub(crate) fn read(vfs: &dyn Vfs, root: &str) -> Result<Option<Self>> {
        Self::read_with(vfs, root, Planted::default())
    }

    pub(super) fn read_with(vfs: &dyn Vfs, root: &str, planted: Planted) -> Result<Option<Self>> {
        let [first, second] = NAMES.map(|name| Stored::open(vfs, name));
        let halves = match (first?, second?) {
            (None, None) => return Ok(None),
            (Some(first), Some(second)) => [first, second],
            (None, Some(_)) => return Err(missing(NAMES[0])),
            (Some(_), None) => return Err(missing(NAMES[1])),
        };
        let [first, second] = &halves;
        let headers = [first.header(root)?, second.header(root)?];
        // A power cut may damage the header that is being written, but not both.
        let known = headers.iter().flatten();
        let (next, incarnation) = known
            .fold((0, 0), |(next, incarnation), header| (header.next.max(next), header.incarnation.max(incarnation)));
        if next == 0 {
            return Err(error::corrupt(NAMES[0], Some(0)));
        }
        let mut chains = Vec::with_capacity(2);
        for half in halves {
            let chain = half.chain(next, planted)?;
            chains.push((half, chain));
        }
        chains.sort_by_key(|(_, chain)| chain.batches.last().map_or(0, |batch| batch.frame.number));
        let (last, base) = chains
            .last()
            .and_then(|(_, chain)| chain.batches.last())
            .map_or((next - 1, next), |batch| (batch.frame.number, batch.frame.base));
        check_whole(&chains, base, last)?;
        for (half, chain) in &chains {
            if half.has_later_batch(chain.end, last)? {
                return Err(error::corrupt(half.name, Some(chain.end)));
            }
        }
        let batches = chains.into_iter().flat_map(|(_, chain)| chain.batches);
        let batches = batches.filter(|batch| batch.frame.number >= base).collect();
        Ok(Some(Self { batches, last, base, incarnation }))
    }

    /// The number of the last batch that was committed.
    #[must_use]
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// The incarnation of the root when the journal was made.
    #[must_use]
    pub(crate) const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Whether the logs have everything: nothing was written since the journal was made.
    pub(crate) const fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// The first batch that the logs may lack after a power cut. They have all batches before it, durably.
    pub(crate) const fn base(&self) -> u64 {
        self.base
    }

    /// Writes to the journal again what may be only in the memory of the operating system, and syncs it: a failed sync,
    /// or a killed process, leaves batches that can be read and are not durable. They must be durable before anything
    /// of them is written to a log.
    pub(super) fn make_durable(&self, vfs: &dyn Vfs) -> Result<()> {
        let synced = self.batches.last().map_or(0, |batch| batch.frame.synced);
        let mut files = BTreeMap::new();
        for Kept { name, at, bytes, .. } in self.batches.iter().filter(|batch| batch.frame.number > synced) {
            let fail = |source| error::io(name, source);
            if !files.contains_key(name) {
                files.insert(*name, vfs.open(&FilePath::new(name)?, Open::Write).map_err(fail)?);
            }
            if let Some(file) = files.get(name) {
                file.write_at(bytes, *at).map_err(fail)?;
            }
        }
        files.into_iter().try_for_each(|(name, file)| file.sync_data().map_err(|source| error::io(name, source)))
    }

    /// Every change, in order, with the number of its batch.
    pub(super) fn changes(&self) -> impl Iterator<Item = Result<(u64, Change<'_>)>> {
        self.batches.iter().flat_map(|batch| {
            changes(&batch.bytes).map(move |change| change.map(|change| (batch.frame.number, change)))
        })
    }
}

/// The changes of a batch, which begins with its frame.
pub(super) fn changes(batch: &[u8]) -> impl Iterator<Item = Result<Change<'_>>> {
    // The sum of the batch is right, so no journal of this release wrote this record.
    let unknown = || Error::corrupt("the journal: a record of an unknown kind");
    Changes(batch.get(FRAME..).unwrap_or_default()).map(move |change| change.ok_or_else(unknown))
}

/// The error of a journal that lacks batches which logs or index have: an older one was put in its place, or its end is
/// damaged.
pub(crate) fn lacks_batches() -> Error {
    Error::corrupt(LACKS)
}

const LACKS: &str = "the journal: it lacks batches that were committed";

/// Whether an error says that a journal is lost, damaged or another one.
pub(crate) fn is_of_journal(error: &Error) -> bool {
    match error.detail() {
        Detail::Corrupt { location } => location.starts_with("journal.") || location.starts_with("the journal: "),
        _ => false,
    }
}

fn missing(name: &str) -> Error {
    Error::corrupt(format!("{name}: this half of the journal is missing"))
}

/// Refuses a journal in which a batch is missing that is needed.
fn check_whole(chains: &[(Stored, Chain)], base: u64, last: u64) -> Result<()> {
    let mut expected = base;
    for (half, chain) in chains {
        for Kept { frame, .. } in &chain.batches {
            if frame.number > expected {
                return Err(error::corrupt(half.name, Some(SECTOR)));
            }
            if frame.number == expected {
                expected += 1;
            }
        }
    }
    match chains.first() {
        Some((half, chain)) if expected <= last => Err(error::corrupt(half.name, Some(chain.end))),
        _ => Ok(()),
    }
}

impl Stored {
    pub(super) fn open(vfs: &dyn Vfs, name: &'static str) -> Result<Option<Self>> {
        let fail = |source| error::io(name, source);
        let file = match vfs.open(&FilePath::new(name)?, Open::Read) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(fail)?,
        };
        let len = file.len().map_err(fail)?;
        Ok(Some(Self { name, file, len }))
    }

    /// Its header, if the checksum is right. The header of another root is refused.
    fn header(&self, root: &str) -> Result<Option<HalfHeader>> {
        let mut sector = vec![0; usize::try_from(SECTOR.min(self.len)).unwrap_or_default()];
        read_exact_at(&*self.file, &mut sector, 0).map_err(|source| error::io(self.name, source))?;
        match HalfHeader::decode(&sector) {
            Some(header) if header.root != root => {
                Err(Error::corrupt(format!("{}: the journal belongs to another store", self.name)))
            }
            header => Ok(header),
        }
    }

    /// The batches from the beginning on, if the first one is not older than `least`.
    fn chain(&self, least: u64, planted: Planted) -> Result<Chain> {
        let mut chain = Chain { batches: Vec::new(), end: SECTOR };
        while let Some((frame, bytes)) =
            self.batch(chain.end, planted).map_err(|source| error::io(self.name, source))?
        {
            let follows = match chain.batches.last() {
                Some(before) => frame.number == before.frame.number + 1,
                None => frame.number >= least,
            };
            if !follows {
                break;
            }
            let at = chain.end;
            chain.end += padded(bytes.len() as u64);
            chain.batches.push(Kept { name: self.name, at, frame, bytes });
        }
        Ok(chain)
    }

    /// The batch at an offset, if one is there and its checksum is right.
    pub(super) fn batch(&self, at: u64, planted: Planted) -> io::Result<Option<(Frame, Vec<u8>)>> {
        let mut head = [0; FRAME];
        if at + FRAME as u64 > self.len {
            return Ok(None);
        }
        read_exact_at(&*self.file, &mut head, at)?;
        let Some(head) = Head::read(&head) else { return Ok(None) };
        let end = at + FRAME as u64 + u64::from(head.len);
        if end > self.len {
            return Ok(None);
        }
        let mut batch = vec![0; usize::try_from(end - at).map_err(io::Error::other)?];
        read_exact_at(&*self.file, &mut batch, at)?;
        if !head.proves(&batch) && !planted.has(Bug::ChecksumIgnored) {
            return Ok(None);
        }
        Ok(Some((head.frame, batch)))
    }

    /// Whether a whole batch with a number above `last` follows, at or after `from`, that was written after a sync of a
    /// batch above `last`. If so, the batch after `last` was durable, and is damaged.
    fn has_later_batch(&self, from: u64, last: u64) -> Result<bool> {
        let fail = |source| error::io(self.name, source);
        let mut chunk = vec![0; CHUNK];
        let mut at = from;
        while at < self.len {
            let len = usize::try_from(self.len - at).unwrap_or(CHUNK).min(CHUNK);
            let bytes = chunk.get_mut(..len).unwrap_or_default();
            read_exact_at(&*self.file, bytes, at).map_err(fail)?;
            for (sector, offset) in bytes.chunks(usize::try_from(SECTOR).unwrap_or(len)).zip((at..).step_by(512)) {
                let later = |head: &Head| head.frame.number > last && head.frame.synced > last;
                if sector.starts_with(&MAGIC)
                    && Head::read(sector).as_ref().is_some_and(later)
                    && self.batch(offset, Planted::default()).map_err(fail)?.is_some()
                {
                    return Ok(true);
                }
            }
            at += len as u64;
        }
        Ok(false)
    }
}
