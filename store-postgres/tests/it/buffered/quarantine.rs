//! Writes that the server refuses for good: a constraint of the database stands for whatever makes it refuse rows.

use std::time::Duration;

use store_core::{CommitKey, DeleteRequest, EntryQuery, ErrorKind, Expect, Store, TenantId, Version, health::Severity};
use store_nats::{Buffered, QuarantinedWrite};
use store_postgres::PostgresStore;

use super::{TempBuffer, commits, id, message};

/// Makes the server refuse entries with the word `poison`.
const REFUSE: &str = "ADD CONSTRAINT no_poison CHECK (body NOT LIKE '%poison%')";
const ALLOW: &str = "DROP CONSTRAINT no_poison";

async fn alter_entries(temp: &TempBuffer, change: &str) {
    temp.execute(&format!("ALTER TABLE $schema$.entry {change}")).await;
}

/// Two nodes that apply only what a call asks for, and an inner store that refuses entries with the word `poison`.
async fn two_nodes() -> (TempBuffer, Buffered<PostgresStore>, Buffered<PostgresStore>) {
    let mut temp = TempBuffer::with_own_schema().await;
    (temp.config.flush_interval, temp.config.batch) = (Duration::from_secs(3_600), 1_000);
    alter_entries(&temp, REFUSE).await;
    let (first, second) = (temp.open().await.unwrap(), temp.open().await.unwrap());
    (temp, first, second)
}

async fn commit(
    node: &Buffered<PostgresStore>,
    thread: &str,
    text: &str,
    expect: Expect,
) -> store_core::Result<Version> {
    let key = CommitKey::new(format!("k-{text}")).unwrap();
    Ok(commits(node).commit(message(thread, text).with_key(key).expecting(expect)).await?.version)
}

/// Returns the kind of the error with which a commit to a thread ends.
async fn refusal(node: &Buffered<PostgresStore>, thread: &str, expect: Expect) -> ErrorKind {
    commit(node, thread, "more", expect).await.unwrap_err().kind()
}

/// Commits to three threads. Two writes rely on the one that is refused. Returns the version of the thread with it.
async fn commit_to_three_threads(node: &Buffered<PostgresStore>) -> Version {
    commit(node, "before", "a", Expect::Absent).await.unwrap();
    let mut version = commit(node, "closed", "poison", Expect::Absent).await.unwrap();
    for text in ["b", "c"] {
        version = commit(node, "closed", text, Expect::Version(version)).await.unwrap();
    }
    commit(node, "after", "d", Expect::Absent).await.unwrap();
    version
}

async fn count_stored(node: &Buffered<PostgresStore>, thread: &str) -> usize {
    let threads = commits(node.get_ref()).threads();
    match threads.list_entries(&id(thread), EntryQuery::all()).await {
        Ok(page) => page.items.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => panic!("{error}"),
    }
}

async fn sequences(node: &Buffered<PostgresStore>) -> Vec<u64> {
    node.quarantined().await.unwrap().iter().map(|write| write.sequence).collect()
}

/// Tests NB-7, NB-4 and NB-12.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_write_closes_its_thread_and_no_other() {
    let (temp, first, second) = two_nodes().await;
    let version = commit_to_three_threads(&first).await;
    let refused = first.drain().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Quarantined);
    assert!(refused.to_string().contains("`closed`"), "{refused}");
    let stored = (count_stored(&first, "before").await, count_stored(&first, "closed").await);
    assert_eq!((stored, count_stored(&first, "after").await), ((1, 0), 1));
    for node in [&first, &second] {
        let quarantined = node.quarantined().await.unwrap();
        let reliances: Vec<_> = quarantined.iter().map(|write| write.relies_on.len()).collect();
        assert_eq!(reliances, [0, 1, 2], "{quarantined:?}");
        assert!(quarantined[0].reason.contains("23514"), "{quarantined:?}");
        assert_eq!(quarantined[0].thread, Some(id("closed")));
        let message = node.quarantined_message(quarantined[0].sequence).await.unwrap();
        assert!(message.contains("poison"));
        // Its thread is closed; what was acknowledged is still acknowledged, and shown.
        assert_eq!(refusal(node, "closed", Expect::Version(version)).await, ErrorKind::Quarantined);
        let shown = commits(node).threads().load_thread(&id("closed")).await.unwrap().unwrap();
        assert_eq!(shown.version, version);
        let listed = commits(node).threads().list_entries(&id("closed"), EntryQuery::all()).await;
        assert_eq!(listed.unwrap_err().kind(), ErrorKind::Quarantined);
        let deleted = commits(node).threads().delete_thread(&id("closed"), DeleteRequest::default()).await;
        assert_eq!(deleted.unwrap_err().kind(), ErrorKind::Quarantined);
        let health = node.health().await.unwrap();
        let is_told =
            |about: &str| health.findings.iter().any(|it| it.about == about && it.severity == Severity::Problem);
        assert!(is_told("buffer: quarantine"), "{health:?}");
    }
    // Others go on, also through a node that opens now.
    let third = temp.open().await.unwrap();
    let thread = commits(&third).threads().load_thread(&id("after")).await.unwrap().unwrap();
    commit(&third, "after", "e", Expect::Version(thread.version)).await.unwrap();
    assert_eq!(refusal(&third, "closed", Expect::Version(version)).await, ErrorKind::Quarantined);
    assert_eq!(third.detach().await.unwrap_err().kind(), ErrorKind::Quarantined);
    assert_eq!(count_stored(&first, "after").await, 2);
}

