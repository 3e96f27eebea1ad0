//! What the writer remembers between rounds, so that it need not be read again: what was planned last.

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

/// How many logs are remembered at most.
const REMEMBERED: usize = 512;

/// The logs that were written last, the rows of the index, and the round that is being committed: all of it as if that
/// round were committed.
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

    /// Forgets a log: it was written by something else than a round, or is gone.
    pub(crate) fn forget(&mut self, key: &LogKey) {
        self.logs.remove(key);
    }

    /// What is remembered of a log.
    pub(crate) fn get(&self, key: &LogKey) -> Option<&Loaded> {
        self.logs.get(key)
    }

    /// The round that is being committed. If the last one was not committed, everything is forgotten that was planned
    /// over it.
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

    /// Whether the last round was committed. To be asked when none is being committed. If it was not, everything is
    /// forgotten that was planned over it.
    pub(crate) fn settle(&mut self) -> bool {
        let previous = self.previous.take();
        let is_committed = previous.is_none_or(|previous| previous.outcome() == Some(Outcome::Committed));
        if !is_committed {
            *self = Self::default();
        }
        is_committed
    }

    /// Takes over a round that is now being committed.
    pub(crate) fn take(&mut self, planned: &Arc<Planned>, recent: Recent, written: HashMap<LogKey, Loaded>) {
        if self.logs.len() + written.len() > REMEMBERED {
            self.logs.clear();
        }
        self.logs.extend(written);
        self.recent = recent;
        self.previous = Some(Arc::clone(planned));
    }
}
