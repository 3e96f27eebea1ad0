//! Waiting for work to claim.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use store_core::{Clock, Result, Timestamp, WaitResult, WakeUps};

use super::PostgresMailbox;
use crate::{
    columns::read_optional,
    db::{add, unsigned},
    tenant::{SharedState, Tenant},
};

/// The maximum time that a caller waits before it polls for dispatches of other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The server's time, as this process estimates it.
#[derive(Debug)]
struct ServerClock<'a>(&'a SharedState);

#[async_trait]
impl Clock for ServerClock<'_> {
    fn now(&self) -> Timestamp {
        self.0.db.clock.now().unwrap_or_default()
    }

    async fn sleep_until(&self, time: Timestamp) {
        // A caller that has to wait longer polls first, which also updates the time.
        let remaining_millis = time.as_millis().saturating_sub(self.now().as_millis());
        tokio::time::sleep(Duration::from_millis(remaining_millis).min(POLL_INTERVAL)).await;
    }
}

/// Returns the earliest time at which a claim finds a dispatch, or the time of the next poll if that is earlier.
async fn next_claim_time(tenant: &Tenant) -> Result<Option<Timestamp>> {
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    // The parts that earlier searches found empty are skipped.
    tenant.scan_state.known_watermarks().add_to(&mut arguments)?;
    let rows = tenant.db().any_connection().read(|sql| &sql.next_claim, arguments).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let clock = read_optional::<i64>(row, 0)?.unwrap_or_default();
    tenant.db().clock.set_server_time(Duration::from_millis(unsigned(clock)?));
    let next_poll = tenant.db().clock.now()?.saturating_add(POLL_INTERVAL);
    let next = read_optional::<i64>(row, 1)?.map(|at| Timestamp::from_millis(unsigned(at)?)).transpose()?;
    Ok(Some(next.map_or(next_poll, |next| next.min(next_poll))))
}

#[async_trait]
impl WakeUps for PostgresMailbox {
    async fn wait(&self, timeout: Duration) -> Result<WaitResult> {
        let clock = ServerClock(&self.tenant.shared);
        let read_next_claim =
            || self.tenant.run_read(None, |tenant: Arc<Tenant>| async move { next_claim_time(&tenant).await });
        self.tenant.worker_notifier.wait(&clock, timeout, read_next_claim).await
    }
}
