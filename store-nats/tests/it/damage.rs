//! Messages that cannot be read (MB-55) or are missing.

use std::collections::BTreeSet;

use store_core::{
    DispatchStatus, ErrorKind, IgnoreProgress, Json, Limits,
    inspect::{FindingKind, RepairStatus},
};

use crate::{
    fixture::{TempStore, server_url},
    helpers::{claim, claim_request, enqueue, mailbox, new_dispatch},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_thread_does_not_block_claims_of_other_threads() {
    let temp_store = TempStore::new(Limits::default()).await.unwrap();
    let store = temp_store.open_store().await.unwrap();
    let mailbox = mailbox(&*store);
    for thread in ["first", "damaged", "other"] {
        enqueue(&*mailbox, new_dispatch(thread)).await.unwrap();
    }
    let first = claim_request().of_thread("first".parse().unwrap());
    let held = mailbox.claim(first).await.unwrap().claimed.remove(0);
    let (prefix, incarnation) = (temp_store.config().prefix(), held.number.incarnation);
    let subject = format!("{prefix}.log.thread.tdefault.{incarnation}.tdamaged");
    let client = async_nats::connect(server_url()).await.unwrap();
    client.request(subject, r#"{"v":1,"by":"other","rows":[7]}"#.into()).await.unwrap();
    let claims = mailbox.claim(claim_request().up_to(5)).await.unwrap();
    let claimed: Vec<_> = claims.claimed.iter().map(|held| held.dispatch.thread.as_str()).collect();
    assert_eq!(claimed, ["other"]);
    let unreadable: Vec<_> =
        claims.unreadable.iter().map(|unreadable| (unreadable.thread.as_str(), unreadable.error.kind())).collect();
    assert_eq!(unreadable, [("damaged", ErrorKind::Corrupt)]);
    // Calls about the thread are refused, by the store that was open and by one that is opened now.
    let other_store = temp_store.open_store().await.unwrap();
    for store in [&store, &other_store] {
        let refused = enqueue(&*crate::helpers::mailbox(&**store), new_dispatch("damaged")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    }
    // After a repair, every store accepts such calls. The unreadable message may have been a claim, so the next claim
    // number is not used.
    let repair =
        async |dry_run| store.inspector().unwrap().repair(dry_run, &IgnoreProgress).await.unwrap().findings.len();
    assert_eq!((repair(true).await, repair(false).await, repair(false).await), (1, 1, 0));
    enqueue(&*crate::helpers::mailbox(&*other_store), new_dispatch("damaged")).await.unwrap();
    let new_store = temp_store.open_store().await.unwrap();
    let claims = crate::helpers::mailbox(&*new_store).claim(claim_request().up_to(5)).await.unwrap();
    let claimed: Vec<_> =
        claims.claimed.iter().map(|held| (held.dispatch.thread.as_str(), held.number.counter)).collect();
    assert_eq!((claimed.as_slice(), claims.unreadable.len()), ([("damaged", 2)].as_slice(), 0));
}

/// Tests VF-1: `verify` names what cannot be read and what is missing.
#[tokio::test(flavor = "multi_thread")]
async fn data_lost_by_the_servers_is_found() {
    let temp_store = TempStore::new(Limits::default()).await.unwrap();
    let store = temp_store.open_store().await.unwrap();
    let mailbox = mailbox(&*store);
    let large = Json::parse(&format!("\"{}\"", "x".repeat(10_000))).unwrap();
    for id in ["whole", "gone", "changed"] {
        let new = new_dispatch(id)
            .with_id(id.parse().unwrap())
            .with_payload(Json::parse(&format!("[\"{id}\",{large}]")).unwrap());
        enqueue(&*mailbox, new).await.unwrap();
    }
    let inspect = async || store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap();
    let clean = inspect().await;
    assert_eq!((clean.tenants, clean.threads, clean.findings.len()), (1, 3, 0));
    let (client, prefix) = (async_nats::connect(server_url()).await.unwrap(), temp_store.config().prefix());
    // The payloads were written in the order above. The second one is removed.
    let delete = format!("$JS.API.STREAM.MSG.DELETE.{prefix}-data");
    client.request(delete, r#"{"seq":2}"#.into()).await.unwrap();
    let incarnation = claim(&*mailbox).await.unwrap().unwrap().number.incarnation;
    let subject = format!("{prefix}.log.thread.tdefault.{incarnation}.tchanged");
    client.request(subject, "{".into()).await.unwrap();
    let found: BTreeSet<_> = inspect().await.findings.into_iter().map(|f| (f.thread.unwrap(), f.kind)).collect();
    let expected = [("changed", FindingKind::Damaged), ("gone", FindingKind::DanglingReference)];
    assert_eq!(found, expected.map(|(thread, kind)| (thread.parse().unwrap(), kind)).into());
    let repaired = store.inspector().unwrap().repair(false, &IgnoreProgress).await.unwrap();
    assert!(repaired.findings.iter().all(|finding| finding.repair == RepairStatus::NeedsBackup));
    let left: Vec<_> = inspect().await.findings.into_iter().map(|finding| finding.kind).collect();
    assert_eq!(left, [FindingKind::DanglingReference]);
    // A missing payload blocks no claim of other threads, and it is reported until its dispatch is cancelled (MB-55).
    let claims = mailbox.claim(claim_request().up_to(5)).await.unwrap();
    let claimed: Vec<_> = claims.claimed.iter().map(|held| held.dispatch.id.as_str()).collect();
    let unreadable: Vec<_> =
        claims.unreadable.iter().map(|unreadable| (unreadable.thread.as_str(), unreadable.error.kind())).collect();
    assert_eq!(
        (claimed.as_slice(), unreadable.as_slice()),
        (["whole"].as_slice(), [("gone", ErrorKind::Corrupt)].as_slice())
    );
    let cancelled = mailbox.cancel(&"gone".parse().unwrap()).await.unwrap();
    assert_eq!((cancelled.status, cancelled.payload), (DispatchStatus::Cancelled, None));
    let claims = mailbox.claim(claim_request().up_to(5)).await.unwrap();
    assert_eq!((claims.claimed.len(), claims.unreadable.len()), (0, 0));
}
