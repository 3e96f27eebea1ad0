//! The writer of a thread: takes all requests that wait for it, plans one after the other, writes once, syncs once.

mod answer;
mod ask;
mod events;
mod load;
mod mailbox;
mod outbox;
mod queue;
mod write;

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use store_core::{
    ClaimNumber, Commit, Error, ErrorKind, Expect, NewThread, Result, Thread, ThreadId, ThreadPatch, Timestamp,
    commit::{self, CommitDecision, CommitView, DecisionContext, Plan},
    mailbox::MailboxPlan,
    thread::{self, StoredThread, ThreadChange},
};

use self::answer::{Failed, Judged};
pub(crate) use self::{
    answer::Answer,
    ask::{Ask, Wanted},
    events::append_to,
    load::load,
    mailbox::{MailboxAnswer, MailboxAsk, move_states},
    outbox::{OutboxAnswer, OutboxAsk, move_rows},
};
use crate::{
    fold::{self, Lines, Owner, Told},
    held::Held,
    line::{self, CommitLine, Line, OutboxLine, StateLine, ThreadLine},
    log::{Batch, LogWriter},
    pool::Request,
    shared::{Loaded, LogKey, Shared, guard},
    staged::Staged,
    view::{Unwritten, View, stamp},
};

/// A batch is not made larger than about this.
const BATCH_BYTES: usize = 16 << 20;

type Waiting = VecDeque<Request<Wanted, Result<Answer>>>;

/// Answers all requests that wait for a thread.
pub(crate) fn handle(shared: &Arc<Shared>, key: &LogKey, requests: Vec<Request<Wanted, Result<Answer>>>) {
    let mut waiting = Waiting::from(requests);
    while !waiting.is_empty() {
        round(shared, key, &mut waiting);
    }
}

/// Takes as many requests as can be written together. The first one waits for what it needs of other threads while
/// nothing is held; one further back that would have to wait begins a round of its own.
fn round(shared: &Arc<Shared>, key: &LogKey, waiting: &mut Waiting) {
    let Some(first) = waiting.front() else { return };
    let family = first.body.ask.needs_family().then(|| shared.family(&key.0));
    let _family = family.as_deref().map(guard);
    let mut held = Held::new(shared, &key.0);
    match first.body.ask.resources(&shared.index.snapshot(), key) {
        Ok(resources) => drop(held.take_all(resources, true)),
        Err(error) => {
            let Some(request) = waiting.pop_front() else { return };
            return Judged { request, answer: Err(error), stands: true }.tell(&Ok(()));
        }
    }
    let _writing = shared.writing.read();
    let slot = shared.slot(key);
    let mut loaded = guard(&slot);
    let mut round = Round::new(shared, key);
    let answers = match round.load(&mut loaded) {
        Ok(()) => round.take(waiting, family.is_some(), &mut held),
        Err(error) => {
            let refused = |request| Judged { request, answer: Err(error), stands: true };
            waiting.pop_front().map(refused).into_iter().collect()
        }
    };
    let claimable_from = round.claimable_from;
    let written = round.write(&mut loaded);
    drop(loaded);
    drop(held);
    if let (Some(from), true) = (claimable_from, written.is_ok()) {
        shared.notify(&key.0, from);
    }
    answers.into_iter().for_each(|judged| judged.tell(&written));
    // A failed sync has poisoned the store; the next write says so.
    let _ = shared.sync_if_many_are_dirty();
}

/// When the groups of a round are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// As the store was asked to make them.
    AsAsked,
    /// Before they show.
    Durable,
    /// As the store was asked to; they may use the reserve, so that work can be ended on a full disk (FI-7).
    Settles,
    /// Before they show: they take the place of others that go then. They may use the reserve, as that makes space.
    Moves,
}

