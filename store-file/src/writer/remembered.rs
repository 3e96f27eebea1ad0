//! What the writer remembers between rounds, so that it need not be read again: what was written last.

use std::collections::HashMap;

use store_core::TenantId;

use crate::{fold::Told, journal::LogName, log::Position, recent::Recent, shared::LogKey};

/// How many logs are remembered at most.
const REMEMBERED: usize = 512;

/// The logs that were written last, and the rows of the index.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    logs: HashMap<LogKey, Loaded>,
    pub(super) recent: Recent,
}

/// A log as its writer knows it.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    pub(super) told: Told,
    pub(super) name: LogName,
    pub(super) end: Position,
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
    pub(super) fn get(&self, key: &LogKey) -> Option<&Loaded> {
        self.logs.get(key)
    }

    /// Remembers what was written.
    pub(super) fn take(&mut self, written: HashMap<LogKey, Loaded>) {
        if self.logs.len() + written.len() > REMEMBERED {
            self.logs.clear();
        }
        self.logs.extend(written);
    }
}
