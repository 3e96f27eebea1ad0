//! Which threads a deletion changes, and which ones a prune takes. Whoever asks holds the families of the tenant: no
//! thread gets or loses a parent meanwhile.

use std::collections::HashMap;

use super::{ChildStrategy, DeleteRequest, Deletion, PruneRequest, Pruned, StoredThread, rules};
use crate::{
    error::{Error, Result},
    id::ThreadId,
    limits::{Limits, length},
    time::Timestamp,
};

/// The threads that a deletion changes (TH-17 to TH-20).
///
/// ```
/// use store_core::{ChildStrategy, thread::Family};
///
/// # fn main() -> store_core::Result<()> {
/// let mut family = Family::of("parent".parse()?, vec!["child".parse()?], ChildStrategy::Cascade);
/// while let Some(thread) = family.next(100) {
///     // The children of `thread`, as the store has them.
///     assert_eq!(thread.as_str(), "child");
///     family.add(Vec::new());
/// }
/// assert_eq!(family.deleted().len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Family {
    children: u64,
    deleted: Vec<ThreadId>,
    detached: Vec<ThreadId>,
    /// Those below that were not looked at yet.
    open: Vec<ThreadId>,
}

impl Family {
    /// The family of a thread with these children.
    #[must_use]
    pub fn of(id: ThreadId, children: Vec<ThreadId>, strategy: ChildStrategy) -> Self {
        let mut family = Self { children: length(children.len()), deleted: vec![id], ..Self::default() };
        match strategy {
            ChildStrategy::Reject => {}
            ChildStrategy::Detach => family.detached = children,
            ChildStrategy::Cascade => family.open = children,
        }
        family
    }

    /// The next thread whose children belong to it; none if it is complete, or has more than `most` threads.
    #[must_use]
    pub fn next(&mut self, most: u64) -> Option<ThreadId> {
        let thread = self.open.pop().filter(|_| self.changed() <= most)?;
        self.deleted.push(thread.clone());
        Some(thread)
    }

    /// Adds the children of the thread that was asked for.
    pub fn add(&mut self, children: Vec<ThreadId>) {
        self.open.extend(children);
    }

    /// Whether the deletion may be (TH-17, TH-19, TH-22).
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
        rules::check_deletion(id, stored, request, (self.children, self.changed()), limits)
    }

    /// Those that are deleted.
    #[must_use]
    pub fn deleted(&self) -> &[ThreadId] {
        &self.deleted
    }

    /// Those that lose their parent.
    #[must_use]
    pub fn detached(&self) -> &[ThreadId] {
        &self.detached
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &ThreadId> {
        self.deleted.iter().chain(&self.detached)
    }

    fn changed(&self) -> u64 {
        length(self.deleted.len() + self.detached.len())
    }
}

impl From<Family> for Deletion {
    fn from(family: Family) -> Self {
        Self::new(family.deleted, family.detached)
    }
}

impl PruneRequest {
    /// Refuses what no store can do.
    ///
    /// # Errors
    /// `Invalid` for a bad limit.
    pub fn check(&self) -> Result<()> {
        match self.limit {
            1..=1_000 => Ok(()),
            _ => Err(Error::invalid("prune limit", "it must be from 1 to 1000")),
        }
    }
}

/// The choice of threads to prune: idle ones, children before their parents, the longest idle first (TH-26, TH-28).
///
/// It is offered threads by their last activity. Behind each that it takes it may ask for the parent.
#[derive(Debug)]
pub struct Choice {
    request: PruneRequest,
    now: Timestamp,
    chosen: Vec<ThreadId>,
    more: bool,
    /// How many children stay, of each thread that had one chosen.
    staying: HashMap<ThreadId, u64>,
}

impl Choice {
    /// An empty one at `now`.
    ///
    /// # Errors
    /// `Invalid` for a bad limit.
    pub fn new(request: PruneRequest, now: Timestamp) -> Result<Self> {
        request.check()?;
        Ok(Self { request, now, chosen: Vec::new(), more: false, staying: HashMap::new() })
    }

    /// Threads with activity at this time or later are not idle.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        self.now.saturating_sub(self.request.idle)
    }

    /// Whether a thread may go, as far as it alone tells.
    #[must_use]
    pub fn is_idle(&self, stored: &StoredThread) -> bool {
        rules::is_idle(stored, self.request.idle, self.now)
    }

    /// Looks at a thread of which no child stays. Gives the parent, whose number of children is needed next.
    pub fn offer(&mut self, stored: &StoredThread) -> Option<ThreadId> {
        if !self.is_idle(stored) {
            return None;
        }
        if length(self.chosen.len()) == u64::from(self.request.limit) {
            self.more = true;
            return None;
        }
        self.chosen.push(stored.thread.id.clone());
        stored.thread.parent_thread_id.clone()
    }

    /// Whether no child of the parent of a chosen thread stays: it is to be offered then. One with children is taken
    /// behind the last of them, which may come before or after it in the order of activity. How many `children` it has
    /// is asked only as long as that is not known.
    pub fn is_childless(&mut self, parent: &ThreadId, children: u64) -> bool {
        let left = self.staying.entry(parent.clone()).or_insert(children);
        *left = left.saturating_sub(1);
        *left == 0
    }

    /// Whether the number of children is known already, and need not be counted.
    #[must_use]
    pub fn knows(&self, parent: &ThreadId) -> bool {
        self.staying.contains_key(parent)
    }

    /// Whether it takes no more.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.more
    }

    /// The chosen threads, each behind its children.
    #[must_use]
    pub fn chosen(&self) -> &[ThreadId] {
        &self.chosen
    }

    /// The answer, if these of the chosen ones are gone.
    #[must_use]
    pub fn pruned(&self, threads: Vec<ThreadId>) -> Pruned {
        Pruned::new(threads, self.more)
    }
}
