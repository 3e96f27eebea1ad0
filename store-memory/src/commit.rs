//! The one way to write entries, runs and thread state, and to consume pending input.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use store_core::{
    Commit, CommitCoordinator, PendingStore, Receipt, Result, Run, ThreadRunStore,
    commit::{self, Decision, Needs, Plan},
    thread::StoredThread,
};

use crate::{
    pending::MemoryPending,
    slot::{Contents, Slot},
    tenant::Tenant,
    threads::MemoryThreads,
    view::View,
};

/// Commits to the threads of a tenant.
#[derive(Clone)]
pub(crate) struct MemoryCommits {
    tenant: Arc<Tenant>,
}

impl MemoryCommits {
    pub(crate) const fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant }
    }
}

#[async_trait]
impl CommitCoordinator for MemoryCommits {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let tenant = self.tenant.opened()?;
        let needs = commit::needs(&commit);
        let _family = needs.parent_thread.is_some().then(|| tenant.family.lock());
        tenant.slots.write(&commit.thread, |slot| write(tenant, slot, &commit, &needs))
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        Arc::new(MemoryThreads::new(Arc::clone(&self.tenant)))
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        Arc::new(MemoryPending::new(Arc::clone(&self.tenant)))
    }
}

impl fmt::Debug for MemoryCommits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryCommits").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}

/// Plans and applies a commit to its slot, which the caller has locked.
///
/// Runs of other threads are looked at without holding anything of them: if one of those that the plan saw came or went
/// meanwhile, it is planned again. Each round means that somebody else got on.
fn write(tenant: &Tenant, slot: &mut Slot, commit: &Commit, needs: &Needs) -> Result<Receipt> {
    loop {
        let outside = tenant.index.read().outside(needs);
        let view = View { slot, outside: &outside };
        let mut plan = match commit::plan(&view, commit, tenant.setting())? {
            Decision::Repeat(receipt) => return Ok(receipt),
            Decision::Write(plan) => plan,
        };
        let receipt = plan.receipt.clone();
        let id = std::mem::take(&mut plan.id);
        let thread = plan.thread.take().map(Arc::new);
        let runs: Vec<_> = std::mem::take(&mut plan.runs).into_iter().map(Arc::new).collect();
        let mut index = tenant.index.write();
        if !index.still_holds(needs, &outside) {
            continue;
        }
        index.put_id(&commit.thread, slot, id);
        if let Some(thread) = &thread {
            index.put_thread(thread);
        }
        for run in &runs {
            index.put_run(run);
        }
        drop(index);
        if let Some(thread) = thread {
            put(slot, *plan, thread, runs);
        }
        return Ok(receipt);
    }
}

fn put(slot: &mut Slot, plan: Plan, thread: Arc<StoredThread>, runs: Vec<Arc<Run>>) {
    let contents = slot.contents.get_or_insert_with(|| Box::new(Contents::new(Arc::clone(&thread))));
    contents.apply(plan, thread, runs);
}
