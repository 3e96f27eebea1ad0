//! Orders. Each has a thread, a run and a dispatch, which have the id of the order.

use agentstore::{
    Commit, CommitKey, Json, Message, NewDispatch, NewEntry, Result, RunChange, RunId, RunStatus, Stores, TenantId,
    ThreadId,
};
use serde::{Deserialize, Serialize};

/// How often the payment of an order is tried. An attempt also counts if its process was killed.
const MAX_ATTEMPTS: u32 = 50;

/// What a card is charged for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The id.
    pub id: String,
    /// The card.
    pub card: String,
    /// The price.
    pub cents: u64,
}

/// Stores an order, and enqueues its payment. The call may be repeated, for example after a lost answer.
///
/// # Errors
/// Any error of the store; `IdempotencyMismatch` if there is another order with the id.
pub async fn place_order(stores: &Stores, order: &Order) -> Result<()> {
    let tenant = TenantId::default_tenant();
    let (thread, run) = (ThreadId::new(&order.id)?, RunId::new(&order.id)?);
    let text = format!("Charge {} cents to {} for {}.", order.cents, order.card, order.id);
    let commit = Commit::new(thread.clone())
        .with_key(CommitKey::new("order")?)
        .entry(NewEntry::new(Message::user(text)))
        .with_run(RunChange::new(run.clone(), RunStatus::Running).with_agent("shop".parse()?));
    let _receipt = stores.commits(&tenant)?.commit(commit).await?;
    let dispatch = NewDispatch::new(thread, run)
        .with_id(order.id.parse()?)
        .with_payload(Json::of(order)?)
        .with_max_attempts(MAX_ATTEMPTS);
    stores.mailbox(&tenant)?.enqueue(vec![dispatch]).await?.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(())
}
