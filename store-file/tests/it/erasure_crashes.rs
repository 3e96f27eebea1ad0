//! A process that erases is killed at any moment (PV-2).

use std::{fs, path::Path, sync::Arc};

use conformance_tests::{ErasureSubject, KillMoments, TestLength, seed_from_env};
use store_core::{IgnoreProgress, Store, SystemClock};
use store_file::{FileConfig, FileStore};
use test_servers::{Process, send_line};

use crate::erasure::{ADA, ADA_TOO, BOB, erase, expect_sound, files_with, seen_of_bob, stores};

/// Where the process of this test works.
const FOLDER: &str = "AGENTSTORE_TEST_FOLDER";

/// The other side of the test below. If it is started by hand, it has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_erases() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    send_line("begun");
    let store = FileStore::open(Path::new(&folder), FileConfig::default()).unwrap();
    erase(&store).await;
    store.reclaim_space(&IgnoreProgress).await.unwrap();
    store.close().await.unwrap();
    send_line("erased");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Tests PV-2: whenever the process is killed, the next one ends the erasure. Then the text is in no file, and
/// everything of others is as before.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_erasure_goes_on() {
    let (folder, kills) = (tempfile::tempdir().unwrap(), TestLength::pick_by_env(8, 60, 200));
    let planted = folder.path().join("planted");
    let store = FileStore::open(&planted, FileConfig::default()).unwrap();
    for subject in [&ADA, &ADA_TOO, &BOB] {
        subject.plant(&stores(&store), &(Arc::new(SystemClock) as _)).await.unwrap();
    }
    let bob = seen_of_bob(&store).await;
    store.close().await.unwrap();
    let (mut moments, mut killed, mut begun) = (KillMoments::new(seed_from_env("AGENTSTORE_SEED")), 0, 0);
    while killed < kills {
        let round = moments.rounds();
        let root = folder.path().join(format!("root-{round}"));
        copy(&planted, &root);
        let task = [(FOLDER, root.to_str().unwrap())];
        let mut process = Process::begin(&[], "erasure_crashes::a_process_erases", &task);
        assert_eq!(process.next_line().as_deref(), Some("begun"));
        std::thread::sleep(moments.delay());
        let is_killed = !process.kill().contains(&"erased".to_owned());
        moments.report(is_killed);
        killed += usize::from(is_killed);
        begun += usize::from(is_killed && files_with(&root, &ADA).len() < files_with(&planted, &ADA).len());
        let store = FileStore::open(&root, FileConfig::default()).unwrap();
        assert_eq!(seen_of_bob(&store).await, bob);
        erase(&store).await;
        store.reclaim_space(&IgnoreProgress).await.unwrap();
        assert_eq!(seen_of_bob(&store).await, bob);
        expect_sound(&store).await;
        let left = [files_with(&root, &ADA), files_with(&root, &ADA_TOO)].concat();
        assert!(left.is_empty(), "after round {round}: {}", left.join("\n"));
        let seen = ErasureSubject::read_everything(&stores(&store), &[&ADA, &ADA_TOO]).await.unwrap();
        assert!(!seen.contains(ADA.marker) && !seen.contains(ADA_TOO.marker));
        store.close().await.unwrap();
        fs::remove_dir_all(&root).unwrap();
    }
    let ended = moments.rounds() - killed;
    println!("{killed} erasures were killed, {begun} of them after something was removed, {ended} were not; all ended");
}
