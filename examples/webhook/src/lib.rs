//! Delivers outbox rows to web servers: at least once, in order, and with retries unless a retry is useless.
//!
//! A commit writes what happened, and a row that tells other systems of it, in one step. The relay sends each row as a
//! `POST`. The id of the row is the `Idempotency-Key`. It is the same in every attempt, so that a receiver recognises
//! repeats (OB-10).

use std::time::Duration;

use agentstore::{Failure, LaneId, OutboxDelivery, Relay, Result, Stores, TenantId, Verdict, WorkerOptions};
use ureq::{Agent, http::StatusCode};

/// The lane whose rows are delivered. A lane is a kind of delivery.
pub const LANE: &str = "webhook";

/// How long a server may take to answer. It is shorter than a lease, so that no request outlasts its claim.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Makes a relay for the rows of the lane [`LANE`], whose targets are URLs.
///
/// # Errors
/// Those of [`Relay::new`] and [`Relay::with_options`].
pub fn relay(stores: &Stores, tenant: &TenantId, options: WorkerOptions) -> Result<Relay> {
    // `post` decides what a status means, so the client must not turn any status into an error.
    let config = Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).build();
    let agent = Agent::new_with_config(config);
    let deliver = move |delivery: OutboxDelivery| {
        let agent = agent.clone();
        async move {
            // The client blocks, so it must not run on an OS thread of the runtime: that thread may be needed to extend
            // claims.
            tokio::task::spawn_blocking(move || post(&agent, &delivery)).await?
        }
    };
    Relay::new(stores, tenant, LaneId::new(LANE)?, deliver)?.with_options(options)
}

/// Sends one row.
fn post(agent: &Agent, delivery: &OutboxDelivery) -> std::result::Result<(), Failure> {
    let row = delivery.row();
    let answer = agent
        .post(row.target.as_str())
        .header("Content-Type", "application/json")
        .header("Idempotency-Key", row.id.as_str())
        .send(row.payload.as_str())?;
    let status = answer.status();
    let failure = Failure::new(format!("the server answered {status}"));
    match status {
        status if status.is_success() => Ok(()),
        // The server is overloaded, or says when to try again. Each attempt counts, so the retries end at some point.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let after = answer.headers().get("Retry-After").and_then(|value| value.to_str().ok()?.parse().ok());
            Err(failure.with_verdict(after.map(Duration::from_secs).map_or(Verdict::Retry, Verdict::RetryAfter)))
        }
        // The receiver no longer exists, or will never accept this request. Repeating it is useless.
        status if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT => {
            Err(failure.with_verdict(Verdict::DeadLetter))
        }
        _ => Err(failure),
    }
}
