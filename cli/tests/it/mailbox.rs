//! `mailbox`: dispatches are enqueued, listed, counted, requeued, interrupted and purged.

use agentstore::{ClaimRequest, Settlement, TenantId};
use serde_json::json;

use crate::helpers::{TestStore, value_at};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Claims the dispatches that are ready, one for each thread, settles them with `settlement`, and returns their number.
fn claim_and_settle(store: &TestStore, settlement: &Settlement) -> usize {
    block_on(async {
        let stores = agentstore::open(&format!("file:{}", store.path().display())).await.unwrap();
        let mailbox = stores.mailbox(&TenantId::default_tenant()).unwrap();
        let request = ClaimRequest::new("w".parse().unwrap(), std::time::Duration::from_secs(60)).up_to(9);
        let claimed = mailbox.claim(request).await.unwrap().claimed;
        let settlements = claimed.iter().map(|dispatch| (dispatch.claim(), settlement.clone())).collect();
        let results = mailbox.settle(settlements).await.unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        stores.close().await.unwrap();
        claimed.len()
    })
}

/// Tests MB-1, MB-4, MB-11, MB-45, MB-50 and MB-51: the commands enqueue, list, count, requeue, interrupt and purge
/// dispatches.
#[test]
fn the_mailbox_commands_manage_dispatches() {
    let store = TestStore::new();
    assert!(store.run(&["mailbox", "enqueue", "t", "--run", "r", "--in", "soon"]).code == 2);
    let first = store.json(&["mailbox", "enqueue", "t", "--run", "r", "--id", "d-1", "--payload", r#"{"n":1.50}"#]);
    assert_eq!((value_at(&first, "/id"), value_at(&first, "/deduplicated")), (&json!("d-1"), &json!(false)));
    store.run(&["mailbox", "enqueue", "t", "--run", "r", "--payload", "{"]).expect_failure(2, &["payload"]);
    assert!(
        store
            .run(&["mailbox", "enqueue", "t", "--run", "r", "--id", "d-2", "--key", "k"])
            .expect_success()
            .out
            .contains("d-2")
    );
    store.run(&["mailbox", "enqueue", "t", "--run", "r", "--id", "d-3", "--key", "k"]).expect_failure(1, &["d-2"]);
    store.json(&["mailbox", "enqueue", "u", "--run", "r", "--id", "d-4", "--in", "1h"]);
    let all = store.json(&["mailbox", "list"]);
    let counts = json!({"queued": 3, "claimed": 0, "acked": 0, "cancelled": 0, "superseded": 0, "dead_letter": 0});
    assert_eq!((value_at(&all, "/counts"), value_at(&all, "/dispatches/0/payload/n")), (&counts, &json!(1.5)));
    let response = store.run(&["mailbox", "list", "--thread", "t", "--status", "queued"]).expect_success().out;
    assert!(
        response.contains("d-2") && !response.contains("d-4") && response.contains("2 queued, 0 claimed"),
        "{response}"
    );
    assert!(store.run(&["mailbox", "list", "--thread", "none"]).expect_success().out.contains("no such dispatches"));
    store.run(&["mailbox", "list", "--status", "lost"]).expect_failure(2, &["dispatch status"]);

    let retry = Settlement::Retry { after: std::time::Duration::ZERO, error: "no network".to_owned() };
    assert_eq!(claim_and_settle(&store, &retry), 1);
    let stats = store.json(&["mailbox", "stats"]);
    assert_eq!(
        (value_at(&stats, "/oldest/dispatch"), value_at(&stats, "/retries")),
        (&json!("d-1"), &json!({"dispatches": 1, "failures": 1}))
    );
    let response = store.run(&["mailbox", "stats", "--thread", "t"]).expect_success().out;
    assert!(
        response.contains("2 queued")
            && response.contains("dispatch d-1 of thread t")
            && response.contains("1 failure"),
        "{response}"
    );
    let response = store.run(&["mailbox", "stats", "--thread", "none"]).expect_success().out;
    assert!(response.contains("nothing is queued") && response.contains("no queued or claimed dispatch"), "{response}");

    assert_eq!(claim_and_settle(&store, &Settlement::DeadLetter { error: "never".to_owned() }), 1);
    store.run(&["mailbox", "requeue"]).expect_failure(2, &["Requeue 1 dead letter?", "--yes"]);
    let requeued = store.json(&["mailbox", "requeue", "--yes"]);
    assert_eq!(requeued, json!({"requeued": ["d-1"], "refused": []}));
    let refused = store.run(&["mailbox", "requeue", "d-1", "d-9"]);
    assert!(refused.code == 1 && refused.out.contains("refused d-9: "), "{refused:?}");

    store
        .run(&["mailbox", "interrupt", "t"])
        .expect_failure(2, &["Supersede 2 queued dispatches of thread t?", "--yes"]);
    let interrupted = store.json(&["mailbox", "interrupt", "t", "--key", "k", "--reason", "changed", "--yes"]);
    assert_eq!((value_at(&interrupted, "/superseded"), value_at(&interrupted, "/epoch")), (&json!(2), &json!(1)));
    assert!(store.run(&["mailbox", "interrupt", "t", "--key", "k"]).expect_success().out.contains("used before"));
    let superseded = store.json(&["mailbox", "list", "--status", "superseded"]);
    assert_eq!(value_at(&superseded, "/dispatches/1/reason"), &json!("changed"));

    let dry_run = store.json(&["mailbox", "purge", "--older-than", "0s", "--dry-run"]);
    assert_eq!((value_at(&dry_run, "/found"), value_at(&dry_run, "/removed")), (&json!(2), &json!(0)));
    assert_eq!(value_at(&store.json(&["mailbox", "purge", "--yes"]), "/removed"), &json!(0));
    assert_eq!(value_at(&store.json(&["mailbox", "purge", "--older-than", "0s", "--yes"]), "/removed"), &json!(2));
    assert_eq!(value_at(&store.json(&["mailbox", "list"]), "/dispatches").as_array().unwrap().len(), 1);
}
