//! One connection to the servers, and the requests to JetStream over it. Every request goes to the leader of a stream.
//! Nothing is read from a replica (NA-1).

use std::{sync::OnceLock, time::Duration};

use async_nats::{Client, HeaderMap, client::Request, connection::State};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use store_core::{Detail, Error, Result, Timestamp};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    clock::{Clock, parse_server_time},
    config::NatsConfig,
    error::{self, Effect, Refusal},
    key::Keys,
};

/// The delay before another attempt.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(20);

const NO_LOG: &str = "the log no longer exists on the servers: open the mailbox again";
const OTHER_LOG: &str = "the log on the servers was created again after it was read: open the mailbox again";

/// The oldest server version that reports its time with the state of a stream.
const OLDEST_SERVER_VERSION: (u64, u64) = (2, 10);

/// A connection. Whenever it is lost, the client restores it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) keys: Keys,
    pub(crate) clock: Clock,
    pub(crate) deadline: Duration,
    /// The number of lost connections.
    lost: watch::Sender<u64>,
    /// The time at which the log was created, as the leader first reported it to this connection.
    log_created_at: OnceLock<String>,
}

/// The answer of a server.
#[derive(Deserialize)]
struct Answer {
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Acknowledged {
    seq: u64,
}

/// The leader's report on a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamInfo {
    pub(crate) config: Value,
    state: StreamState,
    created: String,
    ts: String,
}

#[derive(Debug, Deserialize)]
struct StreamState {
    last_seq: u64,
}

#[derive(Deserialize)]
struct Stored {
    message: StoredMessage,
}

#[derive(Deserialize)]
struct StoredMessage {
    seq: u64,
    #[serde(default)]
    data: String,
}

/// The answer of a stream to a message.
#[derive(Debug)]
pub(crate) enum WriteResult {
    /// The message was stored under this sequence number.
    Accepted(u64),
    /// Another message was written to the subject. This message is not stored and never will be.
    Conflict,
    /// The message is not stored and never will be. Another message on the subject is still being replicated, and it is
    /// unknown whether that one will be stored.
    Busy,
}

impl Connection {
    pub(crate) async fn open(config: &NatsConfig) -> Result<Self> {
        let lost = watch::Sender::new(0);
        let client = config.connect(lost.clone()).await?;
        let version = client.server_info().version;
        if !is_supported(&version) {
            return Err(Error::new(Detail::Unsupported { operation: "a server older than nats-server 2.10" }));
        }
        let largest = u64::try_from(client.server_info().max_payload).unwrap_or_default();
        check_max_payload(largest)?;
        let (keys, clock, log_created_at) = (Keys::new(&config.prefix), Clock::new(), OnceLock::new());
        Ok(Self { client, keys, clock, deadline: config.deadline, lost, log_created_at })
    }

    /// Returns the size in bytes of the largest record that fits into one message together with everything else in it.
    pub(crate) fn largest_record(&self) -> u64 {
        let largest = self.client.server_info().max_payload;
        u64::try_from(largest).unwrap_or_default().saturating_sub(OVERHEAD)
    }

    /// Waits for a connection. Without one the client would accept a message and send it at any later time.
    async fn wait_until_connected(&self) -> Result<()> {
        let begun = Instant::now();
        while self.client.connection_state() != State::Connected {
            if begun.elapsed() > self.deadline {
                return Err(Error::server_unavailable("there is no connection to a server"));
            }
            sleep(RETRY_DELAY).await;
        }
        Ok(())
    }

    async fn request(&self, subject: String, request: Request, effect: Effect) -> Result<Bytes> {
        self.wait_until_connected().await?;
        let mut lost = self.lost.subscribe();
        let answered = self.client.send_request(subject, request.timeout(Some(REQUEST_TIMEOUT.min(self.deadline))));
        tokio::select! {
            biased;
            answered = answered => answered.map(|message| message.payload).map_err(|e| error::request_failed(e, effect)),
            // The answer would have come over the lost connection.
            _ = lost.changed() => Err(error::connection_lost(effect)),
        }
    }

