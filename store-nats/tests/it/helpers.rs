//! Functions that several tests of this crate use.

use std::{sync::Arc, time::Duration};

use async_nats::Client;
use serde_json::Value;
use store_core::{
    ClaimRequest, ClaimedDispatch, Dispatch, DispatchQuery, Enqueued, MailboxStore, NewDispatch, PageRequest, Result,
    Settlement, Store, TenantId, TenantStores, WorkerId,
};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Returns the handles of the default tenant.
pub(crate) fn tenant_stores(store: &dyn Store) -> TenantStores {
    store.tenant(&TenantId::default_tenant()).unwrap()
}

pub(crate) fn mailbox(store: &dyn Store) -> Arc<dyn MailboxStore> {
    tenant_stores(store).mailbox.unwrap()
}

pub(crate) fn new_dispatch(thread: &str) -> NewDispatch {
    NewDispatch::new(thread.parse().unwrap(), "r".parse().unwrap())
}

pub(crate) async fn enqueue(mailbox: &dyn MailboxStore, new: NewDispatch) -> Result<Enqueued> {
    mailbox.enqueue(vec![new]).await?.remove(0)
}

pub(crate) fn claim_request() -> ClaimRequest {
    ClaimRequest::new(WorkerId::new("w").unwrap(), MINUTE)
}

pub(crate) async fn claim(mailbox: &dyn MailboxStore) -> Result<Option<ClaimedDispatch>> {
    Ok(mailbox.claim(claim_request()).await?.claimed.pop())
}

pub(crate) async fn ack(mailbox: &dyn MailboxStore, claimed: &ClaimedDispatch) -> Result<()> {
    let ack = vec![(claimed.claim(), Settlement::Ack { result: None })];
    mailbox.settle(ack).await?.remove(0).map(drop)
}

/// Returns every dispatch, in the order of creation.
pub(crate) async fn all_dispatches(mailbox: &dyn MailboxStore) -> Vec<Dispatch> {
    let (mut found, mut request) = (Vec::new(), PageRequest::first(1_000));
    loop {
        let page = mailbox.list_dispatches(DispatchQuery::default().with_page(request.clone())).await.unwrap();
        found.extend(page.items);
        let Some(next) = page.next else { return found };
        request = request.after(next);
    }
}

/// Returns what the server reports about a stream.
pub(crate) async fn stream_info(client: &Client, name: &str) -> Value {
    let answer = client.request(format!("$JS.API.STREAM.INFO.{name}"), "".into()).await.unwrap();
    serde_json::from_slice(&answer.payload).unwrap()
}
