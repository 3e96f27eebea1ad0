//! What the writer remembers between rounds, so that it need not be read again: what was written last.

use std::collections::HashMap;

use store_core::TenantId;

use crate::{fold::Told, journal::LogName, log::Position, shared::LogKey};

/// How many logs are remembered at most.
const REMEMBERED: usize = 512;

/// The logs that were written last.
#[derive(Debug, Default)]
pub(crate) struct Remembered(HashMap<LogKey, Loaded>);

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
        self.0.retain(|(of, ..), _| of != tenant);
    }

    /// Forgets a log: it was written by something else than a round, or is gone.
    pub(crate) fn forget(&mut self, key: &LogKey) {
        self.0.remove(key);
    }

    /// What is remembered of a log.
    pub(super) fn get(&self, key: &LogKey) -> Option<&Loaded> {
        self.0.get(key)
    }

    /// Remembers what was written.
    pub(super) fn take(&mut self, written: HashMap<LogKey, Loaded>) {
        if self.0.len() + written.len() > REMEMBERED {
            self.0.clear();
        }
        self.0.extend(written);
    }
}
