//! Waiting for dispatches to claim.

use std::{future::ready, time::Duration};

use async_trait::async_trait;
use store_core::{Result, Timestamp, WaitResult, WakeUps};

use super::MemoryMailbox;

impl MemoryMailbox {
    /// Returns the earliest time at which a claim can find a dispatch.
    fn next_claim_time(&self) -> Result<Option<Timestamp>> {
        let tenant = self.tenant.check_open()?;
        let mut mailbox = tenant.mailbox.write();
        Ok(mailbox.next_claim(tenant.now()))
    }
}

#[async_trait]
impl WakeUps for MemoryMailbox {
    async fn wait(&self, timeout: Duration) -> Result<WaitResult> {
        let clock = &*self.tenant.shared.config.clock;
        self.tenant.worker_notifier.wait(clock, timeout, || ready(self.next_claim_time())).await
    }
}
