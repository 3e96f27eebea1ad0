//! Steps with documents and topics. Each runs on the store and on the model. A store without documents skips them.

use std::sync::Arc;

use store_core::{
    AppendEvents, Commit, DeleteDocuments, Direction, Document, DocumentChange, DocumentExpect, DocumentKey,
    DocumentQuery, DocumentRef, DocumentScope, DocumentStore, DocumentStoreExt, EventQuery, Expect, IgnoreProgress,
    KeySegment, NewEvent, PageRequest, Receipt, Result, Scope, TrimBefore, TrimRequest, WriteDocuments,
    WrittenDocuments,
};

use super::{
    comparable::Comparable,
    numbered_values::{json_value, numbered_id},
    ops::{ActionOp, ChangeOp, DocumentOp, ExpectOp, KeyOp},
    pair::{StepResult, StoreModelPair, expect_same},
    requests::{fence, past_or_future},
};
use crate::{Failure, check::expect, given::id};

/// The revisions of a document when it was last put: that of the store, and that of the model.
type Revisions = (u64, u64);

/// Which of the two revisions a request contains.
type Choose = fn(Revisions) -> u64;

fn segment(number: u8) -> KeySegment {
    // Numbers of different lengths, and ids of which one is the beginning of another.
    match number {
        0 => KeySegment::Number(9),
        1 => KeySegment::Id(id("a")),
        2 => KeySegment::Number(10),
        _ => KeySegment::Id(id("ab")),
    }
}

fn segments((first, second): KeyOp) -> Vec<KeySegment> {
    [segment(first)].into_iter().chain(second.map(segment)).collect()
}

fn document_ref(thread: Option<u8>, key: KeyOp) -> DocumentRef {
    let key = DocumentKey::new(id("documents"), segments(key)).expect("a valid key");
    DocumentRef { scope: scope_of(thread), key }
}

fn scope_of(thread: Option<u8>) -> DocumentScope {
    thread.map_or(DocumentScope::Tenant, |thread| DocumentScope::Thread(numbered_id("t", thread)))
}

fn query(thread: Option<u8>, prefix: Option<u8>) -> DocumentQuery {
    DocumentQuery::new(id("documents")).in_scope(scope_of(thread)).starting_with(prefix.map(segment))
}

/// An append of one event to topics, or none if there are no topics.
fn facts(topics: &[u8]) -> Option<AppendEvents> {
    let scopes: Vec<_> = topics.iter().map(|topic| Scope::Topic(numbered_id("topic", *topic))).collect();
    (!scopes.is_empty()).then(|| AppendEvents::new([NewEvent::new(id("fact"), scopes)]))
}

impl StoreModelPair {
    fn changes(&self, ops: &[ChangeOp], choose: Choose) -> Vec<DocumentChange> {
        let change = |op: &ChangeOp| {
            let document = document_ref(op.thread, op.key);
            let last = self.document_revisions.get(&document).copied().unwrap_or((1, 1));
            let expect = match op.expect {
                ExpectOp::Any => DocumentExpect::Any,
                ExpectOp::Absent => DocumentExpect::Absent,
                ExpectOp::Present => DocumentExpect::Present,
                ExpectOp::LastRevision => DocumentExpect::Revision(choose(last)),
                ExpectOp::WrongRevision => DocumentExpect::Revision(u64::MAX),
            };
            match op.action {
                ActionOp::Put(value) => DocumentChange::put(document, json_value(value)).expecting(expect),
                ActionOp::Delete => DocumentChange::delete(document).expecting(expect),
                ActionOp::Check => DocumentChange::check(document, expect),
            }
        };
        ops.iter().map(change).collect()
    }

