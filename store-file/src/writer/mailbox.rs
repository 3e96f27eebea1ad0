//! The mailbox: what producers and workers ask for, decided by core and written to the log of the mailbox. A settlement
//! that comes with a commit is written to the log of its thread.

use std::{collections::BTreeMap, time::Duration};

use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchId, Enqueued, Error, InstanceId, Interrupt,
    Interrupted, NewDispatch, Purge, Purged, Reclaimed, Requeue, RequeueChoice, Result, Settled, Settlement, Timestamp,
    commit::{DecisionContext, Plan},
    length,
    mailbox::{self, MailboxDecision, MailboxPlan},
};

use super::{
    Answer, BATCH_BYTES, Round,
    give_back::{GiveBack, OnTheWay},
};
use crate::{
    dispatch_lists::{dead_letters, ended},
    dispatch_rows::MailboxRows,
    dispatches::{MailboxTable, check},
    fold,
    line::{CommitLine, DispatchLine, Line, MailboxLine, mailbox_lines},
    names::{Part, mailbox_log_id},
    staged::Staged,
    table,
};

/// What the mailbox of a tenant is asked for.
#[derive(Debug)]
pub(crate) enum MailboxAsk {
    Enqueue(Vec<NewDispatch>),
    Cancel(DispatchId),
    Interrupt(Interrupt),
    Claim(ClaimRequest, GiveBack),
    Extend(ClaimRef, Duration),
    Start(ClaimRef, InstanceId),
    Settle(Vec<(ClaimRef, Settlement)>),
    Reclaim(u32),
    Purge(Purge),
    Requeue(Requeue),
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum MailboxAnswer {
    Enqueued(Vec<Result<Enqueued>>),
    Dispatch(Box<Dispatch>),
    Interrupted(Interrupted),
    Claimed(OnTheWay<Claims>),
    Held(DispatchClaim),
    Settled(Vec<Result<Settled>>),
    Reclaimed(Reclaimed),
    Purged(Purged),
    Requeued(Vec<(DispatchId, Result<Dispatch>)>),
}

/// The lines of a group that is being made: each is worked in at once.
#[derive(Debug, Default)]
pub(super) struct OpenGroup {
    texts: Vec<String>,
    bytes: usize,
}

impl OpenGroup {
    fn push(&mut self, text: String) {
        self.bytes += text.len() + 1;
        self.texts.push(text);
    }
}

impl MailboxAnswer {
    /// Drops an answer that no caller gets. Its claim is not released.
    pub(super) fn discard(self) {
        if let Self::Claimed(claimed) = self {
            drop(claimed.received());
        }
    }
}

impl Round<'_> {
    /// Decides about mailboxes, and writes what that changes.
    ///
    /// What a call changes is one group, unless it is very large.
    pub(super) fn mailbox(&mut self, ask: &MailboxAsk, now: Timestamp) -> Result<Answer> {
        check(self.shared, &self.key.0)?;
        let decided = self.one_group(now, |round| round.decide(ask, now))?;
        Ok(Answer::Mailbox(Box::new(decided?)))
    }

    /// Makes changes that go into one group.
    fn one_group<T>(&mut self, now: Timestamp, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let changed = change(self).and_then(|changed| self.close_group(now).map(|()| changed));
        // A change that does not come into the log must not show.
        self.broken |= changed.is_err() && self.open.bytes > 0;
        self.open = OpenGroup::default();
        changed
    }

