//! What a loop tells: spans, and metrics where the feature `metrics` is on.
//!
//! Metrics and spans have the labels `backend` and `outcome`, and never an id (WK-7): there is no end of ids.

use std::time::Duration;

use tracing::Span;

/// What is counted of claims, by the names of a mailbox or of an outbox.
#[derive(Debug)]
pub(super) struct Telemetry {
    names: &'static Names,
    backend: &'static str,
}

/// The names of metrics.
#[derive(Debug)]

pub(super) struct Names {
    span: fn(&'static str) -> Span,
    claimed: &'static str,
    settled: &'static str,
    lost: &'static str,
    wait: &'static str,
    run: &'static str,
}

macro_rules! names {
    ($base:literal) => {
        Names {
            span: |backend| tracing::info_span!(concat!($base, ".run"), backend, outcome = tracing::field::Empty),
            claimed: concat!($base, ".claimed"),
            settled: concat!($base, ".settled"),
            lost: concat!($base, ".lost"),
            wait: concat!($base, ".wait"),
            run: concat!($base, ".run"),
        }
    };
}

/// Those of a mailbox.
pub(super) static MAILBOX: Names = names!("agentstore.mailbox");
/// Those of an outbox.
pub(super) static OUTBOX: Names = names!("agentstore.outbox");

/// Whether what is measured goes anywhere.
pub(super) const IS_READ: bool = cfg!(feature = "metrics");

/// How much of a mailbox is queued, and how old the first of it is.
pub(super) fn waiting(backend: &'static str, queued: u64, oldest: Duration) {
    // As a number of dispatches it is exact.
    #[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 dispatches")]
    gauge("agentstore.mailbox.depth", backend, "queued", queued as f64);
    gauge("agentstore.mailbox.oldest_age", backend, "queued", oldest.as_secs_f64());
}

/// What became of an enqueue.
#[cfg(feature = "metrics")]
pub(crate) fn enqueued(backend: &'static str, outcome: &'static str) {
    count("agentstore.mailbox.enqueued", backend, outcome);
}

impl Telemetry {
    pub(super) const fn new(names: &'static Names, backend: &'static str) -> Self {
        Self { names, backend }
    }

    /// The span of an attempt.
    pub(super) fn span(&self) -> Span {
        (self.names.span)(self.backend)
    }

    /// A claim, of what had been available for so long.
    pub(super) fn claimed(&self, waited: Duration) {
        count(self.names.claimed, self.backend, "claimed");
        record(self.names.wait, self.backend, "claimed", waited);
    }

    /// A claim that the store refused.
    pub(super) fn claim_failed(&self, kind: &'static str) {
        count(self.names.claimed, self.backend, kind);
    }

    /// An attempt that was settled.
    pub(super) fn settled(&self, outcome: &'static str) {
        count(self.names.settled, self.backend, outcome);
    }

    /// A claim that was lost.
    pub(super) fn lost(&self, outcome: &'static str) {
        count(self.names.lost, self.backend, outcome);
    }

    /// The end of an attempt that took so long.
    pub(super) fn ran(&self, outcome: &'static str, took: Duration) {
        Span::current().record("outcome", outcome);
        record(self.names.run, self.backend, outcome, took);
    }
}

#[cfg(feature = "metrics")]
mod with {
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
mod with {
    use std::time::Duration;

    pub(super) const fn count(_name: &'static str, _backend: &'static str, _outcome: &'static str) {}

    pub(super) const fn record(_name: &'static str, _backend: &'static str, _outcome: &'static str, _time: Duration) {}

    pub(super) const fn gauge(_name: &'static str, _backend: &'static str, _outcome: &'static str, _value: f64) {}
}

use self::with::{count, gauge, record};
