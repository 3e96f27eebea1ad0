//! Answers of a round: as they were planned, and as they are when it is known whether they were written.

use store_core::{
    AppendedEvents, AppendedInputs, Detail, Error, ErrorKind, PendingInput, Receipt, Result, Thread, Trimmed,
};

use super::{Ask, MailboxAnswer, OutboxAnswer, Wanted};
use crate::pool::Request;

/// What was written.
#[derive(Debug)]
pub(crate) enum Answer {
    Receipt(Box<Receipt>),
    Thread(Box<Thread>),
    AppendedInputs(AppendedInputs),
    Input(Box<PendingInput>),
    /// Of a queue.
    Revision(u64),
    Emitted(Box<AppendedEvents>),
    Trimmed(Trimmed),
    Outbox(Box<OutboxAnswer>),
    Mailbox(Box<MailboxAnswer>),
    Done,
}

/// A request with its answer, before anything is written.
pub(super) struct Judged {
    pub(super) request: Request<Wanted, Result<Answer>>,
    pub(super) answer: Result<Answer>,
    /// Whether nothing unwritten has part in the answer: it stays, whatever becomes of the round.
    pub(super) stands: bool,
}

impl Judged {
    /// Gives the answer, now that it is known whether the round was written.
    pub(super) fn tell(self, written: &std::result::Result<(), Failed>) {
        let Self { request, answer, stands } = self;
        let (wanted, reply) = request.split();
        reply(match (written, answer) {
            (Err(failed), Ok(_)) if !stands => Err(failed.of(&wanted.ask)),
            (Err(failed), Err(_)) if !stands => Err(failed.of_refused()),
            (_, answer) => answer,
        });
    }
}

/// Why nothing of a round was written.
pub(super) struct Failed {
    kind: ErrorKind,
    text: String,
}

impl Failed {
    pub(super) fn new(error: &Error) -> Self {
        let text = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        Self { kind: error.kind(), text }
    }

    /// The error for one of its callers.
    pub(super) fn of(&self, ask: &Ask) -> Error {
        let error = match (self.kind, ask) {
            (ErrorKind::StorageFull, _) => Error::new(Detail::StorageFull),
            (ErrorKind::Unavailable, _) => Error::unavailable("nothing was written"),
            (_, Ask::Commit(commit)) => Error::commit_unknown(commit.key.clone()),
            _ => Error::commit_unknown(None),
        };
        error.with_source(self.text.clone())
    }

    /// The error for a write that nobody else has part in.
    pub(super) fn into_error(self) -> Error {
        let error = match self.kind {
            ErrorKind::StorageFull => Error::new(Detail::StorageFull),
            ErrorKind::Unavailable => Error::unavailable("nothing was written"),
            _ => Error::commit_unknown(None),
        };
        error.with_source(self.text)
    }

    /// The error for one that was refused because of what was then not written, or may not be: it had no effect.
    fn of_refused(&self) -> Error {
        let error = match self.kind {
            ErrorKind::StorageFull => Error::new(Detail::StorageFull),
            _ => Error::unavailable("a record that the call was checked against was not written"),
        };
        error.with_source(self.text.clone())
    }
}
