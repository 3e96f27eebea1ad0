//! Delivers rows of the outbox to web servers: at least once, in order, retried, and given up when that is hopeless.
//!
//! A commit writes what happened and the row that tells of it in one step. The relay sends each row as a `POST`; the id
//! of the row is the `Idempotency-Key`, the same one in every attempt, by which a receiver tells repeats (OB-10).

use std::time::Duration;

use agentstore::{Failure, LaneId, OutboxDelivery, Relay, Result, Stores, TenantId, Verdict, WorkerOptions};
use ureq::{Agent, http::StatusCode};

/// The lane that is delivered.
pub const LANE: &str = "webhook";

/// How long a server may take to answer: less than a lease, so that a slow one does not run behind our back.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A relay for the rows of the lane [`LANE`], whose targets are URLs.
///
/// # Errors
/// As [`Relay::new`] and [`Relay::with_options`].
pub fn relay(stores: &Stores, tenant: &TenantId, options: WorkerOptions) -> Result<Relay> {
    // What a server answers is for us to judge: no status is an error of the client.
    let config = Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).build();
    let agent = Agent::new_with_config(config);
    let deliver = move |delivery: OutboxDelivery| {
        let agent = agent.clone();
        async move {
            // The client blocks: not on a thread that keeps claims alive.
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
        // It tells when to come back, or is too busy: later, but not for ever.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let after = answer.headers().get("Retry-After").and_then(|value| value.to_str().ok()?.parse().ok());
            Err(failure.with_verdict(after.map(Duration::from_secs).map_or(Verdict::Retry, Verdict::RetryAfter)))
        }
        // Nobody is there any more, or it will never like this: repeating it is of no use.
        status if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT => {
            Err(failure.with_verdict(Verdict::DeadLetter))
        }
        _ => Err(failure),
    }
}
