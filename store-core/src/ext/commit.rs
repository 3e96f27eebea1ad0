//! Single writes: fork, checkpoint, rewind, clear, label.

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
/// Errors are those of [`CommitCoordinator::commit`].
///
/// ```
/// use store_core::{CommitCoordinator, CommitCoordinatorExt, Fork, Guard, NewCheckpoint};
/// use store_core::{Message, NewEntry, RewindTo, Thread};
///
/// async fn try_again(commits: &dyn CommitCoordinator, thread: &Thread) -> store_core::Result<()> {
///     let saved = commits.checkpoint(Guard::from(thread), NewCheckpoint::new().with_label("before")).await?;
///     let fork = Fork::below(saved.entry_ids[0].clone()).entry(NewEntry::new(Message::user("another way")));
///     let tried = commits.fork(Guard::from(&saved), fork).await?;
///     let _back = commits.rewind(Guard::from(&tried), RewindTo::Label("before".into())).await?;
///     Ok(())
/// }
/// ```
#[async_trait]
pub trait CommitCoordinatorExt: CommitCoordinator {
    /// Appends entries below an earlier one, or as a new root. All other branches stay as they were (EN-9), the head
    /// moves to the new one (EN-5).
    ///
    /// # Errors
    /// `Invalid` for a parent that does not exist or is a side entry (EN-4).
    async fn fork(&self, guard: Guard, fork: Fork) -> Result<Receipt> {
        self.commit(guard.commit().entries(fork.into_entries())).await
    }

    /// Appends a checkpoint below the head, with its announcement in the same commit (EN-33).
    ///
    /// # Errors
    /// Those of the commit alone.
    async fn checkpoint(&self, guard: Guard, checkpoint: NewCheckpoint) -> Result<Receipt> {
        self.commit(guard.commit().entries(checkpoint.into_entries())).await
    }

    /// Moves the head back. Nothing is deleted (EN-7).
    ///
    /// # Errors
    /// `Invalid` for an entry that does not exist or is a side entry; `NotFound` for an unknown checkpoint (EN-22).
    async fn rewind(&self, guard: Guard, to: RewindTo) -> Result<Receipt> {
        self.commit(guard.commit().entry(NewEntry::new(to))).await
    }

    /// Moves the head before the first entry: the next context is empty, and every entry stays readable (EN-28).
    ///
    /// # Errors
    /// Those of the commit alone.
    async fn clear(&self, guard: Guard) -> Result<Receipt> {
        self.rewind(guard, RewindTo::Start).await
    }

    /// Names an entry, or takes its name away (EN-25). On a checkpoint this names the snapshot (EN-30).
    ///
    /// # Errors
    /// `Invalid` for an entry that does not exist.
    async fn label(&self, guard: Guard, label: Label) -> Result<Receipt> {
        self.commit(guard.commit().entry(NewEntry::new(label))).await
    }
}

impl<C: CommitCoordinator + ?Sized> CommitCoordinatorExt for C {}

/// A thread, and what keeps a write to it from landing unseen or twice: the version that it must have, a key, or both
/// (CM-7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    thread: ThreadId,
    expect: Expect,
    key: Option<CommitKey>,
    fence: Option<Fence>,
}

impl Guard {
    /// The thread at this version.
    #[must_use]
    pub const fn at(thread: ThreadId, version: Version) -> Self {
        Self { thread, expect: Expect::Version(version), key: None, fence: None }
    }

    /// A thread that does not exist yet.
    #[must_use]
    pub const fn absent(thread: ThreadId) -> Self {
        Self { thread, expect: Expect::Absent, key: None, fence: None }
    }

    /// The thread at any version, or a new one, once for this key.
    #[must_use]
    pub const fn keyed(thread: ThreadId, key: CommitKey) -> Self {
        Self { thread, expect: Expect::Any, key: Some(key), fence: None }
    }

    /// The same guard with a key: after an unknown outcome the call can be repeated (CM-17).
    #[must_use]
    pub fn with_key(mut self, key: CommitKey) -> Self {
        self.key = Some(key);
        self
    }

    /// The same guard under this claim.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }

