//! What a round of a writer holds besides its log: a run belongs to one thread (RU-6), a scope and a key of events have
//! one order for all logs (EV-3, EV-5), and so have keys and groups of the outbox (OB-3, OB-11), and the mailbox of a
//! thread (CM-33).

use std::collections::BTreeSet;

use store_core::{
    DedupeKey, EventKey, LaneId, OutboxTarget, RunId, Scope, TenantId, ThreadId, WriterId, outbox::OrderGroup,
};

use crate::shared::Shared;

/// Something that several logs write about. Whoever waits for more than one takes them in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Resource {
    Run(RunId),
    Scope(Scope),
    EventKey(WriterId, EventKey),
    OutboxKey(LaneId, OutboxTarget, DedupeKey),
    OutboxGroup(OrderGroup),
    Mailbox(ThreadId),
}

/// Resources that the writer of no other log may write about meanwhile.
pub(crate) struct Held<'a> {
    shared: &'a Shared,
    tenant: &'a TenantId,
    resources: BTreeSet<Resource>,
}

impl<'a> Held<'a> {
    /// Holds none yet.
    pub(crate) const fn new(shared: &'a Shared, tenant: &'a TenantId) -> Self {
        Self { shared, tenant, resources: BTreeSet::new() }
    }

    /// Holds one more; `false` if another writer holds it and nobody is to wait.
    pub(crate) fn take(&mut self, resource: Resource, wait: bool) -> bool {
        if self.resources.contains(&resource) {
            return true;
        }
        let has = self.shared.hold(self.tenant, &resource, wait);
        if has {
            self.resources.insert(resource);
        }
        has
    }

    /// Holds all of these; `false` if another writer holds one of them and nobody is to wait.
    pub(crate) fn take_all(&mut self, resources: BTreeSet<Resource>, wait: bool) -> bool {
        resources.into_iter().all(|resource| self.take(resource, wait))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nobody knows how far the round came.
            self.shared.poison();
        }
        self.shared.free(self.tenant, &self.resources);
    }
}
