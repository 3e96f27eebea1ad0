//! The process that waits for the writes of the measuring process. It prints a line when it is ready. Then, until it is
//! killed, it prints the time at which it receives each event, change or dispatch.

use std::time::Duration;

use agentstore::{
    ClaimRequest, OpenOptions, Scope, Settlement, Subscribe, SubscriptionStart, TenantId, TenantStores,
    layers::{
        LayerStore,
        config::{ConfigLayer, ConfigStore, ConfigUpdate},
    },
};
use anyhow::{Context, Result};
use futures_util::StreamExt;

use crate::{AwaitedWrite, measured_config, measured_thread, monotonic_micros};

/// A lease that does not expire before its dispatch is settled.
const LEASE: Duration = Duration::from_mins(10);

pub(crate) async fn run_receiver(awaited: AwaitedWrite, url: &str, tenant: TenantId) -> Result<()> {
    let options = OpenOptions::new();
    let options = if url.starts_with("file:") { options.read_only() } else { options };
    let stores = options.open(url).await?;
    let tenant_stores = stores.tenant(&tenant)?;
    match awaited {
        AwaitedWrite::Events => receive_events(tenant_stores).await?,
        AwaitedWrite::Config => receive_changes(&tenant_stores).await?,
        AwaitedWrite::Work => receive_dispatches(tenant_stores).await?,
    }
    Ok(stores.close().await?)
}

async fn receive_events(tenant_stores: TenantStores) -> Result<()> {
    let event_store = tenant_stores.events.context("the store has no events")?;
    let mut events =
        event_store.subscribe(Subscribe::new(Scope::Thread(measured_thread()?), SubscriptionStart::Now)).await?.events;
    println!("open");
    while let Some(event) = events.next().await {
        event?;
        println!("{}", monotonic_micros());
    }
    Ok(())
}

async fn receive_changes(tenant_stores: &TenantStores) -> Result<()> {
    let config = ConfigLayer::new(LayerStore::new(tenant_stores)?);
    let mut updates = config.watch_config(&measured_config()?.namespace).await?;
    while let Some(update) = updates.next().await {
        match update? {
            ConfigUpdate::Present(_) => println!("open"),
            ConfigUpdate::Changed(..) => println!("{}", monotonic_micros()),
        }
    }
    Ok(())
}

async fn receive_dispatches(tenant_stores: TenantStores) -> Result<()> {
    let wake_ups = tenant_stores.wake_ups.context("the store has no wake-ups")?;
    let mailbox = tenant_stores.mailbox.context("the store has no mailbox")?;
    println!("open");
    loop {
        wake_ups.wait(Duration::from_mins(1)).await?;
        let request = ClaimRequest::new("waiter".parse()?, LEASE);
        while let Some(dispatch) = mailbox.claim(request.clone()).await?.claimed.pop() {
            println!("{}", monotonic_micros());
            let settlements = vec![(dispatch.claim(), Settlement::Ack { result: None })];
            mailbox.settle(settlements).await?.pop().context("the settlement got no answer")??;
        }
    }
}
