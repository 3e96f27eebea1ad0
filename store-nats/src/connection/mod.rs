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
    clock::{LeaderClock, parse_server_time},
    config::NatsConfig,
    error::{self, Refusal, RequestKind},
    server_names::ServerNames,
};

/// The delay before a request is sent again.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(20);

const LOG_MISSING: &str = "the log no longer exists on the servers: open the mailbox again";
const LOG_RECREATED: &str = "the log on the servers was created again after it was read: open the mailbox again";

/// The oldest server version that reports its time with the state of a stream.
const OLDEST_SERVER_VERSION: (u64, u64) = (2, 10);

/// A connection to the servers. Whenever it is lost, the client restores it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) names: ServerNames,
    pub(crate) clock: LeaderClock,
    pub(crate) answer_timeout: Duration,
    /// The number of lost connections.
    lost_connections: watch::Sender<u64>,
    /// The time at which the log was created, as the leader first reported it to this connection.
    log_created_at: OnceLock<String>,
}

/// The part of every answer that says whether the server refused the request.
#[derive(Deserialize)]
struct ErrorField {
    error: Option<Refusal>,
}

/// The answer to a message that was written.
#[derive(Deserialize)]
struct WriteAnswer {
    seq: u64,
}

/// The leader's report on a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamInfo {
    pub(crate) config: Value,
    state: StreamState,
    /// When the stream was created. A stream that is created again has another time.
    pub(crate) created: String,
    ts: String,
    #[serde(default)]
    cluster: Option<StreamCluster>,
}

#[derive(Debug, Deserialize)]
struct StreamState {
    last_seq: u64,
    #[serde(default)]
    bytes: u64,
}

#[derive(Debug, Deserialize)]
struct StreamCluster {
    #[serde(default)]
    replicas: Vec<Replica>,
}

/// A server that has a copy of a stream, besides the leader.
#[derive(Debug, Deserialize)]
pub(crate) struct Replica {
    pub(crate) name: String,
    /// Whether the copy is up to date.
    #[serde(default)]
    pub(crate) current: bool,
    #[serde(default)]
    pub(crate) offline: bool,
}

impl StreamInfo {
    pub(crate) const fn bytes(&self) -> u64 {
        self.state.bytes
    }

    pub(crate) fn replicas(&self) -> &[Replica] {
        self.cluster.as_ref().map_or(&[], |cluster| &cluster.replicas)
    }
}

/// The answer to a request for a stored message.
#[derive(Deserialize)]
struct MessageAnswer {
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
    /// unknown whether the other message will be stored.
    Busy,
}

impl Connection {
    pub(crate) async fn open(config: &NatsConfig) -> Result<Self> {
        let lost_connections = watch::Sender::new(0);
        let client = config.connect(lost_connections.clone()).await?;
        let version = client.server_info().version;
        if !is_supported_version(&version) {
            return Err(Error::new(Detail::Unsupported { operation: "a server older than nats-server 2.10" }));
        }
        let max_payload = u64::try_from(client.server_info().max_payload).unwrap_or_default();
        check_max_payload(max_payload)?;
        let (names, clock, log_created_at) = (ServerNames::new(&config.prefix), LeaderClock::new(), OnceLock::new());
        Ok(Self { client, names, clock, answer_timeout: config.answer_timeout, lost_connections, log_created_at })
    }

    /// Returns the size in bytes of the largest record that fits into one message together with everything else in it.
    pub(crate) fn max_record_bytes(&self) -> u64 {
        let max_payload = self.client.server_info().max_payload;
        u64::try_from(max_payload).unwrap_or_default().saturating_sub(RESERVED_BYTES)
    }

    /// Waits for a connection. Without one the client would accept a message and send it at any later time.
    async fn wait_until_connected(&self) -> Result<()> {
        let started_at = Instant::now();
        while self.client.connection_state() != State::Connected {
            if started_at.elapsed() > self.answer_timeout {
                return Err(Error::server_unavailable("there is no connection to a server"));
            }
            sleep(RETRY_DELAY).await;
        }
        Ok(())
    }

    async fn request(&self, subject: String, request: Request, request_kind: RequestKind) -> Result<Bytes> {
        self.wait_until_connected().await?;
        let mut lost_connections = self.lost_connections.subscribe();
        let answer = self.client.send_request(subject, request.timeout(Some(REQUEST_TIMEOUT.min(self.answer_timeout))));
        tokio::select! {
            biased;
            result = answer => result
                .map(|message| message.payload)
                .map_err(|e| error::request_failed(e, request_kind)),
            // The answer would have come over the lost connection.
            _ = lost_connections.changed() => Err(error::connection_lost(request_kind)),
        }
    }

