//! One batch of the commits to several threads, for a write buffer.

use store_core::{Result, buffer::JoinedPlan};

use super::{Batch, rows::CommitKeyRow};
use crate::cache::RecordCache;

impl Batch {
    /// Makes an empty batch that is to be appended to this one.
    pub(crate) fn next_part(&self) -> Self {
        Self { threads_before: self.threads_before + self.threads.len(), ..Self::default() }
    }

    /// Adds what several commits to one thread write. The cache must contain the records from before them.
    pub(crate) fn add_joined(&mut self, cache: &RecordCache, joined: &JoinedPlan) -> Result<()> {
        self.add_commit(&joined.plan.receipt.thread, cache, &joined.plan)?;
        let thread_number = i32::try_from(self.threads_before + self.threads.len()).unwrap_or(i32::MAX);
        self.keys.extend(joined.earlier_keys.iter().map(|record| CommitKeyRow::of(thread_number, record)));
        Ok(())
    }

    /// Appends a batch that [`next_part`](Self::next_part) has made. It contains only what plans of several threads may
    /// contain, see [`ApplyStep::Plans`](store_core::buffer::ApplyStep::Plans).
    pub(crate) fn append(&mut self, part: Self) {
        let Self {
            threads,
            entries,
            marks,
            leaves,
            names,
            keys,
            cleared_states,
            state_values,
            runs,
            scopes,
            events,
            outbox,
            // Such plans have none of these.
            inputs: _,
            decisions: _,
            event_keys: _,
            documents: _,
            outbox_ready: _,
            outbox_removed: _,
            outbox_groups: _,
            mailboxes: _,
            dispatches: _,
            new_dispatches: _,
            dispatches_removed: _,
            queued_removed: _,
            queued: _,
            ended_removed: _,
            ended: _,
            interrupts: _,
            claim_incarnation: _,
            claimable_from: _,
            threads_before: _,
        } = part;
        self.threads.extend(threads);
        self.entries.extend(entries);
        self.marks.extend(marks);
        self.leaves.extend(leaves);
        self.names.extend(names);
        self.keys.extend(keys);
        self.cleared_states.extend(cleared_states);
        self.state_values.extend(state_values);
        self.runs.extend(runs);
        self.scopes.extend(scopes);
        self.events.extend(events);
        self.outbox.extend(outbox);
    }
}
