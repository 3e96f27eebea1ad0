//! Servers that are killed and come back, alone and in a cluster (NA-7).

use std::time::Duration;

use store_core::Store;
use test_servers::Nats;
use tokio::time::sleep;

use super::given::{Ends, check, count, open, write};
use crate::given::mailbox;

/// What was acknowledged is there when a server that was killed is started again, by the handles that were open; what
/// was said not to have been applied is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing() {
    let mut server = Nats::start("").unwrap();
    let stores = [open(&server.url(), 1).await, open(&server.url(), 1).await];
    let mut ends = Ends::default();
    for round in 0..count(40, 4) {
        let writing = write(&stores, round, Duration::from_millis(600));
        let killing = async {
            sleep(Duration::from_millis(250)).await;
            server.kill().unwrap();
            sleep(Duration::from_millis(50)).await;
            server.restart().unwrap();
        };
        ends.add(tokio::join!(writing, killing).0);
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
    for round in 0..count(12, 4) {
        let writing = write(&stores, round, Duration::from_millis(1_500));
        let killing = async {
            sleep(Duration::from_millis(250)).await;
            servers[round % 3].kill().unwrap();
            sleep(Duration::from_millis(500)).await;
            servers[round % 3].restart().unwrap();
        };
        ends.add(tokio::join!(writing, killing).0);
        // Two of three must be there before the next one goes.
        sleep(Duration::from_secs(4)).await;
    }
    check(&*mailbox(&*stores[1]), &ends).await;
    assert!(ends.accepted.len() > 50, "{} accepted", ends.accepted.len());
    for store in stores {
        store.close().await.unwrap();
    }
}
