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
        self.threads.extend(part.threads);
        self.entries.extend(part.entries);
        self.marks.extend(part.marks);
        self.leaves.extend(part.leaves);
        self.names.extend(part.names);
        self.keys.extend(part.keys);
        self.cleared_states.extend(part.cleared_states);
        self.state_values.extend(part.state_values);
        self.runs.extend(part.runs);
        self.scopes.extend(part.scopes);
        self.events.extend(part.events);
        self.outbox.extend(part.outbox);
    }
}
