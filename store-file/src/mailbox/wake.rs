//! Waiting for something to claim.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{Result, TenantId, ThreadId, Timestamp, WaitResult, WakeUps};

use crate::{
    codec::damaged,
    dispatches::check,
    index::Direction,
    shared::Shared,
    table::{self, MailboxList},
    tenant::Tenant,
    walk,
};

#[async_trait]
impl WakeUps for Tenant {
    async fn wait(&self, timeout: Duration) -> Result<WaitResult> {
        let clock = Arc::clone(&self.shared.config.clock);
        let look = || self.read(None, |shared, tenant| next_claim(shared, tenant));
        self.state.notifier.wait(&*clock, timeout, look).await
    }
}

/// The earliest time at which a claim may find something: the first of all times if a thread is ready, else when
/// something is due or a lease expires. What a claim leaves out, as it cannot be read, is nothing to wake up for.
fn next_claim(shared: &Shared, tenant: &TenantId) -> Result<Option<Timestamp>> {
    check(shared, tenant)?;
    let snapshot = shared.index.snapshot();
    let first = |list| -> Result<Option<(Timestamp, ThreadId)>> {
        let list_key = table::mailbox_list(tenant, list);
        for key in walk::keys(&snapshot, list_key.clone(), None, Direction::Forward) {
            let place = match list {
                MailboxList::Ready => table::read_ready_place(&list_key, &key?).map(|(_, _, id)| (Timestamp::MIN, id)),
                _ => table::read_timed_place(&list_key, &key?),
            };
            let place = place.ok_or_else(|| damaged("thread"))?;
            if shared.check_damage(tenant, &place.1).is_ok() {
                return Ok(Some(place));
            }
        }
        Ok(None)
    };
    let mut next = None;
    for list in [MailboxList::Ready, MailboxList::Due, MailboxList::Leases] {
        if let Some((at, _)) = first(list)? {
            next = Some(next.map_or(at, |next: Timestamp| next.min(at)));
        }
    }
    Ok(next)
}
