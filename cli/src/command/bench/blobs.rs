//! The scenarios about blobs: a file is put as a blob, or a blob is written to a file. Their limit is the copy of a
//! file with as many bytes.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{
    fs::{self, File},
    io::{self, Cursor, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use agentstore::{
    BlobLayer, BlobRef, BlobStore, ByteStream, Error, IdSource, Result, SystemClock, TenantStores, UuidSource,
};
use futures_util::StreamExt;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::{scenario::Measurement, target::BenchTarget};
use crate::read_stream::stream_of;

/// What the limit is, for people.
pub(super) const DESCRIPTION: &str = "a copy of a file with the same bytes on the same disk, with fdatasync at its end";

/// The number of bytes that are read at once, by the copy and by the puts.
const READ_BYTES: usize = 1 << 20;

/// The folder with the file that is copied and put.
#[derive(Debug)]
pub(super) struct CopyFolder {
    path: PathBuf,
    mebibytes: u64,
    /// The folder, if the store has none.
    own: Option<TempDir>,
    /// The blob that is read, after the first round has put it.
    blob: OnceCell<BlobRef>,
}

impl CopyFolder {
    /// Creates the file beside the store, or in the folder for temporary files if the store is not on files.
    pub(super) fn new(target: &BenchTarget, bytes: usize) -> Result<Self> {
        let own = match target.file_store_folder() {
            Some(_) => None,
            None => Some(tempfile::tempdir().map_err(unavailable)?),
        };
        let path = target.file_store_folder().or_else(|| own.as_ref().map(TempDir::path)).unwrap_or(Path::new("."));
        let folder =
            Self { path: path.to_owned(), mebibytes: bytes as u64 / READ_BYTES as u64, own, blob: OnceCell::new() };
        folder.create_source().map_err(unavailable)?;
        Ok(folder)
    }

    fn source(&self) -> PathBuf {
        self.path.join("blob-source")
    }

    fn target(&self) -> PathBuf {
        self.path.join("blob-target")
    }

    fn create_source(&self) -> io::Result<()> {
        let mut file = File::create(self.source())?;
        let mut state = 1_u64;
        let mut part = vec![0; READ_BYTES];
        for _ in 0..self.mebibytes {
            // Bytes that nothing can compress (xorshift).
            for word in part.chunks_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(state.to_le_bytes().get(..word.len()).unwrap_or_default());
            }
            file.write_all(&part)?;
        }
        file.sync_data()
    }

    fn copy(&self) -> io::Result<()> {
        let (mut source, mut target) = (File::open(self.source())?, File::create(self.target())?);
        let mut part = vec![0; READ_BYTES];
        loop {
            let count = source.read(&mut part)?;
            if count == 0 {
                return target.sync_data();
            }
            target.write_all(part.get(..count).unwrap_or_default())?;
        }
    }

    /// Copies the file for the given duration, each time to a new file. Only the copies are measured.
    pub(super) fn run_copies(&self, duration: Duration) -> Result<Measurement> {
        let (mut measurement, until) = (Measurement::default(), Instant::now() + duration);
        while Instant::now() < until {
            let start = Instant::now();
            self.copy().map_err(unavailable)?;
            measurement.add_call(self.mebibytes, start.elapsed());
            fs::remove_file(self.target()).map_err(unavailable)?;
        }
        Ok(measurement)
    }

    /// Reads the file as a stream. Its first bytes are replaced, so that no two streams are the same blob.
    fn stream(&self) -> Result<ByteStream> {
        let unique = UuidSource.next_id();
        let mut source = File::open(self.source()).map_err(unavailable)?;
        let _place = source.seek(SeekFrom::Start(unique.len() as u64)).map_err(unavailable)?;
        Ok(stream_of(Cursor::new(unique).chain(source)))
    }

    /// Puts the file as a blob, until a time. Each blob is removed before the next one is put; only the puts are
    /// measured.
    pub(super) async fn run_puts(self: Arc<Self>, stores: TenantStores, until: Instant) -> Result<Measurement> {
        let (blobs, mut measurement) = (BlobLayer::new(&stores, Arc::new(SystemClock))?, Measurement::default());
        while Instant::now() < until {
            let stream = self.stream()?;
            let start = Instant::now();
            let blob = blobs.put_blob(stream).await?;
            measurement.add_call(self.mebibytes, start.elapsed());
            let _removed = blobs.remove_unreferenced(&[blob.hash]).await?;
        }
        Ok(measurement)
    }

    /// Writes a blob to a new file, until a time. Only the reads and the writes are measured. The blob stays for the
    /// next round, so that a file of the same length was removed just before each of the reads, as before each copy.
    pub(super) async fn run_gets(self: Arc<Self>, stores: TenantStores, until: Instant) -> Result<Measurement> {
        let (blobs, mut measurement) = (BlobLayer::new(&stores, Arc::new(SystemClock))?, Measurement::default());
        let mut blob = self.blob.get_or_try_init(|| async { blobs.put_blob(self.stream()?).await }).await?.clone();
        if blobs.load_blob(&blob.hash).await?.is_none() {
            // The store is in memory, and another one in each round.
            blob = blobs.put_blob(self.stream()?).await?;
        }
        // A round measures at least one, however long a put took.
        loop {
            let start = Instant::now();
            self.get(&blobs, &blob).await?;
            measurement.add_call(self.mebibytes, start.elapsed());
            fs::remove_file(self.target()).map_err(unavailable)?;
            if Instant::now() >= until {
                break;
            }
        }
        Ok(measurement)
    }

    async fn get(&self, blobs: &BlobLayer, blob: &BlobRef) -> Result<()> {
        let mut opened = blobs.open_blob(&blob.hash, 0..u64::MAX).await?;
        let mut target = File::create(self.target()).map_err(unavailable)?;
        while let Some(part) = opened.stream.next().await {
            target.write_all(&part?).map_err(unavailable)?;
        }
        target.sync_data().map_err(unavailable)
    }
}

impl Drop for CopyFolder {
    fn drop(&mut self) {
        if self.own.is_none() {
            // The folder of the store is removed later, with everything in it.
            let _removed = fs::remove_file(self.source());
        }
    }
}

fn unavailable(error: io::Error) -> Error {
    Error::unavailable("the file that is copied cannot be read or written").with_source(error)
}
