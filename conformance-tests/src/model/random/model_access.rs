//! Reads of the model's data that bypass its contracts.

use store_core::{EntryId, PendingInput, RunId, TenantId, ThreadId};

use crate::model::{ModelStore, model_data::ThreadData, tree::LogTree};

impl ModelStore {
    /// Returns an independent store with the same data.
    pub(super) fn independent_copy(&self) -> Self {
        let copy = Self::new(self.shared.limits.clone(), self.shared.clock.clone(), self.shared.bug);
        *copy.shared.model_data() = self.shared.model_data().clone();
        copy
    }

    fn read_thread_data<T: Default>(&self, thread: &ThreadId, read: impl FnOnce(&ThreadData) -> T) -> T {
        let model_data = self.shared.model_data();
        let thread_data =
            model_data.tenants.get(&TenantId::default_tenant()).and_then(|tenant| tenant.threads.get(thread));
        thread_data.map(read).unwrap_or_default()
    }

    /// Returns the ids of the entries of a thread of the tenant `default`, by sequence number.
    pub(super) fn log(&self, thread: &ThreadId) -> Vec<EntryId> {
        self.read_thread_data(thread, |thread_data| thread_data.entries.iter().map(|entry| entry.id.clone()).collect())
    }

    /// Returns the ids of the entries on the path of the thread's head.
    pub(super) fn path(&self, thread: &ThreadId) -> Vec<EntryId> {
        self.read_thread_data(thread, |thread_data| {
            let tree = LogTree::new(&thread_data.entries);
            tree.path(tree.head().as_ref()).into_iter().map(|entry| entry.id.clone()).collect()
        })
    }

    /// Returns the pending inputs of the thread.
    pub(super) fn queue(&self, thread: &ThreadId) -> Vec<PendingInput> {
        self.read_thread_data(thread, |thread_data| thread_data.queue.clone())
    }

    /// Returns the ids of the thread's runs.
    pub(super) fn runs(&self, thread: &ThreadId) -> Vec<RunId> {
        self.read_thread_data(thread, |thread_data| thread_data.runs.iter().map(|run| run.id.clone()).collect())
    }
}