    /// A commit under this guard, with nothing in it yet.
    #[must_use]
    pub fn commit(self) -> Commit {
        let mut commit = Commit::new(self.thread).expecting(self.expect);
        commit.key = self.key;
        commit.fence = self.fence;
        commit
    }
}

/// The thread as it was read.
impl From<&Thread> for Guard {
    fn from(thread: &Thread) -> Self {
        Self::at(thread.id.clone(), thread.version)
    }
}

/// The thread as a commit left it.
impl From<&Receipt> for Guard {
    fn from(receipt: &Receipt) -> Self {
        Self::at(receipt.thread.clone(), receipt.version)
    }
}

/// Entries for a new branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    parent: ParentRef,
    entries: Vec<NewEntry>,
}

impl Fork {
    /// A branch below `parent`.
    #[must_use]
    pub const fn below(parent: EntryId) -> Self {
        Self { parent: ParentRef::Entry(parent), entries: Vec::new() }
    }

    /// A branch that begins with a new root.
    #[must_use]
    pub const fn root() -> Self {
        Self { parent: ParentRef::Root, entries: Vec::new() }
    }

    /// The same branch with one more entry.
    #[must_use]
    pub fn entry(mut self, entry: NewEntry) -> Self {
        self.entries.push(entry);
        self
    }

    /// The same branch with these entries at its end.
    #[must_use]
    pub fn entries(mut self, entries: impl IntoIterator<Item = NewEntry>) -> Self {
        self.entries.extend(entries);
        self
    }

    /// Entries that name no parent hang below the branch's, up to the first that others can hang below (EN-3).
    fn into_entries(self) -> Vec<NewEntry> {
        let Self { parent, mut entries } = self;
        let mut is_rooted = false;
        for entry in &mut entries {
            if is_rooted {
                break;
            }
            is_rooted = !entry.is_side();
            if entry.parent == ParentRef::Head {
                entry.parent = parent.clone();
            }
        }
        entries
    }
}

/// A checkpoint to be appended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NewCheckpoint {
    /// The name that makes it a snapshot.
    pub label: Option<String>,
    /// A message that tells the model of it. It goes with the checkpoint when the thread is rewound. The number to
    /// tell is [`ThreadContext::next_checkpoint`](crate::ThreadContext::next_checkpoint), as long as the guard is the
    /// version that came with it.
    pub announce: Option<Message>,
}

impl NewCheckpoint {
    /// A checkpoint without a name.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same checkpoint with a name.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The same checkpoint with a message behind it.
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

    fn message() -> NewEntry {
        NewEntry::new(Message::user("x"))
    }

    fn usage() -> NewEntry {
        NewEntry::new(UsageRecord { spent: Some(TokenCounts::new(1, 1)), ..UsageRecord::default() })
    }

    fn check(entries: Vec<NewEntry>, parents: &str) {
        let entries = Fork::below(EntryId::new("p").unwrap()).entries(entries).into_entries();
        let found = entries.iter().map(|entry| &entry.parent).map(|parent| match parent {
            ParentRef::Head => "head",
            ParentRef::Root => "root",
            ParentRef::Entry(id) => id.as_str(),
        });
        assert_eq!(found.collect::<Vec<_>>().join(" "), parents);
    }

    #[test]
    fn a_branch_hangs_below_its_parent() {
        let other = EntryId::new("q").unwrap();
        check(vec![], "");
        check(vec![message()], "p");
        check(vec![message(), message(), usage()], "p head head");
        check(vec![usage(), message(), message()], "p p head");
        check(vec![message().below(other.clone()), message()], "q head");
        check(vec![usage().below(other), message()], "q p");
    }

    #[test]
    fn an_announcement_stands_behind_its_checkpoint() {
        let entries: Vec<_> =
            NewCheckpoint::new().with_label("l").announced_by(Message::user("0")).into_entries().collect();
        assert_eq!(entries[0].body, NewBody::Checkpoint { number: None, label: Some("l".into()) });
        assert_eq!(entries[1].body, NewBody::Message(Message::user("0")));
        assert_eq!(NewCheckpoint::new().into_entries().count(), 1);
    }
}
