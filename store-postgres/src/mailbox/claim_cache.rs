//! Claims that this process made and has not settled yet, as they were written. A call that names such a claim need not
//! load it first.
//!
//! Other processes may have written since. Then the mailbox of the thread has another revision, or, if the tenant was
//! deleted, its claim numbers have another incarnation. In that case the result is not written, and the decision is
//! repeated with the stored data.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use store_core::DispatchId;

use crate::cache::CachedClaim;

/// The maximum number of claims in the cache.
const MAX_CLAIMS: usize = 2_048;
/// The maximum size of a payload in bytes. Claims with larger payloads are not cached.
const MAX_PAYLOAD_BYTES: usize = 4 * 1024;

/// The cached claims of a tenant.
#[derive(Debug, Default)]
pub(crate) struct ClaimCache(Mutex<HashMap<DispatchId, CachedClaim>>);

impl ClaimCache {
    fn cached(&self) -> MutexGuard<'_, HashMap<DispatchId, CachedClaim>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds claims. If there would be too many, first removes all earlier ones, because most of them have probably
    /// ended in other processes.
    pub(crate) fn put(&self, claims: Vec<CachedClaim>) {
        let mut cached = self.cached();
        if cached.len() + claims.len() > MAX_CLAIMS {
            cached.clear();
        }
        let is_small = |claim: &CachedClaim| {
            claim.dispatch.body.payload.as_ref().is_none_or(|payload| payload.as_str().len() <= MAX_PAYLOAD_BYTES)
        };
        cached.extend(claims.into_iter().filter(is_small).map(|claim| (claim.dispatch.id().clone(), claim)));
    }

    /// Removes and returns the claims of these dispatches. Returns none if one of them is not in the cache, or if they
    /// were numbered in different incarnations. Also returns none if two of them belong to one thread, because at most
    /// one of the two is still valid.
    pub(crate) fn take(&self, ids: &[&DispatchId]) -> Vec<CachedClaim> {
        let mut cached = self.cached();
        let claims: Vec<Option<CachedClaim>> = ids.iter().map(|id| cached.remove(*id)).collect();
        drop(cached);
        let claims: Vec<CachedClaim> = claims.into_iter().collect::<Option<_>>().unwrap_or_default();
        let incarnation = claims.first().map(|claim| claim.incarnation);
        let has_one_incarnation = claims.iter().all(|claim| Some(claim.incarnation) == incarnation);
        let threads: HashSet<_> = claims.iter().map(|claim| &claim.dispatch.body.thread).collect();
        if has_one_incarnation && threads.len() == claims.len() { claims } else { Vec::new() }
    }
}
