//! The messages that a store sends to the server, and their effects in the database.

use std::{sync::Arc, time::Duration};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store_core::{
    AppendEvents, AppendPending, ClaimRequest, ClaimedDispatch, Commit, DocumentChange, DocumentExpect, DocumentKey,
    ErrorKind, Expect, Interrupt, Json, KeySegment, Limits, MailboxStore, Message, NewDispatch, NewEntry, NewEvent,
    NewInput, PendingInput, Scope, Settlement, Store, TenantId, ThreadId, WorkerId, WriteDocuments,
};
use store_postgres::{PostgresConfig, PostgresStore};

use crate::{
    faults::{
        helpers::{commit_with_all_parts, commit_with_message, commits, stores, thread},
        proxy::Proxy,
        unknown_outcome::server_socket,
    },
    fixture::{SchemaGuard, server_url},
};

/// PO-4: once the statement is prepared, a commit with one record of each kind takes one round trip. So does a commit
/// that conflicts with a commit of another process.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_one_round_trip() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let proxy = Proxy::start(server_socket()).await;
    let (store, other_store) = (open_through(&proxy, &test_schema, 1).await, test_schema.open().await.unwrap());
    let (own_commits, other_commits, id) = (commits(&store), commits(&other_store), thread("t"));
    let mut version = own_commits.commit(commit_with_all_parts(&id, 1)).await.unwrap().version;
    let (mut round_trips_of_commits, mut round_trips_of_conflicts) = (Vec::new(), Vec::new());
    for number in 2..20 {
        wait_until_quiet(&proxy).await;
        version = own_commits.commit(commit_with_all_parts(&id, number)).await.unwrap().version;
        round_trips_of_commits.push(proxy.round_trips());
    }
    for number in 0..20 {
        let key = format!("elsewhere-{number}");
        let _receipt = other_commits.commit(commit_with_message(&id, &key)).await.unwrap();
        wait_until_quiet(&proxy).await;
        let stale_commit = commit_with_message(&id, &format!("late-{number}")).expecting(Expect::Version(version));
        assert_eq!(own_commits.commit(stale_commit).await.unwrap_err().kind(), ErrorKind::Conflict);
        round_trips_of_conflicts.push(proxy.round_trips());
        // This commit loads again what the refusal removed from the cache.
        version = own_commits.commit(commit_with_message(&id, &format!("here-{number}"))).await.unwrap().version;
    }
    assert_eq!((median(round_trips_of_commits), median(round_trips_of_conflicts)), (1, 1));
}

/// PO-4, DO-9: once the statement is prepared, a commit with documents and with an event in a topic takes one round
/// trip. Its key returns the receipt with the revision of the documents. A write of documents takes one round trip too.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_documents_is_one_round_trip() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let proxy = Proxy::start(server_socket()).await;
    let store = open_through(&proxy, &test_schema, 1).await;
    let (commits, documents, id) = (commits(&store), stores(&store).documents.unwrap(), thread("t"));
    let key = |number: u64| DocumentKey::new("c".parse().unwrap(), [KeySegment::Number(number)]).unwrap();
    let (mut revision, mut of_commits, mut of_writes) = (None, Vec::new(), Vec::new());
    for number in 0..20 {
        let expect = revision.map_or(DocumentExpect::Absent, DocumentExpect::Revision);
        let put = DocumentChange::put(key(1), Json::parse("1").unwrap()).expecting(expect);
        let check = DocumentChange::check(key(2).in_thread(id.clone()), DocumentExpect::Absent);
        let event = NewEvent::new("fact".parse().unwrap(), [Scope::Topic("facts".parse().unwrap())]);
        let commit = commit_with_message(&id, &number.to_string())
            .with_documents([put, check])
            .with_events(AppendEvents::new([event]));
        wait_until_quiet(&proxy).await;
        let receipt = commits.commit(commit.clone()).await.unwrap();
        of_commits.push(proxy.round_trips());
        let repeated = commits.commit(commit).await.unwrap();
        assert_eq!(repeated.document_revision, receipt.document_revision);
        let written = DocumentExpect::Revision(receipt.document_revision.unwrap());
        let put = DocumentChange::put(key(1), Json::parse("2").unwrap()).expecting(written);
        wait_until_quiet(&proxy).await;
        revision = documents.write_documents(WriteDocuments::new([put])).await.unwrap().revision;
        of_writes.push(proxy.round_trips());
    }
    assert_eq!((median(of_commits), median(of_writes)), (1, 1));
}

