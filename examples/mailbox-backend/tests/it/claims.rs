//! Writes under claims of the mailbox. The cases about them need commits, which this store does not have.

use std::{sync::Arc, time::Duration};

use mailbox_backend_example::MapStore;
use store_core::{
    AppendEvents, ClaimRequest, CollectionId, DocumentChange, DocumentKey, ErrorKind, Json, KeySegment, Limits,
    NewDispatch, NewEvent, Scope, Settlement, Store, SystemClock, TenantId, ThreadId, WriteDocuments,
};

/// Tests DO-13 and CM-44: the holder of a claim writes documents and events, and no longer once the claim has ended.
#[tokio::test]
async fn only_the_holder_of_a_claim_writes_under_it() {
    let store = MapStore::open(Arc::new(SystemClock), &Limits::default()).unwrap();
    let stores = store.tenant(&TenantId::default_tenant()).unwrap();
    let (mailbox, documents, events) = (stores.mailbox.unwrap(), stores.documents.unwrap(), stores.events.unwrap());
    let thread: ThreadId = "t".parse().unwrap();
    let dispatch = NewDispatch::new(thread.clone(), "r".parse().unwrap());
    mailbox.enqueue(vec![dispatch]).await.unwrap().remove(0).unwrap();
    let request = ClaimRequest::new("w".parse().unwrap(), Duration::from_secs(30));
    let claimed = mailbox.claim(request).await.unwrap().claimed.remove(0);
    let key = DocumentKey::new(CollectionId::new("notes").unwrap(), [KeySegment::Number(1)]).unwrap();
    let write = || {
        let change = DocumentChange::put(key.clone(), Json::null());
        WriteDocuments::new([change]).fenced(thread.clone(), claimed.fence())
    };
    let append = || {
        let event = NewEvent::new("fact".parse().unwrap(), [Scope::Thread(thread.clone())]);
        let mut request = AppendEvents::new([event]);
        request.fence = Some(claimed.fence());
        request
    };
    let _written = documents.write_documents(write()).await.unwrap();
    let _appended = events.append_events(append()).await.unwrap();
    mailbox.settle(vec![(claimed.claim(), Settlement::Ack { result: None })]).await.unwrap().remove(0).unwrap();
    assert_eq!(documents.write_documents(write()).await.unwrap_err().kind(), ErrorKind::ClaimLost);
    assert_eq!(events.append_events(append()).await.unwrap_err().kind(), ErrorKind::ClaimLost);
}