    /// Runs a step that is about documents or topics.
    pub(super) async fn run_document_step(&mut self, op: &DocumentOp) -> StepResult {
        let (Some(store), Some(model)) = (self.store.commits.documents(), self.model.commits.documents()) else {
            return Ok(());
        };
        match op {
            DocumentOp::Write { .. } => self.write_documents(op, (&*store, &*model)).await?,
            DocumentOp::Commit { .. } => self.commit_documents(op).await?,
            DocumentOp::List { thread, prefix, from, before, backward, limit } => {
                let mut query = query(*thread, *prefix);
                query.from = from.map(segments);
                query.before = before.map(segments);
                query.direction = if *backward { Direction::Backward } else { Direction::Forward };
                return compare_lists(&*store, &*model, query, u32::from(*limit)).await;
            }
            DocumentOp::DeletePrefix { thread, prefix, older_millis, dry_run } => {
                let mut request = DeleteDocuments::new(query(*thread, *prefix));
                request.updated_before = older_millis.map(|millis| past_or_future(self.now(), millis));
                request.dry_run = *dry_run;
                let store_answer = store.delete_documents(request.clone(), &IgnoreProgress).await;
                let model_answer = model.delete_documents(request, &IgnoreProgress).await;
                expect_same(&store_answer, &model_answer)?;
            }
            DocumentOp::TrimTopic { topic, older_millis, dry_run } => {
                let scope = Scope::Topic(numbered_id("topic", *topic));
                let before = TrimBefore::Time(past_or_future(self.now(), *older_millis));
                let mut request = TrimRequest::new(scope, before);
                request.dry_run = *dry_run;
                let store_answer = self.store.events.trim_events(request.clone()).await;
                expect_same(&store_answer, &self.model.events.trim_events(request).await)?;
                self.compare_topic(*topic).await?;
            }
        }
        self.compare_documents().await
    }

    async fn write_documents(
        &mut self,
        op: &DocumentOp,
        (store, model): (&dyn DocumentStore, &dyn DocumentStore),
    ) -> StepResult {
        let DocumentOp::Write { changes, topics, fence: claim } = op else { return Ok(()) };
        let request = |choose: Choose| {
            let mut request = WriteDocuments::new(self.changes(changes, choose));
            request.events = facts(topics);
            request.fence = claim.map(|(thread, counter)| (numbered_id("t", thread), fence(counter)));
            request
        };
        let store_answer = store.write_documents(request(|(store, _)| store)).await;
        let model_answer = model.write_documents(request(|(_, model)| model)).await;
        expect_same(&store_answer, &model_answer)?;
        let revision = |answer: Result<WrittenDocuments>| answer.ok().and_then(|written| written.revision);
        self.record_revisions(changes, (revision(store_answer), revision(model_answer))).await
    }

    async fn commit_documents(&mut self, op: &DocumentOp) -> StepResult {
        let DocumentOp::Commit { thread, key, expects_absent, changes, topics } = op else { return Ok(()) };
        let commit = |choose: Choose| {
            let mut commit = Commit::new(numbered_id("t", *thread)).with_documents(self.changes(changes, choose));
            commit.key = key.map(|key| numbered_id("document key", key));
            commit.events = facts(topics);
            commit.expect = if *expects_absent { Expect::Absent } else { Expect::Any };
            commit
        };
        let commits = (commit(|(store, _)| store), commit(|(_, model)| model));
        if key.is_some() {
            self.keyed_commits.push(commits.clone());
        }
        let store_answer = self.store.commits.commit(commits.0).await;
        let model_answer = self.model.commits.commit(commits.1).await;
        expect_same(&store_answer, &model_answer)?;
        let new_revision =
            |answer: Result<Receipt>| answer.ok().filter(|receipt| !receipt.deduplicated)?.document_revision;
        self.record_revisions(changes, (new_revision(store_answer), new_revision(model_answer))).await
    }

