//! The one writer: takes all requests that wait, plans one after the other, and commits what they write as one batch.
//!
//! While a thread commits a round, another one plans the next: over the changes of the first, which the index may not
//! have yet. If the first one fails, the next one is planned again.
//!
//! ```text
//!   writer       │ plan 1 │ plan 2        │ plan 3 …
//!   committing            │ commit 1      │ commit 2     │ …      journal, logs, index
//!                                         answers of 1   answers of 2
//! ```
//!
//! - `round`: what is planned and not written yet, over any number of logs
//! - `root_log`: facts about several threads
//! - `write`: the end of a round: one batch of the journal, then the index
//! - `commit`, `queue`, `events`, `outbox`, `mailbox`: what each kind of request writes
//! - `ask`, `answer`: requests and answers; `give_back`: claims whose answer no caller received

mod answer;
mod ask;
mod commit;
mod events;
mod give_back;
mod mailbox;
mod outbox;
mod queue;
mod root_log;
mod round;
mod write;

use std::collections::VecDeque;

use store_core::{Error, ErrorKind, Result};

pub(crate) use self::{
    answer::Answer,
    ask::{Ask, Wanted},
    commit::shown,
    give_back::GiveBack,
    mailbox::{MailboxAnswer, MailboxAsk},
    outbox::{OutboxAnswer, OutboxAsk},
    round::{How, Round},
};
use self::{
    answer::{Failed, Judged},
    write::{End, commit},
};
use crate::{
    mutex::guard,
    names::LogKey,
    pool::{Queue, Request, Turn},
    shared::Shared,
};

/// A batch is not made larger than about this.
const BATCH_BYTES: usize = 16 << 20;

/// The queue of the store's writer.
pub(crate) type Writers = Queue<Wanted, Result<Answer>>;

type Waiting = VecDeque<Request<Wanted, Result<Answer>>>;

/// Answers requests that waited. Those that do not fit into one round go back to the queue.
pub(crate) fn handle(
    shared: &Shared,
    requests: Vec<Request<Wanted, Result<Answer>>>,
    turn: &mut Turn<'_, Wanted, Result<Answer>>,
) {
    let mut waiting = Waiting::from(requests);
    let mut most = usize::MAX;
    while !waiting.is_empty() {
        most = round(shared, &mut waiting, (most, turn));
    }
}