/// PO-4: concurrent commits of several threads share statements, and each gets its own answer. If another process wrote
/// first, a commit is decided again. A commit that is refused does not prevent the others from being written.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_commits_share_statements() {
    const THREADS: usize = 32;
    const ROUNDS: usize = 10;
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let proxy = Proxy::start(server_socket()).await;
    let (store, other_store) = (open_through(&proxy, &test_schema, 4).await, test_schema.open().await.unwrap());
    let (own_commits, other_commits) = (commits(&store), commits(&other_store));
    let ids: Vec<_> = (0..THREADS).map(|at| thread(format!("t-{at}"))).collect();
    for id in &ids {
        let _known = own_commits.commit(commit_with_all_parts(id, 1)).await.unwrap();
    }
    let mut fewest_round_trips = usize::MAX;
    for round in 0..ROUNDS {
        // The other process writes to the first thread, so this process's cached records of the thread are outdated.
        // The commit to the second thread adds an entry with a fixed id, so it is refused from the second round on.
        let _receipt = other_commits.commit(commit_with_message(&ids[0], &format!("elsewhere-{round}"))).await.unwrap();
        wait_until_quiet(&proxy).await;
        let commit = |(at, id): (usize, &ThreadId)| {
            let entry_with_fixed_id = NewEntry::new(Message::user("twice")).with_id("twice".parse().unwrap());
            let number = 2 + u64::try_from(round).unwrap();
            let commit = if at == 1 {
                commit_with_message(id, &number.to_string()).entry(entry_with_fixed_id)
            } else {
                commit_with_all_parts(id, number)
            };
            let own_commits = Arc::clone(&own_commits);
            tokio::spawn(async move { own_commits.commit(commit).await })
        };
        let tasks: Vec<_> = ids.iter().enumerate().map(commit).collect();
        for (at, task) in tasks.into_iter().enumerate() {
            let answer = task.await.unwrap();
            assert_eq!(answer.is_err(), at == 1 && round > 0, "{round}, {at}: {answer:?}");
        }
        fewest_round_trips = fewest_round_trips.min(proxy.round_trips());
    }
    assert!(fewest_round_trips < THREADS, "{fewest_round_trips} round trips for {THREADS} commits");
    let threads = stores(&store).threads.unwrap();
    for (at, id) in ids.iter().enumerate() {
        let found = threads.load_thread(id).await.unwrap().unwrap().version.number();
        // In the first round the second thread got two entries.
        let expected = match at {
            0 => 1 + 2 * ROUNDS,
            1 => 3,
            _ => 1 + ROUNDS,
        };
        assert_eq!(found, u64::try_from(expected).unwrap(), "{id}");
    }
}

/// PO-4: a decision loads all records that it needs in one round trip, however many there are, even for a cached
/// thread.
#[tokio::test(flavor = "multi_thread")]
async fn many_inputs_take_one_round_trip() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let proxy = Proxy::start(server_socket()).await;
    let store = open_through(&proxy, &test_schema, 1).await;
    let (commits, pending, id) = (commits(&store), stores(&store).pending.unwrap(), thread("t"));
    for (round, number) in [1, 1, 1, 200, 400].into_iter().enumerate() {
        let input =
            |at: usize| NewInput::message(Message::user("hi")).with_id(format!("{round}-{at}").parse().unwrap());
        wait_until_quiet(&proxy).await;
        let _appended = pending.append_pending(AppendPending::new(id.clone(), (0..number).map(input))).await.unwrap();
        let append_round_trips = proxy.round_trips();
        let queue = pending.load_queue(&id).await.unwrap();
        let consumed = queue.inputs.iter().map(PendingInput::to_input_ref);
        let commit = Commit::new(id.clone()).with_key(format!("k-{round}").parse().unwrap()).consuming(consumed);
        wait_until_quiet(&proxy).await;
        let _receipt = commits.commit(commit).await.unwrap();
        let consume_round_trips = proxy.round_trips();
        // One round trip loads and one writes. Preparing these two statements takes up to two more.
        assert!(
            append_round_trips <= 4 && consume_round_trips <= 4,
            "{number} inputs: {append_round_trips} round trips to append, {consume_round_trips} to consume"
        );
    }
}

