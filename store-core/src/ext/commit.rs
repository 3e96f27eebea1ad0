//! Methods that write one commit each: fork, checkpoint, rewind, clear, label.

use async_trait::async_trait;

use crate::{
    claim::Fence,
    commit::{Commit, CommitCoordinator, Receipt},
    error::Result,
    id::{CommitKey, EntryId, ThreadId},
    log::{Label, Message, NewBody, NewEntry, ParentRef, RewindTo},
    thread::Thread,
    version::{Expect, Version},
};

/// Single writes to a thread, each one commit.
///
/// The errors are those of [`CommitCoordinator::commit`].
///
/// ```
/// use store_core::{CommitCoordinator, CommitCoordinatorExt, Fork, Guard, NewCheckpoint};
/// use store_core::{Message, NewEntry, RewindTo, Thread};
///
/// async fn try_again(commits: &dyn CommitCoordinator, thread: &Thread) -> store_core::Result<()> {
///     let checkpoint = NewCheckpoint::new().with_label("before");
///     let receipt = commits.checkpoint(Guard::from(thread), checkpoint).await?;
///     let fork = Fork::below(receipt.entry_ids[0].clone()).entry(NewEntry::new(Message::user("another way")));
///     let receipt = commits.fork(Guard::from(&receipt), fork).await?;
///     let _receipt = commits.rewind(Guard::from(&receipt), RewindTo::Label("before".into())).await?;
///     Ok(())
/// }
/// ```
#[async_trait]
pub trait CommitCoordinatorExt: CommitCoordinator {
    /// Appends entries below an earlier entry, or as a new root.
    ///
    /// All other branches stay unchanged (EN-9). The head moves to the new branch (EN-5).
    ///
    /// # Errors
    /// `Invalid` for a parent that does not exist or is a side entry (EN-4).
    async fn fork(&self, guard: Guard, fork: Fork) -> Result<Receipt> {
        self.commit(guard.commit().entries(fork.into_entries())).await
    }

    /// Appends a checkpoint below the head, and the message that announces it, in one commit (EN-33).
    ///
    /// # Errors
    /// Only those of the commit.
    async fn checkpoint(&self, guard: Guard, checkpoint: NewCheckpoint) -> Result<Receipt> {
        self.commit(guard.commit().entries(checkpoint.into_entries())).await
    }

    /// Moves the head to an earlier entry. Nothing is deleted (EN-7).
    ///
    /// # Errors
    /// `Invalid` for an entry that does not exist or is a side entry; `NotFound` for an unknown checkpoint (EN-22).
    async fn rewind(&self, guard: Guard, to: RewindTo) -> Result<Receipt> {
        self.commit(guard.commit().entry(NewEntry::new(to))).await
    }

    /// Moves the head in front of the first entry. The next context is empty, and every entry stays readable (EN-28).
    ///
    /// # Errors
    /// Only those of the commit.
    async fn clear(&self, guard: Guard) -> Result<Receipt> {
        self.rewind(guard, RewindTo::Start).await
    }

    /// Gives a name to an entry, or removes its name (EN-25). A checkpoint that gets a name becomes a snapshot (EN-30).
    ///
    /// # Errors
    /// `Invalid` for an entry that does not exist.
    async fn label(&self, guard: Guard, label: Label) -> Result<Receipt> {
        self.commit(guard.commit().entry(NewEntry::new(label))).await
    }
}

impl<C: CommitCoordinator + ?Sized> CommitCoordinatorExt for C {}

/// The thread of a write, and what protects the write against concurrent writes and against taking effect twice: the
/// version that the thread must have, a key, or both (CM-7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    thread: ThreadId,
    expect: Expect,
    key: Option<CommitKey>,
    fence: Option<Fence>,
}

impl Guard {
    /// Expects the thread at this version.
    #[must_use]
    pub const fn at(thread: ThreadId, version: Version) -> Self {
        Self { thread, expect: Expect::Version(version), key: None, fence: None }
    }

    /// Expects that the thread does not exist yet.
    #[must_use]
    pub const fn absent(thread: ThreadId) -> Self {
        Self { thread, expect: Expect::Absent, key: None, fence: None }
    }

    /// Accepts any version of the thread, or no thread. The key ensures that the write takes effect once.
    #[must_use]
    pub const fn keyed(thread: ThreadId, key: CommitKey) -> Self {
        Self { thread, expect: Expect::Any, key: Some(key), fence: None }
    }

    /// Adds a key, so that the call can be repeated after an unknown outcome (CM-17).
    #[must_use]
    pub fn with_key(mut self, key: CommitKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Adds the claim under which the write is made.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }

    /// Returns an empty commit with this guard.
    #[must_use]
    pub fn commit(self) -> Commit {
        let mut commit = Commit::new(self.thread).expecting(self.expect);
        commit.key = self.key;
        commit.fence = self.fence;
        commit
    }
}

