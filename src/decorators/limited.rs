//! Limits for tenants: sizes of what a call adds, and the rate of such calls.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use store_core::{
    Clock, Error, ErrorKind, Limits, ObjectKey, ObjectUpload, Result, Store, SystemClock, TenantId, Timestamp,
    check_limit, commit, document, event, length, mailbox, pending, thread,
};

use super::{
    Decorator,
    forward::{Answer, DecoratedStore, Hook, Method, Request},
};

/// Above this number, buckets that are full again are forgotten.
const MAX_IDLE_BUCKETS: usize = 1_024;

/// A number of calls in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rate {
    /// Calls in a second, on average.
    pub per_second: u32,
    /// Calls that may come at once, after a time without calls.
    pub burst: u32,
}

impl Rate {
    /// Makes a rate of this many calls in a second, all of which may come at once.
    #[must_use]
    pub const fn per_second(calls: u32) -> Self {
        Self { per_second: calls, burst: calls }
    }

    /// Sets the number of calls that may come at once.
    #[must_use]
    pub const fn with_burst(mut self, calls: u32) -> Self {
        self.burst = calls;
        self
    }
}

/// The limits of a tenant. Nothing is limited unless it is set.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TenantLimits {
    /// The sizes and numbers in one call. Limits of what a store has in all are left to the store.
    pub sizes: Option<Limits>,
    /// The bytes of one object, which has the bytes of a blob.
    pub object_bytes: Option<u64>,
    /// The calls that add something: commits, appends, enqueues, writes of documents, new threads, uploads.
    pub writes: Option<Rate>,
}

impl TenantLimits {
    /// Returns limits that limit nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the sizes and numbers in one call.
    #[must_use]
    pub fn with_sizes(mut self, sizes: Limits) -> Self {
        self.sizes = Some(sizes);
        self
    }

    /// Sets the bytes of one object.
    #[must_use]
    pub const fn with_object_bytes(mut self, bytes: u64) -> Self {
        self.object_bytes = Some(bytes);
        self
    }

    /// Sets the rate of calls that add something.
    #[must_use]
    pub const fn with_writes(mut self, rate: Rate) -> Self {
        self.writes = Some(rate);
        self
    }
}

/// Refuses calls of tenants that are too large or too many, before anything is written.
///
/// A call that is too large is refused with `LimitExceeded`, and as a whole: an enqueue with one dispatch that is too
/// large enqueues none. Sizes are those of what the caller passes, without what a store adds. A call that comes too
/// soon is refused with `Unavailable`, whose reason says when it may be repeated; [`Retried`](super::Retried) over this
/// decorator does so. Claims, settlements, removals and reads are never refused, so that a tenant at its limits can
/// finish its work.
///
/// ```
/// use agentstore::{Limited, Rate, TenantLimits};
///
/// # async fn example() -> agentstore::Result<()> {
/// let limited = Limited::new(TenantLimits::new().with_writes(Rate::per_second(100)))
///     .with_tenant("big".parse()?, TenantLimits::new());
/// let stores = agentstore::open("postgres://db/work").await?.decorated(&limited);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Limited {
    shared: Arc<Shared>,
    tenant: TenantId,
}

#[derive(Clone)]
struct Shared {
    default: TenantLimits,
    tenants: HashMap<TenantId, TenantLimits>,
    clock: Arc<dyn Clock>,
    buckets: Arc<Mutex<HashMap<TenantId, Bucket>>>,
}

/// What is left of a rate. A call takes 1,000 units, and each millisecond adds as many units as the rate has calls in a
/// second.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    units: u64,
    at: Timestamp,
}

const UNITS_OF_CALL: u64 = 1_000;

impl Bucket {
    const fn full(rate: Rate, at: Timestamp) -> Self {
        Self { units: rate.burst as u64 * UNITS_OF_CALL, at }
    }

    /// Adds what came since. A clock that goes back adds nothing.
    fn fill(&mut self, rate: Rate, now: Timestamp) {
        let millis = now.as_millis().saturating_sub(self.at.as_millis());
        let units = self.units.saturating_add(millis.saturating_mul(u64::from(rate.per_second)));
        *self = Self { units: units.min(Self::full(rate, now).units), at: now };
    }

    /// Takes the units of a call, or returns the time until there are enough of them.
    fn take(&mut self, rate: Rate) -> Result<(), Duration> {
        match self.units.checked_sub(UNITS_OF_CALL) {
            Some(rest) => {
                self.units = rest;
                Ok(())
            }
            None => {
                let missing = UNITS_OF_CALL.saturating_sub(self.units);
                Err(Duration::from_millis(missing.div_ceil(u64::from(rate.per_second.max(1)))))
            }
        }
    }
}

impl fmt::Debug for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { default, tenants, .. } = &*self.shared;
        f.debug_struct("Limited").field("default", default).field("tenants", tenants).finish_non_exhaustive()
    }
}

