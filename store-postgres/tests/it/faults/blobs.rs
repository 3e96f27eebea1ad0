//! Chunks of blobs that were changed in the database (BL-2, BL-8).

use std::sync::Arc;

use futures_util::StreamExt;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store_core::{
    BlobLayer, BlobRef, BlobStore, BlobStoreExt, ErrorKind, IgnoreProgress, Limits, Store, SystemClock, TenantId,
    inspect::{FindingKind, Inspector},
};

use crate::fixture::{SchemaGuard, server_url};

/// The number of bytes of a chunk.
const CHUNK: usize = 1 << 20;

/// Reads a blob to the end or the first error. Returns how many bytes were given out, all of which are those that were
/// put, and the kind of the error.
async fn read(blobs: &BlobLayer, blob: &BlobRef, expected: &[u8]) -> (usize, Option<ErrorKind>) {
    let mut opened = match blobs.open_blob(&blob.hash, 0..u64::MAX).await {
        Ok(opened) => opened,
        Err(error) => return (0, Some(error.kind())),
    };
    let mut count = 0;
    while let Some(part) = opened.stream.next().await {
        match part {
            Ok(part) => {
                assert!(expected[count..].starts_with(&part), "wrong bytes from byte {count} on");
                count += part.len();
            }
            Err(error) => return (count, Some(error.kind())),
        }
    }
    (count, None)
}

/// Tests BL-2 and BL-8: bytes that were changed, cut or removed in the tables are refused as damage, and found by a
/// verification. What is given out before them is as it was put.
#[tokio::test]
async fn a_changed_chunk_of_a_blob_never_yields_a_wrong_byte() {
    let schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let store = schema.open().await.unwrap();
    let stores = store.tenant(&TenantId::default_tenant()).unwrap();
    let blobs = BlobLayer::new(&stores, Arc::new(SystemClock)).unwrap();
    let bytes: Vec<u8> = (0..2 * CHUNK + 777).map(|at| u8::try_from(at / 300 % 251).unwrap()).collect();
    let blob = blobs.put_bytes(bytes.clone()).await.unwrap();
    blobs.put_bytes("another one").await.unwrap();
    let mut connection = PgConnection::connect(&server_url()).await.unwrap();
    let mut run = async |sql: &str| {
        let sql = format!("SET search_path = {}; {sql}", schema.config().schema());
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    };
    run("CREATE TABLE kept AS SELECT * FROM object_chunk; CREATE TABLE kept_object AS SELECT * FROM object").await;
    let chunk =
        |number: usize| format!("object = (SELECT id FROM object WHERE bytes = {}) AND number = {number}", bytes.len());
    let flip = |number: usize, byte: usize| {
        let condition = chunk(number);
        let flipped = format!("set_byte(bytes, {byte}, get_byte(bytes, {byte}) # 1)");
        (format!("UPDATE object_chunk SET bytes = {flipped} WHERE {condition}"), number * CHUNK)
    };
    let cut = |number: usize, length: usize| {
        let condition = chunk(number);
        (format!("UPDATE object_chunk SET bytes = substr(bytes, 1, {length}) WHERE {condition}"), number * CHUNK)
    };
    let mut changes = vec![flip(0, 0), flip(0, CHUNK - 1), flip(1, 0), flip(1, 77_777), flip(2, 776)];
    changes.extend([cut(0, 0), cut(1, CHUNK - 1), cut(2, 1)]);
    changes
        .extend([0, 1, 2].map(|number| (format!("DELETE FROM object_chunk WHERE {}", chunk(number)), number * CHUNK)));
    for (change, given) in changes {
        run(&change).await;
        assert_eq!(read(&blobs, &blob, &bytes).await, (given, Some(ErrorKind::Corrupt)), "{change}");
        let found = store.verify(&IgnoreProgress).await.unwrap().findings;
        let named = |finding: &store_core::inspect::Finding| finding.detail.contains(blob.hash.as_str());
        assert!(found.len() == 1 && found[0].kind == FindingKind::Damaged && named(&found[0]), "{change}: {found:?}");
        run("DELETE FROM object_chunk; INSERT INTO object_chunk SELECT * FROM kept").await;
    }
    run(&format!("DELETE FROM object WHERE bytes = {}", bytes.len())).await;
    assert_eq!(read(&blobs, &blob, &bytes).await, (0, Some(ErrorKind::Corrupt)));
    let found = store.verify(&IgnoreProgress).await.unwrap().findings;
    assert!(found.iter().any(|finding| finding.kind == FindingKind::DanglingReference), "{found:?}");
    run("DELETE FROM object; INSERT INTO object OVERRIDING SYSTEM VALUE SELECT * FROM kept_object").await;
    assert_eq!(read(&blobs, &blob, &bytes).await, (bytes.len(), None));
    assert_eq!(store.verify(&IgnoreProgress).await.unwrap().findings, []);
    store.close().await.unwrap();
}
