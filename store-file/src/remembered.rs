//! What the writer remembers between rounds, so that it need not be read again: logs, rows of the index, and the round
//! that is being committed.

use std::{collections::HashMap, sync::Arc};

use store_core::TenantId;

use crate::{
    fold::Told,
    journal::LogName,
    log::Position,
    names::LogKey,
    planned::{Outcome, Planned},
    recent::Recent,
};

/// With more logs than this, only those of the last round are remembered.
const REMEMBERED: usize = 512;

/// The logs that were written last, the rows of the index, and the round that is being committed. If there is such a
/// round, logs and rows are remembered as if it were committed.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    logs: HashMap<LogKey, Loaded>,
    pub(crate) recent: Recent,
    previous: Option<Arc<Planned>>,
}

/// A log as its writer knows it.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) told: Told,
    pub(crate) name: LogName,
    pub(crate) end: Position,
}

impl Remembered {
    /// Forgets what belongs to a tenant.
    pub(crate) fn forget_tenant(&mut self, tenant: &TenantId) {
        self.logs.retain(|(of, ..), _| of != tenant);
    }

    /// Forgets a log, which is changed or removed by something else than its groups.
    pub(crate) fn forget(&mut self, key: &LogKey) {
        self.logs.remove(key);
    }

    /// What is remembered of a log.
    pub(crate) fn get(&self, key: &LogKey) -> Option<&Loaded> {
        self.logs.get(key)
    }

    /// The round that is being committed; none if it has ended. If it was not committed, everything is forgotten.
    pub(crate) fn previous(&mut self) -> Option<Arc<Planned>> {
        match self.previous.as_ref()?.outcome() {
            None => self.previous.clone(),
            Some(Outcome::Committed) => {
                self.previous = None;
                None
            }
            Some(Outcome::Failed) => {
                *self = Self::default();
                None
            }
        }
    }

    /// Ends the last round. The caller holds `Shared::committing`, so no round is being committed. Returns whether the
    /// last round was committed. If it was not, everything is forgotten. A round whose commit panicked has no outcome,
    /// and counts as not committed.
    pub(crate) fn settle(&mut self) -> bool {
        let previous = self.previous.take();
        let is_committed = previous.is_none_or(|previous| previous.outcome() == Some(Outcome::Committed));
        if !is_committed {
            *self = Self::default();
        }
        is_committed
    }

    /// Takes over a round that is now being committed. All its logs are remembered, however many they are: until it is
    /// committed, the disk and the index may not have a log that it makes.
    pub(crate) fn take(&mut self, planned: &Arc<Planned>, recent: Recent, written: HashMap<LogKey, Loaded>) {
        if self.logs.len() + written.len() > REMEMBERED {
            self.logs.clear();
        }
        self.logs.extend(written);
        self.recent = recent;
        self.previous = Some(Arc::clone(planned));
    }
}
