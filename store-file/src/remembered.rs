//! What the writer remembers between rounds, so that it need not be read again: what was written last.

use std::collections::HashMap;

use store_core::TenantId;

use crate::{fold::Told, journal::LogName, log::Position, names::LogKey, recent::Recent};

/// How many logs are remembered at most.
const REMEMBERED: usize = 512;

/// The logs that were written last, and the rows of the index.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    logs: HashMap<LogKey, Loaded>,
    pub(crate) recent: Recent,
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

    /// Remembers what was written.
    pub(crate) fn take(&mut self, written: HashMap<LogKey, Loaded>) {
        if self.logs.len() + written.len() > REMEMBERED {
            self.logs.clear();
        }
        self.logs.extend(written);
    }
}