    /// Remembers the revisions of the documents that a write put. Checks that those of the store grow (DO-3), and that
    /// the documents have them.
    async fn record_revisions(&mut self, changes: &[ChangeOp], revisions: (Option<u64>, Option<u64>)) -> StepResult {
        let (Some(store), Some(model)) = revisions else { return Ok(()) };
        for op in changes.iter().filter(|op| matches!(op.action, ActionOp::Put(_))) {
            let document = document_ref(op.thread, op.key);
            let earlier = self.document_revisions.insert(document.clone(), (store, model));
            let grows = earlier.is_none_or(|(earlier, _)| store > earlier);
            expect(grows, format!("the revision {store} of `{document}` follows {earlier:?}"))?;
            let Some(documents) = self.store.commits.documents() else { continue };
            let found = documents.load_document(&document).await?.map(|found| found.revision);
            expect(found == Some(store), format!("`{document}` has the revision {found:?} and not {store}"))?;
        }
        Ok(())
    }

    /// Compares the documents of the tenant and of the first threads, and remembers their revisions: a repeated commit
    /// may have put them. No revision is smaller than one that was seen before.
    pub(super) async fn compare_documents(&mut self) -> StepResult {
        let (Some(store), Some(model)) = (self.store.commits.documents(), self.model.commits.documents()) else {
            return Ok(());
        };
        for thread in [None, Some(0), Some(1)] {
            let query = query(thread, None).with_page(PageRequest::first(1_000));
            let found = store.list_documents(query.clone()).await?;
            let mut wanted: Vec<_> = found.items.iter().rev().map(Document::to_ref).collect();
            wanted.push(document_ref(Some(9), (0, None)));
            expect_same(&store.load_documents(&wanted).await, &model.load_documents(&wanted).await)?;
            let expected = model.list_documents(query).await?;
            expect_same(&found, &expected)?;
            for (document, of_model) in found.items.iter().zip(&expected.items) {
                let revisions = (document.revision, of_model.revision);
                let earlier = self.document_revisions.insert(document.to_ref(), revisions);
                let stays_or_grows = earlier.is_none_or(|(earlier, _)| document.revision >= earlier);
                expect(stays_or_grows, format!("{document:?} had the revision {earlier:?}"))?;
            }
        }
        Ok(())
    }

    /// Compares the events and the counters of a topic.
    pub(super) async fn compare_topic(&self, topic: u8) -> StepResult {
        if self.store.commits.documents().is_none() {
            return Ok(());
        }
        let scope = Scope::Topic(numbered_id("topic", topic));
        let (store, model) = (Arc::clone(&self.store.events), Arc::clone(&self.model.events));
        expect_same(&store.load_scope(&scope).await, &model.load_scope(&scope).await)?;
        let query = EventQuery::new(scope).with_page(PageRequest::first(1_000));
        expect_same(&store.list_events(query.clone()).await, &model.list_events(query).await)
    }
}

/// Reads a list page by page from the store and from the model.
async fn compare_lists(
    store: &dyn DocumentStore,
    model: &dyn DocumentStore,
    query: DocumentQuery,
    limit: u32,
) -> StepResult {
    const MAX_PAGES: usize = 1_000;
    let (mut store_page, mut model_page) = (PageRequest::first(limit), PageRequest::first(limit));
    for _ in 0..MAX_PAGES {
        let found = store.list_documents(query.clone().with_page(store_page.clone())).await;
        let expected = model.list_documents(query.clone().with_page(model_page.clone())).await;
        expect_same(&found, &expected)?;
        let (Some(store_next), Some(model_next)) = (found?.next, expected?.next) else { return Ok(()) };
        (store_page, model_page) = (store_page.after(store_next), model_page.after(model_next));
    }
    Err(Failure::new("the list of documents does not end"))
}

/// A store chooses its revisions freely.
impl Comparable for Document {
    fn comparable_text(&self) -> String {
        let mut document = self.clone();
        document.revision = 0;
        format!("{document:?}")
    }
}

impl Comparable for WrittenDocuments {
    fn comparable_text(&self) -> String {
        let events: Vec<_> = self.events.iter().map(Comparable::comparable_text).collect();
        format!("puts a document: {}, {events:?}, {}", self.revision.is_some(), self.time)
    }
}
