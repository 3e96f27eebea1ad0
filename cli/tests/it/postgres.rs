//! Tests of the command with a store on a PostgreSQL server.

use std::ops::Deref;

use agentstore::{
    IdSource, UuidSource,
    postgres::{PostgresConfig, TestSchema},
};
use serde_json::json;

use crate::helpers::{TestStore, run, value_at};

/// Runs a test on a store in a folder, and on one on the server.
pub(crate) fn on_files_and_postgres(test: fn(&TestStore)) {
    test(&TestStore::new());
    test(&PostgresTestStore::new());
}

/// A store in a schema of its own. The schema is removed when this value is dropped.
pub(crate) struct PostgresTestStore(TestStore);

impl PostgresTestStore {
    pub(crate) fn new() -> Self {
        let server = std::env::var("AGENTSTORE_TEST_POSTGRES_URL").unwrap();
        let separator = if server.contains('?') { '&' } else { '?' };
        let schema = UuidSource.next_id().replace('-', "");
        Self(TestStore::at(format!("{server}{separator}allow_unsafe=true&schema=test_{schema}")))
    }
}

impl Deref for PostgresTestStore {
    type Target = TestStore;

    fn deref(&self) -> &TestStore {
        &self.0
    }
}

impl Drop for PostgresTestStore {
    fn drop(&mut self) {
        let schema = TestSchema::from_config(PostgresConfig::new(self.url()).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(schema.remove()).unwrap();
    }
}

#[test]
fn the_schema_is_created_by_migrate_or_by_the_first_write() {
    let store = PostgresTestStore::new();
    let _output = store.run(&["threads"]).expect_failure(1, &["none", "agentstore migrate"]);
    assert_eq!(value_at(&store.json(&["migrate"]), "/from"), 0);
    let migrated = store.json(&["migrate"]);
    let newest = value_at(&migrated, "/to");
    assert_eq!(value_at(&migrated, "/from"), newest);
    assert!(store.run(&["migrate"]).expect_success().out.contains(&format!("already has version {newest}")));
    assert_eq!(value_at(&store.json(&["threads"]), "/threads"), &json!([]));
    let not_migrated = PostgresTestStore::new();
    assert_eq!(value_at(&not_migrated.json(&["append", "t", "--message", "hi"]), "/version"), 1);
    let _output = run(&["migrate", "--store", "memory:"], "").expect_failure(1, &["without a schema"]);
}

#[test]
fn the_demo_on_a_server_proves_every_step() {
    let store = PostgresTestStore::new();
    for _ in 0..2 {
        let document = store.json(&["demo"]);
        assert_eq!(value_at(&document, "/failed"), 0, "{document}");
        let shown_url = value_at(&document, "/store").as_str().unwrap();
        assert!(shown_url.starts_with("postgres://localhost/") && !shown_url.contains("postgres@"), "{shown_url}");
        let steps = value_at(&document, "/steps").as_array().unwrap();
        assert!(steps.iter().all(|step| value_at(step, "/outcome") == "proved"), "{document}");
    }
    assert_eq!(value_at(&store.json(&["verify"]), "/findings"), &json!([]));
}

#[test]
fn errors_about_a_url_show_no_secret() {
    let url = "postgres://ada:canary@127.0.0.1:1/work";
    let response = run(&["threads", "--store", url], "")
        .expect_failure(1, &["the server cannot be reached", "check that the server is running"]);
    assert!(!response.err.contains("canary"), "{response:?}");
    let response = run(&["threads", "--store", &format!("{url}?colour=canary")], "")
        .expect_failure(2, &["`colour` is not a parameter"]);
    assert!(!response.err.contains("canary"), "{response:?}");
}
