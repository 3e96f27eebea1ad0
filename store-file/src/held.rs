//! Run ids that a round of the writer holds: a run belongs to one thread (RU-6).

use store_core::{RunId, TenantId};

use crate::shared::Shared;

/// Run ids that no other thread may write meanwhile.
pub(crate) struct Held<'a> {
    shared: &'a Shared,
    tenant: &'a TenantId,
    runs: Vec<RunId>,
}

impl<'a> Held<'a> {
    /// Holds none yet.
    pub(crate) const fn new(shared: &'a Shared, tenant: &'a TenantId) -> Self {
        Self { shared, tenant, runs: Vec::new() }
    }

    /// Holds one more; `false` if another thread holds it and nobody is to wait.
    pub(crate) fn take(&mut self, run: &RunId, wait: bool) -> bool {
        let has = self.runs.contains(run) || self.shared.hold_run(self.tenant, run, wait);
        if has && !self.runs.contains(run) {
            self.runs.push(run.clone());
        }
        has
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nobody knows how far the round came.
            self.shared.poison();
        }
        self.shared.free_runs(self.tenant, &self.runs);
    }
}
