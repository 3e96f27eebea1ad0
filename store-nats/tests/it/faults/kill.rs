//! Servers that are killed and restarted, alone and in a cluster (NA-7).

use std::{fs, path::Path, process::Command, time::Duration};

use conformance_tests::TestLength;
use store_core::{DispatchStatus, ErrorKind, Outcome, Store};
use store_nats::{NatsConfig, NatsStore};
use test_servers::Nats;
use tokio::time::sleep;

use super::helpers::{EnqueueOutcomes, check_outcomes, enqueue_concurrently, open};
use crate::helpers::{ack, all_dispatches, claim, enqueue, mailbox, new_dispatch, stream_info};

/// A server is killed and restarted while two stores are open. Afterwards these stores show every acknowledged
/// dispatch, and no dispatch that was reported as not applied.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing() {
    let mut server = Nats::start("").unwrap();
    let stores = [open(&server.url(), 1).await, open(&server.url(), 1).await];
    let mut outcomes = EnqueueOutcomes::default();
    for round in 0..TestLength::pick_by_env(1, 4, 40) {
        let writes = enqueue_concurrently(&stores, round, Duration::from_millis(600));
        let kill_and_restart = async {
            sleep(Duration::from_millis(250)).await;
            server.kill().unwrap();
            sleep(Duration::from_millis(50)).await;
            server.restart().unwrap();
        };
        let (new_outcomes, ()) = tokio::join!(writes, kill_and_restart);
        outcomes.add(new_outcomes);
    }
    check_outcomes(&*mailbox(&*stores[0]), &outcomes).await;
    // The first number is for one round, the others are for several.
    assert!(
        outcomes.accepted_ids.len() > TestLength::pick_by_env(10, 100, 100),
        "{} accepted",
        outcomes.accepted_ids.len()
    );
    for store in stores {
        store.close().await.unwrap();
    }
}

/// The servers of a cluster are killed and restarted one by one while two stores are open. Afterwards these stores show
/// every acknowledged dispatch, and no dispatch that was reported as not applied.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_loses_nothing_when_a_server_is_killed() {
    let mut servers = Nats::start_cluster("").unwrap();
    let url = Nats::url_of(&servers);
    let stores = [open(&url, 3).await, open(&url, 3).await];
    let mut outcomes = EnqueueOutcomes::default();
    for round in 0..TestLength::pick_by_env(1, 4, 12) {
        let writes = enqueue_concurrently(&stores, round, Duration::from_millis(1_500));
        let kill_and_restart = async {
            sleep(Duration::from_millis(250)).await;
            servers[round % 3].kill().unwrap();
            sleep(Duration::from_millis(500)).await;
            servers[round % 3].restart().unwrap();
        };
        let (new_outcomes, ()) = tokio::join!(writes, kill_and_restart);
        outcomes.add(new_outcomes);
        // Two of three servers must be available before the next one is killed.
        sleep(Duration::from_secs(4)).await;
    }
    check_outcomes(&*mailbox(&*stores[1]), &outcomes).await;
    // The first number is for one round, the others are for several.
    assert!(
        outcomes.accepted_ids.len() > TestLength::pick_by_env(10, 50, 50),
        "{} accepted",
        outcomes.accepted_ids.len()
    );
    for store in stores {
        store.close().await.unwrap();
    }
}

/// Without a majority, the leader cannot finish a write. If another write to the subject arrives, the leader answers
/// only that an earlier message is still being replicated. When the majority is back, the decision has taken effect at
/// most once, and what the store reported about it is true (ER-2, ER-3).
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_waits_for_a_majority_is_made_once() {
    let servers = Nats::start_cluster("").unwrap();
    let store = open(&Nats::url_of(&servers), 3).await;
    let (mailbox, client) = (mailbox(&*store), async_nats::connect(servers[0].url()).await.unwrap());
    let mut outcomes = EnqueueOutcomes::default();
    for round in 0..TestLength::pick_by_env(1, 3, 20) {
        let leader = stream_info(&client, "agentstore").await["cluster"]["leader"].as_str().map(str::to_owned);
        let other_servers =
            (1..).zip(&servers).filter(|(number, _)| Some(format!("n{number}")) != leader).map(|(_, server)| server);
        let other_servers: Vec<_> = other_servers.collect();
        other_servers.iter().for_each(|server| server.pause().unwrap());
        let run = format!("run-{round}");
        let mut draft = new_dispatch(&format!("t-{}", round % 2));
        draft.run = run.parse().unwrap();
        // 2.5 s is longer than a request waits, and shorter than a leader waits for the other servers. 6 s is longer
        // than a call may take.
        let pause_millis = if round % 3 == 2 { 6_000 } else { 2_500 };
        let (result, ()) = tokio::join!(enqueue(&*mailbox, draft), async {
            sleep(Duration::from_millis(pause_millis)).await;
            other_servers.iter().for_each(|server| server.resume().unwrap());
        });
        outcomes.record(run, result);
        sleep(Duration::from_secs(3)).await;
    }
    let runs: Vec<_> = all_dispatches(&*mailbox).await.into_iter().map(|dispatch| dispatch.run.to_string()).collect();
    let dispatch_count = |run: &String| runs.iter().filter(|existing_run| *existing_run == run).count();
    assert!(
        outcomes.accepted_ids.iter().all(|run| dispatch_count(run) == 1),
        "{:?} were accepted, {runs:?} exist",
        outcomes.accepted_ids
    );
    assert!(
        outcomes.refused_ids.iter().all(|run| dispatch_count(run) == 0),
        "{:?} were refused, {runs:?} exist",
        outcomes.refused_ids
    );
    assert!(runs.len() <= outcomes.accepted_ids.len() + outcomes.unknown_count, "{runs:?}");
    println!(
        "{} accepted, {} refused, {} unknown",
        outcomes.accepted_ids.len(),
        outcomes.refused_ids.len(),
        outcomes.unknown_count
    );
    store.close().await.unwrap();
}

