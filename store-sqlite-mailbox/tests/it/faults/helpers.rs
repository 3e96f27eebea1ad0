//! Functions that the tests of faults share.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use store_core::{
    ClaimRequest, ClaimedDispatch, DispatchStatus, IgnoreProgress, Json, MailboxStore, NewDispatch, Settlement, Store,
    TenantId, TenantStores, ThreadId, inspect::Inspector,
};
use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox};

/// A folder for a mailbox.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.path().join("mailbox.db")
    }
}

pub(super) async fn open(file: &Path) -> SqliteMailbox {
    SqliteMailbox::open(SqliteConfig::new(file)).await.unwrap()
}

pub(super) fn stores(store: &dyn Store) -> TenantStores {
    store.tenant(&TenantId::default_tenant()).unwrap()
}

pub(super) fn mailbox(store: &dyn Store) -> Arc<dyn MailboxStore> {
    stores(store).mailbox.unwrap()
}

pub(super) fn thread(name: impl std::fmt::Display) -> ThreadId {
    name.to_string().parse().unwrap()
}

/// Returns a dispatch whose payload contains its id.
pub(super) fn new_dispatch(thread: impl std::fmt::Display, id: &str) -> NewDispatch {
    let new = NewDispatch::new(self::thread(thread), "r".parse().unwrap()).with_id(id.parse().unwrap());
    new.with_payload(Json::of(&format!("payload of {id}")).unwrap())
}

pub(super) fn claim_request() -> ClaimRequest {
    ClaimRequest::new("w".parse().unwrap(), Duration::from_mins(10))
}

pub(super) fn ack(id: &str) -> Settlement {
    Settlement::Ack { result: Some(Json::of(&format!("result of {id}")).unwrap()) }
}

pub(super) async fn enqueue(mailbox: &dyn MailboxStore, new: NewDispatch) {
    mailbox.enqueue(vec![new]).await.unwrap().remove(0).unwrap();
}

pub(super) async fn settle(mailbox: &dyn MailboxStore, claimed: &ClaimedDispatch, settlement: Settlement) {
    mailbox.settle(vec![(claimed.claim(), settlement)]).await.unwrap().remove(0).unwrap();
}

/// Returns whether a dispatch exists and, if `must_be_acked` is set, is acknowledged. Checks its payload and its
/// result.
pub(super) async fn is_stored(mailbox: &dyn MailboxStore, id: &str, must_be_acked: bool) -> bool {
    let Some(found) = mailbox.load_dispatch(&id.parse().unwrap()).await.unwrap() else { return false };
    assert_eq!(found.payload, Some(Json::of(&format!("payload of {id}")).unwrap()), "{id}");
    if must_be_acked {
        assert_eq!(found.result, Some(Json::of(&format!("result of {id}")).unwrap()), "{id}");
    }
    !must_be_acked || found.status == DispatchStatus::Acked
}

/// Checks that every record can be read, and that the derived data agrees with the records.
pub(super) async fn expect_no_findings(store: &SqliteMailbox) {
    assert_eq!(store.verify(&IgnoreProgress).await.unwrap().findings, []);
}
