//! Pruning threads that nobody wrote for a while, and forgetting deleted ids.

use std::collections::{BTreeSet, HashMap};

use store_core::{
    Error, PruneRequest, Pruned, Result, Thread, ThreadId, ThreadOrder, Timestamp, Walk,
    thread::{self, IdRecord},
};

use super::delete::{self, Locked};
use crate::tenant::{Index, Tenant, ThreadScope};

/// Ids that one batch forgets.
const BATCH: usize = 1_000;

pub(super) fn prune(tenant: &Tenant, request: PruneRequest) -> Result<Pruned> {
    if !(1..=1_000).contains(&request.limit) {
        return Err(Error::invalid("prune limit", "it must be from 1 to 1000"));
    }
    // With the family nobody gets or loses a child meanwhile.
    let _family = tenant.family.lock();
    let now = tenant.now();
    let (mut chosen, more) = Choice::new(&tenant.index.read(), request, now).make();
    if !request.dry_run {
        let slots = tenant.slots.several(&chosen);
        let mut locked: Locked<'_> = slots.iter().map(|(id, slot)| (id, slot.write())).collect();
        // What was written before its lock is no longer idle (TH-27); with it stay all above it.
        let index = tenant.index.read();
        let choice = Choice::new(&index, request, now);
        let mut kept = BTreeSet::new();
        chosen.retain(|id| {
            let goes = choice.is_idle(id) && index.children(id).all(|child| kept.contains(child));
            goes && kept.insert(id.clone())
        });
        drop(index);
        delete::apply(tenant, &mut locked, &chosen, &[]);
    }
    Ok(Pruned::new(chosen, more))
}

/// The choice of threads to prune.
struct Choice<'a> {
    index: &'a Index,
    request: PruneRequest,
    now: Timestamp,
    chosen: Vec<ThreadId>,
    /// How many children stay, of each thread that had one chosen.
    staying: HashMap<&'a ThreadId, usize>,
}

impl<'a> Choice<'a> {
    fn new(index: &'a Index, request: PruneRequest, now: Timestamp) -> Self {
        Self { index, request, now, chosen: Vec::new(), staying: HashMap::new() }
    }

    fn is_idle(&self, id: &ThreadId) -> bool {
        let row = self.index.thread(id);
        row.is_some_and(|row| thread::is_idle(&row.thread, self.request.idle, self.now))
    }

    /// Idle threads, children before their parents, at most `limit`; and whether there are more (TH-26, TH-28).
    fn make(mut self) -> (Vec<ThreadId>, bool) {
        let limit = usize::try_from(self.request.limit).unwrap_or(usize::MAX);
        let walk = Walk::over(None, Some(self.now.saturating_sub(self.request.idle)));
        let threads = self.index.walk_threads(&ThreadScope::All, ThreadOrder::LastActivity, &walk);
        for (_, row) in threads {
            let thread = &row.thread.thread;
            // One with children is taken behind the last of them, which may come before or after it here.
            let mut next = Some(thread).filter(|thread| self.index.count_children(&thread.id) == 0);
            while let Some(thread) = next.filter(|thread| self.is_idle(&thread.id)) {
                if self.chosen.len() == limit {
                    return (self.chosen, true);
                }
                self.chosen.push(thread.id.clone());
                next = self.last_child_of(thread);
            }
        }
        (self.chosen, false)
    }

    /// The parent of a chosen thread, if no child of it stays.
    fn last_child_of(&mut self, thread: &'a Thread) -> Option<&'a Thread> {
        let parent = thread.parent_thread_id.as_ref()?;
        let left = self.staying.entry(parent).or_insert_with(|| self.index.count_children(parent));
        *left = left.saturating_sub(1);
        if *left > 0 {
            return None;
        }
        self.index.thread(parent).map(|row| &row.thread.thread)
    }
}

/// Forgets a batch of ids that were deleted long enough ago (TH-25). Returns whether there may be more.
pub(super) fn forget(tenant: &Tenant) -> bool {
    let now = tenant.now();
    let old: Vec<_> = {
        let index = tenant.index.read();
        let ids = index.deleted().take_while(|(at, _)| *at < now.saturating_sub(thread::REMEMBERED_FOR));
        ids.take(BATCH).map(|(_, id)| id.clone()).collect()
    };
    for id in &old {
        tenant.slots.write(id, |slot| {
            if slot.contents.is_none() && thread::is_forgotten(&slot.id, now) {
                tenant.index.write().put_id(id, slot, IdRecord::default());
            }
        });
    }
    old.len() == BATCH
}
