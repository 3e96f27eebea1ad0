//! `blobs`, and imports that store long lines as blobs.

use std::fs;

use serde_json::json;

use crate::{
    helpers::{TestStore, value_at},
    postgres::on_files_and_postgres,
};

/// The SHA-256 of no bytes at all.
const HASH_OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The bytes of a blob come back, a message refers to it, and it is stored once (BL-1, BL-2).
#[test]
fn a_blob_is_stored_once_shown_and_read_again() {
    on_files_and_postgres(|store| {
        let file = store.write_file("a.bin", &"0123456789".repeat(30_000));
        let put = store.json(&["blobs", "put", &file]);
        let hash = value_at(&put, "/hash").as_str().unwrap();
        assert_eq!(value_at(&put, "/bytes"), 300_000);
        assert_eq!(store.json(&["blobs", "put", &file]), put);
        let message = json!({"role": "user", "blocks": [{"image": {"media_type": "image/png", "blob": hash}}]});
        let _receipt = store.json(&["append", "t", "--message", &message.to_string()]);
        assert_eq!(value_at(&store.json(&["blobs", "show", hash]), "/threads"), &json!(["t"]));
        let list = store.json(&["blobs", "list"]);
        assert_eq!(value_at(&list, "/blobs").as_array().unwrap().len(), 1);
        let copy = store.sibling_path("copy.bin");
        let args = ["blobs", "get", hash, "--out", copy.to_str().unwrap()];
        assert_eq!(value_at(&store.json(&args), "/bytes"), 300_000);
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&file).unwrap());
        store.run(&args).expect_failure(1, &["copy.bin` cannot be written"]);
        store.run(&["blobs", "get", hash, "--json"]).expect_failure(2, &["--out"]);
        let printed = store.run(&["blobs", "get", hash]).expect_success();
        assert_eq!(printed.out.len(), 300_000);
    });
}

#[test]
fn blobs_that_do_not_exist_are_named_in_the_error() {
    let store = TestStore::new();
    store.append("t", "hi");
    let response = store.run(&["blobs", "list"]).expect_success();
    assert_eq!(response.out, "there are no blobs\n");
    for action in ["get", "show"] {
        store.run(&["blobs", action, HASH_OF_NOTHING]).expect_failure(1, &[HASH_OF_NOTHING]);
        store.run(&["blobs", action, "abc"]).expect_failure(2, &["abc"]);
    }
    let missing = store.sibling_path("missing");
    store.run(&["blobs", "put", missing.to_str().unwrap()]).expect_failure(1, &["missing` cannot be read"]);
}

/// A blob that nothing refers to is marked, and stays for the grace time (BL-5).
#[test]
fn a_collection_marks_unused_blobs_and_keeps_them_for_the_grace_time() {
    let store = TestStore::new();
    let put = store.run_with_input(&["blobs", "put", "-"], "hello").expect_success();
    assert!(put.out.contains("5 B"), "{put:?}");
    let collected = store.json(&["blobs", "collect", "--dry-run"]);
    assert_eq!(
        (value_at(&collected, "/dry_run"), value_at(&collected, "/collected/marked")),
        (&json!(true), &json!(1))
    );
    for marked in [1, 0] {
        let collected = store.json(&["blobs", "collect", "--grace", "1h"]);
        assert_eq!(value_at(&collected, "/collected/marked"), marked);
        assert_eq!(value_at(&collected, "/collected/removed"), 0);
    }
    store.run(&["blobs", "collect", "--grace", "1s"]).expect_failure(1, &["at least one hour"]);
    let listed = store.run(&["blobs", "list"]).expect_success();
    assert!(listed.out.contains("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"), "{listed:?}");
}

/// Two sessions with the same image have one blob, and are exported as the same bytes (BL-1, BL-3).
#[test]
fn an_import_can_store_long_lines_as_blobs() {
    on_files_and_postgres(|store| {
        let image = "iVBORw0KGgo=".repeat(20_000);
        let session = |id: &str| {
            let time = "2026-01-05T10:00:00Z";
            let header = json!({"type": "session", "version": 3, "id": id, "timestamp": time});
            let message = json!({"type": "message", "id": "m", "parentId": null, "timestamp": time, "message":
                {"role": "user", "content": [{"type": "image", "mimeType": "image/png", "data": image}]}});
            store.write_file(&format!("{id}.jsonl"), &format!("{header}\n{message}\n"))
        };
        let files = ["first", "second"].map(session);
        let args = ["import", &files[0], &files[1], "--blobs-above", "65536", "--json"];
        let reports = store.run(&args).expect_success().documents();
        let blobs = store.json(&["blobs", "list"]);
        let blobs = value_at(&blobs, "/blobs").as_array().unwrap();
        assert!(!blobs.is_empty());
        let image_blobs = blobs.iter().map(|blob| {
            let shown = store.json(&["blobs", "show", value_at(blob, "/hash").as_str().unwrap()]);
            value_at(&shown, "/threads").as_array().unwrap().len()
        });
        assert_eq!(image_blobs.max(), Some(2));
        for (report, file) in reports.iter().zip(&files) {
            let thread = value_at(report, "/thread").as_str().unwrap();
            let exported = store.run(&["export", thread, "--format", "pi-v3"]).expect_success();
            assert!(exported.out == fs::read_to_string(file).unwrap());
        }
        let again = store.run(&args).expect_success().documents();
        assert!(again.iter().all(|report| value_at(report, "/added") == 0));
    });
}
