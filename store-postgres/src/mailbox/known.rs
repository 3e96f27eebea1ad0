//! Claims that this process was given and did not settle yet, as they were written: what their holders do need not look
//! first.
//!
//! Others may have written since. Then a thread's mailbox has another revision, or claims of the tenant have other
//! numbers; what was decided is not written, and it is decided again about what there is.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use store_core::DispatchId;

use crate::facts::Held;

/// So many are known at most.
const CLAIMS: usize = 2_048;
/// One with a larger payload is looked at.
const PAYLOAD_BYTES: usize = 4 * 1024;

/// Claims of a tenant.
#[derive(Debug, Default)]
pub(crate) struct KnownClaims(Mutex<HashMap<DispatchId, Held>>);

impl KnownClaims {
    fn known(&self) -> MutexGuard<'_, HashMap<DispatchId, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims that were given out. When there are too many, those before are forgotten: most of them will have ended
    /// elsewhere.
    pub(crate) fn put(&self, claims: Vec<Held>) {
        let mut known = self.known();
        if known.len() + claims.len() > CLAIMS {
            known.clear();
        }
        let is_small = |held: &Held| {
            held.dispatch.body.payload.as_ref().is_none_or(|payload| payload.as_str().len() <= PAYLOAD_BYTES)
        };
        known.extend(claims.into_iter().filter(is_small).map(|held| (held.dispatch.id().clone(), held)));
    }

    /// Claims that are to be settled; none if one of them is not known, or two are of one thread, as one of these is
    /// lost. They are known no longer.
    pub(crate) fn take(&self, ids: &[&DispatchId]) -> Vec<Held> {
        let mut known = self.known();
        let taken: Vec<Option<Held>> = ids.iter().map(|id| known.remove(*id)).collect();
        drop(known);
        let taken: Vec<Held> = taken.into_iter().collect::<Option<_>>().unwrap_or_default();
        let first = taken.first().map(|held| held.incarnation);
        let is_of_one_life = taken.iter().all(|held| Some(held.incarnation) == first);
        let threads: HashSet<_> = taken.iter().map(|held| &held.dispatch.body.thread).collect();
        if is_of_one_life && threads.len() == taken.len() { taken } else { Vec::new() }
    }
}
