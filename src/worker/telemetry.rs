//! The spans of a loop, and its metrics if the feature `metrics` is on.
//!
//! Metrics and spans have the labels `backend` and `outcome`, and never an id (WK-7), because the number of ids is
//! unbounded.

use std::time::Duration;

use tracing::Span;

/// Records what happens to claims. The names of its metrics are those of a mailbox or of an outbox.
#[derive(Debug)]
pub(super) struct Telemetry {
    names: &'static MetricNames,
    backend: &'static str,
}

/// The names of the span and the metrics.
#[derive(Debug)]
pub(super) struct MetricNames {
    span: fn(&'static str) -> Span,
    claimed: &'static str,
    settled: &'static str,
    lost: &'static str,
    wait: &'static str,
    run: &'static str,
}

macro_rules! metric_names {
    ($base:literal) => {
        MetricNames {
            span: |backend| tracing::info_span!(concat!($base, ".run"), backend, outcome = tracing::field::Empty),
            claimed: concat!($base, ".claimed"),
            settled: concat!($base, ".settled"),
            lost: concat!($base, ".lost"),
            wait: concat!($base, ".wait"),
            run: concat!($base, ".run"),
        }
    };
}

/// The names for a mailbox.
pub(super) static MAILBOX_METRICS: MetricNames = metric_names!("agentstore.mailbox");
/// The names for an outbox.
pub(super) static OUTBOX_METRICS: MetricNames = metric_names!("agentstore.outbox");

/// Whether this build records metrics.
pub(super) const RECORDS_METRICS: bool = cfg!(feature = "metrics");

/// Records the number of queued dispatches of a mailbox, and the age of the oldest one.
pub(super) fn record_queue(backend: &'static str, queued_count: u64, oldest_age: Duration) {
    // The conversion is exact for any realistic number of dispatches.
    #[expect(clippy::cast_precision_loss, reason = "no mailbox has 2^53 dispatches")]
    gauge("agentstore.mailbox.depth", backend, "queued", queued_count as f64);
    gauge("agentstore.mailbox.oldest_age", backend, "queued", oldest_age.as_secs_f64());
}

/// Counts an enqueue under its outcome.
#[cfg(feature = "metrics")]
pub(crate) fn count_enqueue(backend: &'static str, outcome: &'static str) {
    count("agentstore.mailbox.enqueued", backend, outcome);
}

impl Telemetry {
    pub(super) const fn new(names: &'static MetricNames, backend: &'static str) -> Self {
        Self { names, backend }
    }

    /// Returns the span of an attempt.
    pub(super) fn span(&self) -> Span {
        (self.names.span)(self.backend)
    }

    /// Records a claim, and how long its dispatch or row had been available.
    pub(super) fn record_claim(&self, wait_time: Duration) {
        count(self.names.claimed, self.backend, "claimed");
        record(self.names.wait, self.backend, "claimed", wait_time);
    }

    /// Counts a call to claim that failed.
    pub(super) fn count_failed_claim(&self, kind: &'static str) {
        count(self.names.claimed, self.backend, kind);
    }

    /// Counts a settled attempt.
    pub(super) fn record_settled(&self, outcome: &'static str) {
        count(self.names.settled, self.backend, outcome);
    }

    /// Counts a lost claim.
    pub(super) fn record_lost(&self, outcome: &'static str) {
        count(self.names.lost, self.backend, outcome);
    }

    /// Records the end of an attempt, and how long it took.
    pub(super) fn record_end(&self, outcome: &'static str, duration: Duration) {
        Span::current().record("outcome", outcome);
        record(self.names.run, self.backend, outcome, duration);
    }
}

#[cfg(feature = "metrics")]
mod recorder {
    use std::time::Duration;

    pub(super) fn count(name: &'static str, backend: &'static str, outcome: &'static str) {
        metrics::counter!(name, "backend" => backend, "outcome" => outcome).increment(1);
    }

    pub(super) fn record(name: &'static str, backend: &'static str, outcome: &'static str, time: Duration) {
        metrics::histogram!(name, "backend" => backend, "outcome" => outcome).record(time.as_secs_f64());
    }

    pub(super) fn gauge(name: &'static str, backend: &'static str, outcome: &'static str, value: f64) {
        metrics::gauge!(name, "backend" => backend, "outcome" => outcome).set(value);
    }
}

#[cfg(not(feature = "metrics"))]
mod recorder {
    use std::time::Duration;

    pub(super) const fn count(_name: &'static str, _backend: &'static str, _outcome: &'static str) {}

    pub(super) const fn record(_name: &'static str, _backend: &'static str, _outcome: &'static str, _time: Duration) {}

    pub(super) const fn gauge(_name: &'static str, _backend: &'static str, _outcome: &'static str, _value: f64) {}
}

use self::recorder::{count, gauge, record};
