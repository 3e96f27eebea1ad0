//! Waiting for work to claim.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use store_core::{Clock, Result, Timestamp, Waited, WakeUps};

use super::PostgresMailbox;
use crate::{
    columns::optional,
    db::{add, unsigned},
    tenant::{Common, Tenant},
};

/// The maximum time that a caller waits before it polls for dispatches of other processes.
const POLL: Duration = Duration::from_secs(1);

/// The server's time, as this process estimates it.
#[derive(Debug)]
struct ServerClock<'a>(&'a Common);

#[async_trait]
impl Clock for ServerClock<'_> {
    fn now(&self) -> Timestamp {
        self.0.db.clock.now().unwrap_or_default()
    }

    async fn sleep_until(&self, time: Timestamp) {
        // A caller that has to wait longer polls first, which also updates the time.
        let left = time.as_millis().saturating_sub(self.now().as_millis());
        tokio::time::sleep(Duration::from_millis(left).min(POLL)).await;
    }
}

/// Returns the time from which on a claim finds a dispatch, or the time of the next poll if that is earlier.
async fn next_claim(tenant: &Tenant) -> Result<Option<Timestamp>> {
    let mut with = PgArguments::default();
    add(&mut with, tenant.constants.tenant.as_str())?;
    tenant.scan_state.known().add_to(&mut with)?;
    let rows = tenant.db().any().read(|sql| &sql.next_claim, with).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let clock = optional::<i64>(row, 0)?.unwrap_or_default();
    tenant.db().clock.set_server_time(Duration::from_millis(unsigned(clock)?));
    let soon = tenant.db().clock.now()?.saturating_add(POLL);
    let next = optional::<i64>(row, 1)?.map(|at| Timestamp::from_millis(unsigned(at)?)).transpose()?;
    Ok(Some(next.map_or(soon, |next| next.min(soon))))
}

#[async_trait]
impl WakeUps for PostgresMailbox {
    async fn wait(&self, timeout: Duration) -> Result<Waited> {
        let clock = ServerClock(&self.tenant.common);
        let look = || self.tenant.read(None, |tenant: Arc<Tenant>| async move { next_claim(&tenant).await });
        self.tenant.notifier.wait(&clock, timeout, look).await
    }
}
