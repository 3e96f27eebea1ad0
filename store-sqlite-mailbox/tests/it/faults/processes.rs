//! Tests S3, LC2 and LC3 of docs/reliability.md: several processes on one file (SQ-1, MB-6, MB-18, MB-19, MB-34,
//! MB-51).

#![expect(clippy::disallowed_methods, reason = "the test measures real time")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use conformance_tests::TestLength;
use rusqlite::{Connection, ErrorCode};
use rustix::process::{Pid, Signal, kill_process};
use store_core::{ErrorKind, PageRequest, Store, TenantId};
use test_servers::Process;

use super::{
    child_process::{enqueue_many, start_child},
    helpers::{Folder, ack, claim_request, enqueue, expect_no_findings, mailbox, new_dispatch, open, settle, thread},
};

/// Starts several processes with the same task. When all of them are ready, lets them begin at the same time.
fn start_children_together(task: &str, folder: &Folder, process_count: usize, number: usize) -> Vec<Process> {
    let mut processes: Vec<_> = (0..process_count).map(|at| start_child(task, &folder.file(), at, number)).collect();
    for process in &mut processes {
        assert_eq!(process.next_line().unwrap(), "open");
    }
    processes.iter_mut().for_each(Process::let_continue);
    processes
}

/// Each interrupt increases the epoch once, and no call fails because the file is busy (SQ-1).
#[tokio::test(flavor = "multi_thread")]
async fn each_interrupt_of_many_processes_increases_the_epoch_once() {
    let (folder, process_count, calls_per_process) =
        (Folder::new(), TestLength::pick_by_env(4, 4, 8), TestLength::pick_by_env(20, 40, 500));
    let printed: Vec<_> = start_children_together("interrupt", &folder, process_count, calls_per_process)
        .into_iter()
        .flat_map(Process::end)
        .collect();
    let expected: BTreeSet<_> = (1..=process_count * calls_per_process).map(|epoch| format!("epoch {epoch}")).collect();
    assert_eq!(printed.len(), process_count * calls_per_process, "{printed:?}");
    assert_eq!(printed.into_iter().collect::<BTreeSet<_>>(), expected);
    let store = open(&folder.file()).await;
    assert_eq!(mailbox(&store).load_epoch(&thread("t")).await.unwrap(), (process_count * calls_per_process) as u64);
    expect_no_findings(&store).await;
    store.close().await.unwrap();
}

/// The control experiment: a transaction begins with a read, and another connection writes. When the transaction then
/// writes, SQLite reports at once that the file is busy, however long the timeout is.
#[tokio::test]
async fn a_transaction_that_begins_with_a_read_gets_a_busy_error() {
    let folder = Folder::new();
    open(&folder.file()).await.close().await.unwrap();
    let [reading_connection, other_connection] = [(); 2].map(|()| Connection::open(folder.file()).unwrap());
    reading_connection.busy_timeout(Duration::from_secs(30)).unwrap();
    reading_connection.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    let update = "UPDATE meta SET syncs = syncs + 1";
    other_connection.execute_batch(update).unwrap();
    let began = std::time::Instant::now();
    let error = reading_connection.execute_batch(update).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    assert!(began.elapsed() < Duration::from_secs(10), "the write waited");
}

/// Each dispatch is claimed once, even if several processes claim at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn each_dispatch_is_claimed_once_among_processes() {
    let (folder, process_count, dispatch_count) =
        (Folder::new(), TestLength::pick_by_env(4, 4, 8), TestLength::pick_by_env(200, 400, 10_000));
    let store = open(&folder.file()).await;
    enqueue_many(&store, "w", dispatch_count).await;
    let mut claim_counts = BTreeMap::<String, usize>::new();
    for process in start_children_together("work", &folder, process_count, 0) {
        for line in process.end() {
            *claim_counts.entry(line).or_default() += 1;
        }
    }
    // A process ends when it cannot claim anything. A thread with a claim of another process is not claimable at that
    // moment, so some dispatches may be left.
    while let Some(claimed) = mailbox(&store).claim(claim_request()).await.unwrap().claimed.pop() {
        *claim_counts.entry(format!("got {}", claimed.dispatch.id)).or_default() += 1;
        settle(&*mailbox(&store), &claimed, ack(claimed.dispatch.id.as_str())).await;
    }
    let expected: BTreeMap<_, _> = (0..dispatch_count).map(|at| (format!("got w-{at}"), 1)).collect();
    assert_eq!(claim_counts, expected);
    expect_no_findings(&store).await;
    store.close().await.unwrap();
}