/// If the servers lost messages that a store has read, the store makes no decision based on the shorter log. It also
/// removes no superseded message from that log, because the message that superseded it may be lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolled_back_log_is_reported() {
    let mut server = Nats::start("").unwrap();
    let mut config = NatsConfig::new(&server.url()).unwrap();
    (config.allow_unsafe, config.garbage_retention) = (true, Duration::from_secs(3));
    let store = NatsStore::open(config).await.unwrap();
    enqueue(&*mailbox(&store), new_dispatch("t")).await.unwrap();
    let claimed_dispatch = claim(&*mailbox(&store)).await.unwrap().unwrap();
    let (data_folder, copied_folder) = (server.folder().join("data"), server.folder().join("copy"));
    let copy_folder =
        |from: &Path, to: &Path| assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
    server.kill().unwrap();
    copy_folder(&data_folder, &copied_folder);
    server.restart().unwrap();
    ack(&*mailbox(&store), &claimed_dispatch).await.unwrap();
    server.kill().unwrap();
    fs::remove_dir_all(&data_folder).unwrap();
    copy_folder(&copied_folder, &data_folder);
    server.restart().unwrap();
    let error = enqueue(&*mailbox(&store), new_dispatch("t")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Corrupt, Outcome::NotApplied), "{error}");
    // This is enough time for the first store to remove garbage twice.
    sleep(Duration::from_secs(8)).await;
    let new_store = open(&server.url(), 1).await;
    let dispatches = all_dispatches(&*mailbox(&*new_store)).await;
    assert_eq!(dispatches.iter().map(|dispatch| dispatch.status).collect::<Vec<_>>(), [DispatchStatus::Claimed]);
    enqueue(&*mailbox(&*new_store), new_dispatch("t")).await.unwrap();
    store.close().await.unwrap();
    new_store.close().await.unwrap();
}

/// Tests NA-7: if a server loses its storage, the next call of an open store reports that. The call does so even if
/// another store has created the log again and has written more messages to it than the first store had read. A newly
/// opened store works.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_recreated_log_is_reported() {
    let mut server = Nats::start("").unwrap();
    let store = open(&server.url(), 1).await;
    enqueue(&*mailbox(&*store), new_dispatch("t")).await.unwrap();
    ack(&*mailbox(&*store), &claim(&*mailbox(&*store)).await.unwrap().unwrap()).await.unwrap();
    server.kill().unwrap();
    fs::remove_dir_all(server.folder().join("data")).unwrap();
    server.restart().unwrap();
    let error = claim(&*mailbox(&*store)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Corrupt, Outcome::NotApplied), "{error}");
    assert!(error.to_string().contains("no longer exists"), "{error}");
    let new_store = open(&server.url(), 1).await;
    for _ in 0..50 {
        enqueue(&*mailbox(&*new_store), new_dispatch("t")).await.unwrap();
    }
    for error_or_none in
        [claim(&*mailbox(&*store)).await.err(), enqueue(&*mailbox(&*store), new_dispatch("t")).await.err()]
    {
        let error = error_or_none.unwrap();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Corrupt, Outcome::NotApplied), "{error}");
    }
    assert_eq!(all_dispatches(&*mailbox(&*new_store)).await.len(), 50);
    assert!(claim(&*mailbox(&*new_store)).await.unwrap().is_some());
    store.close().await.unwrap();
    new_store.close().await.unwrap();
}
