//! The settings of a write buffer.

use std::time::Duration;

use store_core::Result;

use crate::config::NatsConfig;

/// The prefix of the names of a buffer on the server, unless the settings name another.
pub const DEFAULT_BUFFER_PREFIX: &str = "agentstore-buffer";

/// What reads show (NB-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BufferReads {
    /// Every write that was acknowledged before the read, on every node.
    #[default]
    ReadYourWrites,
    /// Only what the inner store has, after waiting for everything that was acknowledged before the read.
    Strong,
    /// What the inner store has at the moment.
    Eventual,
}

/// The settings of a write buffer (NB-13).
///
/// ```
/// use std::time::Duration;
/// use store_nats::{BufferConfig, NatsConfig};
///
/// let servers = NatsConfig::new("nats://localhost:4222/?assume_sync=true")?;
/// let mut config = BufferConfig::new(servers)?;
/// config.flush_interval = Duration::from_millis(100);
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BufferConfig {
    /// The servers, and the names of the buffer on them.
    pub servers: NatsConfig,
    /// What reads show.
    pub reads: BufferReads,
    /// How long a delta waits at most before it is applied. 500 ms by default.
    pub flush_interval: Duration,
    /// The number of deltas that are applied together at most, at least 1. When so many wait, they are applied at once.
    /// 512 by default.
    pub batch: usize,
    /// How long a call waits until deltas are applied. 30 s by default.
    pub flush_deadline: Duration,
    /// The bytes of deltas that may wait. When there are more, writes are refused with `Unavailable`. 64 MiB by
    /// default.
    pub backlog_bytes: u64,
}

impl BufferConfig {
    /// Makes the settings of a buffer on these servers. If they name no prefix, it is `agentstore-buffer`, so that a
    /// mailbox on the same servers has other streams.
    ///
    /// # Errors
    /// `Invalid` for a prefix that is not a single token of a subject.
    pub fn new(servers: NatsConfig) -> Result<Self> {
        let servers = match servers.prefix() {
            crate::url::DEFAULT_PREFIX => servers.with_prefix(DEFAULT_BUFFER_PREFIX)?,
            _ => servers,
        };
        Ok(Self {
            servers,
            reads: BufferReads::default(),
            flush_interval: Duration::from_millis(500),
            batch: 512,
            flush_deadline: Duration::from_secs(30),
            backlog_bytes: 64 << 20,
        })
    }
}
