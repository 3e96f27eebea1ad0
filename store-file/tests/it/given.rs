//! Logs to test with.

use std::sync::Arc;

use store_file::testing::{
    FilePath, LogWriter, Open, Placed, Position, Recovered, Recovery, Vfs, VfsFile, ensure_dir, recover,
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

/// A log with its folder, durable.
pub(crate) fn new_log(vfs: &dyn Vfs) -> LogWriter {
    ensure_dir(vfs, &path().parent()).unwrap();
    let mut log = LogWriter::create(vfs, &path(), HEADER).unwrap();
    log.sync(vfs).unwrap();
    log
}

/// Appends the groups with these numbers in one write and syncs them.
pub(crate) fn append(vfs: &dyn Vfs, log: &mut LogWriter, numbers: impl IntoIterator<Item = u64>) -> Vec<Placed> {
    let mut batch = log.batch();
    let placed = numbers.into_iter().map(|number| {
        let (lines, fields) = group(number);
        batch.push(&lines, &fields).unwrap()
    });
    let placed = placed.collect();
    log.append(&batch).unwrap();
    log.sync(vfs).unwrap();
    placed
}

/// A log of `count` groups, each synced by itself.
pub(crate) fn log(vfs: &dyn Vfs, count: u64) -> (LogWriter, Vec<Placed>) {
    let mut log = new_log(vfs);
    let placed = (0..count).flat_map(|number| append(vfs, &mut log, [number])).collect();
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
