//! The order of claims. The watermark of a priority is the time up to which earlier claims have left nothing to find
//! among threads with this priority. Claims do not search below it again (MB-22).

use std::{sync::Arc, time::Duration};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store_core::{
    ClaimRequest, Limits, MailboxStore, NewDispatch, RunId, Settlement, Store, TenantId, ThreadId, WorkerId,
};
use tokio::time::{Instant, sleep};

use crate::fixture::{SchemaGuard, server_url};

const MINUTE: Duration = Duration::from_secs(60);

/// A store, and the mailbox in it.
pub(crate) struct MailboxUnderTest {
    pub(crate) test_schema: SchemaGuard,
    _store: Arc<dyn Store>,
    pub(crate) mailbox: Arc<dyn MailboxStore>,
}

impl MailboxUnderTest {
    pub(crate) async fn new() -> Self {
        let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
        let store = test_schema.store().await.unwrap();
        let mailbox = store.tenant(&TenantId::default_tenant()).unwrap().mailbox.unwrap();
        Self { test_schema, _store: store, mailbox }
    }

    async fn enqueue(&self, thread: &str, priority: u8) {
        let run = RunId::new(format!("run of {thread}")).unwrap();
        let new = NewDispatch::new(ThreadId::new(thread).unwrap(), run).with_priority(priority);
        self.mailbox.enqueue(vec![new]).await.unwrap().pop().unwrap().unwrap();
    }

    /// Claims and settles the first dispatch. Returns its thread.
    async fn claim_and_settle(&self) -> Option<String> {
        let request = ClaimRequest::new(WorkerId::new("w").unwrap(), MINUTE);
        let claimed = self.mailbox.claim(request).await.unwrap().claimed.pop()?;
        let ack = vec![(claimed.claim(), Settlement::Ack { result: None })];
        self.mailbox.settle(ack).await.unwrap().pop().unwrap().unwrap();
        Some(claimed.dispatch.thread.to_string())
    }

    /// Advances the time by a minute, and checks that a claim then finds nothing.
    async fn expect_nothing_after_a_minute(&self) {
        self.test_schema.advance(MINUTE).await.unwrap();
        assert_eq!(self.claim_and_settle().await, None);
    }
}

#[tokio::test]
async fn a_thread_that_becomes_urgent_is_found_below_the_watermark() {
    let setup = MailboxUnderTest::new().await;
    for priority in [10, 90] {
        setup.enqueue("first", priority).await;
        assert_eq!(setup.claim_and_settle().await.as_deref(), Some("first"));
    }
    setup.enqueue("patient", 90).await;
    setup.enqueue("waiting", 90).await;
    setup.test_schema.advance(MINUTE).await.unwrap();
    setup.enqueue("new", 10).await;
    assert_eq!(setup.claim_and_settle().await.as_deref(), Some("new"));
    // `waiting` has been ready for a minute, since before the watermark of priority 10.
    setup.enqueue("waiting", 10).await;
    setup.enqueue("newer", 10).await;
    for thread in ["waiting", "newer", "patient", "waiting"] {
        assert_eq!(setup.claim_and_settle().await.as_deref(), Some(thread));
    }
    setup.expect_nothing_after_a_minute().await;
}

#[tokio::test]
async fn a_thread_locked_by_another_transaction_is_found_within_a_second() {
    let setup = MailboxUnderTest::new().await;
    setup.enqueue("held", 50).await;
    let mut other_connection = PgConnection::connect(&server_url()).await.unwrap();
    let mut locking_transaction = other_connection.begin().await.unwrap();
    let lock = format!("SELECT FROM {}.mailbox FOR UPDATE", setup.test_schema.config().schema());
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *locking_transaction).await.unwrap();
    setup.expect_nothing_after_a_minute().await;
    setup.expect_nothing_after_a_minute().await;
    locking_transaction.rollback().await.unwrap();
    let since = Instant::now();
    while setup.claim_and_settle().await.as_deref() != Some("held") {
        assert!(since.elapsed() < Duration::from_secs(1), "the dispatch was not found");
        sleep(Duration::from_millis(10)).await;
    }
}