    /// Sends a request to the API of JetStream. A request that only reads is repeated until
    /// `answer_timeout` has passed.
    pub(crate) async fn call_api<T: DeserializeOwned>(
        &self,
        operation: &str,
        parameters: &Value,
        request_kind: RequestKind,
    ) -> Result<Result<T, Refusal>> {
        let payload = if parameters.is_null() { Bytes::new() } else { Bytes::from(parameters.to_string()) };
        let started_at = Instant::now();
        loop {
            let request = Request::new().payload(payload.clone());
            match self.request(format!("$JS.API.{operation}"), request, request_kind).await {
                Err(error)
                    if request_kind == RequestKind::Read
                        && error.is_retryable()
                        && started_at.elapsed() < self.answer_timeout =>
                {
                    sleep(RETRY_DELAY).await;
                }
                answer => return parse_answer(&answer?),
            }
        }
    }

    /// Asks the leader about a stream. Returns the sequence number of its last message, and the whole answer. The
    /// answer also contains the leader's time, which sets the clock.
    pub(crate) async fn stream_info(&self, stream: &str) -> Result<Result<(u64, StreamInfo), Refusal>> {
        let result =
            self.call_api::<StreamInfo>(&format!("STREAM.INFO.{stream}"), &Value::Null, RequestKind::Read).await?;
        Ok(result.map(|info| {
            if let Some(time) = parse_server_time(&info.ts) {
                self.clock.set_leader_time(time);
            }
            (info.state.last_seq, info)
        }))
    }

    /// Returns the sequence number of the last message of the log. The request is repeated until `answer_timeout` has
    /// passed.
    ///
    /// If the log is missing, or if it was created again, the call returns `Corrupt` (NA-7).
    pub(crate) async fn last_sequence(&self) -> Result<u64> {
        let (log, started_at) = (self.names.log_stream(), Instant::now());
        loop {
            let error = match self.stream_info(&log).await {
                Ok(Ok((last, info))) if *self.log_created_at.get_or_init(|| info.created.clone()) == info.created => {
                    return Ok(last);
                }
                Ok(Ok(_)) => return Err(Error::corrupt(LOG_RECREATED)),
                Ok(Err(refusal)) if refusal.is_stream_not_found() && self.log_created_at.get().is_some() => {
                    // In a cluster, a new leader may not know the log yet.
                    if self.client.server_info().cluster.is_none() || started_at.elapsed() > self.answer_timeout {
                        return Err(Error::corrupt(LOG_MISSING).with_source(refusal));
                    }
                    Error::from(refusal)
                }
                Ok(Err(refusal)) => Error::from(refusal),
                Err(error) => error,
            };
            if !error.is_retryable() || started_at.elapsed() > self.answer_timeout {
                return Err(error);
            }
            sleep(RETRY_DELAY).await;
        }
    }

    /// Writes a message if the message with the number `last` is still the last one on its subject. `last` is 0 if
    /// there is none.
    pub(crate) async fn write_if_last(&self, subject: String, last: u64, text: String) -> Result<WriteResult> {
        self.write_with(subject, headers_expecting(last), text).await
    }

    /// Writes a message as `write_if_last` does. If the message is stored after the time `until`, it has no effect. The
    /// node that wrote it recognises it in the stream by its name.
    pub(crate) async fn write_in_time(
        &self,
        subject: String,
        last: u64,
        (name, text): (Option<String>, String),
        until: Timestamp,
    ) -> Result<WriteResult> {
        let mut headers = headers_expecting(last);
        if let Some(name) = name {
            headers.insert(NAME_HEADER, name);
        }
        headers.insert(DEADLINE_HEADER, until.as_millis().to_string());
        self.write_with(subject, headers, text).await
    }

