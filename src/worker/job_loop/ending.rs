//! Settles a job after its handler has ended.

use std::time::Duration;

use store_core::{Error, ErrorKind, Settlement};
use tokio::time::{Instant, sleep};

use super::{AttemptState, JobSource, LoopState, attempt::HandlerOutcome, is_temporary};
use crate::{
    Backoff,
    worker::{CancelReason, Failure, Verdict, cancellation::SettlingCommit},
};

/// The delays after which a settlement that was not accepted is tried again.
const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));
/// How long a worker that is stopping tries to settle.
const STOP_SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// How the attempt ended in this process.
pub(super) struct AttemptOutcome {
    pub(super) handler_outcome: HandlerOutcome,
    pub(super) cancel_reason: Option<CancelReason>,
    pub(super) settling_commit: SettlingCommit,
}

/// Ends the attempt in the store, and returns the name of the outcome.
pub(super) async fn end_attempt<S: JobSource>(
    loop_state: &LoopState<S>,
    job: &S::Job,
    attempt_outcome: AttemptOutcome,
) -> &'static str {
    let AttemptOutcome { handler_outcome, cancel_reason, settling_commit } = attempt_outcome;
    if settling_commit == SettlingCommit::Acked {
        return count_settled(loop_state, "acked");
    }
    if settling_commit != SettlingCommit::NotMade {
        match outcome_of_settling_commit(loop_state, job).await {
            AttemptState::Ended(outcome) => return count_settled(loop_state, outcome),
            AttemptState::Lost(reason) => return count_lost_claim(loop_state, reason),
            AttemptState::Forgotten => return count_unknown(loop_state),
            // The commit was not applied. If it reaches the store later, it is refused, because the claim has been
            // settled by then.
            AttemptState::Held => {}
        }
    }
    if let Some(reason) = cancel_reason.filter(|reason| reason.is_lost()) {
        return count_lost_claim(loop_state, reason);
    }
    let failures = loop_state.source.failures(job).saturating_add(1);
    let settlement = match (handler_outcome, cancel_reason) {
        (HandlerOutcome::Answer(Ok(done)), _) => done.settlement().unwrap_or_else(|| {
            let failure = Failure::new("the handler returned `Committed`, but no commit settled its dispatch");
            settlement_of_failure(loop_state, &failure, failures)
        }),
        (_, Some(CancelReason::Stopping)) => Settlement::Release,
        (HandlerOutcome::Answer(Err(_)) | HandlerOutcome::Aborted, Some(CancelReason::Deadline)) => {
            settlement_of_failure(loop_state, &Failure::new("it ran longer than its deadline"), failures)
        }
        (HandlerOutcome::Answer(Err(failure)), _) => settlement_of_failure(loop_state, &failure, failures),
        (HandlerOutcome::Panic(message), _) => {
            settlement_of_failure(loop_state, &Failure::new(format!("panicked: {message}")), failures)
        }
        (HandlerOutcome::Aborted, _) => {
            settlement_of_failure(loop_state, &Failure::new("it did not stop when it was told to"), failures)
        }
    };
    settle(loop_state, job, settlement).await
}

/// Returns the settlement for a failure. The failure itself or the policy decides which one.
fn settlement_of_failure<S: JobSource>(loop_state: &LoopState<S>, failure: &Failure, failures: u32) -> Settlement {
    let error = failure.text_with_causes();
    tracing::warn!(%error, failures, "an attempt failed");
    let options = &loop_state.options;
    match failure.verdict().unwrap_or_else(|| options.policy.judge(failure.error(), failures)) {
        Verdict::Retry => Settlement::Retry { after: options.backoff.delay(failures), error },
        Verdict::RetryAfter(after) => Settlement::Retry { after, error },
        Verdict::Snooze(after) => Settlement::Snooze { after },
        Verdict::DeadLetter => Settlement::DeadLetter { error },
        Verdict::Cancel => Settlement::Cancel { reason: error },
    }
}

