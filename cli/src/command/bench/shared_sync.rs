//! Measures the limit of one file with group commit: callers append to the same file, and one sync makes durable what
//! all waiting callers have appended.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{
    fs::File,
    io::{self, Write as _},
    mem,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use agentstore::{Error, Result};

use super::{limit::run_in_tasks, scenario::Measurement};

/// What the limit is, for people.
pub(super) const DESCRIPTION: &str = "an append to one file, with one fdatasync for all waiting callers";

/// Runs `callers` callers at the same time, each in its own task, as those of a scenario. Each repeatedly appends
/// `bytes` bytes to the file and waits until they are synced. Returns the number of appends, and how long the callers
/// ran.
///
/// # Errors
/// `Unavailable` if the file cannot be written.
pub(super) async fn run(folder: &Path, callers: usize, bytes: usize, duration: Duration) -> Result<Measurement> {
    let file = Arc::new(SharedFile::create(&folder.join("bare-shared")).map_err(unavailable)?);
    let start = Instant::now();
    let until = start + duration;
    let count = run_in_tasks((0..callers).map(|_| run_appends(Arc::clone(&file), bytes, until))).await?;
    Ok(Measurement { count, took: start.elapsed(), call_durations: Vec::new() })
}

async fn run_appends(file: Arc<SharedFile>, bytes: usize, until: Instant) -> Result<u64> {
    let (body, mut appends) = (vec![b'x'; bytes], 0);
    while Instant::now() < until {
        file.append(&body).await.map_err(unavailable)?;
        appends += 1;
    }
    Ok(appends)
}

fn unavailable(error: io::Error) -> Error {
    Error::unavailable("the callers that measure the limit cannot write their file").with_source(error)
}

/// A file whose appends share syncs.
struct SharedFile {
    next: Mutex<Batch>,
    writer: tokio::sync::Mutex<Writer>,
}

/// The bytes that no caller has begun to write.
#[derive(Default)]
struct Batch {
    /// The number of earlier batches.
    number: u64,
    bytes: Vec<u8>,
}

struct Writer {
    file: File,
    /// The number of batches that are synced.
    synced: u64,
    has_failed: bool,
}

impl SharedFile {
    fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        let writer = tokio::sync::Mutex::new(Writer { file, synced: 0, has_failed: false });
        Ok(Self { next: Mutex::default(), writer })
    }

    fn change_next<T>(&self, change: impl FnOnce(&mut Batch) -> T) -> T {
        change(&mut self.next.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Appends the bytes and waits until they are synced. The first caller of a batch that gets the file writes and
    /// syncs what all callers have handed in until then.
    async fn append(&self, body: &[u8]) -> io::Result<()> {
        let own = self.change_next(|next| {
            next.bytes.extend_from_slice(body);
            next.number
        });
        let mut writer = self.writer.lock().await;
        // After a failed write it is unknown what the file contains.
        if writer.has_failed {
            return Err(io::Error::other("a write or a sync of another caller failed"));
        }
        if writer.synced > own {
            return Ok(());
        }
        let batch = self.change_next(|next| mem::replace(next, Batch { number: next.number + 1, bytes: Vec::new() }));
        let written = writer.file.write_all(&batch.bytes).and_then(|()| writer.file.sync_data());
        writer.has_failed = written.is_err();
        writer.synced += 1;
        written
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use super::SharedFile;

    #[tokio::test]
    async fn callers_that_wait_share_a_sync() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        let file = Arc::new(SharedFile::create(&path).unwrap());
        // While the test has the file, all callers wait.
        let writer = file.writer.lock().await;
        let append = |letter: u8| {
            let file = Arc::clone(&file);
            tokio::spawn(async move { file.append(&[letter; 16]).await })
        };
        let callers: Vec<_> = (b'a'..=b'h').map(append).collect();
        while file.change_next(|next| next.bytes.len()) < 8 * 16 {
            tokio::task::yield_now().await;
        }
        assert_eq!(fs::read(&path).unwrap().len(), 0);
        drop(writer);
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        let content = fs::read(&path).unwrap();
        assert_eq!(content.len(), 8 * 16);
        for letter in b'a'..=b'h' {
            assert_eq!(content.chunks(16).filter(|chunk| **chunk == [letter; 16]).count(), 1);
        }
        assert_eq!(file.writer.lock().await.synced, 1);
        file.append(b"z").await.unwrap();
        assert_eq!(file.writer.lock().await.synced, 2);
    }

    #[tokio::test]
    async fn after_a_failed_write_every_append_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        let file = SharedFile::create(&path).unwrap();
        // A file that is open for reading only.
        file.writer.lock().await.file = fs::File::open(&path).unwrap();
        assert!(file.append(b"x").await.is_err());
        file.writer.lock().await.file = fs::File::create(&path).unwrap();
        assert!(file.append(b"x").await.is_err());
    }
}
