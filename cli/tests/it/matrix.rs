//! Checks the table in `docs/backends.md`, which lists what each backend provides.

use std::{fs, path::Path};

use agentstore::{
    Store as _,
    postgres::{PostgresConfig, PostgresStore},
};
use conformance_tests::{StoreSupport, comparison_table};
use test_servers::{Nats, Postgres};

const PAGE_HEADING: &str = "\
# The backends

What each backend provides once it is open, as `agentstore conformance --store URL` prints it. `cargo xtask matrix`
writes this page, and a test compares it with the opened stores.

";

/// Compares the page with the capabilities of opened stores. With `AGENTSTORE_WRITE_MATRIX` it first writes the page.
#[tokio::test]
async fn the_page_of_backends_matches_their_capabilities() {
    let folder = tempfile::tempdir().unwrap();
    let memory = agentstore::open("memory:").await.unwrap();
    let file = agentstore::open(&format!("file:{}", folder.path().join("store").display())).await.unwrap();
    let mailbox = folder.path().join("mailbox.db");
    let sqlite = agentstore::open(&format!("sqlite:{}", mailbox.display())).await.unwrap();
    // This server syncs its data. The servers of other tests need not sync.
    let postgres_server = Postgres::start(&[]).unwrap();
    let config = PostgresConfig::new(&postgres_server.url()).unwrap();
    let postgres = PostgresStore::open(config).await.unwrap();
    let nats_server = Nats::start("jetstream { sync_interval: always }").unwrap();
    let nats = agentstore::open(&format!("{}?assume_sync=true", nats_server.url())).await.unwrap();
    let supports = [
        ("memory:", StoreSupport::of(memory.store()).unwrap()),
        ("file:", StoreSupport::of(file.store()).unwrap()),
        ("postgres:", StoreSupport::of(&postgres).unwrap()),
        ("sqlite:", StoreSupport::of(sqlite.store()).unwrap()),
        ("nats:", StoreSupport::of(nats.store()).unwrap()),
    ];
    nats.close().await.unwrap();
    nats_server.stop().unwrap();
    postgres.close().await.unwrap();
    postgres_server.stop().unwrap();
    let text = format!("{PAGE_HEADING}{}", comparison_table(&supports));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/backends.md");
    if std::env::var_os("AGENTSTORE_WRITE_MATRIX").is_some() {
        fs::write(&page, &text).unwrap();
    }
    let page_text = fs::read_to_string(&page).unwrap_or_default();
    assert_eq!(page_text, text, "docs/backends.md is outdated: `cargo xtask matrix` writes it again");
}
