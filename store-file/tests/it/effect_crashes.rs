//! A process that performs effects is killed (EF-8).

use std::{path::Path, sync::Arc};

use conformance_tests::{EffectProcess, TestLength, check_killed_effects, perform_effects};
use store_core::Store;
use store_file::{FileConfig, FileStore};
use test_servers::{Process, send_line};

/// Where the process of these tests works, and the number of the first effect that it performs.
const FOLDER: &str = "AGENTSTORE_TEST_FOLDER";
const FIRST: &str = "AGENTSTORE_TEST_FIRST";

fn open(folder: &Path) -> FileStore {
    FileStore::open(folder.join("root"), FileConfig::default()).unwrap()
}

/// The other side of the test below. If it is started by hand, it has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_performs_effects() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (folder, first) = (Path::new(&folder), std::env::var(FIRST).unwrap().parse().unwrap());
    let store = open(folder);
    perform_effects(&store, &folder.join("happened"), first, send_line).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_performs_no_effect_twice() {
    let (folder, kills) = (tempfile::tempdir().unwrap(), TestLength::pick_by_env(20, 200, 1_000));
    let folder = folder.path();
    let run = |process: EffectProcess| {
        let task = [(FOLDER, folder.to_str().unwrap()), (FIRST, &process.first.to_string())];
        Process::begin(&[], "effect_crashes::a_process_performs_effects", &task).kill_after(process.kill_after)
    };
    let open = || async { Arc::new(open(folder)) as Arc<dyn Store> };
    check_killed_effects(kills, &folder.join("happened"), open, run).await.unwrap();
}
