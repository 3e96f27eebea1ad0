//! Waiting for something to claim.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{Clock, Error, Result, Timestamp, Waited, WakeUps};

use super::NatsMailbox;
use crate::{log::Log, tenant::Tenant};

/// The longest interval between two requests for the end of the log by a waiting caller (NA-4).
const POLL: Duration = Duration::from_secs(1);

/// The leader's time, as last received.
#[derive(Debug)]
struct ServerClock<'a>(&'a Log);

#[async_trait]
impl Clock for ServerClock<'_> {
    fn now(&self) -> Timestamp {
        self.0.now().unwrap_or_default()
    }

    async fn sleep_until(&self, time: Timestamp) {
        // A longer wait ends early. The caller then looks again, and gets the current time of the leader.
        let left = time.as_millis().saturating_sub(self.now().as_millis());
        tokio::time::sleep(Duration::from_millis(left).min(POLL)).await;
    }
}

/// Returns the earliest time at which a claim finds a dispatch. It is never later than the next poll.
async fn next_claim(tenant: &Tenant) -> Result<Option<Timestamp>> {
    tenant.log().catch_up().await?;
    let now = tenant.log().now()?;
    let soon = now.saturating_add(POLL);
    let Some(incarnation) =
        tenant.tenant_state(&tenant.log().view())?.map(|tenant_state| tenant_state.record.incarnation)
    else {
        return Ok(Some(soon));
    };
    let mut view = tenant.log().view_mut();
    let tenant_state = view.tenant_state_mut(&tenant.name, incarnation).ok_or_else(Error::closed)?;
    Ok(Some(tenant_state.mailbox.map.next_claim(now).map_or(soon, |next| next.min(soon))))
}

#[async_trait]
impl WakeUps for NatsMailbox {
    async fn wait(&self, timeout: Duration) -> Result<Waited> {
        let clock = ServerClock(self.tenant.log());
        let look = || self.tenant.read(|tenant: Arc<Tenant>| async move { next_claim(&tenant).await });
        self.tenant.notifier.wait(&clock, timeout, look).await
    }
}