    /// Sends a request to the API of JetStream. A request that only reads is repeated until the deadline.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        what: &str,
        with: &Value,
        effect: Effect,
    ) -> Result<Result<T, Refusal>> {
        let payload = if with.is_null() { Bytes::new() } else { Bytes::from(with.to_string()) };
        let begun = Instant::now();
        loop {
            let request = Request::new().payload(payload.clone());
            match self.request(format!("$JS.API.{what}"), request, effect).await {
                Err(error) if effect == Effect::None && error.is_retryable() && begun.elapsed() < self.deadline => {
                    sleep(RETRY_DELAY).await;
                }
                answer => return parse_answer(&answer?),
            }
        }
    }

    /// Asks the leader for the end of a stream. The answer also contains the leader's time.
    pub(crate) async fn stream_info(&self, stream: &str) -> Result<Result<(u64, StreamInfo), Refusal>> {
        let found = self.ask::<StreamInfo>(&format!("STREAM.INFO.{stream}"), &Value::Null, Effect::None).await?;
        Ok(found.map(|info| {
            if let Some(time) = parse_server_time(&info.ts) {
                self.clock.set_leader_time(time);
            }
            (info.state.last_seq, info)
        }))
    }

    /// Returns the sequence number of the last message of the log. The request is repeated until the deadline.
    ///
    /// A missing log, or another log than before, is `Corrupt` (NA-7).
    pub(crate) async fn last_sequence(&self) -> Result<u64> {
        let (log, begun) = (self.keys.log_stream(), Instant::now());
        loop {
            let failed = match self.stream_info(&log).await {
                Ok(Ok((last, info))) if *self.log_created_at.get_or_init(|| info.created.clone()) == info.created => {
                    return Ok(last);
                }
                Ok(Ok(_)) => return Err(Error::corrupt(OTHER_LOG)),
                Ok(Err(refusal)) if refusal.is_stream_not_found() && self.log_created_at.get().is_some() => {
                    // In a cluster, a new leader may not know the log yet.
                    if self.client.server_info().cluster.is_none() || begun.elapsed() > self.deadline {
                        return Err(Error::corrupt(NO_LOG).with_source(refusal));
                    }
                    Error::from(refusal)
                }
                Ok(Err(refusal)) => Error::from(refusal),
                Err(error) => error,
            };
            if !failed.is_retryable() || begun.elapsed() > self.deadline {
                return Err(failed);
            }
            sleep(RETRY_DELAY).await;
        }
    }

    /// Writes a message if `last` is still the last message on its subject. `last` is 0 if there is none.
    pub(crate) async fn write_if_last(&self, subject: String, last: u64, text: String) -> Result<WriteResult> {
        self.write_with(subject, headers_expecting(last), text).await
    }

    /// Writes a message as `write_if_last` does, with the time until which it must be in the stream. A message that is
    /// stored later has no effect.
    pub(crate) async fn write_in_time(
        &self,
        subject: String,
        last: u64,
        text: String,
        until: Timestamp,
    ) -> Result<WriteResult> {
        let mut headers = headers_expecting(last);
        headers.insert(DEADLINE_HEADER, until.as_millis().to_string());
        self.write_with(subject, headers, text).await
    }

    async fn write_with(&self, subject: String, headers: HeaderMap, text: String) -> Result<WriteResult> {
        let request = Request::new().headers(headers).payload(text.into());
        let answer = self.request(subject, request, Effect::Perhaps).await?;
        match parse_answer::<Acknowledged>(&answer)? {
            Ok(acknowledged) => Ok(WriteResult::Accepted(acknowledged.seq)),
            Err(refusal) if refusal.is_conflict() => Ok(WriteResult::Conflict),
            Err(refusal) if refusal.is_busy() => {
                sleep(RETRY_DELAY).await;
                Ok(WriteResult::Busy)
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Writes a message unconditionally.
    pub(crate) async fn write(&self, subject: String, text: String) -> Result<u64> {
        let answer = self.request(subject, Request::new().payload(text.into()), Effect::Perhaps).await?;
        Ok(parse_answer::<Acknowledged>(&answer)??.seq)
    }

    /// Returns the message of a stream with this sequence number, or `None` if it no longer exists.
    pub(crate) async fn load(&self, stream: &str, sequence: u64) -> Result<Option<String>> {
        self.get(stream, &json!({ "seq": sequence })).await.map(|found| found.map(|(_, text)| text))
    }

    /// Returns the last message on a subject with its sequence number.
    pub(crate) async fn load_last(&self, stream: &str, subject: &str) -> Result<Option<(u64, String)>> {
        self.get(stream, &json!({ "last_by_subj": subject })).await
    }

    async fn get(&self, stream: &str, with: &Value) -> Result<Option<(u64, String)>> {
        let found = self.ask::<Stored>(&format!("STREAM.MSG.GET.{stream}"), with, Effect::None).await?;
        let message = match found {
            Ok(stored) => stored.message,
            Err(refusal) if refusal.is_not_found() => return Ok(None),
            Err(refusal) => return Err(refusal.into()),
        };
        let damaged = || Error::corrupt(format!("message {} of the stream `{stream}`", message.seq));
        let bytes = BASE64.decode(&message.data).map_err(|e| damaged().with_source(e))?;
        let text = String::from_utf8(bytes).map_err(|e| damaged().with_source(e.utf8_error()))?;
        Ok(Some((message.seq, text)))
    }

    /// Removes a message. A missing message counts as removed.
    pub(crate) async fn remove(&self, stream: &str, sequence: u64) -> Result<()> {
        let with = json!({ "seq": sequence, "no_erase": true });
        match self.ask::<Value>(&format!("STREAM.MSG.DELETE.{stream}"), &with, Effect::Perhaps).await? {
            Err(refusal) if !refusal.is_not_found() => Err(refusal.into()),
            _ => Ok(()),
        }
    }

    /// Removes all messages on matching subjects.
    pub(crate) async fn purge(&self, stream: &str, subjects: &str) -> Result<()> {
        let with = json!({ "filter": subjects });
        self.ask::<Value>(&format!("STREAM.PURGE.{stream}"), &with, Effect::Perhaps).await??;
        Ok(())
    }
}

/// The time after which a server that does not answer counts as unreachable. Another server may lead by then, so the
/// request is sent again.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Refuses a server whose messages are too small for a record of useful size and the other content of a message.
fn check_max_payload(bytes: u64) -> Result<()> {
    let least = OVERHEAD + LEAST_RECORD;
    if bytes >= least {
        return Ok(());
    }
    let reason =
        format!("the server allows {bytes} bytes, a mailbox needs at least {least}: raise this limit of the server");
    Err(Error::invalid("max_payload", reason))
}

/// The number of bytes of a message that are reserved for content other than a payload or result: the record of a
/// thread, and the ids, keys, texts and attempts of a dispatch.
const OVERHEAD: u64 = 128 << 10;
/// The limit of the size of a record, in bytes, must not be below this value.
const LEAST_RECORD: u64 = 64 << 10;

/// The header with the time until which a message must be in the stream, in milliseconds since 1970.
pub(crate) const DEADLINE_HEADER: &str = "Agentstore-Until";

/// Returns headers with the sequence number of the message that must be the last one on the subject.
fn headers_expecting(last: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Last-Subject-Sequence", last.to_string());
    headers
}

fn parse_answer<T: DeserializeOwned>(answer: &[u8]) -> Result<Result<T, Refusal>> {
    let unreadable =
        |e: serde_json::Error| Error::server_unavailable("the answer of the server cannot be read").with_source(e);
    if let Some(refusal) = serde_json::from_slice::<Answer>(answer).map_err(unreadable)?.error {
        return Ok(Err(refusal));
    }
    serde_json::from_slice(answer).map(Ok).map_err(unreadable)
}

fn is_supported(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u64>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return false };
    (major, minor) >= OLDEST_SERVER_VERSION
}

#[cfg(test)]
mod tests;
