//! Waiting for a dispatch to claim.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{Clock, Error, Result, Timestamp, WaitResult, WakeUps};

use super::NatsMailbox;
use crate::{log::Log, tenant::Tenant};

/// The longest interval between two requests for the end of the log by a waiting caller (NA-4).
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A clock that shows the leader's time, as far as this process knows it.
#[derive(Debug)]
struct ServerClock<'a>(&'a Log);

#[async_trait]
impl Clock for ServerClock<'_> {
    fn now(&self) -> Timestamp {
        self.0.now().unwrap_or_default()
    }

    async fn sleep_until(&self, time: Timestamp) {
        // A longer wait ends early. The caller then checks again, and gets the current time of the leader.
        let millis_left = time.as_millis().saturating_sub(self.now().as_millis());
        tokio::time::sleep(Duration::from_millis(millis_left).min(POLL_INTERVAL)).await;
    }
}

/// Returns the earliest time at which a claim may find a dispatch, or the time of the next poll if that is earlier.
async fn next_claim_time(tenant: &Tenant) -> Result<Option<Timestamp>> {
    tenant.log().catch_up().await?;
    let now = tenant.log().now()?;
    let next_poll = now.saturating_add(POLL_INTERVAL);
    let Some(incarnation) =
        tenant.tenant_state(&tenant.log().view())?.map(|tenant_state| tenant_state.record.incarnation)
    else {
        return Ok(Some(next_poll));
    };
    let mut view = tenant.log().view_mut();
    let tenant_state = view.tenant_state_mut(&tenant.name, incarnation).ok_or_else(Error::closed)?;
    Ok(Some(tenant_state.mailbox.records.next_claim(now).map_or(next_poll, |next| next.min(next_poll))))
}

#[async_trait]
impl WakeUps for NatsMailbox {
    async fn wait(&self, timeout: Duration) -> Result<WaitResult> {
        let clock = ServerClock(self.tenant.log());
        let read_next_claim = || self.tenant.read(|tenant: Arc<Tenant>| async move { next_claim_time(&tenant).await });
        self.tenant.notifier.wait(&clock, timeout, read_next_claim).await
    }
}