/// Repeats the settlement until its answer is known, or the claim must be considered lost. Repeating it is safe,
/// because the same settlement has only one effect (MB-44).
pub(super) async fn settle<S: JobSource>(
    loop_state: &LoopState<S>,
    job: &S::Job,
    mut settlement: Settlement,
) -> &'static str {
    let started_at = Instant::now();
    let (mut may_have_settled, mut tries) = (false, 0);
    loop {
        let error = match loop_state.source.settle(job, &settlement).await {
            Ok(outcome) => {
                if outcome == "retried" {
                    loop_state.note_retry(job);
                }
                return count_settled(loop_state, outcome);
            }
            Err(error) => error,
        };
        may_have_settled |= error.kind() == ErrorKind::CommitUnknown;
        match error.kind() {
            // An earlier call, whose answer did not arrive, may have made this settlement and ended the claim.
            ErrorKind::ClaimLost | ErrorKind::StaleEpoch if may_have_settled => {
                match loop_state.source.attempt_state(job).await {
                    Ok(AttemptState::Ended(outcome)) => return count_settled(loop_state, outcome),
                    Ok(AttemptState::Lost(reason)) => return count_lost_claim(loop_state, reason),
                    Ok(AttemptState::Forgotten) => return count_unknown(loop_state),
                    Ok(AttemptState::Held) | Err(_) => {}
                }
            }
            ErrorKind::ClaimLost => return count_lost_claim(loop_state, CancelReason::Lost),
            ErrorKind::StaleEpoch => return count_lost_claim(loop_state, CancelReason::Superseded),
            _ if is_temporary(&error) => {}
            // The store refuses the result, for example because of its size. Another attempt would produce the same
            // result.
            ErrorKind::LimitExceeded | ErrorKind::Invalid if matches!(settlement, Settlement::Ack { .. }) => {
                settlement = Settlement::DeadLetter { error: format!("its result was refused: {error}") };
            }
            _ => return count_unsettled(loop_state, &error),
        }
        tries += 1;
        let timeout =
            if loop_state.aborting_attempts.is_cancelled() { STOP_SETTLE_TIMEOUT } else { loop_state.options.lease };
        if started_at.elapsed() >= timeout {
            return if may_have_settled { count_unknown(loop_state) } else { count_unsettled(loop_state, &error) };
        }
        sleep(RETRY_BACKOFF.delay(tries)).await;
    }
}

/// Finds out whether a commit that was to settle the claim took effect.
async fn outcome_of_settling_commit<S: JobSource>(loop_state: &LoopState<S>, job: &S::Job) -> AttemptState {
    let started_at = Instant::now();
    let mut tries = 0;
    loop {
        match loop_state.source.attempt_state(job).await {
            Ok(attempt_state) => return attempt_state,
            Err(error) if is_temporary(&error) && started_at.elapsed() < loop_state.options.lease => tries += 1,
            Err(_) => return AttemptState::Forgotten,
        }
        sleep(RETRY_BACKOFF.delay(tries)).await;
    }
}

/// Counts a settled attempt, and returns the name of the outcome.
fn count_settled<S: JobSource>(loop_state: &LoopState<S>, outcome: &'static str) -> &'static str {
    loop_state.source.telemetry().record_settled(outcome);
    loop_state.update_summary(|summary| summary.count_outcome(outcome));
    outcome
}

/// Logs and counts a lost claim, and returns the name of the outcome.
pub(super) fn count_lost_claim<S: JobSource>(loop_state: &LoopState<S>, reason: CancelReason) -> &'static str {
    tracing::warn!(reason = reason.name(), "a claim was lost");
    loop_state.source.telemetry().record_lost(reason.name());
    loop_state.update_summary(|summary| summary.lost += 1);
    reason.name()
}

/// Logs and counts an attempt whose end cannot be determined, and returns the name of the outcome.
fn count_unknown<S: JobSource>(loop_state: &LoopState<S>) -> &'static str {
    tracing::warn!("it is not known how an attempt ended");
    loop_state.source.telemetry().record_lost("unknown");
    loop_state.update_summary(|summary| summary.unknown += 1);
    "unknown"
}

/// Logs and counts an attempt that could not be settled, and returns the name of the outcome. The attempt ends when
/// its lease expires.
fn count_unsettled<S: JobSource>(loop_state: &LoopState<S>, error: &Error) -> &'static str {
    tracing::error!(%error, kind = error.kind().name(), "an attempt could not be settled");
    loop_state.source.telemetry().record_lost("unsettled");
    loop_state.update_summary(|summary| summary.lost += 1);
    "unsettled"
}
