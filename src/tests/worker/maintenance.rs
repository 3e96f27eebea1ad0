//! Tests of maintenance: which records it removes and when, even if several nodes run it at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use store_core::{
    AppendEvents, CaseChange, CaseContent, ChangeDataset, Commit, DeleteRequest, DispatchStatus, Error, EvaluationEnd,
    EvaluationId, Json, NewEvaluation, NewEvent, NewOutboxRow, OutboxFilter, PageRequest, Scope, Settlement,
    ThreadFilter,
};

use super::{
    new_dispatch, status_summary,
    test_bed::{TestBed, message_commit},
};
use crate::{Failure, Maintenance, MaintenanceSummary, OutboxDelivery, Relay, Retention};

const HOUR: Duration = Duration::from_hours(1);

fn maintenance(bed: &TestBed) -> Maintenance {
    Maintenance::new(&bed.stores, &bed.tenant).unwrap()
}

/// Makes a dispatch that was acknowledged and an outbox row that was delivered.
async fn finish_work(bed: &TestBed, name: &str) {
    bed.enqueue([new_dispatch(name, name)]).await;
    let claimed_dispatch = bed.claim_as_other_worker(HOUR).await.unwrap();
    bed.mailbox()
        .settle(vec![(claimed_dispatch.claim(), Settlement::Ack { result: None })])
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    let row = NewOutboxRow::new("hooks".parse().unwrap(), "there".parse().unwrap(), Json::parse("1").unwrap());
    let _receipt = bed.commits().commit(Commit::new(name.parse().unwrap()).with_outbox([row])).await.unwrap();
    let deliver = |_: OutboxDelivery| async { Ok::<_, Failure>(()) };
    let relay = Relay::new(&bed.stores, &bed.tenant, "hooks".parse().unwrap(), deliver).unwrap();
    assert_eq!(relay.run_until_idle().await.unwrap().acked, 1);
}

/// Tests WK-9, and the age of WK-8 at which finished dispatches are removed.
pub(super) async fn any_number_of_nodes_can_remove_finished_records(bed: &TestBed) {
    for at in 0..6 {
        finish_work(bed, &format!("old-{at}")).await;
    }
    bed.advance(HOUR * 12).await;
    finish_work(bed, "young").await;
    bed.enqueue([new_dispatch("t", "waits")]).await;
    // After exactly a day no record is older than a day.
    bed.advance(HOUR * 12).await;
    let (first, second) = (maintenance(bed), maintenance(bed));
    let summary = first.run_once().await.unwrap();
    assert_eq!((summary.dispatches, summary.outbox), (0, 0), "{summary:?}");
    bed.advance(Duration::from_millis(1)).await;
    let dry_summary = maintenance(bed).dry().run_once().await.unwrap();
    assert_eq!((dry_summary.dispatches, dry_summary.outbox, dry_summary.failed), (6, 6, 0), "{dry_summary:?}");
    let (first, second) = futures_util::future::join(first.run_once(), second.run_once()).await;
    let (first, second) = (first.unwrap(), second.unwrap());
    let counts = bed.mailbox().count_dispatches(None).await.unwrap();
    assert_eq!((counts.acked, counts.queued), (1, 1));
    assert_eq!((first.dispatches + second.dispatches, first.outbox + second.outbox), (6, 6), "{first:?} {second:?}");
    assert_eq!(bed.commits().outbox().count_outbox(&OutboxFilter::default()).await.unwrap().delivered, 1);
    assert_eq!(bed.commits().threads().count_threads(&ThreadFilter::default()).await.unwrap(), 7);
}

/// Tests WK-9 and MB-36: two nodes end expired claims at the same time, and each claim is counted by one of them.
pub(super) async fn lost_claims_are_ended_and_counted_once(bed: &TestBed) {
    let work = (0..4).map(|at| new_dispatch(&format!("t-{at}"), &format!("d-{at}")).with_max_attempts(1 + at % 2));
    bed.enqueue(work).await;
    for _ in 0..4 {
        bed.claim_as_other_worker(HOUR).await.unwrap();
    }
    bed.advance(HOUR).await;
    for _ in 0..2 {
        let dry_summary = maintenance(bed).dry().run_once().await.unwrap();
        assert_eq!((dry_summary.reclaimed, dry_summary.dispatches, dry_summary.more), (4, 0, false), "{dry_summary:?}");
    }
    let (first, second) = (maintenance(bed), maintenance(bed));
    let (first, second) = futures_util::future::join(first.run_once(), second.run_once()).await;
    assert_eq!(first.unwrap().reclaimed + second.unwrap().reclaimed, 4);
    for at in 0..4 {
        let status = if at % 2 == 0 { "dead_letter" } else { "queued" };
        assert_eq!(status_summary(&bed.load_dispatch(&format!("d-{at}")).await), (status, 1, vec!["lease_expired"]));
    }
}

