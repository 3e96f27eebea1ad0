//! Calls at once share a transaction, and do not disturb each other (SQ-4).

use std::{fs, path::Path};

use store_core::{ErrorKind, Store};

use super::given::{Folder, mailbox, open, put, thread, verify, work};

const CALLS: usize = 64;

/// How many commits the log of a mailbox tells of, as long as it was not begun anew: frames that end one say how long
/// the database is.
fn commits(file: &Path) -> usize {
    let log = fs::read(file.with_file_name("mailbox.db-wal")).unwrap();
    log[32..].chunks_exact(24 + 4_096).filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_at_once_share_a_transaction_and_have_their_own_answers() {
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
