//! The plan of a compaction. It is made before the summary.

use store_core::{
    Commit, CommitKey, Compaction, Context, ContextMessage, Expect, Interval, Message, NewEntry, Role, Thread,
    ThreadContext, Version,
    context::{ContextSplit, compaction_request},
};

use super::{ContextTokens, Summary, split::Boundary};

/// Whether a thread is to be compacted, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionPlan {
    /// The context and the reserved tokens are smaller than the window.
    NotDue(ContextTokens),
    /// Only system messages and an earlier summary come before the messages that stay.
    NothingToCompact(ContextTokens),
    /// These messages are to be summarised.
    Ready(Box<PlannedCompaction>),
}

/// A compaction that has no summary yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCompaction {
    thread: Thread,
    context: Context,
    boundary: Boundary,
    kept_count: usize,
    tokens: ContextTokens,
    key: CommitKey,
}

impl PlannedCompaction {
    pub(super) fn new(
        found: ThreadContext,
        boundary: Boundary,
        (kept_count, tokens): (usize, ContextTokens),
        key: CommitKey,
    ) -> Self {
        Self { thread: found.thread, context: found.context, boundary, kept_count, tokens, key }
    }

    /// Returns the thread in the state in which the compaction was planned.
    #[must_use]
    pub const fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Returns the messages that are to be summarised.
    #[must_use]
    pub fn older(&self) -> &[ContextMessage] {
        self.split().older
    }

    /// Returns the messages that are not summarised.
    #[must_use]
    pub fn kept(&self) -> &[ContextMessage] {
        self.split().kept
    }

    /// Returns the entries that the summary is to cover.
    #[must_use]
    pub const fn interval(&self) -> &Interval {
        &self.boundary.interval
    }

    /// Returns the number of tokens of the context.
    #[must_use]
    pub const fn tokens(&self) -> ContextTokens {
        self.tokens
    }

    /// Returns one user message that asks a model for the summary (CX-18).
    #[must_use]
    pub fn request(&self) -> Message {
        compaction_request(&self.split()).unwrap_or_else(|| Message::new(Role::User, Vec::new()))
    }

    fn split(&self) -> ContextSplit<'_> {
        ContextSplit::at(&self.context, self.boundary.kept_from)
    }

    /// Returns the commit that writes the summary. A store refuses the commit if the thread has another version.
    pub(super) fn commit(&self, version: Version, summary: Summary) -> Commit {
        let mut compaction = Compaction::default();
        compaction.covers = Some(self.boundary.interval.clone());
        compaction.summary = summary.into_blocks();
        Commit::new(self.thread.id.clone())
            .expecting(Expect::Version(version))
            .with_key(self.key.clone())
            .entry(NewEntry::new(compaction))
    }

    /// Returns whether the plan still fits the thread: the context still begins with the messages to be summarised, the
    /// same message follows them, and enough user and assistant messages stay.
    pub(super) fn still_fits(&self, current: &ThreadContext) -> bool {
        let (kept_from, current_messages) = (self.boundary.kept_from, &current.context.messages);
        let (older, current_older) = (self.context.messages.get(..kept_from), current_messages.get(..kept_from));
        let (first_kept, current_kept) = (self.kept().first(), current_messages.get(kept_from..).unwrap_or_default());
        let is_counted = |message: &&ContextMessage| matches!(message.message.role, Role::User | Role::Assistant);
        current.thread.version.generation() == self.thread.version.generation()
            && older == current_older
            && first_kept.map(|message| &message.entry) == current_kept.first().map(|message| &message.entry)
            && current_kept.iter().filter(is_counted).count() >= self.kept_count
    }
}
