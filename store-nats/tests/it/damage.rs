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
    let first_request = claim_request().of_thread("first".parse().unwrap());
    let claimed_dispatch = mailbox.claim(first_request).await.unwrap().claimed.remove(0);
    let (prefix, incarnation) = (temp_store.config().prefix(), claimed_dispatch.number.incarnation);
    let subject = format!("{prefix}.log.thread.tdefault.{incarnation}.tdamaged");
    let client = async_nats::connect(server_url()).await.unwrap();
    client.request(subject, r#"{"v":1,"by":"other","rows":[7]}"#.into()).await.unwrap();
    let claims = mailbox.claim(claim_request().up_to(5)).await.unwrap();
    let claimed_threads: Vec<_> =
        claims.claimed.iter().map(|claimed_dispatch| claimed_dispatch.dispatch.thread.as_str()).collect();
    assert_eq!(claimed_threads, ["other"]);
    let unreadable: Vec<_> =
        claims.unreadable.iter().map(|unreadable| (unreadable.thread.as_str(), unreadable.error.kind())).collect();
    assert_eq!(unreadable, [("damaged", ErrorKind::Corrupt)]);
    // Calls about the thread are refused, both by the store that is already open and by a store that is opened now.
    let other_store = temp_store.open_store().await.unwrap();
    for store in [&store, &other_store] {
        let error = enqueue(&*crate::helpers::mailbox(&**store), new_dispatch("damaged")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
    // After a repair, every store accepts such calls. The unreadable message may have been a claim, so the next claim
    // number is not used.
    let repair =
        async |dry_run| store.inspector().unwrap().repair(dry_run, &IgnoreProgress).await.unwrap().findings.len();
    assert_eq!((repair(true).await, repair(false).await, repair(false).await), (1, 1, 0));
    enqueue(&*crate::helpers::mailbox(&*other_store), new_dispatch("damaged")).await.unwrap();
    let new_store = temp_store.open_store().await.unwrap();
    let claims = crate::helpers::mailbox(&*new_store).claim(claim_request().up_to(5)).await.unwrap();
    let threads_and_numbers: Vec<_> = claims
        .claimed
        .iter()
        .map(|claimed_dispatch| (claimed_dispatch.dispatch.thread.as_str(), claimed_dispatch.number.counter))
        .collect();
    assert_eq!((threads_and_numbers.as_slice(), claims.unreadable.len()), ([("damaged", 2)].as_slice(), 0));
}

/// Tests VF-1: `verify` names what cannot be read and what is missing.
#[tokio::test(flavor = "multi_thread")]
async fn data_lost_by_the_servers_is_found() {
    let temp_store = TempStore::new(Limits::default()).await.unwrap();
    let store = temp_store.open_store().await.unwrap();
    let mailbox = mailbox(&*store);
    let large_payload = Json::parse(&format!("\"{}\"", "x".repeat(10_000))).unwrap();
    for id in ["whole", "missing", "changed"] {
        let draft = new_dispatch(id)
            .with_id(id.parse().unwrap())
            .with_payload(Json::parse(&format!("[\"{id}\",{large_payload}]")).unwrap());
        enqueue(&*mailbox, draft).await.unwrap();
    }
    let inspect = async || store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap();
    let inspection = inspect().await;
    assert_eq!((inspection.tenants, inspection.threads, inspection.findings.len()), (1, 3, 0));
    let (client, prefix) = (async_nats::connect(server_url()).await.unwrap(), temp_store.config().prefix());
    // The payloads were written in the order above. The second one is removed.
    let delete = format!("$JS.API.STREAM.MSG.DELETE.{prefix}-data");
    client.request(delete, r#"{"seq":2}"#.into()).await.unwrap();
    let incarnation = claim(&*mailbox).await.unwrap().unwrap().number.incarnation;
    let subject = format!("{prefix}.log.thread.tdefault.{incarnation}.tchanged");
    client.request(subject, "{".into()).await.unwrap();
    let findings: BTreeSet<_> =
        inspect().await.findings.into_iter().map(|finding| (finding.thread.unwrap(), finding.kind)).collect();
    let expected = [("changed", FindingKind::Damaged), ("missing", FindingKind::DanglingReference)];
    assert_eq!(findings, expected.map(|(thread, kind)| (thread.parse().unwrap(), kind)).into());
    let repair = store.inspector().unwrap().repair(false, &IgnoreProgress).await.unwrap();
    assert!(repair.findings.iter().all(|finding| finding.repair == RepairStatus::NeedsBackup));
    let kinds_left: Vec<_> = inspect().await.findings.into_iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds_left, [FindingKind::DanglingReference]);
    // A missing payload blocks no claim of other threads, and it is reported until its dispatch is cancelled (MB-55).
    let claims = mailbox.claim(claim_request().up_to(5)).await.unwrap();
    let claimed_ids: Vec<_> =
        claims.claimed.iter().map(|claimed_dispatch| claimed_dispatch.dispatch.id.as_str()).collect();
    let unreadable: Vec<_> =
        claims.unreadable.iter().map(|unreadable| (unreadable.thread.as_str(), unreadable.error.kind())).collect();
    assert_eq!(
        (claimed_ids.as_slice(), unreadable.as_slice()),
        (["whole"].as_slice(), [("missing", ErrorKind::Corrupt)].as_slice())
    );
    let cancelled = mailbox.cancel(&"missing".parse().unwrap()).await.unwrap();
    assert_eq!((cancelled.status, cancelled.payload), (DispatchStatus::Cancelled, None));
    let claims = mailbox.claim(claim_request().up_to(5)).await.unwrap();
    assert_eq!((claims.claimed.len(), claims.unreadable.len()), (0, 0));
}
