//! OS threads that do the blocking work, and a queue that collects what waits for the writer.
//!
//! Nothing here needs a runtime: a caller holds a [`Pending`], a future that any executor can poll. Dropping it drops
//! the answer, never the work.

mod queue;
mod threads;

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use store_core::Error;
use tokio::sync::oneshot;

pub(crate) use self::{
    queue::{Queue, Request, Turn},
    threads::{DEFAULT_THREADS, Pool},
};

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Lost {
    /// The pool was closed before: the work was not accepted, and had no effect.
    #[error("the pool is closed")]
    Closed,
    /// The operating system starts no thread: the work was not accepted, and had no effect.
    #[error("the system cannot start a thread")]
    NoThread,
    /// The work panicked: it may have had an effect.
    #[error("a job panicked")]
    Panicked,
}

/// What a call that changes something answers. A call that only reads is free to say `Unavailable` for a panic.
impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Closed => Self::closed(),
            Lost::NoThread => Self::unavailable("the system cannot start another thread"),
            Lost::Panicked => Self::commit_unknown(None),
        }
        .with_source(lost)
    }
}

/// The answer to accepted work. Dropping it does not stop the work.
#[derive(Debug)]
#[must_use = "the answer tells whether the work was done"]
pub(crate) struct Pending<T>(Result<oneshot::Receiver<T>, Lost>);

impl<T> Pending<T> {
    const fn refused(lost: Lost) -> Self {
        Self(Err(lost))
    }

    fn accepted() -> (oneshot::Sender<T>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(Ok(receiver)))
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Err(lost) => Poll::Ready(Err(*lost)),
            // Only a panic drops a sender without an answer: what is accepted is done before the threads end.
            Ok(receiver) => Pin::new(receiver).poll(context).map_err(|_| Lost::Panicked),
        }
    }
}

#[cfg(test)]
mod tests;
