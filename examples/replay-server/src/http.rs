//! The requests: `POST /runs/RUN` starts a run, and `GET /runs/RUN/events` gives its events.

use std::sync::Arc;

use agentstore::{Error, ErrorKind, ReplayRecord, ReplayStreamRef, ReplaySubscription, RunId};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::{StreamExt, stream};

use crate::{
    agent::Agent,
    wire::{self, DONE},
};

pub(crate) fn router(agent: Arc<Agent>) -> Router {
    Router::new().route("/runs/{run}", post(start)).route("/runs/{run}/events", get(events)).with_state(agent)
}

/// An error of the store, as a response.
struct Refusal(Error);

impl<E: Into<Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.0.kind() {
            ErrorKind::Invalid | ErrorKind::LimitExceeded => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::IdempotencyMismatch => StatusCode::CONFLICT,
            // The events after that one were purged: the client starts again without it.
            ErrorKind::CursorExpired => StatusCode::GONE,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, format!("{}\n", self.0)).into_response()
    }
}

/// Starts a run. The body is the question.
async fn start(
    State(agent): State<Arc<Agent>>,
    Path(run): Path<String>,
    question: String,
) -> Result<StatusCode, Refusal> {
    agent.start(&RunId::new(run)?, question).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Gives the events of a run: those after the last one that the client has received, and then each new one until the
/// run has ended.
async fn events(
    State(agent): State<Arc<Agent>>,
    Path(run): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let run = RunId::new(run)?;
    if agent.run(&run).await?.is_none() {
        return Err(Error::not_found("run", &run).into());
    }
    let stream = wire::stream_of(&run)?;
    let after = match headers.get("last-event-id") {
        None => None,
        Some(id) => {
            let last = last_received(&agent, &stream, id.to_str().unwrap_or_default()).await?;
            if last.wire_type.as_str() == DONE {
                // A client that gets this does not reconnect.
                return Ok(StatusCode::NO_CONTENT.into_response());
            }
            Some(last.cursor)
        }
    };
    Ok(send(agent.replay.subscribe_replay(&stream, after).await?))
}

/// Finds the record that a client has received last.
async fn last_received(agent: &Agent, stream: &ReplayStreamRef, id: &str) -> Result<ReplayRecord, Refusal> {
    let found = agent.replay.find_replay(stream, &id.parse()?).await?;
    Ok(found.ok_or_else(|| Error::not_found("event", id))?)
}

/// Sends the bytes of records as they are. After an error the connection breaks, and the client reconnects.
fn send(records: ReplaySubscription) -> Response {
    let bytes = stream::unfold(Some(records), |records| async move {
        let mut records = records?;
        match records.next().await? {
            Ok(record) => {
                let is_last = record.wire_type.as_str() == DONE;
                let bytes = Bytes::copy_from_slice(record.bytes().unwrap_or_default());
                Some((Ok(bytes), (!is_last).then_some(records)))
            }
            Err(error) => Some((Err(error), None)),
        }
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(bytes)).into_response()
}
