//! Concurrent calls share a transaction, and do not affect each other (SQ-4).

use std::{fs, path::Path};

use store_core::{ErrorKind, Interrupt, Settlement, Store};

use super::helpers::{
    Folder, ack, claim_request, enqueue, expect_no_findings, mailbox, new_dispatch, open, settle, thread,
};

const CALLS: usize = 64;

/// Returns the number of commits in the WAL of a mailbox. The WAL must not have been restarted. The last frame of each
/// commit contains the size of the database, which is not 0.
fn count_commits(file: &Path) -> usize {
    let wal = fs::read(file.with_file_name("mailbox.db-wal")).unwrap();
    wal[32..].chunks_exact(24 + 4_096).filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_share_a_transaction_and_get_their_own_answers() {
    let folder = Folder::new();
    let store = open(&folder.file()).await;
    enqueue(&*mailbox(&store), new_dispatch("t", "taken")).await;
    let commits_before = count_commits(&folder.file());
    let calls: Vec<_> = (0..CALLS)
        .map(|at| {
            let mailbox = mailbox(&store);
            // Every fourth call is refused, because its id belongs to other work.
            let new = if at % 4 == 0 { new_dispatch("u", "taken") } else { new_dispatch("t", &format!("d-{at}")) };
            tokio::spawn(async move { mailbox.enqueue(vec![new]).await.unwrap().remove(0) })
        })
        .collect();
    for (at, call) in calls.into_iter().enumerate() {
        let kind = call.await.unwrap().err().map(|error| error.kind());
        assert_eq!(kind, (at % 4 == 0).then_some(ErrorKind::AlreadyExists), "{at}");
    }
    let commit_count = count_commits(&folder.file()) - commits_before;
    println!("{CALLS} calls at once took {commit_count} commits");
    assert!(commit_count < CALLS / 2, "{commit_count} commits");
    let counts = mailbox(&store).count_dispatches(Some(&thread("t"))).await.unwrap();
    assert_eq!(counts.queued, CALLS as u64 * 3 / 4 + 1);
    expect_no_findings(&store).await;
    store.close().await.unwrap();
}

/// If another process has written, a process discards its cached rows. So its decisions are based on the stored rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_forgets_cached_data_when_another_one_writes() {
    let folder = Folder::new();
    let (first_store, second_store) = (open(&folder.file()).await, open(&folder.file()).await);
    let (first_mailbox, second_mailbox) = (mailbox(&first_store), mailbox(&second_store));
    enqueue(&*first_mailbox, new_dispatch("t", "first")).await;
    enqueue(&*first_mailbox, new_dispatch("t", "second")).await;
    // The other process claims and settles what the first one enqueued and read.
    let claimed = second_mailbox.claim(claim_request()).await.unwrap().claimed.remove(0);
    assert!(first_mailbox.claim(claim_request()).await.unwrap().claimed.is_empty());
    settle(&*second_mailbox, &claimed, ack("first")).await;
    let claimed = first_mailbox.claim(claim_request()).await.unwrap().claimed.remove(0);
    assert_eq!(claimed.dispatch.payload, new_dispatch("t", "second").payload);
    second_mailbox.interrupt(Interrupt::new(thread("t"))).await.unwrap();
    let answer = first_mailbox.settle(vec![(claimed.claim(), ack("second"))]).await.unwrap().remove(0);
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::StaleEpoch);
    enqueue(&*second_mailbox, new_dispatch("t", "third")).await;
    let claimed = first_mailbox.claim(claim_request()).await.unwrap().claimed.remove(0);
    assert_eq!((claimed.dispatch.id.as_str(), claimed.dispatch.epoch), ("third", 1));
    settle(&*first_mailbox, &claimed, Settlement::Release).await;
    second_mailbox.cancel(&claimed.dispatch.id).await.unwrap();
    assert!(first_mailbox.claim(claim_request()).await.unwrap().claimed.is_empty());
}
