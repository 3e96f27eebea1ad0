//! Measures the limit of one file with group commit: callers append to the same file, and one sync makes durable what
//! all waiting callers have appended.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{
    fs::File,
    io::{self, Write as _},
    mem,
    path::Path,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use agentstore::{Error, Result};

use super::{limit::run_in_threads, scenario::Measurement};

/// What the limit is, for people.
pub(super) const DESCRIPTION: &str = "an append to one file, with one fdatasync for all waiting callers";

/// Runs `callers` callers at the same time, each in its own OS thread. Each repeatedly appends `bytes` bytes to the
/// file and waits until they are synced. Returns the number of appends, and how long the callers ran.
pub(super) fn run(folder: &Path, callers: usize, bytes: usize, duration: Duration) -> Result<Measurement> {
    let start = Instant::now();
    let until = start + duration;
    let count = SharedFile::create(&folder.join("bare-shared")).and_then(|file| {
        run_in_threads(callers, |_| {
            let (body, mut appends) = (vec![b'x'; bytes], 0);
            while Instant::now() < until {
                file.append(&body)?;
                appends += 1;
            }
            Ok(appends)
        })
    });
    let count = count.map_err(|error: io::Error| {
        Error::unavailable("the callers that measure the limit cannot write their file").with_source(error)
    })?;
    Ok(Measurement { count, took: start.elapsed(), call_durations: Vec::new() })
}

/// A file whose appends share syncs.
struct SharedFile {
    file: File,
    queue: Mutex<Queue>,
    batch_ended: Condvar,
}

#[derive(Default)]
struct Queue {
    /// The bytes of the next batch.
    waiting: Vec<u8>,
    /// The number of batches that were begun.
    begun: u64,
    /// The number of batches that are synced.
    synced: u64,
    /// Whether a caller writes a batch at the moment.
    is_writing: bool,
    has_failed: bool,
}

impl SharedFile {
    fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { file, queue: Mutex::default(), batch_ended: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the bytes and waits until they are synced. If no other caller writes, this one writes and syncs what
    /// all callers have handed in.
    fn append(&self, body: &[u8]) -> io::Result<()> {
        let mut queue = self.lock();
        queue.waiting.extend_from_slice(body);
        let own_batch = queue.begun + 1;
        while queue.synced < own_batch {
            // After a failed write it is unknown what the file contains.
            if queue.has_failed {
                return Err(io::Error::other("a write or a sync of another caller failed"));
            }
            if queue.is_writing {
                queue = self.batch_ended.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let batch = mem::take(&mut queue.waiting);
            queue.begun += 1;
            queue.is_writing = true;
            drop(queue);
            let written = (&self.file).write_all(&batch).and_then(|()| self.file.sync_data());
            queue = self.lock();
            queue.is_writing = false;
            queue.has_failed = written.is_err();
            if written.is_ok() {
                queue.synced += 1;
            }
            self.batch_ended.notify_all();
            written?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::{SharedFile, run_in_threads};

    #[test]
    fn callers_that_wait_share_a_sync() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        let file = SharedFile::create(&path).unwrap();
        // Another caller seems to write until all callers of the test wait.
        file.lock().is_writing = true;
        thread::scope(|scope| {
            let callers: Vec<_> = (b'a'..=b'h')
                .map(|letter| {
                    scope.spawn({
                        let file = &file;
                        move || file.append(&[letter; 16])
                    })
                })
                .collect();
            while file.lock().waiting.len() < 8 * 16 {
                thread::yield_now();
            }
            assert_eq!(fs::read(&path).unwrap().len(), 0);
            file.lock().is_writing = false;
            file.batch_ended.notify_all();
            callers.into_iter().for_each(|caller| caller.join().unwrap().unwrap());
        });
        let content = fs::read(&path).unwrap();
        assert_eq!(content.len(), 8 * 16);
        for letter in b'a'..=b'h' {
            assert_eq!(content.chunks(16).filter(|chunk| **chunk == [letter; 16]).count(), 1);
        }
        assert_eq!(file.lock().synced, 1);
    }

    #[test]
    fn a_failed_write_ends_all_callers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        let mut file = SharedFile::create(&path).unwrap();
        file.file = fs::File::open(&path).unwrap();
        let appends = run_in_threads(8, |_| file.append(b"x").map(|()| 1));
        assert!(appends.is_err());
        assert!(file.append(b"x").is_err());
    }
}
