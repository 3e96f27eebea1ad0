//! A process that performs effects is killed (EF-8).

use std::env;

use conformance_tests::{EffectProcess, TestLength, check_killed_effects, perform_effects};
use store_core::{IdSource, Limits, Store, UuidSource};
use store_postgres::{PostgresConfig, PostgresStore};
use test_servers::{Process, send_line};

use crate::fixture::{SchemaGuard, server_url};

/// The schema in which the process of these tests works, the number of the first effect that it performs, and the file
/// that stands for the world outside of the store.
const SCHEMA: &str = "AGENTSTORE_TEST_SCHEMA";
const FIRST: &str = "AGENTSTORE_TEST_FIRST";
const HAPPENED: &str = "AGENTSTORE_TEST_FILE";

/// The other side of the test below. If it is started by hand, it has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_performs_effects() {
    let Ok(happened) = env::var(HAPPENED) else { return };
    let first = env::var(FIRST).unwrap().parse().unwrap();
    let mut config = PostgresConfig::new(&server_url()).unwrap().with_schema(&env::var(SCHEMA).unwrap()).unwrap();
    config.allow_unsafe = true;
    let store = PostgresStore::open(config).await.unwrap();
    perform_effects(&store, happened.as_ref(), first, send_line).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_performs_no_effect_twice() {
    let kills = TestLength::pick_by_env(10, 50, 200);
    let schema = &SchemaGuard::new(Limits::default()).await.unwrap();
    let happened = env::temp_dir().join(format!("agentstore-effects-{}", UuidSource.next_id()));
    let run = |process: EffectProcess| {
        let (first, file) = (process.first.to_string(), happened.to_str().unwrap());
        let task = [(SCHEMA, schema.config().schema()), (FIRST, &first), (HAPPENED, file)];
        Process::begin(&[], "faults::effects::a_process_performs_effects", &task).kill_after(process.kill_after)
    };
    let checked = check_killed_effects(kills, &happened, || async { schema.store().await.unwrap() }, run).await;
    let _removed = std::fs::remove_file(&happened);
    checked.unwrap();
}
