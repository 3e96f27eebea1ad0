//! The writer thread: it takes all waiting calls, commits them together, and answers them.

mod batch;
mod job;
mod wal;

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use rusqlite::Connection;
use store_core::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use self::batch::WriterLoop;
pub(crate) use self::{
    batch::{BatchContext, Failure},
    job::{FileStep, Job, NestedResult, TenantCall},
    wal::TRUNCATED_WAL_BYTES,
};
use crate::{database_file::DatabaseFile, tenant::StoreContext};

/// The largest number of calls that wait or run. Further callers wait until a call has ended.
const MAX_WAITING_CALLS: usize = 1_024;

/// A message to the writer thread.
enum Message {
    Job(Box<dyn Job>),
    /// A call that runs before all waiting calls.
    First(Box<dyn Job>),
    /// Makes durable what was committed without a sync.
    Sync(oneshot::Sender<Result<()>>),
    /// Rebuilds the file without the space of what was removed, and empties the WAL.
    Reclaim(oneshot::Sender<Result<bool>>),
    Close(oneshot::Sender<()>),
}

/// The handle of the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: mpsc::UnboundedSender<Message>,
    permits: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread, which owns the connection.
    pub(crate) fn begin(
        conn: Connection,
        database_file: Arc<DatabaseFile>,
        store_context: Arc<StoreContext>,
    ) -> Result<Self> {
        let (queue, waiting) = mpsc::unbounded_channel();
        let builder = thread::Builder::new().name("agentstore-writer".to_owned());
        let spawned = builder.spawn(move || {
            let close_reply = WriterLoop::new(&conn, Arc::clone(&database_file), store_context).serve(waiting);
            // The connection is closed before the locks of the file are released.
            drop(conn);
            drop(database_file);
            if let Some(close_reply) = close_reply {
                // A caller that no longer waits needs no answer.
                let _unreceived = close_reply.send(());
            }
        });
        let thread =
            spawned.map_err(|e| Error::unavailable("the system cannot start another thread").with_source(e))?;
        Ok(Self { queue, permits: Arc::new(Semaphore::new(MAX_WAITING_CALLS)), thread: Mutex::new(Some(thread)) })
    }

    /// Waits until one more call may wait. The permit is released when the call ends.
    pub(crate) async fn acquire_permit(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::closed())
    }

    /// Puts a call after all waiting ones.
    pub(crate) fn put(&self, job: Box<dyn Job>) {
        self.send(Message::Job(job));
    }

    /// Puts a call before all waiting ones.
    pub(crate) fn put_first(&self, job: Box<dyn Job>) {
        self.send(Message::First(job));
    }

    /// Makes all earlier commits durable.
    pub(crate) async fn sync(&self) -> Result<()> {
        let (reply, result) = oneshot::channel();
        self.send(Message::Sync(reply));
        result.await.map_err(|error| Error::closed().with_source(error))?
    }

    /// Rebuilds the file without the space of what was removed, and empties the WAL. `false` if a read or another
    /// process prevented that.
    pub(crate) async fn reclaim(&self) -> Result<bool> {
        let (reply, result) = oneshot::channel();
        self.send(Message::Reclaim(reply));
        result.await.map_err(|error| Error::closed().with_source(error))?
    }

    fn send(&self, message: Message) {
        if let Err(mpsc::error::SendError(Message::Job(mut job) | Message::First(mut job))) = self.queue.send(message) {
            job.finish(Err(Failure::Closed));
        }
    }

    /// Ends the thread after all accepted calls.
    pub(crate) async fn close(&self) {
        self.permits.close();
        let (reply, ended) = oneshot::channel();
        self.send(Message::Close(reply));
        let _ended = ended.await;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // At this point the thread only has to return.
        thread.map(JoinHandle::join);
    }
}