    /// Decides about one call. The inner result is its answer: a refusal may change something, too. After an outer
    /// error nothing of the call comes into the log.
    fn decide(&mut self, ask: &MailboxAsk, now: Timestamp) -> Result<Result<MailboxAnswer>> {
        Ok(Ok(match ask {
            MailboxAsk::Enqueue(dispatches) => {
                mailbox::check_item_count(dispatches.len(), &self.shared.limits)?;
                let one = |new| self.change(now, |view, setting| mailbox::enqueue(view, new, setting));
                MailboxAnswer::Enqueued(dispatches.iter().map(one).collect::<Result<_>>()?)
            }
            MailboxAsk::Cancel(id) => {
                let view = self.table(now)?.with_payloads().despite_damage();
                let dispatch = self.put_change(mailbox::cancel(&view, id, self.setting(now)), now)?;
                return Ok(dispatch.map(|dispatch| MailboxAnswer::Dispatch(Box::new(dispatch))));
            }
            MailboxAsk::Interrupt(request) => {
                let interrupted = self.change(now, |view, setting| mailbox::interrupt(view, request, setting))?;
                return Ok(interrupted.map(MailboxAnswer::Interrupted));
            }
            MailboxAsk::Claim(request, back) => {
                MailboxAnswer::Claimed(OnTheWay::new(self.claim(request, now)?, back.clone()))
            }
            MailboxAsk::Extend(claim, by) => {
                let extended = self.change(now, |view, setting| mailbox::extend(view, claim, *by, setting))?;
                return Ok(extended.map(MailboxAnswer::Held));
            }
            MailboxAsk::Start(claim, instance) => {
                let started = self.change(now, |view, setting| mailbox::start(view, claim, instance, setting))?;
                return Ok(started.map(MailboxAnswer::Held));
            }
            MailboxAsk::Settle(settlements) => {
                mailbox::check_item_count(settlements.len(), &self.shared.limits)?;
                let one = |(claim, settlement): &(ClaimRef, Settlement)| {
                    self.change(now, |view, setting| mailbox::settle(view, claim, settlement, setting))
                };
                MailboxAnswer::Settled(settlements.iter().map(one).collect::<Result<_>>()?)
            }
            MailboxAsk::Reclaim(limit) => MailboxAnswer::Reclaimed(self.reclaim(*limit, now)?),
            MailboxAsk::Purge(request) => MailboxAnswer::Purged(self.purge(request, now)?),
            MailboxAsk::Requeue(request) => MailboxAnswer::Requeued(self.requeue(request, now)?),
        }))
    }

    /// What the rules of the mailbox read.
    pub(super) fn table(&self, now: Timestamp) -> Result<MailboxTable<'_, Staged<'_>>> {
        MailboxTable::new(&self.staged, self.shared, &self.key.0).beside(&self.tails).claiming(now)
    }