struct Round<'a> {
    shared: &'a Shared,
    key: &'a LogKey,
    staged: Staged<'a>,
    unwritten: Unwritten,
    told: Told,
    log: Option<u64>,
    batch: Option<Batch>,
    /// What a call of the mailbox changes.
    open: mailbox::OpenGroup,
    /// From when on a claim may find what the round brings.
    claimable_from: Option<Timestamp>,
    /// A log that has to be made for the first group.
    fresh: Option<LogWriter>,
    loaded: bool,
    how: How,
    /// Something failed in the middle of a change: nothing of the round is written.
    broken: bool,
}

impl<'a> Round<'a> {
    fn new(shared: &'a Shared, key: &'a LogKey) -> Self {
        Self {
            shared,
            key,
            staged: Staged::new(&shared.index),
            unwritten: Unwritten::default(),
            told: Told::default(),
            log: None,
            batch: None,
            open: mailbox::OpenGroup::default(),
            claimable_from: None,
            fresh: None,
            loaded: false,
            how: How::AsAsked,
            broken: false,
        }
    }

    /// The thread as it stands, from the slot or the index.
    fn load(&mut self, slot: &mut Option<Loaded>) -> Result<()> {
        self.shared.check_writable()?;
        if slot.is_none() {
            *slot = Some(load(self.shared, self.key)?);
        }
        if let Some(loaded) = slot {
            self.told = loaded.told.clone();
            self.log = loaded.log.as_ref().map(|(log, _)| *log);
            self.batch = loaded.log.as_ref().map(|(_, writer)| writer.batch());
        }
        self.loaded = true;
        Ok(())
    }

    fn take(&mut self, waiting: &mut Waiting, family: bool, held: &mut Held<'_>) -> Vec<Judged> {
        let mut answers = Vec::new();
        while let Some(request) = waiting.front() {
            let later = !answers.is_empty();
            let full = self.batch.as_ref().is_some_and(|batch| batch.len() > BATCH_BYTES);
            // A trim looks at what is in the index; only what ends work may use the reserve.
            let alone =
                matches!(request.body.ask, Ask::Trim(_)) || (self.how == How::Settles && !request.body.ask.settles());
            let settles = later && self.how == How::AsAsked && request.body.ask.settles();
            let alone = alone || (settles && !self.fits());
            if later && (full || alone || (request.body.ask.needs_family() && !family)) {
                break;
            }
            if later && !self.holds_for(&request.body.ask, held) {
                break;
            }
            let Some(request) = waiting.pop_front() else { break };
            let closed = request.body.tenant.is_closed();
            let ask = &request.body.ask;
            let is_first = self.is_clean() && !self.broken;
            let answer = if closed { Err(Error::closed()) } else { self.plan(ask, held) };
            let stands = is_first && (answer.is_err() || self.is_clean());
            // Whoever made the error knows no key.
            let answer = answer.map_err(|error| match error.kind() {
                ErrorKind::CommitUnknown => Failed::new(&error).of(ask),
                _ => error,
            });
            answers.push(Judged { request, answer, stands });
            if self.broken {
                // Nothing of the round is written: what comes next is judged by what is.
                break;
            }
        }
        answers
    }

    /// Whether there is space for what waits to be written.
    fn fits(&self) -> bool {
        let bytes = self.batch.as_ref().map_or(0, Batch::len);
        self.shared.check_space(store_core::length(bytes)).is_ok()
    }

    /// Whether nothing waits to be written.
    fn is_clean(&self) -> bool {
        self.batch.as_ref().is_none_or(Batch::is_empty)
    }

    /// Whether what a request needs of other threads is held without waiting.
    fn holds_for(&self, ask: &Ask, held: &mut Held<'_>) -> bool {
        ask.resources(&self.staged, self.key).is_ok_and(|resources| held.take_all(resources, false))
    }

