//! Test N2 of docs/reliability.md: the power of the server is cut under load (PR-9), and its disk is full. Only root
//! can mount the disks of these tests. Without these disks the tests are skipped and print a note.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use conformance_tests::{Random, TestLength};
use store_core::{ErrorKind, Json, MailboxStore, NewDispatch, Store};
use store_nats::{NatsConfig, NatsStore};
use test_servers::{Disk, Nats};
use tokio::time::{Instant, sleep};

use super::helpers::open;
use crate::helpers::{all_dispatches, enqueue, mailbox, new_dispatch};

/// The ids of the dispatches that were acknowledged. The writers add ids until they are aborted.
type AcknowledgedIds = Arc<Mutex<Vec<String>>>;

async fn enqueue_until_aborted(mailbox: Arc<dyn MailboxStore>, name: String, acknowledged: AcknowledgedIds) {
    for at in 0.. {
        let id = format!("{name}-{at}");
        match enqueue(&*mailbox, new_dispatch(&format!("t-{}", at % 3)).with_id(id.parse().unwrap())).await {
            Ok(_) => acknowledged.lock().unwrap().push(id),
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Starts a server on the disk, with these lines in its configuration.
fn start_server(disk: &Disk, settings: &str) -> Nats {
    let server = Nats::start_in(disk.folder().join("server"), settings).unwrap();
    // The power cut must not lose the server's configuration.
    disk.sync().unwrap();
    server
}

fn cut_power(server: &mut Nats, disk: &Disk) {
    disk.cut_power().unwrap();
    server.kill().unwrap();
    disk.power_on().unwrap();
    server.restart().unwrap();
}

async fn all_ids(store: &dyn Store) -> Vec<String> {
    all_dispatches(&*mailbox(store)).await.into_iter().map(|found| found.id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_data_survives_power_cuts() {
    let Some(disk) = Disk::new_or_skip("nats-power", 512) else { return };
    let mut server = start_server(&disk, "jetstream { sync_interval: always }");
    let mut config = NatsConfig::new(&server.url()).unwrap();
    config.assume_sync = true;
    let (cycles, mut random, mut acknowledged_ids) = (TestLength::pick_by_env(1, 3, 20), Random::new(2), Vec::new());
    for cycle in 0..cycles {
        let store = NatsStore::open(config.clone()).await.unwrap();
        let acknowledged = AcknowledgedIds::default();
        let begin = |writer| {
            let name = format!("{cycle}-{writer}");
            tokio::spawn(enqueue_until_aborted(mailbox(&store), name, Arc::clone(&acknowledged)))
        };
        let writers: Vec<_> = (0..8).map(begin).collect();
        let (enough, begun) = (10 + random.below(60), Instant::now());
        while acknowledged.lock().unwrap().len() < enough {
            assert!(begun.elapsed() < Duration::from_secs(30), "nothing was acknowledged within 30 s");
            sleep(Duration::from_millis(1)).await;
        }
        // What is acknowledged from here on is not checked. A sync that is in progress when the file system is stopped
        // may report success without having done its work. That cannot happen when the power of a real disk is cut.
        acknowledged_ids.append(&mut acknowledged.lock().unwrap());
        cut_power(&mut server, &disk);
        writers.iter().for_each(|writer| writer.abort());
        drop(store);
        let store = open(&server.url(), 1).await;
        let found = all_ids(&*store).await;
        let lost: Vec<_> = acknowledged_ids.iter().filter(|id| !found.contains(*id)).collect();
        assert!(lost.is_empty(), "cycle {cycle}: {} of {} were lost: {lost:?}", lost.len(), acknowledged_ids.len());
    }
    println!("{cycles} power cuts, {} acknowledged dispatches: none lost", acknowledged_ids.len());
}

/// The control experiment: a server that syncs every two minutes, which is its default, loses what it acknowledged. A
/// store refuses such a server unless its configuration allows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_syncs_only_periodically_loses_work() {
    let Some(disk) = Disk::new_or_skip("nats-control", 512) else { return };
    let mut server = start_server(&disk, "");
    let refused = NatsStore::open(NatsConfig::new(&server.url()).unwrap()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::UnsafeDurability);
    let store = open(&server.url(), 1).await;
    // The power cut must not lose the streams.
    enqueue(&*mailbox(&*store), new_dispatch("t")).await.unwrap();
    disk.sync().unwrap();
    for _ in 0..50 {
        enqueue(&*mailbox(&*store), new_dispatch("t")).await.unwrap();
    }
    drop(store);
    cut_power(&mut server, &disk);
    let found = all_ids(&*open(&server.url(), 1).await).await.len();
    println!("{found} of 51 acknowledged dispatches are left");
    assert!(found < 51);
}

/// Returns a dispatch with a payload of half a megabyte. Its random digits cannot be compressed much.
fn large_dispatch(number: usize) -> NewDispatch {
    let mut random = Random::new(number as u64);
    let text: String = (0..62_500).map(|_| format!("{:08x}", random.below(1 << 32))).collect();
    let id = format!("d-{number}").parse().unwrap();
    new_dispatch("t").with_id(id).with_payload(Json::parse(&format!("\"{text}\"")).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing() {
    let Some(disk) = Disk::new_or_skip("nats-full", 200) else { return };
    // The limit of the server is larger than the disk, so that a write to the full disk fails.
    let settings = "jetstream { sync_interval: always, max_file_store: 10GB }";
    let mut server = start_server(&disk, settings);
    let store = open(&server.url(), 1).await;
    let (mut number, mut accepted) = (0, Vec::new());
    for _ in 0..2 {
        let filler = disk.fill(20).unwrap();
        let refused = loop {
            number += 1;
            match enqueue(&*mailbox(&*store), large_dispatch(number)).await {
                Ok(_) => accepted.push(format!("d-{number}")),
                Err(error) => break error,
            }
            assert!(number < 200, "the disk is never full");
        };
        let kinds = [ErrorKind::StorageFull, ErrorKind::CommitUnknown, ErrorKind::Unavailable];
        assert!(kinds.contains(&refused.kind()), "{refused:?}");
        println!("after {number}: {refused:?}");
        std::fs::remove_file(filler).unwrap();
        // A server that is out of space stops its JetStream until it is restarted.
        server.kill().unwrap();
        server.restart().unwrap();
        let begun = Instant::now();
        while let Err(error) = enqueue(&*mailbox(&*store), new_dispatch("goes-on")).await {
            assert!(begun.elapsed() < Duration::from_secs(30), "{error:?}");
            sleep(Duration::from_millis(100)).await;
        }
        let found = all_ids(&*store).await;
        let lost: Vec<_> = accepted.iter().filter(|id| !found.contains(*id)).collect();
        assert!(lost.is_empty(), "{lost:?} were lost");
    }
    println!("a disk that was full twice, {} acknowledged dispatches: none lost", accepted.len());
    store.close().await.unwrap();
}
