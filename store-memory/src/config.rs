//! What a store in memory is opened with.

use std::sync::Arc;

use store_core::{Clock, IdSource, Limits, SystemClock, Uuids};

/// What a [`MemoryStore`](crate::MemoryStore) is opened with.
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
    /// The host's clock, UUIDv7 as ids, and the limits of the contract.
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), ids: Arc::new(Uuids), limits: Limits::default() }
    }
}

impl MemoryConfig {
    /// The same, asking `clock` for the time.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same, taking ids from `ids`.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// The same with these limits; none goes above that of the contract.
    #[must_use]
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        self.limits = limits.at_most(&Limits::default());
        self
    }
}