/// PO-4: each call of the holder of a claim takes one round trip, even after the claim was extended. Its answer is
/// correct, even if another process has changed the thread's mailbox in the meantime.
#[tokio::test(flavor = "multi_thread")]
async fn each_call_of_a_claim_holder_is_one_round_trip() {
    const MINUTE: Duration = Duration::from_secs(60);
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let proxy = Proxy::start(server_socket()).await;
    let (store, other_store) = (open_through(&proxy, &test_schema, 1).await, test_schema.open().await.unwrap());
    let (own_mailbox, other_mailbox) = (stores(&store).mailbox.unwrap(), stores(&other_store).mailbox.unwrap());
    let mut round_trips = Vec::new();
    for round in 0..20 {
        let work = |thread: ThreadId| NewDispatch::new(thread, "r".parse().unwrap());
        let id = thread(format!("t-{round}"));
        own_mailbox.enqueue(vec![work(id.clone())]).await.unwrap().pop().unwrap().unwrap();
        let request = ClaimRequest::new(WorkerId::new("w").unwrap(), MINUTE).of_thread(id.clone());
        let claimed = own_mailbox.claim(request).await.unwrap().claimed.pop().unwrap();
        wait_until_quiet(&proxy).await;
        let extended = own_mailbox.extend(&claimed.claim(), 2 * MINUTE).await.unwrap();
        assert!(extended.lease_until > claimed.dispatch.claim.as_ref().unwrap().lease_until);
        round_trips.push(proxy.round_trips());
        if round % 2 == 1 {
            other_mailbox.enqueue(vec![work(id.clone())]).await.unwrap().pop().unwrap().unwrap();
            other_mailbox.interrupt(Interrupt::new(id.clone())).await.unwrap();
        }
        wait_until_quiet(&proxy).await;
        let ack = || vec![(claimed.claim(), Settlement::Ack { result: None })];
        let settled = own_mailbox.settle(ack()).await.unwrap().pop().unwrap();
        if round % 2 == 1 {
            assert_eq!(settled.unwrap_err().kind(), ErrorKind::StaleEpoch);
            continue;
        }
        round_trips.push(proxy.round_trips());
        assert!(!settled.unwrap().deduplicated);
        assert!(other_mailbox.settle(ack()).await.unwrap().pop().unwrap().unwrap().deduplicated);
    }
    assert_eq!(median(round_trips), 1);
}

/// MB-25, TN-8: a claim that was made before its tenant was deleted is not valid in a new tenant of the same name.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_does_not_outlive_its_tenant() {
    const MINUTE: Duration = Duration::from_secs(60);
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let (store, other_store) = (test_schema.open().await.unwrap(), test_schema.open().await.unwrap());
    let (own_mailbox, id) = (stores(&store).mailbox.unwrap(), thread("t"));
    let claim_new_dispatch = |mailbox: Arc<dyn MailboxStore>| async move {
        let work = NewDispatch::new(thread("t"), "r".parse().unwrap()).with_id("same".parse().unwrap());
        mailbox.enqueue(vec![work]).await.unwrap().pop().unwrap().unwrap();
        let request = ClaimRequest::new(WorkerId::new("w").unwrap(), MINUTE).of_thread(thread("t"));
        mailbox.claim(request).await.unwrap().claimed.pop().unwrap()
    };
    let first_claim = claim_new_dispatch(Arc::clone(&own_mailbox)).await;
    other_store.delete_tenant(&TenantId::default_tenant()).await.unwrap();
    let other_mailbox = stores(&other_store).mailbox.unwrap();
    let second_claim = claim_new_dispatch(Arc::clone(&other_mailbox)).await;
    let ack = |claimed: &ClaimedDispatch| vec![(claimed.claim(), Settlement::Ack { result: None })];
    let answer = own_mailbox.settle(ack(&first_claim)).await.unwrap().pop().unwrap();
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::ClaimLost, "{id}");
    other_mailbox.settle(ack(&second_claim)).await.unwrap().pop().unwrap().unwrap();
}

