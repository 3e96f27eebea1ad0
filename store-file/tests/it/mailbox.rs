//! Where work stands: in the log of the mailbox, and in those of the threads whose commits settled it.

use std::{fs, sync::Arc, time::Duration};

use store_core::{
    AppendEvents, ClaimRequest, ClaimedDispatch, DeleteRequest, DispatchFilter, DispatchId, DispatchQuery,
    DispatchStatus, ErrorKind, IgnoreProgress, Interrupt, Json, MailboxStore, NewDispatch, NewEvent, NewOutboxRow,
    PageRequest, Result, Scope, Settlement, Store, TenantId, TenantStores, WaitResult,
};
use store_file::FileStore;

use crate::folder::{Place, edit, say, saying, thread, threads};

const LEASE: Duration = Duration::from_secs(30);

fn stores(store: &FileStore) -> TenantStores {
    store.tenant(&TenantId::default_tenant()).unwrap()
}

fn mailbox(store: &FileStore) -> Arc<dyn MailboxStore> {
    stores(store).mailbox.unwrap()
}

async fn enqueue(store: &FileStore, of: &str) -> Result<DispatchId> {
    let new = NewDispatch::new(thread(of), "r".parse().unwrap());
    mailbox(store).enqueue(vec![new]).await?.remove(0).map(|enqueued| enqueued.id)
}

async fn claim_of(store: &FileStore, of: &str) -> ClaimedDispatch {
    let request = ClaimRequest::new("w".parse().unwrap(), LEASE).of_thread(thread(of));
    mailbox(store).claim(request).await.unwrap().claimed.remove(0)
}

/// Claims what there is on a thread, and acks it with a commit: in the log of the thread.
async fn ack_in_commit(store: &FileStore, of: &str, result: &str) {
    let held = claim_of(store, of).await;
    let result = Some(Json::of(result).unwrap());
    let commit = saying(of, "done").fenced(held.fence()).settling(Settlement::Ack { result });
    let _ = stores(store).commits.unwrap().commit(commit).await.unwrap();
}

/// Shows FI-4 and MB-55: a thread whose log is damaged is left out of claims and named beside their answers, as nobody
/// knows what settlements it had; what was queued of it can be listed, and ended by its id. Nobody is woken for it.
#[tokio::test]
async fn a_damaged_thread_is_left_out_of_claims() {
    let place = Place::new();
    let store = place.open();
    let (_, queued, other) =
        (enqueue(&store, "a").await.unwrap(), enqueue(&store, "a").await.unwrap(), enqueue(&store, "b").await.unwrap());
    ack_in_commit(&store, "a", "x").await;
    // What stands behind the bad place proves that it is damage.
    say(&store, "a", "more").await.unwrap();
    // The journal would mend what it still has.
    store.close().await.unwrap();
    let _store = place.open();
    let place = place.copy();
    edit(&place.log("a"), |log| {
        let at = log.windows(7).position(|text| text == b"\"done\"}").unwrap();
        log[at + 1] ^= 4;
    });
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let store = place.open();
    // As far as the rest of it tells, what was settled is claimed still, until its lease is over.
    place.clock.advance(LEASE);
    let mailbox = mailbox(&store);
    let kind = |result: Result<DispatchId>| result.unwrap_err().kind();
    let claims = mailbox.claim(ClaimRequest::new("w".parse().unwrap(), LEASE).up_to(10)).await.unwrap();
    assert_eq!(claims.claimed.iter().map(|claimed| claimed.dispatch.id.clone()).collect::<Vec<_>>(), [other]);
    assert_eq!(claims.unreadable.iter().map(|found| found.thread.clone()).collect::<Vec<_>>(), [thread("a")]);
    assert_eq!(kind(enqueue(&store, "a").await), ErrorKind::Corrupt);
    let interrupt = mailbox.interrupt(Interrupt::new(thread("a"))).await;
    assert_eq!(interrupt.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(mailbox.load_epoch(&thread("a")).await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(mailbox.count_dispatches(Some(&thread("a"))).await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(mailbox.list_ready_threads(PageRequest::default()).await.unwrap().items, []);
    let wake_ups = stores(&store).wake_ups.unwrap();
    assert_eq!(wake_ups.wait(Duration::from_millis(20)).await.unwrap(), WaitResult::TimedOut);
    let listed = mailbox.list_dispatches(DispatchQuery::new(DispatchFilter::default())).await.unwrap();
    assert!(listed.items.iter().any(|dispatch| dispatch.id == queued), "{listed:?}");
    assert_eq!(mailbox.cancel(&queued).await.unwrap().status, DispatchStatus::Cancelled);
}

/// Shows MB-47 and TH-21: what settlements in commits made of dispatches outlives the logs of their threads, even where
/// it is more than is moved at once.
#[tokio::test]
async fn settlements_survive_the_removal_of_the_log_of_their_thread() {
    let place = Place::new();
    let store = place.open();
    let (long, mut ids) = ("x".repeat(60_000), Vec::new());
    for _ in 0..8 {
        ids.push(enqueue(&store, "a").await.unwrap());
        ack_in_commit(&store, "a", &long).await;
    }
    threads(&store).delete_thread(&thread("a"), DeleteRequest::default()).await.unwrap();
    threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
    assert!(!place.logs().iter().any(|log| log.file_name().unwrap().to_str().unwrap().starts_with("a.")));
    for _ in 0..2 {
        let copy = place.copy();
        let store = copy.open();
        for id in &ids {
            let found = mailbox(&store).load_dispatch(id).await.unwrap().unwrap();
            assert_eq!(found.status, DispatchStatus::Acked);
            assert_eq!(found.result.unwrap().as_str().len(), long.len() + 2);
        }
        let found = store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap();
        assert_eq!(found.findings, []);
    }
}

/// Shows PR-12: a check of the store beside the removal of a tenant that has rows of the outbox and events of scopes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_and_a_tenant_deletion_never_deadlock() {
    let place = Place::new();
    let store = Arc::new(place.open());
    for round in 0..40 {
        let name: TenantId = format!("t-{round}").parse().unwrap();
        let tenant = store.tenant(&name).unwrap();
        let row = NewOutboxRow::new("lane".parse().unwrap(), "target".parse().unwrap(), Json::parse("1").unwrap());
        let _ = tenant.commits.unwrap().commit(saying("a", "x").with_outbox([row])).await.unwrap();
        for scope in ["b", "c", "z"] {
            let events = [NewEvent::new("fact".parse().unwrap(), [Scope::Thread(thread(scope))])];
            tenant.events.clone().unwrap().append_events(AppendEvents::new(events)).await.unwrap();
        }
        let check = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap() }
        });
        store.delete_tenant(&name).await.unwrap();
        assert_eq!(check.await.unwrap().findings, []);
    }
}
