//! The writer: plans the requests that wait, one after the other, as one round, and commits what they write as one
//! batch.
//!
//! One thread at a time has the turn of the queue. It plans a round, passes the turn on, and commits the round. During
//! the commit another thread plans the next round over the changes of the first one, which the index may not have yet.
//! Requests that come during the commit go with the next round. If the first round fails, the next one is planned
//! again.
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
//! - `commit`, `queue`, `events`, `documents`, `outbox`, `mailbox`, `claims`, `restore`: what each kind of request
//!   writes
//! - `ask`, `answer`: requests and answers; `give_back`: claims whose answer no caller received

mod answer;
mod ask;
mod claims;
mod commit;
mod documents;
mod events;
mod give_back;
mod mailbox;
mod outbox;
mod queue;
mod restore;
mod root_log;
mod round;
mod write;

use std::{collections::VecDeque, sync::MutexGuard};

use store_core::{Error, Result};

pub(crate) use self::{
    answer::Answer,
    ask::{Ask, Wanted},
    commit::shown,
    documents::DOCUMENT_PLACES,
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

/// Plans requests that waited as one round, commits it, and answers them. Requests that do not fit go back to the
/// queue. So do all requests of the round if it has to be planned again, or if it was refused and one of them may be
/// the reason.
pub(crate) fn handle(
    shared: &Shared,
    requests: Vec<Request<Wanted, Result<Answer>>>,
    turn: &Turn<'_, Wanted, Result<Answer>>,
) {
    let mut waiting = VecDeque::from(requests);
    let mut remembered = guard(&shared.writer);
    let Some(first) = waiting.front() else { return };
    if first.body.ask.reads_index() {
        // This waits until the index has the round before.
        drop(guard(&shared.committing));
    }
    let mut round = Round::new(shared, &mut remembered, first.body.key.clone());
    let mut answers = Vec::new();
    round.take(&mut waiting, &mut answers);
    while waiting.is_empty() && !round.is_broken() {
        // Requests that come while the round before is being committed go with this one.
        waiting.extend(turn.wait_for_more(|| shared.can_commit()));
        if waiting.is_empty() {
            break;
        }
        round.take(&mut waiting, &mut answers);
    }
    let claimable = round.claimable();
    let committing = Committing::begin(shared, turn);
    let end = round.end();
    // `end` has given the round to `remembered`, so the next round can be planned over it.
    drop(remembered);
    turn.put_back(waiting);
    let written = match end {
        Ok(End::Outdated) => {
            turn.put_back(answers.into_iter().map(Judged::again));
            return;
        }
        Ok(End::Planned(planned)) => {
            turn.pass_on();
            commit(shared, &planned)
        }
        Ok(End::NothingToCommit) => Ok(()),
        Err(failed) => Err(failed),
    };
    let is_one = answers.len() == 1;
    if !is_one && written.as_ref().is_err_and(Failed::is_refused) {
        // One of the requests may be the reason, so they are planned one by one.
        turn.put_back_singly(answers.drain(..).map(Judged::again).collect());
    }
    drop(committing);
    if is_one {
        // Its caller may go on at once. This thread sees that sooner than another one, which has to be woken.
        turn.take_back();
    }
    if written.is_ok() {
        claimable.into_iter().for_each(|(tenant, from)| shared.notify(&tenant, from));
    }
    answers.into_iter().for_each(|judged| judged.tell(&written));
}

/// The right to commit a round. It is taken before the lock of planning is given up. So rounds are committed in the
/// order in which they were planned.
struct Committing<'a> {
    lock: Option<MutexGuard<'a, ()>>,
    turn: &'a Turn<'a, Wanted, Result<Answer>>,
}

impl<'a> Committing<'a> {
    fn begin(shared: &'a Shared, turn: &'a Turn<'a, Wanted, Result<Answer>>) -> Self {
        Self { lock: Some(guard(&shared.committing)), turn }
    }
}

impl Drop for Committing<'_> {
    /// Wakes a thread that waits with the next round, also after a panic.
    fn drop(&mut self) {
        self.lock = None;
        self.turn.wake_next();
    }
}

/// Writes something in a round of its own. No other round is planned or committed at the same time.
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
        Ok(End::NothingToCommit) => Ok(()),
        // This does not happen: no round is being committed, so this one was not planned over one, and its batch keeps
        // its number.
        Ok(End::Outdated) => Err(Failed::new(&Error::unavailable("the round was planned over another one"))),
        Err(failed) => Err(failed),
    };
    written.map_err(Failed::into_error)?;
    Ok(made)
}

impl Round<'_> {
    /// Plans requests, as long as they can be written together. A settlement makes the round one of settlements
    /// (`How::Settles`) if nothing has to be written yet. Such a round may use the reserve, so no other request joins
    /// it. A settlement joins another round only if there is space. A request that reads the index is the first one of
    /// its round.
    fn take(&mut self, waiting: &mut Waiting, answers: &mut Vec<Judged>) {
        while let Some(request) = waiting.front() {
            let ask = &request.body.ask;
            // Only what ends work may use the reserve.
            let is_kept_apart = ask.reads_index() || (self.how == How::Settles && !ask.settles());
            let settles = self.how == How::AsAsked && ask.settles();
            let is_full = self.tails.len() > BATCH_BYTES || (settles && !self.fits());
            if !answers.is_empty() && (is_kept_apart || is_full) {
                break;
            }
            let Some(request) = waiting.pop_front() else { break };
            let was_clean = self.is_clean();
            let answer = self.judge(&request.body);
            let stands = was_clean && (answer.is_err() || self.is_clean());
            answers.push(Judged { request, answer, stands });
            if self.broken {
                // Nothing of the round is written, so the next requests are planned without it.
                break;
            }
        }
    }

    fn judge(&mut self, wanted: &Wanted) -> Result<Answer> {
        self.shared.check_writable()?;
        self.enter(wanted.key.clone())?;
        if wanted.tenant.is_closed() {
            return Err(Error::closed());
        }
        let answer = self.plan(&wanted.ask);
        if std::mem::take(&mut self.rewrite_due) {
            wanted.tenant.note_rewrite_due();
        }
        answer
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
            Ask::Documents(request) => self.documents(request, now),
            Ask::Restore(records) => self.restore(records, now).map(|()| Answer::Done),
            Ask::Trim(request) => self.trim(request, now),
            Ask::Redact(requests) => self.redact(requests),
            Ask::Outbox(ask) => self.outbox(ask, now),
            Ask::Mailbox(ask) => self.mailbox(ask, now),
        }
    }
}