    fn plan(&mut self, ask: &Ask, held: &mut Held<'_>) -> Result<Answer> {
        // The request before may have failed to make a log or to write a fact.
        self.shared.check_sound()?;
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
            Ask::Mailbox(ask) => self.mailbox(ask, held, now),
        }
    }

    fn view(&self) -> View<'_> {
        View {
            shared: self.shared,
            staged: &self.staged,
            unwritten: &self.unwritten,
            tenant: &self.key.0,
            told: &self.told,
            log: self.log,
        }
    }

    fn setting(&self, now: Timestamp) -> DecisionContext<'a> {
        DecisionContext::new(now, &self.shared.limits, &*self.shared.config.ids)
    }

    fn commit(&mut self, commit: &Commit, now: Timestamp) -> Result<Answer> {
        match commit::plan(&self.view(), commit, self.setting(now))? {
            CommitDecision::Repeat(receipt) => Ok(Answer::Receipt(receipt)),
            CommitDecision::Write(plan) => {
                let receipt = plan.receipt.clone();
                self.put(commit, *plan, now)?;
                Ok(Answer::Receipt(Box::new(receipt)))
            }
        }
    }

    fn put(&mut self, commit: &Commit, plan: Plan, now: Timestamp) -> Result<()> {
        let Some(stored) = &plan.thread else { return self.put_without_thread(plan, now) };
        let mut lines = Vec::new();
        if plan.creates_thread {
            lines.push(Line::Thread(ThreadLine::of(&stored.thread)));
        }
        let mut texts: Vec<String> = lines.iter().map(Line::encode).collect();
        for planned in &plan.entries {
            texts.push(line::entry(&planned.text, &planned.node));
            lines.push(Line::Entry(Box::new((planned.entry.clone(), planned.node.clone()))));
        }
        let state = commit.state.as_ref().map(|_| {
            Line::State(StateLine {
                write: plan.state.clone(),
                revision: stored.thread.state_revision,
                keys: stored.state_keys,
                bytes: stored.state_bytes,
            })
        });
        let queue = line::queue_lines(&stored.queue, plan.queue.clone());
        let events = plan.events.into_iter().flat_map(line::event_lines);
        let runs = plan.runs.iter().map(|run| Line::Run(Box::new(run.clone())));
        let rows = plan
            .outbox
            .rows
            .into_iter()
            .map(|(stored, payload)| Line::Outbox(Box::new(OutboxLine { stored, payload })));
        let claimable_from = plan.mailbox.as_deref().and_then(MailboxPlan::claimable_from);
        let settlement = plan.mailbox.into_iter().flat_map(|plan| line::mailbox_lines(*plan));
        for line in runs.chain(state).chain(queue).chain(events).chain(rows).chain(settlement) {
            texts.push(line.encode());
            lines.push(line);
        }
        let commit_line = CommitLine {
            time: stored.last_time,
            updated_at: stored.thread.updated_at,
            fence: plan.id_record.fence,
            run: commit.run.as_ref().map(|run| run.id.clone()),
            key: plan.key.clone().map(|record| (record.key, record.digest, record.receipt)),
        };
        let emitted = events::emitted(&lines);
        self.group(stored.thread.generation(), lines, &texts, commit_line)?;
        self.brings(claimable_from);
        self.unwritten.events.extend(emitted);
        self.unwritten.runs.extend(plan.runs.into_iter().map(|run| (run.id.clone(), run)));
        self.unwritten.keys.extend(plan.key.map(|record| (record.key.clone(), record)));
        Ok(())
    }

    fn create(&mut self, new: &NewThread, now: Timestamp) -> Result<Answer> {
        let incarnation = self.shared.meta.incarnation();
        let moment = (now, incarnation);
        let stored = thread::create(self.told.stored.as_ref(), &self.told.id, new, &self.shared.limits, moment)?;
        if let Some(parent) = &new.fields.parent_thread_id {
            let found = self.view().thread_exists(parent)?;
            thread::check_parent(&new.id, parent, if found { std::slice::from_ref(parent) } else { &[] })?;
        }
        self.fields(&stored, self.told.id.fence)?;
        Ok(Answer::Thread(Box::new(stored.thread)))
    }

    fn update(&mut self, patch: &ThreadPatch, expect: Expect, now: Timestamp) -> Result<Answer> {
        let (view, mut fenced) = (self.view(), self.told.id.clone());
        let lineage = |parent: &ThreadId| {
            view.thread_exists(parent)?;
            crate::threads::ancestors(self.shared, &self.key.0, parent)
        };
        let (request, before) = ((&self.key.1, patch, expect), (view.thread()?, &mut fenced));
        let change = thread::update(request, before, view.fenced_mailbox(), lineage, (&self.shared.limits, now))?;
        match change {
            ThreadChange::Unchanged(stored) => {
                if fenced.fence != self.told.id.fence {
                    let commit = CommitLine { fence: fenced.fence, ..self.bare(&stored) };
                    self.group(stored.thread.generation(), Vec::new(), &[], commit)?;
                }
                Ok(Answer::Thread(Box::new(stored.thread)))
            }
            ThreadChange::Changed(stored) => {
                self.fields(&stored, fenced.fence)?;
                Ok(Answer::Thread(Box::new(stored.thread)))
            }
        }
    }

    /// Writes a thread's own fields, and the highest claim number.
    fn fields(&mut self, stored: &StoredThread, fence: Option<ClaimNumber>) -> Result<()> {
        let line = Line::Thread(ThreadLine::of(&stored.thread));
        let text = line.encode();
        let commit = CommitLine { fence, ..self.bare(stored) };
        self.group(stored.thread.generation(), vec![line], &[text], commit)
    }

    fn bare(&self, stored: &StoredThread) -> CommitLine {
        CommitLine {
            time: stored.last_time,
            updated_at: stored.thread.updated_at,
            fence: self.told.id.fence,
            ..CommitLine::default()
        }
    }

    /// Forgets the claim number. It belongs to the id: to prune, the thread stays as idle as it was (TH-26).
    fn reset_fence(&mut self) -> Result<()> {
        if self.told.id.fence.is_none() {
            return Ok(());
        }
        let Some(stored) = self.told.stored.clone() else {
            return crate::deletion::remember_fence(self.shared, self.key, None::<ClaimNumber>, &mut self.told);
        };
        let commit = CommitLine { fence: None, ..self.bare(&stored) };
        self.group(stored.thread.generation(), Vec::new(), &[], commit)
    }

    /// Adds a group to the batch, and works it into what later requests of the round are judged by.
    fn group(&mut self, generation: u64, lines: Vec<Line>, texts: &[String], commit: CommitLine) -> Result<()> {
        let owner = self.owner(generation)?;
        let batch = self.batch.as_mut().ok_or_else(Error::closed)?;
        let placed = batch.push(texts, &commit.encode())?;
        let lines = lines.into_iter().zip(placed.lines).collect();
        let group = Lines { lines, commit, commit_span: placed.commit, end: placed.end };
        let folded = fold::fold(&mut self.staged, &owner, &mut self.told, &group);
        self.broken |= folded.is_err();
        folded
    }

    /// Notes from when on a claim may find something.
    fn brings(&mut self, claimable_from: Option<Timestamp>) {
        self.claimable_from = [self.claimable_from, claimable_from].into_iter().flatten().min();
    }

    /// Whose log it is; a thread without one gets it here.
    fn owner(&mut self, generation: u64) -> Result<Owner> {
        let (tenant, thread, _) = self.key.clone();
        if let Some(log) = self.log {
            return Ok(Owner { tenant, thread, generation, log });
        }
        let log = self.shared.next_log.fetch_add(1, Ordering::SeqCst);
        let owner = Owner { tenant, thread, generation, log };
        let writer = self.make_log(&owner)?;
        self.batch = Some(writer.batch());
        self.log = Some(log);
        self.fresh = Some(writer);
        Ok(owner)
    }
}

/// The thread as callers see it.
pub(crate) fn shown(shared: &Shared, stored: StoredThread) -> Thread {
    stamp(stored, shared.meta.incarnation()).thread
}