/// Opens a store in this schema, with this many connections, all of them through the proxy.
async fn open_through(proxy: &Proxy, test_schema: &SchemaGuard, connections: u32) -> PostgresStore {
    let mut config = PostgresConfig::new(&proxy.url()).unwrap().with_schema(test_schema.config().schema()).unwrap();
    (config.connections, config.uses_test_clock) = (connections, true);
    PostgresStore::open(config).await.unwrap()
}

/// Waits until the messages that follow a commit have been sent, and resets the counter of round trips.
async fn wait_until_quiet(proxy: &Proxy) {
    tokio::time::sleep(Duration::from_millis(30)).await;
    let _before = proxy.round_trips();
}

/// Returns the median of counts of round trips. Some counts are too high on a busy machine: the store may send messages
/// that follow a commit before its answer is read.
fn median(mut counts: Vec<usize>) -> usize {
    counts.sort_unstable();
    counts[counts.len() / 2]
}

/// PO-1: a store changes nothing outside of its schema.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_outside_of_the_schema_is_touched() {
    const OUTSIDE_OBJECTS_SQL: &str = "SELECT string_agg(what, E'\\n' ORDER BY what) FROM ( \
        SELECT 'class ' || c.relname || ' ' || c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
            WHERE n.nspname = 'public' \
        UNION ALL SELECT 'function ' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
            WHERE n.nspname = 'public' \
        UNION ALL SELECT 'role ' || rolname FROM pg_roles UNION ALL SELECT 'extension ' || extname FROM pg_extension \
        UNION ALL SELECT 'trigger ' || evtname FROM pg_event_trigger UNION ALL SELECT 'language ' || lanname FROM pg_language \
        UNION ALL SELECT 'publication ' || pubname FROM pg_publication) all_of_it (what)";
    let mut connection = PgConnection::connect(&server_url()).await.unwrap();
    let objects_before: String =
        sqlx::query_scalar(AssertSqlSafe(OUTSIDE_OBJECTS_SQL)).fetch_one(&mut connection).await.unwrap();
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let store = test_schema.open().await.unwrap();
    let (commits, stores) = (commits(&store), stores(&store));
    for number in 1..5 {
        let _receipt = commits.commit(commit_with_all_parts(&thread("t"), number)).await.unwrap();
    }
    let work = NewDispatch::new(thread("t"), "r".parse().unwrap());
    let _queued = stores.mailbox.unwrap().enqueue(vec![work]).await.unwrap();
    store.delete_tenant(&TenantId::default_tenant()).await.unwrap();
    let objects_after: String =
        sqlx::query_scalar(AssertSqlSafe(OUTSIDE_OBJECTS_SQL)).fetch_one(&mut connection).await.unwrap();
    assert_eq!(objects_before, objects_after);
}

/// PO-11: if a server cannot be verified, the store does not use an unencrypted connection instead.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_must_be_verified_is_never_unencrypted() {
    let proxy = Proxy::start(server_socket()).await;
    for mode in ["require", "verify-ca", "verify-full"] {
        let url = proxy.url().replace("sslmode=disable", &format!("sslmode={mode}"));
        let error = PostgresStore::open(PostgresConfig::new(&url).unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{mode}: {error:?}");
    }
}
