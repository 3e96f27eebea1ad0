//! The other process, which waits for writes. It prints a line when it is ready, and then the time at which it receives
//! each event or dispatch, until it is killed.

use std::time::Duration;

use agentstore::{ClaimRequest, OpenOptions, Scope, Settlement, Start, Subscribe, TenantId, TenantStores};
use anyhow::{Context, Result};
use futures_util::StreamExt;

use crate::{Part, now, thread};

const LEASE: Duration = Duration::from_mins(10);

pub(crate) async fn receive(part: Part, url: &str, tenant: TenantId) -> Result<()> {
    let options = OpenOptions::new();
    let options = if url.starts_with("file:") { options.read_only() } else { options };
    let opened = options.open(url).await?;
    let stores = opened.tenant(&tenant)?;
    match part {
        Part::Events => follow(stores).await?,
        Part::Work => work(stores).await?,
    }
    Ok(opened.close().await?)
}

async fn follow(stores: TenantStores) -> Result<()> {
    let events = stores.events.context("the store has no events")?;
    let mut events = events.subscribe(Subscribe::new(Scope::Thread(thread()?), Start::Now)).await?.events;
    println!("open");
    while let Some(event) = events.next().await {
        event?;
        println!("{}", now());
    }
    Ok(())
}

async fn work(stores: TenantStores) -> Result<()> {
    let wake_ups = stores.wake_ups.context("the store has no wake-ups")?;
    let mailbox = stores.mailbox.context("the store has no mailbox")?;
    println!("open");
    loop {
        wake_ups.wait(Duration::from_mins(1)).await?;
        let request = ClaimRequest::new("waiter".parse()?, LEASE);
        while let Some(held) = mailbox.claim(request.clone()).await?.claimed.pop() {
            println!("{}", now());
            let ended = vec![(held.claim(), Settlement::Ack { result: None })];
            mailbox.settle(ended).await?.pop().context("the settlement got no answer")??;
        }
    }
}
