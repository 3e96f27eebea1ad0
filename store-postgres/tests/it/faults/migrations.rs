//! Test P10 of docs/reliability.md: many processes create the schema at the same time, or lose the connection while
//! they create it (PO-2, PO-3).

use conformance_tests::TestLength;
use store_core::{IdSource, UuidSource};
use store_postgres::{PostgresConfig, PostgresStore, TestSchema};

use super::{
    helpers::{commit_with_message, commits, thread},
    proxy::{Cut, Proxy},
    unknown_outcome::server_socket,
};
use crate::fixture::server_url;

const PROCESSES: usize = 8;

/// Returns the settings for a schema that does not exist yet.
fn config_of_new_schema(url: &str) -> PostgresConfig {
    let mut config = PostgresConfig::new(url).unwrap();
    config.allow_unsafe = true;
    config.with_schema(&format!("test_{}", UuidSource.next_id().replace('-', ""))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_concurrent_openings_create_one_schema() {
    for _ in 0..TestLength::pick_by_env(1, 3, 20) {
        let config = config_of_new_schema(&server_url());
        let openings: Vec<_> = (0..PROCESSES).map(|_| tokio::spawn(PostgresStore::open(config.clone()))).collect();
        for (number, opened) in openings.into_iter().enumerate() {
            let store = opened.await.unwrap().unwrap();
            let receipt = commits(&store).commit(commit_with_message(&thread("t"), &number.to_string())).await.unwrap();
            assert_eq!(receipt.version.number(), number as u64 + 1);
        }
        let migration = PostgresStore::migrate(&config).await.unwrap();
        assert_eq!(migration.from, migration.to);
        TestSchema::from_config(config).remove().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_is_created_completely_or_not_at_all() {
    let proxy = Proxy::start(server_socket()).await;
    let mut cuts = 0;
    for cut_at in [Cut::BeforeClient, Cut::AfterClient, Cut::BeforeServer] {
        // A short test cuts only at every `step`-th message. The server sends more messages than the client, so its
        // step is larger.
        let step = if cut_at(0) == Cut::BeforeServer(0) {
            TestLength::pick_by_env(21, 7, 1)
        } else {
            TestLength::pick_by_env(3, 1, 1)
        };
        for at in (0..).step_by(step) {
            let proxied_config = config_of_new_schema(&proxy.url());
            proxy.request_cut(cut_at(at));
            let opened = PostgresStore::open(proxied_config.clone()).await;
            let was_cut = proxy.end_cut();
            let direct = config_of_new_schema(&server_url()).with_schema(proxied_config.schema()).unwrap();
            let store = PostgresStore::open(direct.clone()).await.unwrap();
            let _works = commits(&store).commit(commit_with_message(&thread("t"), "k")).await.unwrap();
            TestSchema::from_config(direct).remove().await.unwrap();
            if !was_cut {
                break;
            }
            cuts += 1;
            drop(opened);
        }
    }
    println!("{cuts} openings were interrupted");
    assert!(cuts >= 20);
}