/// Takes as many requests as can be written together, at most so many. How many the next round may take.
fn round(
    shared: &Shared,
    waiting: &mut Waiting,
    (most, turn): (usize, &mut Turn<'_, Wanted, Result<Answer>>),
) -> usize {
    let mut remembered = guard(&shared.writer);
    let Some(first) = waiting.front() else { return most };
    if first.body.ask.reads_index() {
        // The round before has to be in the index.
        drop(guard(&shared.committing));
    }
    let mut round = Round::new(shared, &mut remembered, first.body.key.clone());
    let mut answers = Vec::new();
    round.take(waiting, most, &mut answers);
    while most > 1 && waiting.is_empty() && !round.is_broken() {
        // While the round before is being committed, what comes goes with this one.
        waiting.extend(turn.wait_for_more(|| shared.committing.try_lock().is_ok()));
        if waiting.is_empty() {
            break;
        }
        round.take(waiting, most, &mut answers);
    }
    if round.is_broken() && answers.len() > 1 {
        // One request failed in the middle of its changes. The others have nothing to do with it.
        let last = answers.pop();
        drop(round);
        drop(remembered);
        put_back(waiting, answers);
        last.into_iter().for_each(|judged| judged.tell(&Ok(())));
        return most;
    }
    let claimable = round.claimable();
    let committing = guard(&shared.committing);
    let end = round.end();
    drop(remembered);
    let written = match end {
        Ok(End::Outdated) => {
            drop(committing);
            turn.wake_next();
            put_back(waiting, answers);
            return most;
        }
        Ok(End::Planned(planned)) => {
            turn.pass_on(waiting);
            commit(shared, &planned)
        }
        Ok(End::Written) => Ok(()),
        Err(failed) => Err(failed),
    };
    drop(committing);
    turn.wake_next();
    if let (Err(failed), true) = (&written, answers.len() > 1)
        && failed.is_full()
    {
        // There may be space for some of them.
        put_back(waiting, answers);
        return 1;
    }
    if written.is_ok() {
        claimable.into_iter().for_each(|(tenant, from)| shared.notify(&tenant, from));
    }
    answers.into_iter().for_each(|judged| judged.tell(&written));
    most
}

/// Lets requests be judged again: nothing of them was written.
fn put_back(waiting: &mut Waiting, answers: Vec<Judged>) {
    answers.into_iter().rev().for_each(|judged| waiting.push_front(judged.again()));
}

/// Writes something in a round of its own. No other round is planned or committed meanwhile.
pub(crate) fn alone<T>(
    shared: &Shared,
    key: LogKey,
    how: How,
    make: impl FnOnce(&mut Round<'_>) -> Result<T>,
) -> Result<T> {
    let mut exclusive = shared.exclusive();
    shared.check_sound()?;
    let mut round = Round::new(shared, &mut exclusive.remembered, key);
    round.how = how;
    let made = make(&mut round)?;
    let written = match round.end() {
        Ok(End::Planned(planned)) => commit(shared, &planned),
        Ok(End::Written) => Ok(()),
        // No round was before it.
        Ok(End::Outdated) => Err(Failed::new(&Error::unavailable("the round was planned over another one"))),
        Err(failed) => Err(failed),
    };
    written.map_err(Failed::into_error)?;
    Ok(made)
}

impl Round<'_> {
    /// Plans requests, as long as they can be written together and their answers are at most so many.
    fn take(&mut self, waiting: &mut Waiting, most: usize, answers: &mut Vec<Judged>) {
        while let Some(request) = waiting.front() {
            let later = !answers.is_empty();
            let ask = &request.body.ask;
            // Only what ends work may use the reserve.
            let alone = ask.reads_index() || (self.how == How::Settles && !ask.settles());
            let settles = later && self.how == How::AsAsked && ask.settles();
            let is_full = answers.len() >= most || self.tails.len() > BATCH_BYTES;
            if later && (is_full || alone || (settles && !self.fits())) {
                break;
            }
            let Some(request) = waiting.pop_front() else { break };
            let was_clean = self.is_clean();
            let answer = self.judge(&request.body);
            let stands = was_clean && (answer.is_err() || self.is_clean());
            // The code that made the error does not know the commit key.
            let answer = answer.map_err(|error| match error.kind() {
                ErrorKind::CommitUnknown => Failed::new(&error).of(&request.body.ask),
                _ => error,
            });
            answers.push(Judged { request, answer, stands });
            if self.broken {
                // Nothing of the round is written: what comes next is judged by what is.
                break;
            }
        }
    }

    fn judge(&mut self, wanted: &Wanted) -> Result<Answer> {
        self.shared.check_writable()?;
        self.enter(wanted.key.clone())?;
        if wanted.tenant.is_closed() { Err(Error::closed()) } else { self.plan(&wanted.ask) }
    }

    /// Whether there is space for what waits to be written.
    fn fits(&self) -> bool {
        self.shared.check_space(store_core::length(self.tails.len())).is_ok()
    }

    fn plan(&mut self, ask: &Ask) -> Result<Answer> {
        let now = self.shared.time.now();
        if ask.settles() && self.how == How::AsAsked && self.is_clean() {
            self.how = How::Settles;
        }
        match ask {
            Ask::Commit(commit) => self.commit(commit, now),
            Ask::Create(new) => self.create(new, now),
            Ask::Update(patch, expect) => self.update(patch, *expect, now),
            Ask::ResetFence => self.reset_fence().map(|()| Answer::Done),
            Ask::Append(_) | Ask::Change(_) | Ask::Retract(_) | Ask::Reorder(_) => self.queue(ask, now),
            Ask::Emit(request) => self.emit(request, now),
            Ask::Trim(request) => self.trim(request, now),
            Ask::Outbox(ask) => self.outbox(ask, now),
            Ask::Mailbox(ask) => self.mailbox(ask, now),
        }
    }
}
