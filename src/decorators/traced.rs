//! Spans and metrics of every call.

#![expect(clippy::disallowed_methods, reason = "measures how long a call takes")]

use std::{sync::Arc, time::Instant};

use store_core::{ErrorKind, ObjectUpload, Result, Store, TenantId};
use tracing::{Instrument, field::Empty};

use super::{
    Decorator,
    forward::{Answer, DecoratedStore, Hook, Method, Request},
};

/// Records a span for each call, and with the cargo feature `metrics` also its number and its length (CP-7).
///
/// A span has the name `agentstore.store` and the level `debug`. Its fields are `backend`, `contract`, `method` and
/// `outcome`: `ok`, or the name of the kind of the error. The metrics are `agentstore.store.calls`, a counter, and
/// `agentstore.store.duration`, a histogram of seconds, with the same labels. There are no ids among them.
///
/// ```
/// use agentstore::Traced;
///
/// # async fn example() -> agentstore::Result<()> {
/// let stores = agentstore::open("postgres://db/work").await?.decorated(&Traced::new());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[must_use]
pub struct Traced(());

impl Traced {
    /// Makes the decorator.
    pub const fn new() -> Self {
        Self(())
    }
}

impl Decorator for Traced {
    fn decorate(&self, store: Arc<dyn Store>, backend: &'static str) -> Arc<dyn Store> {
        Arc::new(DecoratedStore::new(TraceHook { backend }, store))
    }
}

/// The hook of [`Traced`], with the label that all calls have.
#[derive(Debug, Clone, Copy)]
struct TraceHook {
    backend: &'static str,
}

impl Hook for TraceHook {
    fn for_tenant(&self, _tenant: &TenantId) -> Self {
        *self
    }

    fn check(&self, _request: Request<'_>) -> Result<()> {
        Ok(())
    }

    fn around<'a, A, T, F>(&'a self, method: Method, args: A, call: F) -> impl Future<Output = Result<T>> + Send + 'a
    where
        A: Clone + Send + Sync + 'a,
        T: Send + 'a,
        F: Fn(A) -> Answer<'a, T> + Send + Sync + 'a,
    {
        let (backend, Method { contract, name }) = (self.backend, method);
        let span = tracing::debug_span!("agentstore.store", backend, contract, method = name, outcome = Empty);
        async move {
            let started_at = Instant::now();
            let answer = call(args).instrument(span.clone()).await;
            let outcome = answer.as_ref().map_or_else(|error| ErrorKind::name(error.kind()), |_| "ok");
            span.record("outcome", outcome);
            record(backend, method, outcome, started_at);
            answer
        }
    }

    fn upload(&self, upload: Box<dyn ObjectUpload>) -> Box<dyn ObjectUpload> {
        upload
    }
}

#[cfg(feature = "metrics")]
fn record(backend: &'static str, method: Method, outcome: &'static str, started_at: Instant) {
    let Method { contract, name } = method;
    let labels = [("backend", backend), ("contract", contract), ("method", name), ("outcome", outcome)];
    metrics::counter!("agentstore.store.calls", &labels).increment(1);
    metrics::histogram!("agentstore.store.duration", &labels).record(started_at.elapsed().as_secs_f64());
}

#[cfg(not(feature = "metrics"))]
const fn record(_backend: &'static str, _method: Method, _outcome: &'static str, _started_at: Instant) {}
