//! F9: a process that may have few files open, and a disk that can only be read.

use store_core::{Commit, EntryQuery, ErrorKind, IgnoreProgress, Message, NewEntry, Store, TenantId, ThreadId};
use store_file::{FileConfig, FileStore};
use test_servers::{Disk, Process, send_line};

/// Where a child of these tests is to write.
const ROOT: &str = "AGENTSTORE_TEST_SHORTAGE";

/// More threads than a process may have open files.
const MANY: usize = 200;

/// A commit to one of many threads.
fn of_many(number: usize) -> Commit {
    let commit = Commit::new(ThreadId::new(format!("t-{number}")).unwrap()).entry(NewEntry::new(Message::user("x")));
    commit.with_key(format!("k-{number}").parse().unwrap())
}

/// The other side of the first test; started by hand it has nothing to do. Commits to one thread after the other,
/// whatever becomes of it, then reads all of them.
#[test]
fn a_child_writes_to_many_threads() {
    let Ok(root) = std::env::var(ROOT) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = match FileStore::open(root, FileConfig::default()) {
            Ok(store) => store,
            Err(error) => return send_line(format_args!("refused {}", error.kind().name())),
        };
        let stores = store.tenant(&TenantId::default_tenant()).unwrap();
        let (commits, threads) = (stores.commits.unwrap(), stores.threads.unwrap());
        for number in 0..MANY {
            match commits.commit(of_many(number)).await {
                Ok(_) => send_line(format_args!("ack {number}")),
                Err(error) => send_line(format_args!("{:?} {number} {}", error.outcome(), error.kind().name())),
            }
        }
        for number in 0..MANY {
            let read = threads.list_entries(&of_many(number).thread, EntryQuery::all()).await;
            send_line(format_args!("read {}", read.map_or_else(|error| error.kind().name(), |_| "ok")));
        }
    });
}

/// A process that may have few files open is told so, with an error of the system or by going on with fewer; what it
/// acknowledged is there, what it was refused is not (F9, ER-2, FI-13).
#[tokio::test]
async fn with_few_open_files_nothing_is_lost() {
    for most in [8, 16, 24, 32, 64] {
        let folder = tempfile::tempdir().unwrap();
        FileStore::open(folder.path(), FileConfig::default()).unwrap().close().await.unwrap();
        let limit = format!("ulimit -n {most} && exec \"$@\"");
        let said = Process::begin(
            &["sh", "-c", &limit, "sh"],
            "shortages::a_child_writes_to_many_threads",
            &[(ROOT, folder.path().to_str().unwrap())],
        )
        .remaining_lines();
        let (mut acknowledged, mut refused, mut unread) = (0, 0, 0);
        let store = FileStore::open(folder.path(), FileConfig::default()).unwrap();
        let commits = store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap();
        for line in &said {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["ack", number] => {
                    let again = commits.commit(of_many(number.parse().unwrap())).await.unwrap();
                    assert!(again.deduplicated, "{most} files: thread {number} is lost");
                    acknowledged += 1;
                }
                ["NotApplied", number, "unavailable"] => {
                    let thread = of_many(number.parse().unwrap()).thread;
                    assert!(commits.threads().load_thread(&thread).await.unwrap().is_none(), "{most} files: {line}");
                    refused += 1;
                }
                ["Unknown", _, "commit_unknown"] | ["NotApplied", _, "poisoned"] | ["refused", "unavailable"] => {
                    refused += 1;
                }
                ["read", "ok"] => {}
                ["read", "unavailable" | "poisoned"] => unread += 1,
                _ => panic!("{most} files: {line}"),
            }
        }
        println!("{most} files: {acknowledged} of {MANY} commits acknowledged, {refused} refused, {unread} not read");
        assert!(acknowledged + refused > 0, "{said:?}");
        let seen = store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap();
        assert_eq!(seen.findings, [], "{most} files");
    }
}

/// A disk that can only be read any more is told: nothing that was acknowledged is lost, reading goes on, also by who
/// opens the root to read, and nobody opens it to write (F9).
#[tokio::test]
async fn a_read_only_disk_refuses_writes_and_loses_nothing() {
    let Some(disk) = Disk::new_or_skip("file-read-only", 128) else { return };
    let root = disk.folder().join("root");
    let store = FileStore::open(&root, FileConfig::default()).unwrap();
    let commits = store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap();
    for number in 0..20 {
        let _ = commits.commit(of_many(number)).await.unwrap();
    }
    disk.turn_read_only().unwrap();
    let mut kinds = Vec::new();
    for number in 20..24 {
        kinds.push(commits.commit(of_many(number)).await.unwrap_err().kind());
    }
    println!("on a disk that can only be read: {kinds:?}");
    let allowed = [ErrorKind::CommitUnknown, ErrorKind::Poisoned, ErrorKind::Unavailable];
    assert!(kinds.iter().all(|kind| allowed.contains(kind)), "{kinds:?}");
    let check = async |store: &FileStore| {
        let threads = store.tenant(&TenantId::default_tenant()).unwrap().threads.unwrap();
        for number in 0..20 {
            let found = threads.list_entries(&of_many(number).thread, EntryQuery::all()).await.unwrap();
            assert_eq!(found.items.len(), 1);
        }
    };
    check(&store).await;
    let reader = FileStore::open(&root, FileConfig::default().read_only()).unwrap();
    check(&reader).await;
    drop((store, commits, reader));
    assert_eq!(FileStore::open(&root, FileConfig::default()).unwrap_err().kind(), ErrorKind::Unavailable);
    disk.power_on().unwrap();
    let store = FileStore::open(&root, FileConfig::default()).unwrap();
    check(&store).await;
    let commits = store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap();
    let _ = commits.commit(of_many(30)).await.unwrap();
    store.close().await.unwrap();
}
