//! Extends a claim while its handler runs.

use std::time::Duration;

use store_core::ErrorKind;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::{Shared, Source, is_temporary};
use crate::worker::{Cancellation, Cancelled, cancellation::SettlingCommit};

/// Extends a claim at each third of its lease. Returns the reason when the claim is lost, or may be lost.
pub(super) async fn heartbeat<S: Source>(shared: &Shared<S>, job: &S::Job, cancellation: &Cancellation) -> Cancelled {
    let lease = shared.options.lease;
    let mut confirmed = Instant::now();
    let mut next = confirmed + lease / 3;
    loop {
        sleep_until(next).await;
        let asked = Instant::now();
        let until = (confirmed + lease).max(asked + retry_delay(lease));
        // If the answer does not arrive in time, the extension is not confirmed.
        let extended = timeout_at(until, shared.source.extend(job)).await;
        let error = match extended {
            Ok(Ok(())) => {
                confirmed = asked;
                next = asked + lease / 3;
                continue;
            }
            Ok(Err(error)) => error,
            Err(_) => return Cancelled::Unconfirmed,
        };
        tracing::debug!(%error, "a claim was not extended");
        next = Instant::now() + retry_delay(lease);
        match error.kind() {
            // The handler may have settled the claim with a commit of its own. Its answer is awaited, and if the commit
            // was refused, the claim is extended again.
            ErrorKind::ClaimLost | ErrorKind::StaleEpoch if cancellation.settling() != SettlingCommit::NotMade => {
                while cancellation.settling() != SettlingCommit::NotMade {
                    sleep(retry_delay(lease)).await;
                }
            }
            ErrorKind::ClaimLost => return Cancelled::Lost,
            ErrorKind::StaleEpoch => return Cancelled::Superseded,
            _ if is_temporary(&error) && next < confirmed + lease => {}
            _ => return Cancelled::Unconfirmed,
        }
    }
}

/// Returns the delay after an extension that failed.
fn retry_delay(lease: Duration) -> Duration {
    (lease / 20).clamp(Duration::from_millis(5), Duration::from_secs(2))
}