/// Tests WK-9: events and threads are removed only if an age is set, and not before that age.
pub(super) async fn events_and_threads_are_removed_only_on_request(bed: &TestBed) {
    let event = |thread: &str| NewEvent::new("e".parse().unwrap(), [Scope::Thread(thread.parse().unwrap())]);
    let (commits, scope) = (bed.commits(), Scope::Thread("kept".parse().unwrap()));
    for thread in ["idle", "kept", "gone"] {
        let _receipt = commits.commit(message_commit(&thread.parse().unwrap(), "hi")).await.unwrap();
        let _events = commits.events().append_events(AppendEvents::new([event(thread), event(thread)])).await.unwrap();
    }
    let _deleted = commits.threads().delete_thread(&"gone".parse().unwrap(), DeleteRequest::default()).await.unwrap();
    bed.advance(HOUR * 2).await;
    let _receipt = commits.commit(message_commit(&"kept".parse().unwrap(), "again")).await.unwrap();
    let _events = commits.events().append_events(AppendEvents::new([event("kept")])).await.unwrap();
    let summary = maintenance(bed).run_once().await.unwrap();
    assert_eq!((summary.events, summary.threads), (0, 0), "{summary:?}");
    let mut retention = Retention::default();
    (retention.events, retention.threads) = (Some(HOUR), Some(HOUR));
    let dry_summary = maintenance(bed).with_retention(retention.clone()).dry().run_once().await.unwrap();
    assert_eq!((dry_summary.events, dry_summary.threads), (2, 1), "{dry_summary:?}");
    let summary = maintenance(bed).with_retention(retention).run_once().await.unwrap();
    assert_eq!((summary.events, summary.threads), (2, 1), "{summary:?}");
    let info = commits.events().load_scope(&scope).await.unwrap();
    assert_eq!((info.events, info.floor), (1, 2));
    let threads = commits.threads();
    assert!(threads.load_thread(&"idle".parse().unwrap()).await.unwrap().is_none());
    assert!(threads.load_thread(&"kept".parse().unwrap()).await.unwrap().is_some());
}

/// Tests WK-9: each round is reported, and the result at the end is the sum of all rounds.
pub(super) async fn maintenance_runs_until_it_is_stopped(bed: &TestBed) {
    let reclaimed_count = Arc::new(AtomicU64::new(0));
    let shared_count = Arc::clone(&reclaimed_count);
    let report = move |round: &MaintenanceSummary, _: Option<&Error>| {
        shared_count.fetch_add(round.reclaimed, Relaxed);
    };
    let running_maintenance = maintenance(bed).every(Duration::from_millis(20)).with_report(report).start().unwrap();
    for round in 0..2 {
        let id = format!("d-{round}");
        bed.enqueue([new_dispatch("t", &id).with_max_attempts(1)]).await;
        bed.claim_as_other_worker(HOUR).await.unwrap();
        bed.advance(HOUR).await;
        bed.wait_until(&id, |found| found.status == DispatchStatus::DeadLetter).await;
    }
    let summary = running_maintenance.stop().await.unwrap();
    assert_eq!((summary.reclaimed, summary.failed, reclaimed_count.load(Relaxed)), (2, 0, 2), "{summary:?}");
}

/// Tests WK-9 and TR-6: maintenance removes old evaluation runs that ended, except pinned ones and the newest ones.
pub(super) async fn maintenance_removes_old_evaluation_runs(bed: &TestBed) {
    let (datasets, evaluations) =
        (bed.stores.datasets(&bed.tenant).unwrap(), bed.stores.evaluations(&bed.tenant).unwrap());
    let case = CaseChange::Put("a".parse().unwrap(), CaseContent::new(Json::null()));
    datasets.change_dataset(ChangeDataset::new("d".parse().unwrap(), [case])).await.unwrap();
    for id in ["e1-ended", "e2-pinned", "e3-running", "e4-newest"] {
        let id: EvaluationId = id.parse().unwrap();
        evaluations.create_evaluation(NewEvaluation::new(id.clone(), "d".parse().unwrap())).await.unwrap();
        if id.as_str() != "e3-running" {
            evaluations.end_evaluation(&id, EvaluationEnd::Abandoned).await.unwrap();
        }
        bed.advance(Duration::from_millis(10)).await;
    }
    evaluations.pin_evaluation(&"e2-pinned".parse().unwrap(), true).await.unwrap();
    bed.advance(HOUR * 2).await;
    let mut retention = Retention::default();
    for (age, keep, dry, removed) in [
        (None, 0, false, 0),
        (Some(HOUR * 3), 0, false, 0),
        (Some(HOUR), 4, false, 0),
        (Some(HOUR), 1, true, 1),
        (Some(HOUR), 1, false, 1),
        (Some(HOUR), 0, false, 1),
    ] {
        (retention.evaluations, retention.newest_evaluations) = (age, keep);
        let maintenance = maintenance(bed).with_retention(retention.clone());
        let maintenance = if dry { maintenance.dry() } else { maintenance };
        assert_eq!(maintenance.run_once().await.unwrap().evaluations, removed, "{age:?} {keep} {dry}");
    }
    let left = evaluations.list_evaluations(PageRequest::default()).await.unwrap().items;
    assert_eq!(left.iter().map(|left| left.id.as_str()).collect::<Vec<_>>(), ["e2-pinned", "e3-running"]);
}