    /// Makes one decision, which may be a refusal, and puts what it changes into the group.
    pub(super) fn change<T>(
        &mut self,
        now: Timestamp,
        decide: impl FnOnce(&MailboxTable<'_, Staged<'_>>, DecisionContext<'_>) -> Result<MailboxDecision<T>>,
    ) -> Result<Result<T>> {
        let decided = decide(&self.table(now)?, self.setting(now));
        self.put_change(decided, now)
    }

    /// Makes one decision whose answer shows a dispatch with its payload, and puts what it changes into the group.
    pub(super) fn change_whole<T>(
        &mut self,
        now: Timestamp,
        decide: impl FnOnce(&MailboxTable<'_, Staged<'_>>, DecisionContext<'_>) -> Result<MailboxDecision<T>>,
    ) -> Result<Result<T>> {
        let decided = decide(&self.table(now)?.with_payloads(), self.setting(now));
        self.put_change(decided, now)
    }

    fn put_change<T>(&mut self, decided: Result<MailboxDecision<T>>, now: Timestamp) -> Result<Result<T>> {
        match decided {
            Ok(change) => {
                if let Some(plan) = change.plan {
                    self.put_plan(*plan, now)?;
                }
                Ok(change.answer)
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Writes what a commit that makes no thread changes: a claim number, and the end of a claim.
    pub(super) fn put_without_thread(&mut self, plan: Plan, now: Timestamp) -> Result<()> {
        self.remember_fence(plan.id_record.fence)?;
        let Some(settlement) = plan.mailbox else { return Ok(()) };
        let put = self
            .enter((self.key.0.clone(), mailbox_log_id()?, Part::Events))
            .and_then(|()| self.one_group(now, |round| round.put_plan(*settlement, now)));
        // The claim number alone must not stay of a commit that is refused.
        self.broken |= put.is_err();
        put
    }

    fn put_plan(&mut self, plan: MailboxPlan, now: Timestamp) -> Result<()> {
        let claimable_from = plan.claimable_from();
        let is_made = self.staged.number(&table::mailbox_made(&self.key.0))?.is_some();
        let made = if is_made { None } else { Some(Line::MailboxMade(self.staged.claims(&self.key.0, now)?)) };
        let lines: Vec<Line> = made.into_iter().chain(mailbox_lines(plan)).collect();
        self.put_lines(lines, now)?;
        self.brings(claimable_from);
        Ok(())
    }

    /// Writes lines as one group, unless they are very many.
    pub(super) fn put_mailbox_lines(&mut self, lines: Vec<Line>, now: Timestamp) -> Result<()> {
        self.one_group(now, |round| round.put_lines(lines, now))
    }

    /// Works lines into the rows that later requests are judged by, and puts them into the group.
    fn put_lines(&mut self, lines: Vec<Line>, now: Timestamp) -> Result<()> {
        let owner = self.owner(0)?;
        for line in lines {
            let text = line.encode();
            let tail = self.tails.get(owner.log).ok_or_else(Error::closed)?;
            let span = tail.place(self.open.bytes, &text);
            self.open.push(text);
            fold::mailbox::line(&mut self.staged, &owner, (&line, span))?;
        }
        if self.open.bytes > BATCH_BYTES { self.close_group(now) } else { Ok(()) }
    }

    /// Adds the group to the batch, if it has anything.
    fn close_group(&mut self, now: Timestamp) -> Result<()> {
        let OpenGroup { texts, .. } = std::mem::take(&mut self.open);
        if texts.is_empty() {
            return Ok(());
        }
        let commit = CommitLine { time: now, updated_at: now, ..CommitLine::default() };
        let put = self.group(0, Vec::new(), &texts, commit);
        self.broken |= put.is_err();
        put
    }

    fn purge(&mut self, request: &Purge, now: Timestamp) -> Result<Purged> {
        request.check()?;
        let ids = ended(&self.staged, &self.key.0, request)?;
        if request.dry_run {
            return Ok(Purged::new(length(ids.len())));
        }
        let mut removed = 0;
        for id in &ids {
            let gone = self.change(now, |view, setting| mailbox::purge(view, id, request.before, setting))??;
            removed += u64::from(gone);
        }
        Ok(Purged::new(removed))
    }

    fn requeue(&mut self, request: &Requeue, now: Timestamp) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        request.check(&self.shared.limits)?;
        let ids = match &request.choice {
            RequeueChoice::Ids(ids) => ids.clone(),
            RequeueChoice::Filter { filter, limit } => {
                dead_letters(&self.staged, self.shared, &self.key.0, (filter, *limit))?
            }
        };
        let mut requeued = Vec::with_capacity(ids.len());
        for id in ids {
            let answer = self.change_whole(now, |view, setting| mailbox::requeue(view, &id, setting))?;
            requeued.push((id, answer));
        }
        Ok(requeued)
    }
}

impl Round<'_> {
    /// Writes the newest states of these dispatches, which are in a log that is purged, to the log of the mailbox, up
    /// to about a number of bytes. The caller has entered the log of the mailbox. Returns how many of the dispatches
    /// are done.
    pub(crate) fn move_states(&mut self, from: (u64, u64), ids: &[DispatchId]) -> Result<usize> {
        let (from, most) = from;
        let tenant = self.key.0.clone();
        let (mut lines, mut threads) = (Vec::new(), BTreeMap::new());
        let (mut done, mut bytes) = (0, 0);
        for id in ids {
            if bytes > most {
                break;
            }
            done += 1;
            let Some(row) = self.staged.dispatch_row(&tenant, id)?.filter(|row| row.state_log == from) else {
                continue;
            };
            let thread = row.body.thread;
            if let Some(found) = self.staged.mailbox_row(&tenant, &thread)? {
                threads.insert(thread, found.mailbox);
            }
            let line = DispatchLine { id: id.clone(), number: row.body.number, state: row.state };
            let line = Line::DispatchState(Box::new(line));
            bytes += length(line.encode().len());
            lines.push(line);
        }
        let threads = threads.into_iter();
        lines.extend(threads.map(|(thread, mailbox)| Line::Mailbox(Box::new(MailboxLine { thread, mailbox }))));
        let now = self.shared.time.now();
        if !lines.is_empty() {
            self.put_lines(lines, now)?;
            self.close_group(now)?;
        }
        Ok(done)
    }
}
