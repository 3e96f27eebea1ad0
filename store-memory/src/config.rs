//! The settings with which an in-memory store is opened.

use std::sync::Arc;

use store_core::{Clock, IdSource, Limits, SystemClock, UuidSource};

/// The settings with which a [`MemoryStore`](crate::MemoryStore) is opened.
///
/// ```
/// use std::sync::Arc;
/// use store_core::{ManualClock, Timestamp};
/// use store_memory::MemoryConfig;
///
/// let config = MemoryConfig::default().with_clock(Arc::new(ManualClock::new(Timestamp::MIN)));
/// ```
#[derive(Debug, Clone)]
pub struct MemoryConfig {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) limits: Limits,
}

impl Default for MemoryConfig {
    /// Returns a configuration with the host's clock, UUIDv7 ids and the limits of the contract.
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), ids: Arc::new(UuidSource), limits: Limits::default() }
    }
}

impl MemoryConfig {
    /// Returns the configuration with `clock` as the source of store time.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the configuration with `ids` as the source of generated ids.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// Returns the configuration with these limits. A limit above that of the contract is lowered to it.
    #[must_use]
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        self.limits = limits.at_most(&Limits::default());
        self
    }
}
