//! What a test looks up in the model, past its contracts.

use store_core::{EntryId, PendingInput, RunId, TenantId, ThreadId};

use crate::model::{ModelStore, tree::Tree, world::Slot};

impl ModelStore {
    /// A store of its own that holds the same.
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

    /// The ids of the entries of a thread of the tenant `default`, by sequence.
    pub(super) fn log(&self, thread: &ThreadId) -> Vec<EntryId> {
        self.slot(thread, |slot| slot.entries.iter().map(|entry| entry.id.clone()).collect())
    }

    /// The ids of the path of its head.
    pub(super) fn path(&self, thread: &ThreadId) -> Vec<EntryId> {
        self.slot(thread, |slot| {
            let tree = Tree(&slot.entries);
            tree.path(tree.head().as_ref()).into_iter().map(|entry| entry.id.clone()).collect()
        })
    }

    /// Its pending inputs.
    pub(super) fn queue(&self, thread: &ThreadId) -> Vec<PendingInput> {
        self.slot(thread, |slot| slot.queue.clone())
    }

    /// The ids of its runs.
    pub(super) fn runs(&self, thread: &ThreadId) -> Vec<RunId> {
        self.slot(thread, |slot| slot.runs.iter().map(|run| run.id.clone()).collect())
    }
}