    async fn write_with(&self, subject: String, headers: HeaderMap, text: String) -> Result<WriteResult> {
        let request = Request::new().headers(headers).payload(text.into());
        let answer = self.request(subject, request, RequestKind::Change).await?;
        match parse_answer::<WriteAnswer>(&answer)? {
            Ok(answer) => Ok(WriteResult::Accepted(answer.seq)),
            Err(refusal) if refusal.is_conflict() => Ok(WriteResult::Conflict),
            Err(refusal) if refusal.is_busy() => {
                sleep(RETRY_DELAY).await;
                Ok(WriteResult::Busy)
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Writes a message unconditionally. Returns its sequence number.
    pub(crate) async fn write(&self, subject: String, text: String) -> Result<u64> {
        let answer = self.request(subject, Request::new().payload(text.into()), RequestKind::Change).await?;
        Ok(parse_answer::<WriteAnswer>(&answer)??.seq)
    }

    /// Returns the message of a stream with this sequence number, or `None` if it no longer exists.
    pub(crate) async fn load(&self, stream: &str, sequence: u64) -> Result<Option<String>> {
        self.get_message(stream, &json!({ "seq": sequence })).await.map(|message| message.map(|(_, text)| text))
    }

    /// Returns the last message on a subject, and its sequence number. Returns `None` if there is no message.
    pub(crate) async fn load_last(&self, stream: &str, subject: &str) -> Result<Option<(u64, String)>> {
        self.get_message(stream, &json!({ "last_by_subj": subject })).await
    }

    async fn get_message(&self, stream: &str, parameters: &Value) -> Result<Option<(u64, String)>> {
        let result =
            self.call_api::<MessageAnswer>(&format!("STREAM.MSG.GET.{stream}"), parameters, RequestKind::Read).await?;
        let message = match result {
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
        let parameters = json!({ "seq": sequence });
        match self.call_api::<Value>(&format!("STREAM.MSG.DELETE.{stream}"), &parameters, RequestKind::Change).await? {
            Err(refusal) if !refusal.is_not_found() => Err(refusal.into()),
            _ => Ok(()),
        }
    }

    /// Removes all messages on matching subjects.
    pub(crate) async fn purge(&self, stream: &str, subjects: &str) -> Result<()> {
        let parameters = json!({ "filter": subjects });
        self.call_api::<Value>(&format!("STREAM.PURGE.{stream}"), &parameters, RequestKind::Change).await??;
        Ok(())
    }
}

impl Connection {
    /// Removes the messages on matching subjects up to the message `last`.
    pub(crate) async fn purge_upto(&self, stream: &str, subjects: &str, last: u64) -> Result<()> {
        let parameters = json!({ "filter": subjects, "seq": last.saturating_add(1) });
        self.call_api::<Value>(&format!("STREAM.PURGE.{stream}"), &parameters, RequestKind::Change).await??;
        Ok(())
    }
}

/// The time after which a server that does not answer counts as unreachable. Another server may lead by then. So a
/// request that only reads is sent again.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Refuses a server whose maximum message size is too small for a record of useful size and the other content of a
/// message.
fn check_max_payload(bytes: u64) -> Result<()> {
    let min_bytes = RESERVED_BYTES + MIN_RECORD_BYTES;
    if bytes >= min_bytes {
        return Ok(());
    }
    let reason = format!(
        "the server allows {bytes} bytes, a mailbox needs at least {min_bytes}: raise this limit of the server"
    );
    Err(Error::invalid("max_payload", reason))
}

/// The number of bytes of a message that are reserved for everything except a payload or result: the record of a
/// thread, and the ids, keys, texts and attempts of a dispatch.
const RESERVED_BYTES: u64 = 128 << 10;
/// The smallest accepted limit for the size of a record, in bytes.
const MIN_RECORD_BYTES: u64 = 64 << 10;

/// The header with the time until which a message must be in the stream, in milliseconds since 1970.
pub(crate) const DEADLINE_HEADER: &str = "Agentstore-Until";

/// The header with the name of a message.
pub(crate) const NAME_HEADER: &str = "Agentstore-Name";

/// Returns headers with the sequence number of the message that must be the last one on the subject.
fn headers_expecting(last: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Last-Subject-Sequence", last.to_string());
    headers
}

fn parse_answer<T: DeserializeOwned>(answer: &[u8]) -> Result<Result<T, Refusal>> {
    let unreadable =
        |e: serde_json::Error| Error::server_unavailable("the answer of the server cannot be read").with_source(e);
    if let Some(refusal) = serde_json::from_slice::<ErrorField>(answer).map_err(unreadable)?.error {
        return Ok(Err(refusal));
    }
    serde_json::from_slice(answer).map(Ok).map_err(unreadable)
}

fn is_supported_version(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u64>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return false };
    (major, minor) >= OLDEST_SERVER_VERSION
}

#[cfg(test)]
mod tests;
