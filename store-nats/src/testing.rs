//! Stores for tests: each under a prefix of its own, whose clock stands still unless it is moved.

use std::time::Duration;

use serde_json::Value;
use store_core::{IdSource, Result, Timestamp, Uuids};

use crate::{codec, config::NatsConfig, connection::Connection, error::Effect, key::Key, store::NatsStore, streams};

/// When time begins.
const BEGIN: u64 = 1_763_700_000_000;

/// A prefix for one test. Stores that are opened under it share its time, which begins in November 2025.
///
/// ```no_run
/// use std::time::Duration;
///
/// use store_nats::{NatsConfig, TestPrefix};
///
/// # async fn example() -> store_core::Result<()> {
/// let config = NatsConfig::new("nats://localhost/?allow_unsafe=true")?;
/// let prefix = TestPrefix::create(config).await?;
/// let store = prefix.open().await?;
/// prefix.advance(Duration::from_mins(5)).await?;
/// prefix.remove().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TestPrefix {
    config: NatsConfig,
}

impl TestPrefix {
    /// Makes the streams under a prefix of its own on the server of `config`, beside the one that it names.
    ///
    /// # Errors
    /// Those of [`NatsStore::open`].
    pub async fn create(config: NatsConfig) -> Result<Self> {
        let mut config = config.with_prefix(&format!("test-{}", Uuids.next_id()))?;
        config.stands_still = true;
        let prefix = Self { config };
        let connection = Connection::open(&prefix.config).await?;
        streams::open(&connection, &prefix.config).await?;
        prefix.set(&connection, BEGIN).await?;
        Ok(prefix)
    }

    /// Opens a store under it. Each opening is as one of another process.
    ///
    /// # Errors
    /// Those of [`NatsStore::open`].
    pub async fn open(&self) -> Result<NatsStore> {
        NatsStore::open(self.config.clone()).await
    }

    /// How its stores are opened.
    #[must_use]
    pub const fn config(&self) -> &NatsConfig {
        &self.config
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached.
    pub async fn advance(&self, by: Duration) -> Result<()> {
        self.change(|now| now.saturating_add(by)).await
    }

    /// Sets its clock back.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub async fn set_back(&self, by: Duration) -> Result<()> {
        self.change(|now| now.saturating_sub(by)).await
    }

    async fn change(&self, change: impl Fn(Timestamp) -> Timestamp) -> Result<()> {
        let connection = Connection::open(&self.config).await?;
        let subject = connection.keys.subject(&Key::Clock);
        let found = connection.load_last(&connection.keys.log(), &subject).await?;
        let now = found.and_then(|(_, text)| codec::time(&text)).unwrap_or_default();
        self.set(&connection, change(now).as_millis()).await
    }

    async fn set(&self, connection: &Connection, millis: u64) -> Result<()> {
        connection.write(connection.keys.subject(&Key::Clock), millis.to_string()).await.map(drop)
    }

    /// Removes it with everything under it.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub async fn remove(&self) -> Result<()> {
        let connection = Connection::open(&self.config).await?;
        for stream in [connection.keys.log(), connection.keys.data()] {
            let delete = format!("STREAM.DELETE.{stream}");
            let _answer = connection.ask::<Value>(&delete, &Value::Null, Effect::Perhaps).await??;
        }
        Ok(())
    }
}
