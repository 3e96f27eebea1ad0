//! Who works on what: a slot for each log, and what several logs write about.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use store_core::TenantId;

use super::{LOADED_THREADS, LogKey, Shared, Slot, guard};
use crate::held::Resource;

impl Shared {
    /// The slot of a thread. Slots that nobody uses are let go when there are many.
    pub(crate) fn slot(&self, key: &LogKey) -> Arc<Slot> {
        let mut slots = guard(&self.slots);
        if slots.len() >= 2 * LOADED_THREADS && !slots.contains_key(key) {
            let dirty = guard(&self.dirty);
            let mut spare = slots.len() - LOADED_THREADS;
            slots.retain(|key, slot| {
                let keep = spare == 0 || Arc::strong_count(slot) > 1 || dirty.contains(key);
                spare -= usize::from(!keep);
                keep
            });
        }
        Arc::clone(slots.entry(key.clone()).or_default())
    }

    /// Lets go of what is known of a tenant that is gone, of ids without threads too. Nothing of it is to be synced.
    pub(crate) fn forget_slots(&self, tenant: &TenantId) {
        guard(&self.slots).retain(|(of, ..), _| of != tenant);
        guard(&self.dirty).retain(|(of, ..)| of != tenant);
    }

    /// The lock that whoever changes parents in a tenant holds, or deletes in it.
    pub(crate) fn family(&self, tenant: &TenantId) -> Arc<Mutex<()>> {
        Arc::clone(guard(&self.families).entry(tenant.clone()).or_default())
    }

    /// Holds a resource until it is let go, so that the writers of two logs never decide about it at once; waits if
    /// `wait` is set.
    pub(crate) fn hold(&self, tenant: &TenantId, resource: &Resource, wait: bool) -> bool {
        let key = (tenant.clone(), resource.clone());
        let mut held = guard(&self.held);
        while !held.insert(key.clone()) {
            if !wait {
                return false;
            }
            held = self.freed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    pub(crate) fn free(&self, tenant: &TenantId, resources: &BTreeSet<Resource>) {
        if resources.is_empty() {
            return;
        }
        let mut held = guard(&self.held);
        for resource in resources {
            held.remove(&(tenant.clone(), resource.clone()));
        }
        self.freed.notify_all();
    }
}
