//! Documents through a write buffer.

use std::{sync::Arc, time::Duration};

use store_core::{
    DocumentChange, DocumentExpect, DocumentKey, DocumentRef, DocumentStore, Expect, Json, KeySegment, Limits, Store,
    TenantId, WriteDocuments,
};

use super::{TempBuffer, commits, message};

fn documents(store: &dyn Store) -> Arc<dyn DocumentStore> {
    store.tenant(&TenantId::default_tenant()).unwrap().documents.unwrap()
}

fn key(number: u64) -> DocumentKey {
    DocumentKey::new("settings".parse().unwrap(), [KeySegment::Number(number)]).unwrap()
}

fn put(number: u64, value: &str) -> DocumentChange {
    DocumentChange::put(key(number), Json::parse(value).unwrap())
}

/// Tests NB-1 and DO-3: the revisions that were acknowledged are those in the store behind, and a write without the
/// buffer goes on after them.
#[tokio::test(flavor = "multi_thread")]
async fn documents_keep_the_revisions_that_were_acknowledged() {
    let mut temp = TempBuffer::new(Limits::default()).await.unwrap();
    temp.config.flush_interval = Duration::from_secs(60);
    let (first, second) = (temp.open().await.unwrap(), temp.open().await.unwrap());
    let commit = message("t", "x").expecting(Expect::Absent).with_documents([put(1, "1")]);
    let receipt = commits(&first).commit(commit).await.unwrap();
    let by_commit = receipt.document_revision.unwrap();
    let change = put(1, "2").expecting(DocumentExpect::Revision(by_commit));
    let written = documents(&second).write_documents(WriteDocuments::new([change.clone(), put(2, "3")])).await.unwrap();
    let by_write = written.revision.unwrap();
    assert!(by_write > by_commit);
    assert!(documents(&first).write_documents(WriteDocuments::new([change])).await.is_err(), "it is outdated");
    first.drain().await.unwrap();

    let refs = [1, 2].map(|number| DocumentRef::from(key(number)));
    let stored = documents(first.get_ref()).load_documents(&refs).await.unwrap();
    for (document, value) in stored.iter().zip(["2", "3"]) {
        let document = document.as_ref().unwrap();
        assert_eq!((document.revision, document.value.as_str()), (by_write, value));
    }
    let inner = first.detach().await.unwrap();
    let after = documents(&inner).write_documents(WriteDocuments::new([put(1, "4")])).await.unwrap();
    assert!(after.revision.unwrap() > by_write);
}

/// Tests NB-1 and DO-3: a server that fails may forget numbers that it gave without writing a row.
#[tokio::test(flavor = "multi_thread")]
async fn revisions_grow_although_the_server_forgets_numbers() {
    let mut temp = TempBuffer::new(Limits::default()).await.unwrap();
    temp.config.flush_interval = Duration::from_secs(60);
    let buffered = temp.open().await.unwrap();
    let mut last = 0;
    for round in 0..4 {
        for _ in 0..3 {
            let written = documents(&buffered).write_documents(WriteDocuments::new([put(1, "1")])).await.unwrap();
            assert!(written.revision.unwrap() > last, "{} is not above {last}", written.revision.unwrap());
            last = written.revision.unwrap();
        }
        if round % 2 == 0 {
            temp.execute("SELECT setval('$schema$.document_revision', 1)").await;
        } else {
            buffered.drain().await.unwrap();
        }
    }
    let inner = buffered.detach().await.unwrap();
    let after = documents(&inner).write_documents(WriteDocuments::new([put(1, "4")])).await.unwrap();
    assert!(after.revision.unwrap() > last);
}
