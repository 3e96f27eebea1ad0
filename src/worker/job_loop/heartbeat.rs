//! Extends a claim while its handler runs.

use std::time::Duration;

use store_core::ErrorKind;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::{JobSource, LoopState, is_temporary};
use crate::worker::{CancelReason, Cancellation, cancellation::SettlingCommit};

/// Extends a claim after every third of its lease, until the claim is lost or may be lost. Returns the reason.
pub(super) async fn heartbeat<S: JobSource>(
    loop_state: &LoopState<S>,
    job: &S::Job,
    cancellation: &Cancellation,
) -> CancelReason {
    let lease = loop_state.options.lease;
    let mut last_confirmed = Instant::now();
    let mut next_extension = last_confirmed + lease / 3;
    loop {
        sleep_until(next_extension).await;
        let called_at = Instant::now();
        // The answer has to arrive before the confirmed lease ends. If that is very soon, the call gets more time.
        let answer_deadline = (last_confirmed + lease).max(called_at + retry_delay(lease));
        let answer = timeout_at(answer_deadline, loop_state.source.extend(job)).await;
        let error = match answer {
            Ok(Ok(())) => {
                last_confirmed = called_at;
                next_extension = called_at + lease / 3;
                continue;
            }
            Ok(Err(error)) => error,
            Err(_) => return CancelReason::Unconfirmed,
        };
        tracing::debug!(%error, "a claim was not extended");
        next_extension = Instant::now() + retry_delay(lease);
        match error.kind() {
            // The handler may have settled the claim with a commit of its own. So wait for the answer to that commit.
            // If it is refused, extend the claim again.
            ErrorKind::ClaimLost | ErrorKind::StaleEpoch
                if cancellation.settling_commit() != SettlingCommit::NotMade =>
            {
                while cancellation.settling_commit() != SettlingCommit::NotMade {
                    sleep(retry_delay(lease)).await;
                }
            }
            ErrorKind::ClaimLost => return CancelReason::Lost,
            ErrorKind::StaleEpoch => return CancelReason::Superseded,
            _ if is_temporary(&error) && next_extension < last_confirmed + lease => {}
            _ => return CancelReason::Unconfirmed,
        }
    }
}

/// Returns the delay after an extension that failed.
fn retry_delay(lease: Duration) -> Duration {
    (lease / 20).clamp(Duration::from_millis(5), Duration::from_secs(2))
}
