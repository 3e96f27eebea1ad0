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

async fn enqueue_until_aborted(mailbox: Arc<dyn MailboxStore>, name: String, new_ids: AcknowledgedIds) {
    for number in 0.. {
        let id = format!("{name}-{number}");
        match enqueue(&*mailbox, new_dispatch(&format!("t-{}", number % 3)).with_id(id.parse().unwrap())).await {
            Ok(_) => new_ids.lock().unwrap().push(id),
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
    all_dispatches(&*mailbox(store)).await.into_iter().map(|dispatch| dispatch.id.to_string()).collect()
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
        let new_ids = AcknowledgedIds::default();
        let start_writer = |writer| {
            let name = format!("{cycle}-{writer}");
            tokio::spawn(enqueue_until_aborted(mailbox(&store), name, Arc::clone(&new_ids)))
        };
        let writers: Vec<_> = (0..8).map(start_writer).collect();
        let (min_count, started_at) = (10 + random.below(60), Instant::now());
        while new_ids.lock().unwrap().len() < min_count {
            assert!(started_at.elapsed() < Duration::from_secs(30), "nothing was acknowledged within 30 s");
            sleep(Duration::from_millis(1)).await;
        }
        // Dispatches that are acknowledged from here on are not checked. A sync that is in progress when the file
        // system is stopped may report success without having done its work. That cannot happen when the power of a
        // real disk is cut.
        acknowledged_ids.append(&mut new_ids.lock().unwrap());
        cut_power(&mut server, &disk);
        writers.iter().for_each(|writer| writer.abort());
        drop(store);
        let store = open(&server.url(), 1).await;
        let existing_ids = all_ids(&*store).await;
        let lost_ids: Vec<_> = acknowledged_ids.iter().filter(|id| !existing_ids.contains(*id)).collect();
        assert!(
            lost_ids.is_empty(),
            "cycle {cycle}: {} of {} were lost: {lost_ids:?}",
            lost_ids.len(),
            acknowledged_ids.len()
        );
    }
    println!("{cycles} power cuts, {} acknowledged dispatches: none lost", acknowledged_ids.len());
}

/// The control experiment: a server that syncs every two minutes, which is its default, loses what it acknowledged. A
/// store refuses such a server unless its configuration allows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_syncs_only_periodically_loses_work() {
    let Some(disk) = Disk::new_or_skip("nats-control", 512) else { return };
    let mut server = start_server(&disk, "");
    let error = NatsStore::open(NatsConfig::new(&server.url()).unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsafeDurability);
    let store = open(&server.url(), 1).await;
    // The power cut must not lose the streams.
    enqueue(&*mailbox(&*store), new_dispatch("t")).await.unwrap();
    disk.sync().unwrap();
    for _ in 0..50 {
        enqueue(&*mailbox(&*store), new_dispatch("t")).await.unwrap();
    }
    drop(store);
    cut_power(&mut server, &disk);
    let count = all_ids(&*open(&server.url(), 1).await).await.len();
    println!("{count} of 51 acknowledged dispatches are left");
    assert!(count < 51);
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
    let (mut number, mut accepted_ids) = (0, Vec::new());
    for _ in 0..2 {
        let free_mib = 20;
        let filler = disk.fill(free_mib).unwrap();
        let error = loop {
            number += 1;
            match enqueue(&*mailbox(&*store), large_dispatch(number)).await {
                Ok(_) => accepted_ids.push(format!("d-{number}")),
                Err(error) => break error,
            }
            assert!(number < 200, "the disk is never full");
        };
        let kinds = [ErrorKind::StorageFull, ErrorKind::CommitUnknown, ErrorKind::Unavailable];
        assert!(kinds.contains(&error.kind()), "{error:?}");
        println!("after {number}: {error:?}");
        std::fs::remove_file(filler).unwrap();
        // A server that is out of space stops its JetStream until it is restarted.
        server.kill().unwrap();
        server.restart().unwrap();
        let started_at = Instant::now();
        while let Err(error) = enqueue(&*mailbox(&*store), new_dispatch("goes-on")).await {
            assert!(started_at.elapsed() < Duration::from_secs(30), "{error:?}");
            sleep(Duration::from_millis(100)).await;
        }
        let existing_ids = all_ids(&*store).await;
        let lost_ids: Vec<_> = accepted_ids.iter().filter(|id| !existing_ids.contains(*id)).collect();
        assert!(lost_ids.is_empty(), "{lost_ids:?} were lost");
    }
    println!("a disk that was full twice, {} acknowledged dispatches: none lost", accepted_ids.len());
    store.close().await.unwrap();
}
