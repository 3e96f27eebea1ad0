//! What changes in logs together, and its bytes in the journal.

use crate::vfs::FilePath;

/// A log as the journal names it: a number that is never used for another log while the journal is open, and the path
/// of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogName {
    /// The number.
    pub(crate) number: u64,
    /// The file.
    pub(crate) path: FilePath,
}

/// What a file takes from its file system at once.
const BLOCK: u64 = 4096;

/// One change of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Record {
    Make(LogName),
    Append(LogName, u64, Vec<u8>),
    Overwrite(LogName, u64, Vec<u8>),
    Drop(LogName),
}

/// Changes of any number of logs that take effect together, or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    records: Vec<Record>,
    bytes: u64,
    uses_reserve: bool,
    is_durable: bool,
}

/// A change as it stands in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change<'a> {
    /// From here on the journal's half calls a file by this number.
    Name { log: u64, path: FilePath },
    /// The file is made, with the folders above it. A commit empties a file that has its path. A redo does not: see
    /// `Redo::make`.
    Make { log: u64 },
    /// These bytes go to this offset.
    Append { log: u64, offset: u64, bytes: &'a [u8] },
    /// These bytes take the place of others, which were appended by an earlier batch.
    Overwrite { log: u64, offset: u64, bytes: &'a [u8] },
    /// The file is removed, and the number is never used again.
    Drop { log: u64 },
}

impl Batch {
    /// Makes a new log: an empty file, with the folders above it. A file that has its path is made empty.
    pub(crate) fn make(&mut self, log: &LogName) {
        self.records.push(Record::Make(log.clone()));
    }

    /// Appends `bytes` to a log whose end is at `offset`.
    pub(crate) fn append(&mut self, log: &LogName, offset: u64, bytes: Vec<u8>) {
        self.bytes += bytes.len() as u64;
        self.records.push(Record::Append(log.clone(), offset, bytes));
    }

    /// Writes `bytes` over others of the same length, which an earlier batch appended. A crash may leave the former
    /// bytes or these, or a part of each until the redo.
    pub(crate) fn overwrite(&mut self, log: &LogName, offset: u64, bytes: Vec<u8>) {
        self.bytes += bytes.len() as u64;
        self.records.push(Record::Overwrite(log.clone(), offset, bytes));
    }

    /// Removes a log. Its number is never used again.
    pub(crate) fn drop_log(&mut self, log: &LogName) {
        self.records.push(Record::Drop(log.clone()));
    }

    /// Lets the batch use the space that is kept in reserve: it frees space, or ends work.
    pub(crate) const fn use_reserve(&mut self) {
        self.uses_reserve = true;
    }

    /// Whether it may use the reserve.
    pub(super) const fn uses_reserve(&self) -> bool {
        self.uses_reserve
    }

    /// How many bytes the logs get.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How much space the logs may need: a file grows by whole blocks, and a new one needs one for its name, too.
    pub(super) fn space(&self) -> u64 {
        let of = |record: &Record| match record {
            Record::Make(_) => BLOCK,
            Record::Append(_, _, bytes) => (bytes.len() as u64).next_multiple_of(BLOCK),
            // A file system may write them to another place.
            Record::Overwrite(_, _, bytes) => (bytes.len() as u64).next_multiple_of(BLOCK),
            Record::Drop(_) => 0,
        };
        self.records.iter().map(of).sum()
    }

    /// What a log gets: its name, where the bytes go, and the bytes.
    pub(crate) fn appended(&self, log: u64) -> Option<(&LogName, u64, &[u8])> {
        self.records.iter().find_map(|record| match record {
            Record::Append(name, offset, bytes) if name.number == log => Some((name, *offset, bytes.as_slice())),
            _ => None,
        })
    }

    /// Makes the batch durable before it is answered, whatever the durability of the store.
    pub(crate) const fn make_durable(&mut self) {
        self.is_durable = true;
    }

    /// Whether it has to be durable before it is answered. If a power cut took a batch that removes a file, the file
    /// would not come back. So such a batch is synced before its changes are made.
    pub(super) fn must_sync(&self) -> bool {
        self.is_durable || self.records.iter().any(|record| matches!(record, Record::Drop(_)))
    }

    /// The logs that the batch names, in its order.
    pub(super) fn logs(&self) -> impl Iterator<Item = &LogName> {
        self.records.iter().map(|record| match record {
            Record::Make(log) | Record::Append(log, ..) | Record::Overwrite(log, ..) | Record::Drop(log) => log,
        })
    }

    /// The changes, in the order in which they were added.
    pub(super) fn changes(&self) -> impl Iterator<Item = (Change<'_>, &FilePath)> {
        self.records.iter().map(|record| match record {
            Record::Make(log) => (Change::Make { log: log.number }, &log.path),
            Record::Append(log, offset, bytes) => {
                (Change::Append { log: log.number, offset: *offset, bytes }, &log.path)
            }
            Record::Overwrite(log, offset, bytes) => {
                (Change::Overwrite { log: log.number, offset: *offset, bytes }, &log.path)
            }
            Record::Drop(log) => (Change::Drop { log: log.number }, &log.path),
        })
    }
}

impl Change<'_> {
    /// Adds the change to the bytes of a batch.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Name { log, path } => {
                head(out, 1, *log);
                put_bytes(out, path.as_str().as_bytes());
            }
            Self::Make { log } => head(out, 2, *log),
            Self::Append { log, offset, bytes } => {
                head(out, 3, *log);
                out.extend_from_slice(&offset.to_be_bytes());
                put_bytes(out, bytes);
            }
            Self::Drop { log } => head(out, 4, *log),
            Self::Overwrite { log, offset, bytes } => {
                head(out, 5, *log);
                out.extend_from_slice(&offset.to_be_bytes());
                put_bytes(out, bytes);
            }
        }
    }
}

