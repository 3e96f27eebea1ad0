//! Answers of a round: as they were planned, and as they are after the commit of the round has ended.

use store_core::{
    AppendedEvents, AppendedInputs, Detail, Error, ErrorKind, PendingInput, Receipt, Result, Thread, Trimmed,
    WrittenDocuments,
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
    /// How many events lost their content.
    Redacted(u64),
    Documents(Box<WrittenDocuments>),
    Outbox(Box<OutboxAnswer>),
    Mailbox(Box<MailboxAnswer>),
    Done,
}

/// A request with its answer, before anything is written.
pub(super) struct Judged {
    pub(super) request: Request<Wanted, Result<Answer>>,
    pub(super) answer: Result<Answer>,
    /// Whether the answer depends on nothing that the round writes: it stays, whatever becomes of the round. The answer
    /// may depend on the round before: that one is committed when answers are given.
    pub(super) stands: bool,
}

impl Judged {
    /// The request, to be judged again. A claim that was not written need not be given back.
    pub(super) fn again(self) -> Request<Wanted, Result<Answer>> {
        discard(self.answer);
        self.request
    }

    /// Gives the answer after the commit of the round has ended.
    pub(super) fn tell(self, written: &std::result::Result<(), Failed>) {
        let Self { request, answer, stands } = self;
        let (wanted, reply) = request.split();
        let error = match (written, &answer) {
            (Err(failed), Ok(_)) if !stands => failed.of(&wanted.ask),
            (Err(failed), Err(_)) if !stands => failed.of_refused(),
            _ => return reply(answer),
        };
        discard(answer);
        reply(Err(error));
    }
}

/// Drops an answer that no caller gets. Its claim is not released: it was not written, or the store is poisoned.
fn discard(answer: Result<Answer>) {
    match answer {
        Ok(Answer::Mailbox(answer)) => answer.discard(),
        Ok(Answer::Outbox(answer)) => answer.discard(),
        _ => {}
    }
}

/// Why a round was not committed, or may not be.
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

    /// Whether it is certain that nothing was written, and the store goes on.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.kind, ErrorKind::StorageFull | ErrorKind::Unavailable)
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

    /// The error for a request that was refused because of a record of this round. That record was not written, or may
    /// not be. The request had no effect.
    fn of_refused(&self) -> Error {
        let error = match self.kind {
            ErrorKind::StorageFull | ErrorKind::Poisoned => Error::new((*self.detail).clone()),
            _ => Error::unavailable("a record that the call was checked against was not written"),
        };
        error.with_source(self.text.clone())
    }
}