/// Tests NB-7.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_applies_what_was_acknowledged_in_its_order() {
    let (temp, first, second) = two_nodes().await;
    let version = commit_to_three_threads(&first).await;
    first.drain().await.unwrap_err();
    let sequences = sequences(&second).await;
    let early = second.retry(sequences[1]).await.unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Invalid, "{early}");
    assert_eq!(second.retry(sequences[0]).await.unwrap_err().kind(), ErrorKind::Invalid, "it is refused again");
    assert_eq!(second.quarantined().await.unwrap().len(), 3);
    alter_entries(&temp, ALLOW).await;
    for sequence in &sequences {
        second.retry(*sequence).await.unwrap();
    }
    assert_eq!(second.retry(sequences[0]).await.unwrap_err().kind(), ErrorKind::NotFound, "it is applied once");
    assert_eq!(count_stored(&first, "closed").await, 3);
    // The node that has not retried goes on, too, and its reads are not stale.
    let next = commit(&first, "closed", "e", Expect::Version(version)).await.unwrap();
    for node in [&second, &first] {
        assert_eq!(commits(node).threads().load_thread(&id("closed")).await.unwrap().unwrap().version, next);
        node.drain().await.unwrap();
    }
    assert_eq!(count_stored(&first, "closed").await, 4);
    assert_eq!(first.quarantined().await.unwrap(), Vec::<QuarantinedWrite>::new());
}

/// Tests NB-7: a node that does not know of the quarantine commits to the thread while its writes are discarded.
#[tokio::test(flavor = "multi_thread")]
async fn a_discard_loses_what_it_names_and_nothing_else() {
    let (temp, first, second) = two_nodes().await;
    let version = commit_to_three_threads(&first).await;
    let before = commits(&second).threads().load_thread(&id("closed")).await.unwrap().unwrap();
    assert_eq!(before.version, version);
    first.drain().await.unwrap_err();
    let named = sequences(&first).await;
    let alone = first.discard(&named[..1]).await.unwrap_err();
    assert_eq!(alone.kind(), ErrorKind::Invalid, "{alone}");
    // The second node has not asked since. Its write is acknowledged, relies on the others, and joins them.
    let late = commit(&second, "closed", "late", Expect::Version(version)).await;
    match late {
        Ok(_) => {
            let incomplete = first.discard(&named).await.unwrap_err();
            assert_eq!(incomplete.kind(), ErrorKind::Invalid, "{incomplete}");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Quarantined),
    }
    let all = sequences(&first).await;
    first.discard(&all).await.unwrap();
    assert_eq!(first.discard(&all).await.unwrap_err().kind(), ErrorKind::NotFound);
    for node in [&second, &first] {
        assert_eq!(commits(node).threads().load_thread(&id("closed")).await.unwrap(), None);
    }
    let anew = commit(&second, "closed", "anew", Expect::Absent).await.unwrap();
    assert_eq!(anew.number(), 1);
    first.drain().await.unwrap();
    assert_eq!((count_stored(&first, "closed").await, count_stored(&first, "after").await), (1, 1));
    alter_entries(&temp, ALLOW).await;
    second.into_inner().await.unwrap();
    first.detach().await.unwrap();
}

/// Tests NB-7 and NB-9: the deletion of a tenant comes after what the tenant has in quarantine.
#[tokio::test(flavor = "multi_thread")]
async fn the_deletion_of_a_tenant_ends_its_quarantine() {
    let (_temp, first, second) = two_nodes().await;
    let _version = commit_to_three_threads(&first).await;
    first.drain().await.unwrap_err();
    second.delete_tenant(&TenantId::default_tenant()).await.unwrap();
    for node in [&first, &second] {
        assert_eq!(sequences(node).await, Vec::<u64>::new());
        assert_eq!(commits(node).threads().load_thread(&id("closed")).await.unwrap(), None);
    }
    commit(&first, "closed", "anew", Expect::Absent).await.unwrap();
    second.drain().await.unwrap();
}
