//! Waiting for a dispatch to claim.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{Result, Timestamp, WaitResult, WakeUps};

use super::TenantMailbox;

/// The longest interval at which a waiting caller looks for changes by other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

impl TenantMailbox {
    /// Returns the earliest time at which a claim may find a dispatch, or the time of the next poll if that is earlier.
    async fn next_claim_time(&self) -> Result<Option<Timestamp>> {
        let next = self.tenant.read(None, |rows| rows.next_claim_time()).await?;
        let store_context = self.tenant.store_context();
        if !store_context.has_other_writers {
            return Ok(next);
        }
        // If a notification of another process is lost, the caller waits at most this much longer (LV-11).
        let next_poll = store_context.clock.now().saturating_add(POLL_INTERVAL);
        Ok(Some(next.map_or(next_poll, |next| next.min(next_poll))))
    }
}

#[async_trait]
impl WakeUps for TenantMailbox {
    async fn wait(&self, timeout: Duration) -> Result<WaitResult> {
        let shared = Arc::clone(&self.tenant.shared);
        let _waiter = shared.notifications.listen();
        let clock = &*shared.store_context.clock;
        self.tenant.notifier.wait(clock, timeout, || self.next_claim_time()).await
    }
}
