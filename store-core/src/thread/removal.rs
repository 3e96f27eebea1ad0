//! The threads that a deletion changes, and the threads that a prune deletes.
//!
//! The caller must hold the family lock of the tenant, so that no thread gets or loses a parent meanwhile.

use std::collections::HashMap;

use super::{ChildStrategy, DeleteRequest, Deletion, PruneRequest, Pruned, StoredThread, rules};
use crate::{
    error::{Error, Result},
    id::ThreadId,
    limits::{Limits, length},
    time::Timestamp,
};

/// The threads that a deletion changes: those that are deleted, and those that lose their parent (TH-17 to TH-20).
///
/// ```
/// use store_core::{ChildStrategy, thread::DeletionSet};
///
/// # fn main() -> store_core::Result<()> {
/// let mut deletion = DeletionSet::begin("parent".parse()?, vec!["child".parse()?], ChildStrategy::Cascade);
/// while let Some(thread) = deletion.next_to_expand(100) {
///     // A store adds the children of `thread` that it has stored.
///     assert_eq!(thread.as_str(), "child");
///     deletion.add_children(Vec::new());
/// }
/// assert_eq!(deletion.deleted().len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct DeletionSet {
    /// The number of direct children of the thread with which the deletion began.
    child_count: u64,
    deleted: Vec<ThreadId>,
    detached: Vec<ThreadId>,
    /// Descendants whose children were not added yet.
    unexpanded_threads: Vec<ThreadId>,
}

impl DeletionSet {
    /// Begins the deletion of a thread that has these children.
    #[must_use]
    pub fn begin(id: ThreadId, children: Vec<ThreadId>, strategy: ChildStrategy) -> Self {
        let mut deletion = Self { child_count: length(children.len()), deleted: vec![id], ..Self::default() };
        match strategy {
            ChildStrategy::Reject => {}
            ChildStrategy::Detach => deletion.detached = children,
            ChildStrategy::Cascade => deletion.unexpanded_threads = children,
        }
        deletion
    }

    /// Returns the next thread whose children must be added, because they are deleted too.
    ///
    /// Returns none if there is no such thread, or if the deletion changes more than `limit` threads.
    #[must_use]
    pub fn next_to_expand(&mut self, limit: u64) -> Option<ThreadId> {
        let thread = self.unexpanded_threads.pop().filter(|_| self.changed_count() <= limit)?;
        self.deleted.push(thread.clone());
        Some(thread)
    }

    /// Adds the children of the thread that [`next_to_expand`](Self::next_to_expand) returned.
    pub fn add_children(&mut self, children: Vec<ThreadId>) {
        self.unexpanded_threads.extend(children);
    }

    /// Checks whether the deletion is allowed (TH-17, TH-19, TH-22).
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, `HasChildren`, `LimitExceeded`.
    pub fn check(
        &self,
        id: &ThreadId,
        stored: Option<&StoredThread>,
        request: DeleteRequest,
        limits: &Limits,
    ) -> Result<()> {
        rules::check_deletion(id, stored, request, (self.child_count, self.changed_count()), limits)
    }

    /// Returns the threads that are deleted.
    #[must_use]
    pub fn deleted(&self) -> &[ThreadId] {
        &self.deleted
    }

    /// Returns the threads that lose their parent.
    #[must_use]
    pub fn detached(&self) -> &[ThreadId] {
        &self.detached
    }

    /// Returns all threads that the deletion changes.
    pub fn all(&self) -> impl Iterator<Item = &ThreadId> {
        self.deleted.iter().chain(&self.detached)
    }

    fn changed_count(&self) -> u64 {
        length(self.deleted.len() + self.detached.len())
    }
}

impl From<DeletionSet> for Deletion {
    fn from(deletion: DeletionSet) -> Self {
        Self::new(deletion.deleted, deletion.detached)
    }
}

impl PruneRequest {
    /// Refuses a request that no store can carry out.
    ///
    /// # Errors
    /// `Invalid` for a limit outside of 1 to 1,000.
    pub fn check(&self) -> Result<()> {
        match self.limit {
            1..=1_000 => Ok(()),
            _ => Err(Error::invalid("prune limit", "it must be from 1 to 1000")),
        }
    }
}

/// Selects the threads to prune: idle threads, children before their parents, the longest idle first (TH-26, TH-28).
///
/// The caller offers threads in the order of their last activity. After each thread that is chosen,
/// [`offer`](Self::offer) may ask for its parent.
#[derive(Debug)]
pub struct PruneSelection {
    request: PruneRequest,
    now: Timestamp,
    chosen: Vec<ThreadId>,
    more_remain: bool,
    /// For each thread with a chosen child: the number of its children that are not chosen.
    remaining_children: HashMap<ThreadId, u64>,
}

impl PruneSelection {
    /// Begins a selection at the time `now`.
    ///
    /// # Errors
    /// `Invalid` for a limit outside of 1 to 1,000.
    pub fn new(request: PruneRequest, now: Timestamp) -> Result<Self> {
        request.check()?;
        Ok(Self { request, now, chosen: Vec::new(), more_remain: false, remaining_children: HashMap::new() })
    }

    /// Returns the time that separates idle threads from others: a thread is idle if its last activity was before this
    /// time.
    #[must_use]
    pub fn idle_before(&self) -> Timestamp {
        self.now.saturating_sub(self.request.idle)
    }

    /// Returns whether a thread is unused: it was not written to for the given time, and has no open run and no pending
    /// input. Its children are not considered.
    #[must_use]
    pub fn is_unused(&self, stored: &StoredThread) -> bool {
        rules::is_unused(stored, self.request.idle, self.now)
    }

    /// Offers a thread whose children, if it has any, are all chosen.
    ///
    /// If the thread is chosen and has a parent, the parent is returned. The caller then passes the number of the
    /// parent's children to [`count_chosen_child`](Self::count_chosen_child).
    pub fn offer(&mut self, stored: &StoredThread) -> Option<ThreadId> {
        if !self.is_unused(stored) {
            return None;
        }
        if length(self.chosen.len()) == u64::from(self.request.limit) {
            self.more_remain = true;
            return None;
        }
        self.chosen.push(stored.thread.id.clone());
        stored.thread.parent_thread_id.clone()
    }

    /// Counts one more chosen child of `parent`. Returns whether all of its children are now chosen.
    ///
    /// If they are, the caller offers the parent next. A parent is therefore chosen directly after the last of its
    /// children, whether it was active before that child or after it.
    ///
    /// `children` is the number of children of `parent`. Only the first call for a parent uses it
    /// ([`has_child_count`](Self::has_child_count)).
    pub fn count_chosen_child(&mut self, parent: &ThreadId, children: u64) -> bool {
        let remaining = self.remaining_children.entry(parent.clone()).or_insert(children);
        *remaining = remaining.saturating_sub(1);
        *remaining == 0
    }

    /// Returns whether the number of the children of `parent` is known. If it is, the caller need not count them.
    #[must_use]
    pub fn has_child_count(&self, parent: &ThreadId) -> bool {
        self.remaining_children.contains_key(parent)
    }

    /// Returns whether a thread was offered that can no longer be chosen, because the limit is reached.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.more_remain
    }

    /// Returns the chosen threads, each after its children.
    #[must_use]
    pub fn chosen(&self) -> &[ThreadId] {
        &self.chosen
    }

    /// Returns the result of the prune. `threads` are those chosen threads that were deleted.
    #[must_use]
    pub fn pruned(&self, threads: Vec<ThreadId>) -> Pruned {
        Pruned::new(threads, self.more_remain)
    }
}
