//! The space of documents that were overwritten and deleted.

use std::fs;

use store_core::{DocumentChange, DocumentKey, DocumentStore, Json, KeySegment, Store, TenantId, WriteDocuments};
use store_memory::{MemoryConfig, MemoryStore};
use test_servers::{Process, send_line};

/// The environment variable that tells `a_child_overwrites` that it runs in the child process.
const CHILD_VARIABLE: &str = "AGENTSTORE_TEST_DOCUMENT_SPACE";

/// How often the documents are overwritten or deleted, and the size of their values. All values together have 512 MiB.
const WRITES: u64 = 8_192;
const VALUE_BYTES: usize = 64 << 10;

/// The memory that may be resident in addition after all writes.
const MAX_GROWTH: u64 = 64 << 20;

/// Tests DO-10: what was overwritten or deleted does not stay. It runs in a process of its own, in which no other test
/// uses memory.
#[test]
fn the_space_of_old_documents_is_used_again() {
    let printed_lines = Process::begin(&[], "documents::a_child_overwrites", &[(CHILD_VARIABLE, "1")]).end();
    println!("{}", printed_lines.join("\n"));
    assert_eq!(printed_lines.len(), 1, "the child process did not print one line");
}

/// The child process of `the_space_of_old_documents_is_used_again`. Without the environment variable it does nothing.
#[tokio::test]
async fn a_child_overwrites() {
    if std::env::var_os(CHILD_VARIABLE).is_none() {
        return;
    }
    let store = MemoryStore::open(MemoryConfig::default()).unwrap();
    let documents = store.tenant(&TenantId::default_tenant()).unwrap().documents.unwrap();
    let before = resident_bytes();
    for number in 0..WRITES {
        write(&*documents, number).await;
    }
    let growth = resident_bytes().saturating_sub(before);
    send_line(format!("{WRITES} writes of {VALUE_BYTES} bytes, {growth} bytes more are resident"));
    assert!(growth < MAX_GROWTH, "{growth} bytes more are resident");
}

/// Puts one of three documents. Every fourth call deletes it instead.
async fn write(documents: &dyn DocumentStore, number: u64) {
    let key = DocumentKey::new("notes".parse().unwrap(), [KeySegment::Number(number % 3)]).unwrap();
    let value = Json::parse(&format!("\"{}\"", "x".repeat(VALUE_BYTES))).unwrap();
    let change = if number % 4 == 3 { DocumentChange::delete(key) } else { DocumentChange::put(key, value) };
    let _ = documents.write_documents(WriteDocuments::new([change])).await.unwrap();
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}
