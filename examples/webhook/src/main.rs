//! `webhook STORE-URL [TARGET-URL]`: delivers rows until Ctrl-C. If a target is given, first commits a row for it.

use agentstore::{Commit, Json, NewOutboxRow, OutboxTarget, Result, TenantId, WorkerOptions};
use webhook_example::{LANE, relay};

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "file:./agentstore-data".to_owned());
    let (stores, tenant) = (agentstore::open(&url).await?, TenantId::default_tenant());
    if let Some(target) = args.next() {
        let payload = Json::parse(r#"{"order":7,"state":"paid"}"#)?;
        let row = NewOutboxRow::new(LANE.parse()?, OutboxTarget::new(target)?, payload);
        let _receipt = stores.commits(&tenant)?.commit(Commit::new("t-1".parse()?).with_outbox([row])).await?;
    }
    let running = relay(&stores, &tenant, WorkerOptions::default())?.start()?;
    // If signals cannot be received, the relay continues until it is killed. Killing it only delays deliveries.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
    let _summary = running.stop().await?;
    stores.close().await
}
