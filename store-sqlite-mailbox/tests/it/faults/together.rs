//! Calls at once share a transaction, and do not disturb each other (SQ-4).

use std::{fs, path::Path};

use store_core::{ErrorKind, Interrupt, Settlement, Store};

use super::given::{Folder, ack, mailbox, open, put, request, settle, thread, verify, work};

const CALLS: usize = 64;

/// How many commits the log of a mailbox tells of, as long as it was not begun anew: frames that end one say how long
/// the database is.
fn commits(file: &Path) -> usize {
    let log = fs::read(file.with_file_name("mailbox.db-wal")).unwrap();
    log[32..].chunks_exact(24 + 4_096).filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_share_a_transaction_and_get_their_own_answers() {
    let folder = Folder::new();
    let store = open(&folder.file()).await;
    put(&*mailbox(&store), work("t", "taken")).await;
    let before = commits(&folder.file());
    let calls: Vec<_> = (0..CALLS)
        .map(|at| {
            let mailbox = mailbox(&store);
            // Every fourth is refused: its id is that of other work.
            let new = if at % 4 == 0 { work("u", "taken") } else { work("t", &format!("d-{at}")) };
            tokio::spawn(async move { mailbox.enqueue(vec![new]).await.unwrap().remove(0) })
        })
        .collect();
    for (at, call) in calls.into_iter().enumerate() {
        let kind = call.await.unwrap().err().map(|error| error.kind());
        assert_eq!(kind, (at % 4 == 0).then_some(ErrorKind::AlreadyExists), "{at}");
    }
    let shared = commits(&folder.file()) - before;
    println!("{CALLS} calls at once took {shared} commits");
    assert!(shared < CALLS / 2, "{shared} commits");
    let counts = mailbox(&store).count_dispatches(Some(&thread("t"))).await.unwrap();
    assert_eq!(counts.queued, CALLS as u64 * 3 / 4 + 1);
    verify(&store).await;
    store.close().await.unwrap();
}

/// What a process remembers of what it wrote is forgotten when another one writes: each decides about what is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_forgets_cached_data_when_another_one_writes() {
    let folder = Folder::new();
    let (one, other) = (open(&folder.file()).await, open(&folder.file()).await);
    let (one, other) = (mailbox(&one), mailbox(&other));
    put(&*one, work("t", "first")).await;
    put(&*one, work("t", "second")).await;
    // What one enqueued and read, the other claims, ends, and claims anew.
    let held = other.claim(request()).await.unwrap().claimed.remove(0);
    assert!(one.claim(request()).await.unwrap().claimed.is_empty());
    settle(&*other, &held, ack("first")).await;
    let held = one.claim(request()).await.unwrap().claimed.remove(0);
    assert_eq!(held.dispatch.payload, work("t", "second").payload);
    other.interrupt(Interrupt::new(thread("t"))).await.unwrap();
    let late = one.settle(vec![(held.claim(), ack("second"))]).await.unwrap().remove(0);
    assert_eq!(late.unwrap_err().kind(), ErrorKind::StaleEpoch);
    put(&*other, work("t", "third")).await;
    let held = one.claim(request()).await.unwrap().claimed.remove(0);
    assert_eq!((held.dispatch.id.as_str(), held.dispatch.epoch), ("third", 1));
    settle(&*one, &held, Settlement::Release).await;
    other.cancel(&held.dispatch.id).await.unwrap();
    assert!(one.claim(request()).await.unwrap().claimed.is_empty());
}
