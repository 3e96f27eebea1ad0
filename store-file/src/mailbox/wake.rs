//! Waiting for something to claim.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{Result, TenantId, Timestamp, Waited, WakeUps};

use crate::{
    codec::damaged,
    index::{Direction, Snapshot},
    table::{self, MailboxList},
    tenant::Tenant,
    walk::Walk,
};

#[async_trait]
impl WakeUps for Tenant {
    async fn wait(&self, timeout: Duration) -> Result<Waited> {
        let clock = Arc::clone(&self.shared.config.clock);
        let look = || self.read(None, |shared, tenant| next_claim(&shared.index.snapshot(), tenant));
        self.state.bell.wait(&*clock, timeout, look).await
    }
}

/// From when on a claim may find something: since ever if a thread is ready, else when something is due or a lease is
/// over.
fn next_claim(snapshot: &Snapshot, tenant: &TenantId) -> Result<Option<Timestamp>> {
    let first = |list| Walk::next(snapshot, &table::mailbox_list(tenant, list), None, Direction::Forward);
    if first(MailboxList::Ready)?.is_some() {
        return Ok(Some(Timestamp::MIN));
    }
    let mut next = None;
    for list in [MailboxList::Due, MailboxList::Leases] {
        if let Some(key) = first(list)? {
            let list = table::mailbox_list(tenant, list);
            let (at, _) = table::read_timed_place(&list, &key).ok_or_else(|| damaged("thread"))?;
            next = Some(next.map_or(at, |next: Timestamp| next.min(at)));
        }
    }
    Ok(next)
}
