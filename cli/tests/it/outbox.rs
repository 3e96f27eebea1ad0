//! `outbox`: rows are listed, requeued and purged.

use agentstore::{ClaimOutbox, Commit, Json, NewOutboxRow, OutboxId, OutboxSettlement, TenantId, ThreadId};
use serde_json::json;

use crate::helpers::{TestStore, value_at};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Fills the outbox of a store with a pending row, a delivered row and two dead letters. Returns their ids.
fn fill_outbox(store: &TestStore) -> Vec<OutboxId> {
    block_on(async {
        let stores = agentstore::open(&format!("file:{}", store.path().display())).await.unwrap();
        let commits = stores.commits(&TenantId::default_tenant()).unwrap();
        let row = |lane: &str| NewOutboxRow::new(lane.parse().unwrap(), "ada".parse().unwrap(), Json::null());
        let rows = ["mail", "mail", "mail", "hook"].map(row);
        let receipt = commits.commit(Commit::new(ThreadId::new("t").unwrap()).with_outbox(rows)).await.unwrap();
        let outbox = commits.outbox();
        let claim = ClaimOutbox::new("mail".parse().unwrap(), "w".parse().unwrap(), 3);
        let claimed = outbox.claim_outbox(claim).await.unwrap().rows;
        let dead_letter = || OutboxSettlement::DeadLetter { error: "no such address".to_owned() };
        let settlements = [OutboxSettlement::Delivered, dead_letter(), dead_letter()];
        let settlements = claimed.iter().zip(settlements).map(|(row, settlement)| row.settle(settlement)).collect();
        let results = outbox.settle_outbox(settlements).await.unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        stores.close().await.unwrap();
        receipt.outbox
    })
}

/// Tests OB-12 and OB-13: the commands list, count, requeue and purge rows.
#[test]
fn the_outbox_commands_manage_rows() {
    let store = TestStore::new();
    let ids = fill_outbox(&store);
    let all = store.json(&["outbox", "list"]);
    let counts = json!({"pending": 1, "claimed": 0, "delivered": 1, "dead_letter": 2});
    assert_eq!(value_at(&all, "/counts"), &counts);
    assert_eq!(value_at(&all, "/rows").as_array().unwrap().len(), 4);
    let dead_letters = store.json(&["outbox", "list", "--status", "dead_letter"]);
    assert_eq!(value_at(&dead_letters, "/rows/0/last_error"), &json!("no such address"));
    let response = store.run(&["outbox", "list", "--lane", "mail"]).expect_success().out;
    assert!(
        response.contains("dead_letter") && response.contains("0 pending, 0 claimed, 1 delivered, 2 dead letters"),
        "{response}"
    );
    assert!(store.run(&["outbox", "list", "--lane", "none"]).expect_success().out.contains("no such rows"));
    store.run(&["outbox", "list", "--status", "lost"]).expect_failure(2, &["outbox status"]);

    let requeued = store.json(&["outbox", "requeue", ids[1].as_str()]);
    assert_eq!(requeued, json!({"requeued": [ids[1].as_str()], "refused": []}));
    store.run(&["outbox", "requeue", ids[0].as_str(), "--lane", "mail"]).expect_failure(2, &["--lane"]);
    let refused = store.run(&["outbox", "requeue", ids[0].as_str()]);
    assert!(refused.code == 1 && refused.out.contains("refused") && refused.out.contains("delivered"), "{refused:?}");
    let requeued = store.json(&["outbox", "requeue", "--lane", "mail", "--yes"]);
    assert_eq!(value_at(&requeued, "/requeued"), &json!([ids[2].as_str()]));

    let dry_run = store.json(&["outbox", "purge", "--older-than", "0s", "--dry-run"]);
    assert_eq!((value_at(&dry_run, "/found"), value_at(&dry_run, "/removed")), (&json!(1), &json!(0)));
    assert_eq!(value_at(&store.json(&["outbox", "purge", "--yes"]), "/removed"), &json!(0));
    assert_eq!(value_at(&store.json(&["outbox", "purge", "--older-than", "0s", "--yes"]), "/removed"), &json!(1));
    store.run(&["outbox", "purge", "--older-than", "soon"]).expect_failure(2, &["24h"]);
}
