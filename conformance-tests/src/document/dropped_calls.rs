//! Dropped calls on documents, and calls whose outcome is unknown.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    AppendEvents, Commit, CommitCoordinator, DocumentChange, DocumentExpect, DocumentQuery, DocumentRef, DocumentStore,
    ErrorKind, EventStore, NewEvent, Scope, ThreadId, WriteDocuments,
};

use super::helpers::{key_in, put_at, segment, text};
use crate::{
    Failure, Given, Verdict,
    call::{Calls, call},
    check::{expect_eq, expect_some},
    drop_points::{DropPointTarget, DropPointTest},
    given::id,
    unknown_outcome::{Resolution, ResolveOutcome, check_unknown_outcomes, missing_resolution},
};

/// The names of the calls of [`DocumentCalls`] that change something.
const CHANGING_CALLS: [&str; 2] = ["commit", "write_documents"];

/// The calls on documents. For each thread of the test, the collection with the same name has the documents `kept` and
/// `old`, and the topic with that name has no events.
struct DocumentCalls {
    commits: Arc<dyn CommitCoordinator>,
    documents: Arc<dyn DocumentStore>,
    events: Arc<dyn EventStore>,
}

/// The revision of the prepared documents.
struct Prepared {
    revision: u64,
}

fn document(t: &ThreadId, name: &str) -> DocumentRef {
    key_in(t.as_str(), &[segment(name)]).into()
}

/// Three changes: a replacement, a creation and a deletion.
fn changes(t: &ThreadId, revision: u64) -> [DocumentChange; 3] {
    [
        put_at(document(t, "kept"), "changed").expecting(DocumentExpect::Revision(revision)),
        put_at(document(t, "new"), "created").expecting(DocumentExpect::Absent),
        DocumentChange::delete(document(t, "old")).expecting(DocumentExpect::Present),
    ]
}

fn fact(t: &ThreadId) -> AppendEvents {
    AppendEvents::new([NewEvent::new(id("fact"), [Scope::Topic(id(t.as_str()))])])
}

fn write_request(t: &ThreadId, revision: u64) -> WriteDocuments {
    WriteDocuments::new(changes(t, revision)).with_events(fact(t))
}

fn keyed_commit(t: &ThreadId, revision: u64) -> Commit {
    Commit::new(t.clone()).with_key(id("dropped")).with_documents(changes(t, revision)).with_events(fact(t))
}

#[async_trait]
impl DropPointTarget for DocumentCalls {
    type Prepared = Prepared;

    async fn prepare(&self, _given: &Given, t: &ThreadId) -> Result<Prepared, Failure> {
        let puts = ["kept", "old"].map(|name| put_at(document(t, name), "prepared"));
        let written = self.documents.write_documents(WriteDocuments::new(puts)).await?;
        Ok(Prepared { revision: expect_some(written.revision, "revision")? })
    }

    fn calls<'a>(&'a self, t: &'a ThreadId, prepared: &'a Prepared) -> Calls<'a> {
        let query = DocumentQuery::new(id(t.as_str()));
        vec![
            ("commit", call(self.commits.commit(keyed_commit(t, prepared.revision)))),
            ("write_documents", call(self.documents.write_documents(write_request(t, prepared.revision)))),
            ("load_documents", call(async move { self.documents.load_documents(&[document(t, "kept")]).await })),
            ("list_documents", call(self.documents.list_documents(query))),
        ]
    }

    async fn describe(&self, t: &ThreadId) -> Result<String, Failure> {
        let found = self.documents.list_documents(DocumentQuery::new(id(t.as_str()))).await?.items;
        let appended = self.events.load_scope(&Scope::Topic(id(t.as_str()))).await?.appended;
        let texts: Vec<_> = found.iter().map(|found| format!("{:?} {}", found.key.segments(), text(found))).collect();
        Ok(format!("{}, {appended} events", texts.join(", ")))
    }

    async fn make_refused_calls(&self, t: &ThreadId) {
        let wrong_revision = || changes(t, u64::MAX);
        let _refused = tokio::join!(
            self.documents.write_documents(WriteDocuments::new(wrong_revision())),
            self.commits.commit(Commit::new(t.clone()).with_documents(wrong_revision())),
            self.documents.write_documents(WriteDocuments::default())
        );
    }

    async fn check_nothing_locked(&self, t: &ThreadId) -> Verdict {
        let puts = ["kept", "new", "old"].map(|name| put_at(document(t, name), "free"));
        let _written = self.documents.write_documents(WriteDocuments::new(puts).with_events(fact(t))).await?;
        let again = put_at(document(t, "kept"), "free");
        Ok(self.commits.commit(Commit::new(t.clone()).with_documents([again])).await.map(drop)?)
    }
}

#[async_trait]
impl ResolveOutcome for DocumentCalls {
    async fn resolve_outcome(&self, call: &str, t: &ThreadId, prepared: &Prepared) -> Result<Resolution, Failure> {
        Ok(match call {
            "commit" => {
                Resolution::ByRepeat(self.commits.commit(keyed_commit(t, prepared.revision)).await?.deduplicated)
            }
            // Each change has an expectation, so the write can be repeated.
            "write_documents" => match self.documents.write_documents(write_request(t, prepared.revision)).await {
                Ok(_) => Resolution::ByRepeat(false),
                Err(conflict) => {
                    expect_eq(conflict.kind(), ErrorKind::Conflict)?;
                    Resolution::ByRepeat(true)
                }
            },
            _ => return Err(missing_resolution(call)),
        })
    }
}

/// Returns the calls with handles that were returned together. Only these see each other's dropped calls in order.
fn document_calls(given: &Given) -> Result<DocumentCalls, Failure> {
    let stores = given.stores()?;
    let missing = || Failure::new("the store has no documents");
    Ok(DocumentCalls {
        commits: stores.commits.ok_or_else(missing)?,
        documents: stores.documents.ok_or_else(missing)?,
        events: stores.events.ok_or_else(missing)?,
    })
}

/// If a call on documents is dropped at any await, it takes effect in full before the next call of the same handle, or
/// never.
pub(super) async fn a_dropped_call_on_documents_is_all_or_nothing(given: &Given) -> Verdict {
    DropPointTest::new(document_calls(given)?).run(given, &CHANGING_CALLS).await
}

/// If the answer of a call on documents is lost, the caller can find out whether the call took effect, as the
/// documentation of the method says.
pub(super) async fn an_unknown_outcome_on_documents_can_be_resolved(given: &Given) -> Verdict {
    check_unknown_outcomes(given, document_calls(given)?, &CHANGING_CALLS).await
}