/// If several processes enqueue under one key at the same time, one of the calls is accepted.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_used_by_several_processes_at_once_is_accepted_once() {
    let (folder, calls_per_process) = (Folder::new(), TestLength::pick_by_env(20, 40, 500));
    let printed: Vec<_> = start_children_together("enqueue with contended keys", &folder, 4, calls_per_process)
        .into_iter()
        .flat_map(Process::end)
        .collect();
    for at in 0..calls_per_process {
        let answers = |word: &str| printed.iter().filter(|line| **line == format!("{word} {at}")).count();
        assert_eq!((answers("accepted"), answers("already_exists")), (1, 3), "{at}");
    }
}

/// A process is stopped until its lease has expired and another process has claimed its dispatch. When it continues, it
/// writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_until_after_its_lease_writes_nothing() {
    let (folder, rounds) = (Folder::new(), TestLength::pick_by_env(4, 8, 200));
    let store = open(&folder.file()).await;
    for round in 0..rounds {
        let id = format!("d-{round}");
        enqueue(&*mailbox(&store), new_dispatch(&id, &id)).await;
        let mut holder = start_child("hold", &folder.file(), &id, 0);
        assert_eq!(holder.next_line().unwrap(), "held");
        let pid = Pid::from_raw(holder.id().cast_signed()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        let request = claim_request().of_dispatch(id.parse().unwrap());
        let next_claim = loop {
            if let Some(claimed) = mailbox(&store).claim(request.clone()).await.unwrap().claimed.pop() {
                break claimed;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        kill_process(pid, Signal::CONT).unwrap();
        holder.let_continue();
        assert_eq!(holder.end(), ["claim_lost"]);
        settle(&*mailbox(&store), &next_claim, ack(&id)).await;
    }
    println!("{rounds} holders were stopped until their leases had expired: none wrote");
    store.close().await.unwrap();
}

/// If another process deletes a tenant, the handles of this process are closed. The name can be used again (TN-8), and
/// the claim numbers continue above the earlier ones (MB-25).
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_deleted_by_another_process_is_closed() {
    let folder = Folder::new();
    let (first_store, second_store) = (open(&folder.file()).await, open(&folder.file()).await);
    let name = TenantId::default_tenant();
    let old_mailbox = mailbox(&first_store);
    enqueue_many(&first_store, "a", 5).await;
    let first_claim = old_mailbox.claim(claim_request()).await.unwrap().claimed.remove(0);
    second_store.delete_tenant(&name).await.unwrap();
    assert_eq!(old_mailbox.count_dispatches(None).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(old_mailbox.enqueue(vec![new_dispatch("t", "b")]).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(first_store.list_tenants(PageRequest::default()).await.unwrap().items, []);
    enqueue(&*mailbox(&first_store), new_dispatch(first_claim.dispatch.thread.as_str(), "b")).await;
    let claimed = mailbox(&second_store).claim(claim_request()).await.unwrap().claimed.remove(0);
    assert_eq!(claimed.dispatch.id.as_str(), "b");
    assert!(claimed.number > first_claim.number, "{:?} follows {:?}", claimed.number, first_claim.number);
    expect_no_findings(&first_store).await;
    first_store.close().await.unwrap();
    second_store.close().await.unwrap();
}
