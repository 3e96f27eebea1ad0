//! The thread that writes: it takes all calls that wait, commits them together, and answers.

mod batch;
mod job;
mod log;

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use rusqlite::Connection;
use store_core::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use self::batch::Desk;
pub(crate) use self::{
    batch::{Failure, Turn},
    job::{Call, Decided, Job, Step},
    log::WAL_BYTES,
};
use crate::{place::Place, tenant::Fixed};

/// How many calls may wait. More wait to be let in.
const ROOM: usize = 1_024;

/// What the thread is told.
enum Message {
    Job(Box<dyn Job>),
    /// Comes before all that waits.
    First(Box<dyn Job>),
    /// Makes durable what was committed without a sync.
    Sync(oneshot::Sender<Result<()>>),
    Close(oneshot::Sender<()>),
}

/// The way to the thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: mpsc::UnboundedSender<Message>,
    room: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Begins the thread, which owns the connection.
    pub(crate) fn begin(conn: Connection, place: Arc<Place>, fixed: Arc<Fixed>) -> Result<Self> {
        let (queue, waiting) = mpsc::unbounded_channel();
        let named = thread::Builder::new().name("agentstore-writer".to_owned());
        let begun = named.spawn(move || {
            let closing = Desk::new(&conn, Arc::clone(&place), fixed).serve(waiting);
            // The file is closed before the place is given up.
            drop(conn);
            drop(place);
            if let Some(closing) = closing {
                let _nobody = closing.send(());
            }
        });
        let thread = begun.map_err(|e| Error::unavailable("the system gives no more threads").with_source(e))?;
        Ok(Self { queue, room: Arc::new(Semaphore::new(ROOM)), thread: Mutex::new(Some(thread)) })
    }

    /// Waits until there is room for one more call. It is given back when the call ended.
    pub(crate) async fn room(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.room).acquire_owned().await.map_err(|_| Error::closed())
    }

    /// Puts a call behind all that wait.
    pub(crate) fn put(&self, job: Box<dyn Job>) {
        self.send(Message::Job(job));
    }

    /// Puts a call before all that wait.
    pub(crate) fn put_first(&self, job: Box<dyn Job>) {
        self.send(Message::First(job));
    }

    /// Makes durable all that was committed before.
    pub(crate) async fn sync(&self) -> Result<()> {
        let (reply, synced) = oneshot::channel();
        self.send(Message::Sync(reply));
        synced.await.map_err(|lost| Error::closed().with_source(lost))?
    }

    fn send(&self, message: Message) {
        if let Err(mpsc::error::SendError(Message::Job(mut job) | Message::First(mut job))) = self.queue.send(message) {
            job.end(Err(Failure::Closed));
        }
    }

    /// Ends the thread behind all that was accepted.
    pub(crate) async fn close(&self) {
        self.room.close();
        let (reply, ended) = oneshot::channel();
        self.send(Message::Close(reply));
        let _ended = ended.await;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // It has only to return by now.
        thread.map(JoinHandle::join);
    }
}
