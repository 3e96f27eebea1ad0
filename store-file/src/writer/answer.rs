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
    /// The request, to be judged again. A claim that was not written need not be given back.
    pub(super) fn again(self) -> Request<Wanted, Result<Answer>> {
        match self.answer {
            Ok(Answer::Mailbox(answer)) => answer.discard(),
            Ok(Answer::Outbox(answer)) => answer.discard(),
            _ => {}
        }
        self.request
    }

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
    detail: Box<Detail>,
    kind: ErrorKind,
    text: String,
}

impl Failed {
    pub(super) fn new(error: &Error) -> Self {
        let text = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        Self { detail: Box::new(error.detail().clone()), kind: error.kind(), text }
    }

    /// Whether there was no space.
    pub(super) fn is_full(&self) -> bool {
        self.kind == ErrorKind::StorageFull
    }

    /// The error for one of its callers.
    pub(super) fn of(&self, ask: &Ask) -> Error {
        let error = match (self.kind, ask) {
            (ErrorKind::StorageFull | ErrorKind::Poisoned, _) => Error::new((*self.detail).clone()),
            (ErrorKind::Unavailable, _) => Error::unavailable("nothing was written"),
            (_, Ask::Commit(commit)) => Error::commit_unknown(commit.key.clone()),
            _ => Error::commit_unknown(None),
        };
        error.with_source(self.text.clone())
    }

    /// The error for a write with a single caller.
    pub(super) fn into_error(self) -> Error {
        let error = match self.kind {
            ErrorKind::StorageFull | ErrorKind::Poisoned => Error::new(*self.detail),
            ErrorKind::Unavailable => Error::unavailable("nothing was written"),
            _ => Error::commit_unknown(None),
        };
        error.with_source(self.text)
    }

    /// The error for one that was refused because of what was then not written, or may not be: it had no effect.
    fn of_refused(&self) -> Error {
        let error = match self.kind {
            ErrorKind::StorageFull | ErrorKind::Poisoned => Error::new((*self.detail).clone()),
            _ => Error::unavailable("a record that the call was checked against was not written"),
        };
        error.with_source(self.text.clone())
    }
}