/// Expects the thread at the version that was read.
impl From<&Thread> for Guard {
    fn from(thread: &Thread) -> Self {
        Self::at(thread.id.clone(), thread.version)
    }
}

/// Expects the thread at the version that it had after the commit.
impl From<&Receipt> for Guard {
    fn from(receipt: &Receipt) -> Self {
        Self::at(receipt.thread.clone(), receipt.version)
    }
}

/// A request to append entries as a new branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    parent: ParentRef,
    entries: Vec<NewEntry>,
}

impl Fork {
    /// Begins a branch below `parent`.
    #[must_use]
    pub const fn below(parent: EntryId) -> Self {
        Self { parent: ParentRef::Entry(parent), entries: Vec::new() }
    }

    /// Begins a branch with a new root.
    #[must_use]
    pub const fn root() -> Self {
        Self { parent: ParentRef::Root, entries: Vec::new() }
    }

    /// Adds an entry at the end of the branch.
    #[must_use]
    pub fn entry(mut self, entry: NewEntry) -> Self {
        self.entries.push(entry);
        self
    }

    /// Adds entries at the end of the branch.
    #[must_use]
    pub fn entries(mut self, entries: impl IntoIterator<Item = NewEntry>) -> Self {
        self.entries.extend(entries);
        self
    }

    /// Sets the parent of the branch on entries that name none, up to and including the first entry that is not a side
    /// entry. Later entries get their parents as usual (EN-3).
    fn into_entries(self) -> Vec<NewEntry> {
        let Self { parent, mut entries } = self;
        let mut is_parent_set = false;
        for entry in &mut entries {
            if is_parent_set {
                break;
            }
            is_parent_set = !entry.is_side();
            if entry.parent == ParentRef::Head {
                entry.parent = parent.clone();
            }
        }
        entries
    }
}

/// A request to append a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NewCheckpoint {
    /// The name, which makes the checkpoint a snapshot.
    pub label: Option<String>,
    /// A message that tells the model about the checkpoint. When the thread is rewound to the checkpoint, the message
    /// leaves the path, too. It can name the number of the checkpoint: that is
    /// [`ThreadContext::next_checkpoint`](crate::ThreadContext::next_checkpoint), if the guard is the version from the
    /// same context.
    pub announce: Option<Message>,
}

impl NewCheckpoint {
    /// Makes a checkpoint without a name.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the message that follows the checkpoint and announces it.
    #[must_use]
    pub fn announced_by(mut self, message: Message) -> Self {
        self.announce = Some(message);
        self
    }

    fn into_entries(self) -> impl Iterator<Item = NewEntry> {
        let checkpoint = NewBody::Checkpoint { number: None, label: self.label };
        std::iter::once(NewEntry::new(checkpoint)).chain(self.announce.map(NewEntry::new))
    }
}

#[cfg(test)]
mod tests {
    use super::{Fork, NewCheckpoint};
    use crate::log::{Message, NewBody, NewEntry, ParentRef, UsageRecord};
    use crate::{EntryId, TokenCounts};

    fn message_entry() -> NewEntry {
        NewEntry::new(Message::user("x"))
    }

    fn usage_entry() -> NewEntry {
        NewEntry::new(UsageRecord { spent: Some(TokenCounts::new(1, 1)), ..UsageRecord::default() })
    }

    fn expect_parents(entries: Vec<NewEntry>, parents: &str) {
        let entries = Fork::below(EntryId::new("p").unwrap()).entries(entries).into_entries();
        let found = entries.iter().map(|entry| &entry.parent).map(|parent| match parent {
            ParentRef::Head => "head",
            ParentRef::Root => "root",
            ParentRef::Entry(id) => id.as_str(),
        });
        assert_eq!(found.collect::<Vec<_>>().join(" "), parents);
    }

    #[test]
    fn entries_of_a_fork_are_placed_below_its_parent() {
        let other = EntryId::new("q").unwrap();
        expect_parents(vec![], "");
        expect_parents(vec![message_entry()], "p");
        expect_parents(vec![message_entry(), message_entry(), usage_entry()], "p head head");
        expect_parents(vec![usage_entry(), message_entry(), message_entry()], "p p head");
        expect_parents(vec![message_entry().below(other.clone()), message_entry()], "q head");
        expect_parents(vec![usage_entry().below(other), message_entry()], "q p");
    }

    #[test]
    fn an_announcement_follows_its_checkpoint() {
        let entries: Vec<_> =
            NewCheckpoint::new().with_label("l").announced_by(Message::user("0")).into_entries().collect();
        assert_eq!(entries[0].body, NewBody::Checkpoint { number: None, label: Some("l".into()) });
        assert_eq!(entries[1].body, NewBody::Message(Message::user("0")));
        assert_eq!(NewCheckpoint::new().into_entries().count(), 1);
    }
}
