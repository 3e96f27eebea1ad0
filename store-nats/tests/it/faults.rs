//! Servers that die and come back (NA-7).

use std::{collections::HashSet, sync::Arc, time::Duration};

use store_core::{ErrorKind, MailboxStore, Outcome, Store};
use store_nats::{NatsConfig, NatsStore};
use test_servers::Nats;
use tokio::time::{Instant, sleep};

use crate::given::{ack, all, claim, enqueue, mailbox, work};

/// How often the server is killed.
fn rounds() -> usize {
    if std::env::var_os("AGENTSTORE_FULL_FAULTS").is_some() { 40 } else { 4 }
}

/// What became of enqueues.
#[derive(Default)]
struct Ends {
    accepted: Vec<String>,
    refused: Vec<String>,
    unknown: usize,
}

/// Enqueues through several stores at once for a while.
async fn write(stores: &[Arc<NatsStore>], round: usize, lasts: Duration) -> Ends {
    let end = Instant::now() + lasts;
    let writers = (0..4).map(|writer| {
        let mailbox = mailbox(&*stores[writer % stores.len()]);
        tokio::spawn(async move {
            let (mut ends, mut at) = (Ends::default(), 0);
            while Instant::now() < end {
                let id = format!("{round}-{writer}-{at}");
                match enqueue(&*mailbox, work(&format!("t-{}", at % 5)).with_id(id.parse().unwrap())).await {
                    Ok(_) => ends.accepted.push(id),
                    Err(error) if error.outcome() == Outcome::Unknown => ends.unknown += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                        ends.refused.push(id);
                    }
                }
                at += 1;
            }
            ends
        })
    });
    let mut all = Ends::default();
    for writer in writers.collect::<Vec<_>>() {
        let ends = writer.await.unwrap();
        all.accepted.extend(ends.accepted);
        all.refused.extend(ends.refused);
        all.unknown += ends.unknown;
    }
    all
}

/// All that was accepted is there, nothing that was refused, and each is given out once.
async fn check(mailbox: &dyn MailboxStore, ends: &Ends) {
    let found: HashSet<_> = all(mailbox).await.into_iter().map(|found| found.id.to_string()).collect();
    let lost: Vec<_> = ends.accepted.iter().filter(|id| !found.contains(*id)).collect();
    assert!(lost.is_empty(), "{} of {} were lost: {lost:?}", lost.len(), ends.accepted.len());
    let late: Vec<_> = ends.refused.iter().filter(|id| found.contains(*id)).collect();
    assert!(late.is_empty(), "{} of {} came although they were refused: {late:?}", late.len(), ends.refused.len());
    assert!(found.len() <= ends.accepted.len() + ends.unknown, "{} are there", found.len());
    for _ in 0..50 {
        let Some(held) = claim(mailbox).await.unwrap() else { break };
        assert_eq!(held.dispatch.attempts, 0);
        ack(mailbox, &held).await.unwrap();
    }
    println!("{} accepted, {} refused, {} unknown", ends.accepted.len(), ends.refused.len(), ends.unknown);
}

fn together(into: &mut Ends, ends: Ends) {
    into.accepted.extend(ends.accepted);
    into.refused.extend(ends.refused);
    into.unknown += ends.unknown;
}

async fn open(url: &str, replicas: u32) -> Arc<NatsStore> {
    let mut config = NatsConfig::new(url).unwrap();
    config.allow_unsafe = true;
    config.replicas = replicas;
    config.deadline = Duration::from_secs(5);
    let begun = Instant::now();
    loop {
        match NatsStore::open(config.clone()).await {
            Ok(store) => return Arc::new(store),
            // A new cluster has no leader at first.
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// What was acknowledged is there when a server that was killed is started again, by the handles that were open; what
/// was said not to have been applied is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing() {
    let mut server = Nats::start("").unwrap();
    let stores = [open(&server.url(), 1).await, open(&server.url(), 1).await];
    let mut ends = Ends::default();
    for round in 0..rounds() {
        let writing = write(&stores, round, Duration::from_millis(600));
        let killing = async {
            sleep(Duration::from_millis(250)).await;
            server.kill().unwrap();
            sleep(Duration::from_millis(50)).await;
            server.restart().unwrap();
        };
        together(&mut ends, tokio::join!(writing, killing).0);
    }
    check(&*mailbox(&*stores[0]), &ends).await;
    assert!(ends.accepted.len() > 100, "{} accepted", ends.accepted.len());
    for store in stores {
        store.close().await.unwrap();
    }
}

/// The same for a cluster of which one after the other is killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_loses_nothing_when_a_server_is_killed() {
    let mut servers = Nats::start_cluster("").unwrap();
    let hosts = servers.each_ref().map(|server| server.url().replace("nats://", "").replace('/', "")).join(",");
    let url = format!("nats://{hosts}/");
    let stores = [open(&url, 3).await, open(&url, 3).await];
    let mut ends = Ends::default();
    for round in 0..rounds().min(12) {
        let writing = write(&stores, round, Duration::from_millis(1_500));
        let killing = async {
            sleep(Duration::from_millis(250)).await;
            servers[round % 3].kill().unwrap();
            sleep(Duration::from_millis(500)).await;
            servers[round % 3].restart().unwrap();
        };
        together(&mut ends, tokio::join!(writing, killing).0);
        // Two of three must be there before the next one goes.
        sleep(Duration::from_secs(4)).await;
    }
    check(&*mailbox(&*stores[1]), &ends).await;
    assert!(ends.accepted.len() > 50, "{} accepted", ends.accepted.len());
    for store in stores {
        store.close().await.unwrap();
    }
}
