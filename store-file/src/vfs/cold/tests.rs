//! Tests of logs that are compressed in part, below everything that knows what is in a log.

use std::{io, sync::Arc};

use super::{Cold, Damaged};
use crate::vfs::{
    FilePath, Open, Vfs, VfsFile, ensure_dir,
    sim::{Fault, SimDisk, Survivors},
};

fn path() -> FilePath {
    FilePath::new("tenants/t/a.jsonl").unwrap()
}

fn compressed() -> FilePath {
    FilePath::new("tenants/t/a.jsonl.zst").unwrap()
}

/// Lines of text, of which no two parts are alike.
fn text(from: usize, bytes: usize) -> Vec<u8> {
    let lines = (from..).flat_map(|number| format!("{{\"line\":{number},\"twice\":{}}}\n", number * 2).into_bytes());
    lines.take(bytes).collect()
}

/// A disk with a log of this text, durable.
fn disk(text: &[u8]) -> SimDisk {
    let disk = SimDisk::new();
    ensure_dir(&disk, &path().parent()).unwrap();
    let file = disk.open(&path(), Open::Create).unwrap();
    file.write_at(text, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(&path().parent()).unwrap();
    disk
}

fn cold(disk: &SimDisk) -> Cold {
    Cold::over(Arc::new(disk.clone()))
}

fn compress(cold: &Cold) -> io::Result<()> {
    let _one = cold.begin();
    let len = cold.open(&path(), Open::Write)?.len()?;
    cold.prepare(&path(), len, &[])?;
    cold.switch(&path())
}

/// All of a file, read in pieces of different sizes.
fn all(file: &dyn VfsFile) -> io::Result<Vec<u8>> {
    let (mut found, mut sizes) = (Vec::new(), [1, 100, 5_000, 70_000, 400_000].into_iter().cycle());
    loop {
        let mut piece = vec![0; sizes.next().unwrap()];
        let count = file.read_at(&mut piece, found.len() as u64)?;
        if count == 0 {
            return Ok(found);
        }
        found.extend(&piece[..count]);
    }
}

fn read(cold: &Cold) -> Vec<u8> {
    all(&*cold.open(&path(), Open::Read).unwrap()).unwrap()
}

fn append(cold: &Cold, bytes: &[u8]) {
    let file = cold.open(&path(), Open::Write).unwrap();
    file.write_at(bytes, file.len().unwrap()).unwrap();
    file.sync_data().unwrap();
}

fn bytes(disk: &SimDisk, path: &FilePath) -> Vec<u8> {
    all(&*disk.open(path, Open::Read).unwrap()).unwrap()
}

/// Shows FI-14: a log with a compressed part is read and appended to as one file, and any zstd decoder reads the part.
#[test]
fn a_log_in_two_files_is_one_file() {
    let mut expected = text(0, 300_000);
    let disk = disk(&expected);
    let cold = cold(&disk);
    for round in 0..3 {
        compress(&cold).unwrap();
        assert_eq!(bytes(&disk, &path()), b"", "round {round}");
        assert!(zstd::decode_all(&*bytes(&disk, &compressed())).unwrap() == expected);
        assert!(read(&cold) == expected);
        let more = text(round * 1_000_000, 60_000);
        append(&cold, &more);
        expected.extend(more);
        assert!(read(&cold) == expected);
        assert_eq!(bytes(&disk, &path()).len(), 60_000);
        let file = cold.open(&path(), Open::Write).unwrap();
        assert_eq!(file.len().unwrap(), expected.len() as u64);
        for offset in (0..expected.len()).step_by(9_973) {
            let mut piece = [0; 200];
            let count = file.read_at(&mut piece, offset as u64).unwrap();
            assert_eq!(piece[..count], expected[offset..expected.len().min(offset + 200)], "{offset}");
        }
    }
    let sizes = cold.sizes(&path()).unwrap();
    assert!(sizes.compressed < expected.len() as u64 / 3, "{sizes:?}");
}

/// Shows FI-14: a recovery can write the bytes of the compressed part again, and no call changes them.
#[test]
fn a_compressed_part_does_not_change() {
    let expected = text(0, 200_000);
    let disk = disk(&expected);
    let cold = cold(&disk);
    compress(&cold).unwrap();
    let file = cold.open(&path(), Open::Write).unwrap();
    file.write_at(&expected[100..150_000], 100).unwrap();
    // What begins in the compressed part may end behind it.
    file.write_at(&[&expected[199_000..], b"more"].concat(), 199_000).unwrap();
    file.truncate(200_002).unwrap();
    assert!(read(&cold) == [&expected[..], b"mo"].concat());
    let other = [&expected[..131_080], b"X"].concat();
    for refused in [file.write_at(&other, 0), file.truncate(199_999)] {
        assert!(Damaged::of(&refused.unwrap_err()).is_some());
    }
    assert!(cold.open(&path(), Open::CreateNew).is_err());
    assert!(all(&*cold.open(&path(), Open::Create).unwrap()).unwrap() == [&expected[..], b"mo"].concat());
}

/// Shows FI-14: handles that a reader in another process has open go on to the end of a log that is compressed and
/// appended to.
#[test]
fn a_reader_goes_on_while_the_holder_compresses() {
    let mut expected = text(0, 20_000);
    let disk = disk(&expected);
    let (holder, reader) = (cold(&disk), cold(&disk));
    let mut handles = Vec::new();
    for round in 0..4 {
        handles.push(reader.open(&path(), Open::Read).unwrap());
        compress(&holder).unwrap();
        let more = text(round * 1_000, 3_000);
        append(&holder, &more);
        expected.extend(more);
        for (number, file) in handles.iter().enumerate() {
            assert!(all(&**file).unwrap() == expected, "handle {number} in round {round}");
        }
    }
}

/// Shows FI-8 and FI-14: a compression that a power cut or the end of the process stops at any call loses nothing. The
/// next compression takes place.
#[test]
fn a_compression_can_stop_at_any_call() {
    let first = text(0, 30_000);
    let whole = [&first[..], &text(7_000, 20_000)].concat();
    let mut stopped = 0;
    for is_second in [false, true] {
        for call in 0.. {
            let before = disk(if is_second { &first } else { &whole });
            if is_second {
                compress(&cold(&before)).unwrap();
                append(&cold(&before), &whole[first.len()..]);
            }
            let at = before.calls() + call;
            let disk = before.with_fault(at, Fault::Stop);
            let is_done = compress(&cold(&disk)).is_ok();
            let kinds = [Survivors::All, Survivors::Synced, Survivors::Contents, Survivors::Names];
            let kinds = kinds.into_iter().chain([Survivors::AllButRenames]).chain((0..12).map(Survivors::Random));
            for left in kinds.map(|kind| disk.after_crash(kind)).chain([disk.after_kill()]) {
                let cold = cold(&left);
                assert!(read(&cold) == whole, "call {call}");
                append(&cold, b"{\"more\":1}\n");
                let longer = [&whole[..], b"{\"more\":1}\n"].concat();
                // A second cut takes nothing back.
                for left in [left.after_crash(Survivors::Synced), left] {
                    let cold = self::cold(&left);
                    cold.clean();
                    assert!(read(&cold) == longer, "call {call}, again");
                    compress(&cold).unwrap();
                    assert!(
                        read(&self::cold(&left.after_crash(Survivors::Synced))) == longer,
                        "call {call}, compressed"
                    );
                    assert_eq!(left.list(&FilePath::root()).unwrap().len(), 1);
                }
            }
            if is_done {
                break;
            }
            stopped += 1;
        }
    }
    assert!(stopped >= 18, "{stopped}");
}

/// Shows FI-4 and FI-14: a changed bit of the compressed file is found where the text is read, or changes nothing.
#[test]
fn a_changed_bit_never_gives_other_text() {
    let expected = text(0, 300_000);
    let disk = disk(&expected);
    compress(&cold(&disk)).unwrap();
    let bits = bytes(&disk, &compressed()).len() as u64 * 8;
    let mut found = 0;
    for bit in (0..bits).step_by(97) {
        disk.flip(&compressed(), bit).unwrap();
        match cold(&disk).open(&path(), Open::Read).and_then(|file| all(&*file)) {
            Ok(text) => assert!(text == expected, "bit {bit}"),
            Err(error) => {
                let damaged = Damaged::of(&error).unwrap_or_else(|| panic!("bit {bit}: {error}"));
                assert!(damaged.place().starts_with("tenants/t/a.jsonl.zst:"), "{damaged}");
                found += 1;
            }
        }
        disk.flip(&compressed(), bit).unwrap();
    }
    assert!(found >= bits / 97 - 8, "{found} of {}", bits / 97);
}

/// Shows TH-20 and FI-14: both files of a log go together, and only the compressed files of logs are hidden.
#[test]
fn both_files_are_removed_and_one_is_listed() {
    let disk = disk(&text(0, 20_000));
    let cold = cold(&disk);
    compress(&cold).unwrap();
    for other in ["b.jsonl.zst", "c.txt.zst"] {
        drop(disk.open(&path().parent().join(other).unwrap(), Open::Create).unwrap());
    }
    let names =
        |vfs: &dyn Vfs| vfs.list(&path().parent()).unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>();
    assert_eq!(names(&cold), ["a.jsonl", "b.jsonl.zst", "c.txt.zst"]);
    // A file that is no log is opened as it is.
    assert_eq!(all(&*cold.open(&compressed(), Open::Read).unwrap()).unwrap(), bytes(&disk, &compressed()));
    cold.unlink(&path()).unwrap();
    assert_eq!(names(&disk), ["b.jsonl.zst", "c.txt.zst"]);
    assert_eq!(cold.open(&path(), Open::Read).unwrap_err().kind(), io::ErrorKind::NotFound);
    // Without its plain file a log is damaged, and not replaced.
    let lost = FilePath::new("tenants/t/b.jsonl").unwrap();
    for how in [Open::Read, Open::Write, Open::Create, Open::CreateNew] {
        assert!(cold.open(&lost, how).is_err(), "{how:?}");
    }
}