fn head(out: &mut Vec<u8>, kind: u8, log: u64) {
    out.push(kind);
    out.extend_from_slice(&log.to_be_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The changes of a batch, read from its bytes. Bytes that are no change end the iteration with nothing read of them.
#[derive(Debug)]
pub(super) struct Changes<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Changes<'a> {
    type Item = Option<Change<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let decoded = decode(self.0);
        self.0 = decoded.as_ref().map_or(&[], |(_, rest)| rest);
        Some(decoded.map(|(change, _)| change))
    }
}

fn decode(bytes: &[u8]) -> Option<(Change<'_>, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (log, rest) = number(rest)?;
    Some(match kind {
        1 => {
            let (path, rest) = take_bytes(rest)?;
            let path = FilePath::new(std::str::from_utf8(path).ok()?).ok()?;
            (Change::Name { log, path }, rest)
        }
        2 => (Change::Make { log }, rest),
        3 => {
            let (offset, rest) = number(rest)?;
            let (bytes, rest) = take_bytes(rest)?;
            (Change::Append { log, offset, bytes }, rest)
        }
        4 => (Change::Drop { log }, rest),
        5 => {
            let (offset, rest) = number(rest)?;
            let (bytes, rest) = take_bytes(rest)?;
            (Change::Overwrite { log, offset, bytes }, rest)
        }
        _ => return None,
    })
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

fn take_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::{Change, Changes};
    use crate::vfs::FilePath;

    #[test]
    fn changes_are_read_as_they_were_written() {
        let all = [
            Change::Name { log: 7, path: FilePath::new("a/b.jsonl").unwrap() },
            Change::Make { log: 7 },
            Change::Append { log: 7, offset: 0, bytes: b"{}\n" },
            Change::Append { log: u64::MAX, offset: u64::MAX, bytes: b"" },
            Change::Overwrite { log: 7, offset: 3, bytes: b"[]" },
            Change::Drop { log: 7 },
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|change| change.encode(&mut bytes));
        let read: Option<Vec<_>> = Changes(&bytes).collect();
        assert_eq!(read.unwrap(), all);
        for len in 1..bytes.len() {
            let read: Option<Vec<_>> = Changes(&bytes[..len]).collect();
            assert!(read.is_none_or(|read| read == all[..read.len()]), "{len}");
        }
    }

    #[test]
    fn a_path_that_leads_out_of_the_root_is_no_change() {
        let mut bytes = Vec::new();
        bytes.push(1);
        bytes.extend_from_slice(&9_u64.to_be_bytes());
        bytes.extend_from_slice(&5_u32.to_be_bytes());
        bytes.extend_from_slice(b"../ab");
        assert_eq!(Changes(&bytes).next(), Some(None));
    }
}
