//! Stores for tests. Each test has its own prefix, and its clock stands still unless the test moves it.

use std::time::Duration;

use async_nats::jetstream;
use bytes::Bytes;
use serde_json::Value;
use store_core::{Error, IdSource, Outcome, Result, Timestamp, UuidSource};
use tokio::time::Instant;

use crate::{
    codec, config::NatsConfig, connection::Connection, error::RequestKind, server_names::LogSubject, store::NatsStore,
    streams,
};

/// The time at which the clock starts, in milliseconds since 1970.
const START_MILLIS: u64 = 1_763_700_000_000;

/// A prefix for one test. Stores opened under it share its clock, which starts in November 2025.
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
    /// Creates the streams under a new prefix on the server of `config`. The prefix of `config` itself is not used.
    ///
    /// # Errors
    /// Any error of [`NatsStore::open`].
    pub async fn create(config: NatsConfig) -> Result<Self> {
        let mut config = config.with_prefix(&format!("test-{}", UuidSource.next_id()))?;
        config.uses_test_clock = true;
        let prefix = Self { config };
        let connection = Connection::open(&prefix.config).await?;
        streams::open(&connection, &prefix.config).await?;
        prefix.set_clock(&connection, START_MILLIS).await?;
        Ok(prefix)
    }

    /// Returns the prefix that `config` names, for example to remove it. Nothing is created, and the clock is not
    /// stopped.
    #[must_use]
    pub const fn from_config(config: NatsConfig) -> Self {
        Self { config }
    }

    /// Opens a store under the prefix. Each opening behaves like one in another process.
    ///
    /// # Errors
    /// Any error of [`NatsStore::open`].
    pub async fn open(&self) -> Result<NatsStore> {
        NatsStore::open(self.config.clone()).await
    }

    /// Returns the settings with which the stores under the prefix are opened.
    #[must_use]
    pub const fn config(&self) -> &NatsConfig {
        &self.config
    }

    /// Moves the clock forward.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached.
    pub async fn advance(&self, by: Duration) -> Result<()> {
        self.change_clock(|now| now.saturating_add(by)).await
    }

    /// Sets the clock back.
    ///
    /// # Errors
    /// Any error of [`advance`](Self::advance).
    pub async fn set_back(&self, by: Duration) -> Result<()> {
        self.change_clock(|now| now.saturating_sub(by)).await
    }

    async fn change_clock(&self, change: impl Fn(Timestamp) -> Timestamp) -> Result<()> {
        let connection = Connection::open(&self.config).await?;
        let subject = connection.names.subject_text(&LogSubject::Clock);
        let message = connection.load_last(&connection.names.log_stream(), &subject).await?;
        let now = message.and_then(|(_, text)| codec::parse_test_time(&text)).unwrap_or_default();
        self.set_clock(&connection, change(now).as_millis()).await
    }

    async fn set_clock(&self, connection: &Connection, millis: u64) -> Result<()> {
        let started_at = Instant::now();
        loop {
            match connection.write(connection.names.subject_text(&LogSubject::Clock), millis.to_string()).await {
                Err(error)
                    if error.outcome() == Outcome::Unknown && started_at.elapsed() < self.config.answer_timeout => {}
                result => return result.map(drop),
            }
        }
    }

    /// Removes all streams under the prefix.
    ///
    /// # Errors
    /// Any error of [`advance`](Self::advance).
    pub async fn remove(&self) -> Result<()> {
        let connection = Connection::open(&self.config).await?;
        for stream in
            [connection.names.log_stream(), connection.names.data_stream(), connection.names.baseline_stream()]
        {
            let delete = format!("STREAM.DELETE.{stream}");
            let started_at = Instant::now();
            loop {
                match connection.call_api::<Value>(&delete, &Value::Null, RequestKind::Change).await {
                    // The next round shows whether the stream was removed.
                    Err(error)
                        if error.outcome() == Outcome::Unknown && started_at.elapsed() < self.config.answer_timeout => {
                    }
                    Err(error) => return Err(error),
                    Ok(Err(refusal)) if !refusal.is_not_found() => return Err(refusal.into()),
                    Ok(_) => break,
                }
            }
        }
        Ok(())
    }
}

/// A connection that only writes messages to a stream with the settings of a store. It is the baseline for measurements
/// of stores.
///
/// ```no_run
/// use store_nats::{BaselinePublisher, NatsConfig, TestPrefix};
///
/// # async fn example() -> store_core::Result<()> {
/// let prefix = TestPrefix::create(NatsConfig::new("nats://localhost/?allow_unsafe=true")?).await?;
/// let publisher = BaselinePublisher::open(&prefix).await?;
/// publisher.publish("a body", 100).await
/// # }
/// ```
#[derive(Debug)]
pub struct BaselinePublisher {
    context: jetstream::Context,
    subject: String,
}

impl BaselinePublisher {
    /// Connects, and creates the stream if it does not exist. The stream is removed together with the prefix.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached.
    pub async fn open(prefix: &TestPrefix) -> Result<Self> {
        let connection = Connection::open(&prefix.config).await?;
        let stream = connection.names.baseline_stream();
        let subject = format!("{}.bare", prefix.config.prefix());
        let _info = streams::ensure_stream(&connection, &prefix.config, &stream, &subject).await?;
        Ok(Self { context: jetstream::new(connection.client), subject })
    }

    /// Writes `count` messages with this content, one after another. Then waits until all of them are acknowledged.
    ///
    /// # Errors
    /// Any error of [`open`](Self::open).
    pub async fn publish(&self, body: &str, count: usize) -> Result<()> {
        let to_error = |e| Error::unavailable("a message was not acknowledged").with_source(e);
        let mut acks = Vec::with_capacity(count);
        for _ in 0..count {
            let body = Bytes::copy_from_slice(body.as_bytes());
            acks.push(self.context.publish(self.subject.clone(), body).await.map_err(to_error)?);
        }
        for ack in acks {
            let _ack = ack.await.map_err(to_error)?;
        }
        Ok(())
    }
}
