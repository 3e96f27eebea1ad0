//! Batches of several threads, with flushes in the background.

use std::{sync::Arc, thread::scope};

use super::{Batch, Durability, ROOT, contents, path};
use crate::{
    files::Files,
    journal::{History, Journal, JournalConfig, LogName},
    vfs::{
        Disk, Open, Vfs,
        sim::{SimDisk, Survivors},
    },
};

fn journal(vfs: Arc<dyn Vfs>, in_background: bool) -> Journal {
    let config = JournalConfig {
        root: ROOT.to_owned(),
        incarnation: 0,
        next: 1,
        durability: Durability::Sync,
        half_bytes: 16 << 10,
        in_background,
    };
    let files = Arc::new(Files::new(Arc::clone(&vfs), Open::Write, 4));
    Journal::start(vfs, files, config, Box::new(|_| Ok(()))).unwrap()
}

/// Each of `threads` makes a log of its own and appends to it `count` times.
fn write(journal: &Journal, threads: u64, count: u64) {
    scope(|scope| {
        for thread in 1..=threads {
            scope.spawn(move || {
                let log = LogName { number: thread, path: path(&format!("logs/t{thread}/log")) };
                let mut offset = 0;
                for number in 0..count {
                    let mut batch = Batch::default();
                    if number == 0 {
                        batch.make(&log);
                    }
                    let line = format!("{thread} {number} {}\n", "y".repeat(100));
                    batch.append(&log, offset, line.clone().into_bytes());
                    offset += line.len() as u64;
                    journal.commit(&batch).unwrap();
                }
            });
        }
    });
}

#[test]
fn batches_of_several_threads_follow_each_other() {
    let disk = SimDisk::new();
    let journal = journal(Arc::new(disk.clone()), true);
    write(&journal, 8, 200);
    assert!(journal.last() <= 8 * 200 + 200, "a switch of halves adds at most one");
    let disk = disk.after_crash(Survivors::Synced);
    History::read(&disk, ROOT).unwrap().unwrap().redo(&disk).unwrap();
    let found = contents(&disk);
    assert_eq!(found.len(), 8);
    for (path, bytes) in found {
        let text = String::from_utf8(bytes).unwrap();
        let numbers = text.lines().map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap());
        assert!(numbers.eq(0..200), "{path}");
    }
}

#[test]
fn the_same_holds_on_a_real_disk() {
    let temp = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::open(temp.path()).unwrap());
    let journal = journal(disk, true);
    write(&journal, 4, 100);
    journal.close().unwrap();
    for thread in 1..=4 {
        let text = std::fs::read_to_string(temp.path().join(format!("logs/t{thread}/log"))).unwrap();
        assert_eq!(text.lines().count(), 100);
    }
    let length = |name: &str| temp.path().join(name).metadata().unwrap().len();
    assert_eq!((length("journal.0"), length("journal.1")), (512, 512), "a closed journal is empty");
}