impl Limited {
    /// Sets these limits for each tenant that has no others.
    pub fn new(limits: TenantLimits) -> Self {
        let (tenants, clock, buckets) = (HashMap::new(), Arc::new(SystemClock), Arc::default());
        let shared = Shared { default: limits, tenants, clock, buckets };
        Self { shared: Arc::new(shared), tenant: TenantId::default_tenant() }
    }

    /// Sets the limits of a tenant.
    pub fn with_tenant(mut self, tenant: TenantId, limits: TenantLimits) -> Self {
        Arc::make_mut(&mut self.shared).tenants.insert(tenant, limits);
        self
    }

    /// Sets the clock that measures rates.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        Arc::make_mut(&mut self.shared).clock = clock;
        self
    }

    fn limits(&self) -> &TenantLimits {
        self.shared.tenants.get(&self.tenant).unwrap_or(&self.shared.default)
    }

    fn buckets(&self) -> MutexGuard<'_, HashMap<TenantId, Bucket>> {
        self.shared.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_rate(&self) -> Result<()> {
        let Some(rate) = self.limits().writes else { return Ok(()) };
        let now = self.shared.clock.now();
        let mut buckets = self.buckets();
        if buckets.len() > MAX_IDLE_BUCKETS {
            let shared = &self.shared;
            buckets.retain(|tenant, bucket| {
                let limits = shared.tenants.get(tenant).unwrap_or(&shared.default);
                limits.writes.is_some_and(|rate| {
                    bucket.fill(rate, now);
                    bucket.units < Bucket::full(rate, now).units
                })
            });
        }
        let bucket = buckets.entry(self.tenant.clone()).or_insert_with(|| Bucket::full(rate, now));
        bucket.fill(rate, now);
        bucket.take(rate).map_err(|wait| {
            Error::unavailable(format!(
                "the tenant may make {} writes in a second: repeat the call in {} ms",
                rate.per_second,
                wait.as_millis()
            ))
        })
    }
}

fn check_sizes(request: Request<'_>, limits: &Limits) -> Result<()> {
    match request {
        Request::Commit(commit) => commit::check(commit, limits),
        Request::Events(events) => event::check_request(events, limits),
        Request::Inputs(inputs) => pending::check_append(inputs, limits),
        Request::InputUpdate(update) => pending::check_update(update, limits),
        Request::Documents(write) => document::check_write(write, limits),
        Request::NewThread(new) => thread::check_fields(&new.fields, limits),
        Request::ThreadPatch(patch) => thread::check_patch(patch, limits),
        Request::Dispatches(dispatches) => {
            mailbox::check_item_count(dispatches.len(), limits)?;
            let mut each = dispatches.iter().enumerate();
            each.try_for_each(|(at, dispatch)| {
                let checked = mailbox::check_new_dispatch(dispatch, limits);
                checked.map_err(|error| error.in_part(format!("dispatches[{at}]")))
            })
        }
        Request::Upload => Ok(()),
    }
}

impl Decorator for Limited {
    fn decorate(&self, store: Arc<dyn Store>, _backend: &'static str) -> Arc<dyn Store> {
        Arc::new(DecoratedStore::new(self.clone(), store))
    }
}

impl Hook for Limited {
    fn for_tenant(&self, tenant: &TenantId) -> Self {
        Self { shared: Arc::clone(&self.shared), tenant: tenant.clone() }
    }

    fn check(&self, request: Request<'_>) -> Result<()> {
        let sizes = self.limits().sizes.as_ref();
        match sizes.map_or(Ok(()), |sizes| check_sizes(request, sizes)) {
            Err(error) if error.kind() == ErrorKind::LimitExceeded => Err(error),
            // What no store accepts is refused by the store, so that its own order of checks holds.
            _ => self.check_rate(),
        }
    }

    async fn around<'a, A, T, F>(&'a self, _method: Method, args: A, call: F) -> Result<T>
    where
        A: Clone + Send + Sync + 'a,
        T: Send + 'a,
        F: Fn(A) -> Answer<'a, T> + Send + Sync + 'a,
    {
        call(args).await
    }

    fn upload(&self, upload: Box<dyn ObjectUpload>) -> Box<dyn ObjectUpload> {
        match self.limits().object_bytes {
            Some(max) => Box::new(LimitedUpload { inner: upload, written: 0, max }),
            None => upload,
        }
    }
}

/// An upload of at most `max` bytes.
struct LimitedUpload {
    inner: Box<dyn ObjectUpload>,
    written: u64,
    max: u64,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectUpload for LimitedUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let written = self.written.saturating_add(length(bytes.len()));
        check_limit("bytes of an object", written, self.max)?;
        self.inner.write(bytes).await?;
        self.written = written;
        Ok(())
    }

    async fn finish(self: Box<Self>, key: &ObjectKey) -> Result<()> {
        self.inner.finish(key).await
    }
}
