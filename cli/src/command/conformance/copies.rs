//! Copies between stores of different backends (VF-2, VF-3, VF-4, VF-6).

use std::sync::Arc;

use agentstore::StoreUrl;
use conformance_tests::{Fixture, copies::CopyingFixture};

use super::fixture::UrlFixture;

/// Opens stores of the kind of a URL.
pub(super) fn fixture(url: &str) -> Arc<dyn Fixture> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url: StoreUrl = url.parse().unwrap();
    Arc::new(runtime.block_on(UrlFixture::new(url)).unwrap())
}

/// The steps of a round trip that begins in memory: files, PostgreSQL, files.
pub(super) fn round_trip() -> Vec<Arc<dyn Fixture>> {
    [file(), postgres(), file()].map(|url| fixture(&url)).to_vec()
}

fn fixtures(urls: &[&str]) -> CopyingFixture {
    CopyingFixture::new(urls.iter().map(|url| fixture(url)).collect())
}

fn postgres() -> String {
    let server = std::env::var("AGENTSTORE_TEST_POSTGRES_URL").unwrap();
    let separator = if server.contains('?') { '&' } else { '?' };
    format!("{server}{separator}allow_unsafe=true")
}

fn file() -> String {
    format!("file:{}", std::env::temp_dir().join("agentstore-copies").display())
}

/// From memory to files, from there to PostgreSQL, and from there to memory.
pub(crate) fn from_memory() -> CopyingFixture {
    fixtures(&["memory:", &file(), &postgres()])
}

/// From files to PostgreSQL, and back to files. Stores in memory cannot be opened again, so no store is copied while it
/// is filled: the model expects the claim numbers of one store.
pub(crate) fn from_files() -> CopyingFixture {
    fixtures(&[&file(), &postgres(), &file(), "memory:"])
}

/// From PostgreSQL to files and memory.
pub(crate) fn from_postgres() -> CopyingFixture {
    fixtures(&[&postgres(), &file(), "memory:"])
}

fn sqlite() -> String {
    format!("sqlite:{}", std::env::temp_dir().join("agentstore-copies.db").display())
}

fn nats() -> String {
    format!("{}?allow_unsafe=true", std::env::var("AGENTSTORE_TEST_NATS_URL").unwrap())
}

/// From a mailbox in SQLite to PostgreSQL, and from there to NATS.
pub(crate) fn from_sqlite() -> CopyingFixture {
    fixtures(&[&sqlite(), &postgres(), &nats()])
}

/// From a mailbox on NATS to files, and from there to SQLite.
pub(crate) fn from_nats() -> CopyingFixture {
    fixtures(&[&nats(), &file(), &sqlite()])
}

mod memory_first {
    conformance_tests::copies!(crate::command::conformance::copies::from_memory());
}

mod files_first {
    conformance_tests::copies!(crate::command::conformance::copies::from_files());
}

mod postgres_first {
    conformance_tests::copies!(crate::command::conformance::copies::from_postgres());
}

mod sqlite_first {
    conformance_tests::mailbox_copies!(crate::command::conformance::copies::from_sqlite());
}

mod nats_first {
    conformance_tests::mailbox_copies!(crate::command::conformance::copies::from_nats());
}
