//! Logs to test with.

use std::sync::Arc;

use store_file::testing::{
    FilePath, Open, Placed, Position, Recovered, Recovery, Vfs, VfsFile, add_checksum, encode_group, ensure_dir,
    recover,
};

pub(crate) const HEADER: &str = r#"{"log":"thread","v":1,"tenant":"default","thread":"t-1"}"#;

pub(crate) fn path() -> FilePath {
    FilePath::new("threads/t-1.log").unwrap()
}

/// The lines of the group with this number, of different lengths, and its commit fields.
pub(crate) fn group(number: u64) -> (Vec<String>, String) {
    let text = "x".repeat(usize::try_from(number * 37 % 90).unwrap());
    let line = |part: u64| format!(r#"{{"t":"entry","seq":{},"text":"{text}\"}}\n"}}"#, number * 10 + part);
    ((0..=number % 3).map(line).collect(), format!(r#"{{"version":{number},"key":"k-{number}"}}"#))
}

/// The end of a log, where groups are appended as the journal does it.
#[derive(Debug)]
pub(crate) struct TestLog {
    file: Arc<dyn VfsFile>,
    end: Position,
    batch: u64,
}

impl TestLog {
    /// Goes on at an end.
    pub(crate) fn resume(vfs: &dyn Vfs, end: Position) -> Self {
        Self { file: open(vfs), end, batch: 1_000 }
    }

    pub(crate) const fn position(&self) -> Position {
        self.end
    }
}

/// A log with its folder, durable.
pub(crate) fn new_log(vfs: &dyn Vfs) -> TestLog {
    ensure_dir(vfs, &path().parent()).unwrap();
    let file = vfs.open(&path(), Open::CreateNew).unwrap();
    let (line, crc) = add_checksum(HEADER).unwrap();
    file.write_at(&line, 0).unwrap();
    file.sync_data().unwrap();
    vfs.sync_dir(&path().parent()).unwrap();
    TestLog { file, end: Position { offset: line.len() as u64, crc }, batch: 0 }
}

/// Appends the groups with these numbers as one batch, and syncs them.
pub(crate) fn append(log: &mut TestLog, numbers: impl IntoIterator<Item = u64>) -> Vec<Placed> {
    log.batch += 1;
    let (start, mut bytes, mut placed) = (log.end.offset, Vec::new(), Vec::new());
    for number in numbers {
        let (lines, fields) = group(number);
        placed.push(encode_group(&mut bytes, log.end, log.batch, &lines, &fields).unwrap());
        log.end = placed.last().unwrap().end;
    }
    log.file.write_at(&bytes, start).unwrap();
    log.file.sync_data().unwrap();
    placed
}

/// A log of `count` groups, each a batch of its own.
pub(crate) fn log(vfs: &dyn Vfs, count: u64) -> (TestLog, Vec<Placed>) {
    let mut log = new_log(vfs);
    let placed = (0..count).flat_map(|number| append(&mut log, [number])).collect();
    (log, placed)
}

pub(crate) fn open(vfs: &dyn Vfs) -> Arc<dyn VfsFile> {
    vfs.open(&path(), Open::Write).unwrap()
}

/// Recovers the log and returns the numbers of its groups. Panics if one is not as it was written.
pub(crate) fn recovered(vfs: &dyn Vfs, known: Recovery) -> store_core::Result<(Vec<u64>, Recovered)> {
    let mut numbers = Vec::new();
    let recovered = recover(vfs, &path(), known, |found| {
        let number = numbers.len() as u64;
        let (lines, fields) = group(number);
        assert_eq!(found.lines.iter().map(|(_, line)| String::from_utf8_lossy(line)).collect::<Vec<_>>(), lines);
        let commit = std::str::from_utf8(found.commit.1).unwrap();
        assert!(commit.contains(&fields[1..fields.len() - 1]), "{commit}");
        numbers.push(number);
        Ok(())
    })?;
    Ok((numbers, recovered))
}

/// The end of the header.
pub(crate) fn first_group(placed: &[Placed]) -> Position {
    Position { offset: placed[0].start, crc: 0 }
}
