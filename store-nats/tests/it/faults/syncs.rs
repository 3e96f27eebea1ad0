//! Test N3 of docs/reliability.md: a sync of the server fails, because `strace` makes the system call fail. Without
//! `strace` the test is skipped and prints a note.

use std::time::Duration;

use conformance_tests::TestLength;
use store_core::Store;
use store_nats::{NatsConfig, NatsStore};
use test_servers::{Nats, can_fail_syncs};

use super::helpers::open;
use crate::helpers::{all_dispatches, enqueue, mailbox, new_dispatch};

/// One sync fails while dispatches are written. After the server was killed and restarted, everything that was
/// acknowledged exists. The test prints how many calls failed.
#[tokio::test(flavor = "multi_thread")]
async fn data_acknowledged_around_a_failed_sync_is_not_lost() {
    if !can_fail_syncs() {
        return;
    }
    let (rounds, mut refusals) = (TestLength::pick_by_env(2, 2, 20), 0);
    for round in 0..rounds {
        let injection = format!("inject=fsync,fdatasync:error=EIO:when={}", 30 + round);
        let strace_command =
            ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &injection];
        let mut server = Nats::start_with_wrapper(&strace_command, "jetstream { sync_interval: always }").unwrap();
        let mut config = NatsConfig::new(&server.url()).unwrap();
        (config.assume_sync, config.answer_timeout) = (true, Duration::from_secs(2));
        let store = NatsStore::open(config).await.unwrap();
        let mut accepted_ids = Vec::new();
        for number in 0..60 {
            let id = format!("d-{number}");
            match enqueue(&*mailbox(&store), new_dispatch("t").with_id(id.parse().unwrap())).await {
                Ok(_) => accepted_ids.push(id),
                Err(_) => {
                    refusals += 1;
                    break;
                }
            }
        }
        drop(store);
        server.kill().unwrap();
        server.restart().unwrap();
        let store = open(&server.url(), 1).await;
        let found_ids: Vec<_> =
            all_dispatches(&*mailbox(&*store)).await.into_iter().map(|found| found.id.to_string()).collect();
        let lost_ids: Vec<_> = accepted_ids.iter().filter(|id| !found_ids.contains(*id)).collect();
        assert!(lost_ids.is_empty(), "round {round}: {lost_ids:?} were lost");
        store.close().await.unwrap();
    }
    println!("{rounds} failed syncs, reported by {refusals} calls; a kill lost no acknowledged data");
}
