//! Round trips of stores through the backends that keep threads (VF-3).

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentstore::{
    IgnoreProgress, Limits, TenantId, TenantStores,
    records::{CopyOptions, TenantDigest, copy_tenant, digest_tenant},
};
use conformance_tests::{Fixture, TestLength, copies::RandomStore};
use sessions::ImportOptions;

use super::copies::{fixture, round_trip};

/// Copies a tenant from store to store, and checks that each has the digest of the first one.
async fn check_round_trip(source: &TenantStores, steps: &[Arc<dyn Fixture>]) -> TenantDigest {
    let expected = digest_tenant(source, &IgnoreProgress).await.unwrap();
    let mut opened = Vec::new();
    let mut from = source.clone();
    for step in steps {
        let target = step.open(Limits::default()).await.unwrap();
        let to = target.store.tenant(&TenantId::default_tenant()).unwrap();
        let report = copy_tenant(&from, &to, &CopyOptions::new("round trip"), &IgnoreProgress).await.unwrap();
        assert_eq!((&report.differences, report.difference_count), (&Vec::new(), 0), "{}", step.name());
        assert_eq!((report.source.as_ref(), report.target.as_ref()), (Some(&expected), Some(&expected)));
        assert_eq!(digest_tenant(&to, &IgnoreProgress).await.unwrap(), expected, "{}", step.name());
        let inspector = target.store.inspector().unwrap();
        assert_eq!(inspector.verify(&IgnoreProgress).await.unwrap().findings, Vec::new(), "{}", step.name());
        opened.push(target);
        from = to;
    }
    drop(from);
    for target in opened {
        target.store.close().await.unwrap();
    }
    expected
}

/// Stores of random operations have one digest in memory, in files, in PostgreSQL and in files again (VF-3).
#[test]
fn a_round_trip_of_random_stores_has_equal_digests_vf_3() {
    let (memory, steps) = (fixture("memory:"), round_trip());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let seeds: u64 = TestLength::pick_by_env(4, 20, 200);
        for seed in 1_000..1_000 + seeds {
            let source = RandomStore::open(&memory, seed, 120).await.unwrap();
            let digest = check_round_trip(&source.stores().unwrap(), &steps).await;
            assert!(digest.records() > 10, "seed {seed}");
        }
    });
    runtime.shutdown_background();
}

/// The sources of sessions in a folder of fixtures: files, and folders of tools that keep a session in a folder.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for format in fs::read_dir(root).unwrap() {
        let format = format.unwrap().path();
        if format.is_dir() {
            let entries = fs::read_dir(format).unwrap().map(|entry| entry.unwrap().path());
            sources.extend(entries.filter(|path| !path.to_string_lossy().ends_with(".expect.json")));
        }
    }
    sources.sort();
    sources
}

/// Imports all sources of a folder into a new store in memory, and checks its round trip. Returns how many were
/// imported.
async fn check_imported(root: &Path, (memory, steps): (&dyn Fixture, &[Arc<dyn Fixture>])) -> usize {
    let memory = memory.open(Limits::default()).await.unwrap();
    let stores = memory.store.tenant(&TenantId::default_tenant()).unwrap();
    let commits = stores.commits.clone().unwrap();
    let mut imported = 0;
    for source in sources(root) {
        // Some fixtures are there to be refused.
        if let Ok(reports) = sessions::import(&*commits, &source, &ImportOptions::default()).await {
            imported += reports.iter().filter(|report| report.is_imported()).count();
        }
    }
    let digest = check_round_trip(&stores, steps).await;
    println!("{}: {imported} sessions, {} records, digest {}", root.display(), digest.records(), digest.digest);
    imported
}

/// Imported sessions have one digest in memory, in files, in PostgreSQL and in files again (VF-3).
///
/// `AGENTSTORE_FIXTURES` names a folder whose subfolder `sessions` has session files of other projects. Without it they
/// are looked for beside the repository.
#[test]
fn a_round_trip_of_imported_sessions_has_equal_digests_vf_3() {
    let (memory, steps) = (fixture("memory:"), round_trip());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    runtime.block_on(async {
        let imported = check_imported(&here.join("../sessions/fixtures"), (&*memory, &steps)).await;
        assert!(imported > 30, "{imported}");
        let chosen = std::env::var_os("AGENTSTORE_FIXTURES").map(PathBuf::from);
        let others = chosen.clone().unwrap_or_else(|| here.join("../../shared/fixtures")).join("sessions");
        if others.is_dir() {
            check_imported(&others, (&*memory, &steps)).await;
        } else {
            assert!(chosen.is_none(), "AGENTSTORE_FIXTURES: no folder {}", others.display());
            println!("not run: session files of other projects, as there is no folder {}", others.display());
        }
    });
    runtime.shutdown_background();
}
