//! Reads of the model's data that bypass its contracts.

use store_core::{EntryId, PendingInput, RunId, TenantId, ThreadId};

use crate::model::{ModelStore, tree::Tree, world::Slot};

impl ModelStore {
    /// Returns an independent store with the same data.
    pub(super) fn forked(&self) -> Self {
        let copy = Self::new(self.shared.limits.clone(), self.shared.clock.clone(), self.shared.bug);
        *copy.shared.world() = self.shared.world().clone();
        copy
    }

    fn slot<T: Default>(&self, thread: &ThreadId, look: impl FnOnce(&Slot) -> T) -> T {
        let world = self.shared.world();
        let slot = world.tenants.get(&TenantId::default_tenant()).and_then(|tenant| tenant.threads.get(thread));
        slot.map(look).unwrap_or_default()
    }

    /// Returns the ids of the entries of a thread of the tenant `default`, by sequence number.
    pub(super) fn log(&self, thread: &ThreadId) -> Vec<EntryId> {
        self.slot(thread, |slot| slot.entries.iter().map(|entry| entry.id.clone()).collect())
    }

    /// Returns the ids of the path of the thread's head.
    pub(super) fn path(&self, thread: &ThreadId) -> Vec<EntryId> {
        self.slot(thread, |slot| {
            let tree = Tree(&slot.entries);
            tree.path(tree.head().as_ref()).into_iter().map(|entry| entry.id.clone()).collect()
        })
    }

    /// Returns the pending inputs of the thread.
    pub(super) fn queue(&self, thread: &ThreadId) -> Vec<PendingInput> {
        self.slot(thread, |slot| slot.queue.clone())
    }

    /// Returns the ids of the thread's runs.
    pub(super) fn runs(&self, thread: &ThreadId) -> Vec<RunId> {
        self.slot(thread, |slot| slot.runs.iter().map(|run| run.id.clone()).collect())
    }
}
