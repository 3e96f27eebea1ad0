//! What an inspection finds, and what a repair rebuilds (VF-1, VF-5).

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store_core::{
    AgentId, AppendEvents, Commit, EntryId, Expect, IgnoreProgress, Label, Limits, Message, NewBody, NewDispatch,
    NewEntry, NewEvent, RewindTo, RunChange, RunId, RunStatus, Scope, Store, TenantId,
    inspect::{FindingKind, Inspection, Inspector, RepairStatus},
};
use store_postgres::PostgresStore;

use crate::fixture::{SchemaGuard, server_url};

/// Returns a store with a claimed dispatch, and with a thread that has branches, a label and a run.
async fn store_with_claim() -> (SchemaGuard, PostgresStore) {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let store = test_schema.open().await.unwrap();
    let stores = store.tenant(&TenantId::default_tenant()).unwrap();
    let run = RunId::new("r").unwrap();
    let change = RunChange::new(run.clone(), RunStatus::Running).with_agent(AgentId::new("a").unwrap());
    let id = |text: &str| EntryId::new(text).unwrap();
    let event = |kind: &str| NewEvent::new(kind.parse().unwrap(), [Scope::Thread("t".parse().unwrap())]);
    let commit = Commit::new("t".parse().unwrap())
        .expecting(Expect::Absent)
        .with_run(change)
        .with_events(AppendEvents::new([event("x"), event("y")]))
        .entry(NewEntry::new(Message::user("a")).with_id(id("a")).with_run(run, None))
        .entry(NewEntry::new(NewBody::Checkpoint { number: None, label: Some("x".into()) }).with_id(id("b")))
        .entry(NewEntry::new(RewindTo::Entry(id("a"))))
        .entry(NewEntry::new(Message::assistant("c")))
        .entry(NewEntry::new(Label::new(id("b"), Some("y".into()))));
    let _ = stores.commits.unwrap().commit(commit).await.unwrap();
    let mailbox = stores.mailbox.unwrap();
    let _ = mailbox.enqueue(vec![NewDispatch::new("t".parse().unwrap(), "r".parse().unwrap())]).await.unwrap();
    let _ = mailbox.claim(store_core::ClaimRequest::new("w".parse().unwrap(), Duration::from_mins(1))).await.unwrap();
    (test_schema, store)
}

fn finding_kinds(inspection: &Inspection) -> Vec<FindingKind> {
    inspection.findings.iter().map(|finding| finding.kind).collect()
}

/// Changes rows with a statement, and returns what an inspection finds afterwards.
async fn findings_after(sql: &str) -> (SchemaGuard, PostgresStore, Vec<FindingKind>) {
    let (test_schema, store) = store_with_claim().await;
    let mut connection = PgConnection::connect(&server_url()).await.unwrap();
    let sql = format!("SET search_path = {}; {sql}", test_schema.config().schema());
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    let found = finding_kinds(&store.verify(&IgnoreProgress).await.unwrap());
    (test_schema, store, found)
}

#[tokio::test]
async fn a_sound_store_has_no_findings() {
    let (_test_schema, store) = store_with_claim().await;
    let found = store.verify(&IgnoreProgress).await.unwrap();
    assert_eq!(found.findings, []);
    assert_eq!((found.tenants, found.threads, found.entries, found.runs), (1, 1, 5, 1));
}

#[tokio::test]
async fn derived_tables_are_rebuilt_from_the_log() {
    for sql in [
        "UPDATE thread SET head = 1, has_pending = true",
        "UPDATE thread SET updated_at = 7",
        "DELETE FROM tip",
        "INSERT INTO tip SELECT log, 1 FROM thread",
        "DELETE FROM snapshot",
        "UPDATE snapshot SET name = 'z'",
        "DELETE FROM mark",
    ] {
        let (_test_schema, store, found) = findings_after(sql).await;
        assert!(!found.is_empty(), "{sql}");
        let dry_run = store.repair(true, &IgnoreProgress).await.unwrap();
        assert!(
            dry_run.findings.iter().all(|finding| finding.repair == RepairStatus::CanBeRebuilt),
            "{sql}: {dry_run:?}"
        );
        let repaired = store.repair(false, &IgnoreProgress).await.unwrap();
        assert!(repaired.findings.iter().all(|finding| finding.repair == RepairStatus::Rebuilt), "{sql}: {repaired:?}");
        assert_eq!(finding_kinds(&store.verify(&IgnoreProgress).await.unwrap()), [], "{sql}");
    }
}

#[tokio::test]
async fn a_repair_never_changes_accepted_data() {
    for (sql, kind) in [
        ("DELETE FROM entry WHERE seq = 2", FindingKind::SequenceGap),
        ("UPDATE entry SET body = '{}' WHERE seq = 2", FindingKind::Damaged),
        ("DELETE FROM run", FindingKind::DanglingReference),
        ("DELETE FROM event WHERE thread_seq = 1", FindingKind::SequenceGap),
        ("UPDATE dispatch SET status = 'queued'", FindingKind::DanglingReference),
        ("DELETE FROM mailbox", FindingKind::DanglingReference),
    ] {
        let (_test_schema, store, found) = findings_after(sql).await;
        assert!(found.contains(&kind), "{sql}: {found:?}");
        let repaired = store.repair(false, &IgnoreProgress).await.unwrap();
        assert!(repaired.findings.iter().all(|finding| finding.repair != RepairStatus::Rebuilt), "{sql}: {repaired:?}");
        assert_eq!(finding_kinds(&store.verify(&IgnoreProgress).await.unwrap()), found, "{sql}");
    }
}
