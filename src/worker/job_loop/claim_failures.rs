//! Consecutive failures of claims: how long they have lasted, and which of them are logged.

use std::{collections::HashMap, time::Duration};

use store_core::{Error, ErrorKind, Result};
use tokio::time::Instant;

use super::is_temporary;

/// The interval at which one kind of error is logged as long as it occurs.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The failures since the last success: of claims, and of checks whether the loop is idle.
#[derive(Debug, Default)]
pub(super) struct ClaimFailures {
    count: u32,
    /// When errors that waiting does not resolve began. None after a success, and after an error of another kind.
    persistent_since: Option<Instant>,
    /// For each kind of error, when it was last logged and how many errors of that kind followed. A success does not
    /// clear this, because a store may become unavailable again and again.
    last_logs: HashMap<&'static str, (Instant, u32)>,
    /// Whether one of the failures was logged.
    was_logged: bool,
}

impl ClaimFailures {
    /// Clears the failures after a success.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.was_logged) {
            tracing::info!(failures = self.count, "claims succeed again");
        }
        (self.count, self.persistent_since) = (0, None);
    }

    /// Counts a failure, and returns the number of failures so far.
    ///
    /// Returns the error itself in two cases: repeating the call cannot succeed, or waiting does not resolve the error
    /// and it has lasted for `patience`.
    pub(super) fn add(&mut self, error: Error, patience: Duration, now: Instant) -> Result<u32> {
        if !is_temporary(&error) {
            return Err(error);
        }
        if can_be_resolved_by_waiting(&error) {
            self.persistent_since = None;
        } else if now.duration_since(*self.persistent_since.get_or_insert(now)) >= patience {
            return Err(error);
        }
        self.count = self.count.saturating_add(1);
        self.log(&error, now);
        Ok(self.count)
    }

    /// Logs the first error of each kind at once, and later errors of that kind together.
    fn log(&mut self, error: &Error, now: Instant) {
        let kind = error.kind().name();
        match self.last_logs.get_mut(kind) {
            Some((last_time, unlogged_count)) if now.duration_since(*last_time) < LOG_INTERVAL => {
                *unlogged_count += 1;
                return;
            }
            Some((last_time, unlogged_count)) => {
                tracing::warn!(%error, kind, failures = *unlogged_count + 1, "still nothing can be claimed");
                (*last_time, *unlogged_count) = (now, 0);
            }
            None => {
                tracing::warn!(%error, kind, "nothing can be claimed");
                self.last_logs.insert(kind, (now, 0));
            }
        }
        self.was_logged = true;
    }
}

/// Returns whether the store is unavailable, or an answer was lost. However long that lasts, the worker can continue
/// afterwards.
fn can_be_resolved_by_waiting(error: &Error) -> bool {
    error.is_retryable() || error.kind() == ErrorKind::CommitUnknown
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use store_core::{Error, ErrorKind};
    use tokio::time::Instant;

    use super::{ClaimFailures, LOG_INTERVAL};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Tests WK-11: a store that is unavailable again and again is not logged each time.
    #[tokio::test]
    async fn each_kind_is_logged_once_a_minute() {
        let (mut failures, start) = (ClaimFailures::default(), Instant::now());
        for at in 0..100 {
            failures
                .add(Error::unavailable("the server does not answer"), PATIENCE, start + LOG_INTERVAL / 100 * at)
                .unwrap();
            assert_eq!(failures.was_logged, at == 0);
            failures.clear();
        }
        assert_eq!(failures.last_logs["unavailable"], (start, 99));
        failures.add(Error::unavailable("the server does not answer"), PATIENCE, start + LOG_INTERVAL).unwrap();
        assert_eq!((failures.last_logs["unavailable"], failures.was_logged), ((start + LOG_INTERVAL, 0), true));
    }

    /// Tests WK-11: an error that waiting cannot resolve ends the worker after its patience. A server that is
    /// unavailable never does.
    #[tokio::test]
    async fn lasting_errors_end_a_worker_unless_waiting_can_resolve_them() {
        let (mut failures, mut now) = (ClaimFailures::default(), Instant::now());
        let (unavailable, corrupt) = (|| Error::unavailable("the server does not answer"), || Error::corrupt("a log"));
        for count in 1..=100 {
            assert_eq!(failures.add(unavailable(), PATIENCE, now).unwrap(), count);
            now += PATIENCE;
        }
        assert_eq!(failures.add(corrupt(), PATIENCE, now).unwrap(), 101);
        now += PATIENCE - Duration::from_millis(1);
        assert_eq!(failures.add(corrupt(), PATIENCE, now).unwrap(), 102);
        now += Duration::from_millis(1);
        assert_eq!(failures.add(corrupt(), PATIENCE, now).unwrap_err().kind(), ErrorKind::Corrupt);
        // After a success the time begins anew.
        failures.clear();
        assert_eq!(failures.add(corrupt(), PATIENCE, now).unwrap(), 1);
        assert_eq!(failures.last_logs.len(), 2);
        let result = failures.add(Error::invalid("lease", "it is too long"), PATIENCE, now);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
    }
}
