//! What commits and changes of a thread's own fields write.

use store_core::{
    ClaimNumber, Commit, Expect, NewThread, Result, Thread, ThreadId, ThreadPatch, Timestamp,
    commit::{self, CommitDecision, CommitView, Plan},
    mailbox::MailboxPlan,
    thread::{self, StoredThread, ThreadChange},
};

use super::{Answer, Round, documents::DocumentLines};
use crate::{
    line::{self, CommitLine, Line, OutboxLine, StateLine, ThreadLine},
    records::{self, stamp},
    shared::Shared,
};

impl Round<'_> {
    pub(super) fn commit(&mut self, commit: &Commit, now: Timestamp) -> Result<Answer> {
        self.number_documents(&commit.documents)?;
        match commit::plan(&self.view(), commit, self.setting(now))? {
            CommitDecision::Repeat(receipt) => Ok(Answer::Receipt(receipt)),
            CommitDecision::Write(plan) => {
                let receipt = plan.receipt.clone();
                self.put(commit, *plan, now)?;
                Ok(Answer::Receipt(Box::new(receipt)))
            }
        }
    }

    fn put(&mut self, commit: &Commit, mut plan: Plan, now: Timestamp) -> Result<()> {
        let mut documents = DocumentLines::from(std::mem::take(&mut plan.documents));
        let of_thread = std::mem::take(&mut documents.of_thread);
        if plan.thread.is_some() {
            self.put_in_thread(commit, plan, of_thread)?;
        } else {
            self.put_without_thread(plan, now)?;
        }
        let put = self.put_documents(documents, now);
        // The commit must not stay without its documents.
        self.broken |= put.is_err();
        put
    }

    fn put_in_thread(&mut self, commit: &Commit, plan: Plan, documents: Vec<Line>) -> Result<()> {
        let Some(stored) = &plan.thread else { return Ok(()) };
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
        for line in runs.chain(state).chain(queue).chain(events).chain(rows).chain(documents).chain(settlement) {
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
        self.group(stored.thread.generation(), lines, &texts, commit_line)?;
        self.brings(claimable_from);
        Ok(())
    }

    pub(super) fn create(&mut self, new: &NewThread, now: Timestamp) -> Result<Answer> {
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

    pub(super) fn update(&mut self, patch: &ThreadPatch, expect: Expect, now: Timestamp) -> Result<Answer> {
        let (view, mut fenced) = (self.view(), self.told.id.clone());
        let lineage = |parent: &ThreadId| {
            view.thread_exists(parent)?;
            records::ancestors(self.shared, &self.staged, &self.key.0, parent)
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

    pub(super) fn bare(&self, stored: &StoredThread) -> CommitLine {
        CommitLine {
            time: stored.last_time,
            updated_at: stored.thread.updated_at,
            fence: self.told.id.fence,
            ..CommitLine::default()
        }
    }

    /// Forgets the claim number. It belongs to the id: to prune, the thread stays as idle as it was (TH-26).
    pub(super) fn reset_fence(&mut self) -> Result<()> {
        if self.told.id.fence.is_none() {
            return Ok(());
        }
        let Some(stored) = self.told.stored.clone() else {
            return self.remember_fence(None);
        };
        let commit = CommitLine { fence: None, ..self.bare(&stored) };
        self.group(stored.thread.generation(), Vec::new(), &[], commit)
    }
}

/// The thread as callers see it.
pub(crate) fn shown(shared: &Shared, stored: StoredThread) -> Thread {
    stamp(stored, shared.meta.incarnation()).thread
}
