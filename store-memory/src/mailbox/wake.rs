//! Waiting for dispatches to claim.

use std::{future::ready, time::Duration};

use async_trait::async_trait;
use store_core::{Result, Timestamp, Waited, WakeUps};

use super::MemoryMailbox;

impl MemoryMailbox {
    /// Returns the earliest time at which a claim can find a dispatch.
    fn next_claim(&self) -> Result<Option<Timestamp>> {
        let tenant = self.tenant.check_open()?;
        let mut mailbox = tenant.mailbox.write();
        Ok(mailbox.next_claim(tenant.now()))
    }
}

#[async_trait]
impl WakeUps for MemoryMailbox {
    async fn wait(&self, timeout: Duration) -> Result<Waited> {
        let clock = &*self.tenant.common.config.clock;
        self.tenant.notifier.wait(clock, timeout, || ready(self.next_claim())).await
    }
}
