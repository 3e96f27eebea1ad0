//! The rules for documents: which writes are well formed, which expectations hold, what is written.

use std::collections::BTreeSet;

use super::{
    DocumentChange, DocumentOp, DocumentRef, DocumentScope, DocumentState, StoredDocument, WriteDocuments,
    WrittenDocuments,
};
use crate::{
    codec::ObjectWriter,
    commit::DecisionContext,
    error::{Detail, Error, Result},
    event::{self, AppendOptions, EventPlan, EventView, Scope},
    id::ThreadId,
    limits::{Limits, check_limit, length},
    mailbox::{self, MailboxView},
    thread::ThreadIdRecord,
    time::Timestamp,
};

/// The stored documents, as the plan of a write reads them.
///
/// The plan asks for each document that a write names, once. So a backend with a server can load all of them in one
/// round trip, or check the expectations in the statement that writes.
pub trait DocumentView {
    /// Returns the state of a document, or none if it does not exist.
    ///
    /// # Errors
    /// Any error of reading; `Unsupported` if the store has no documents.
    fn document(&self, document: &DocumentRef) -> Result<Option<DocumentState>>;

    /// Returns a revision that is larger than every revision that a document of the plan ever had, even before it was
    /// deleted (DO-3). The plan asks at most once, after all expectations hold.
    ///
    /// A backend whose server numbers the writes may return 0 and set the number later, with
    /// [`DocumentPlan::set_revision`].
    ///
    /// # Errors
    /// Any error of reading.
    fn next_document_revision(&self) -> Result<u64>;
}

/// The stored data from which a write of documents is decided.
pub trait DocumentWriteView: DocumentView + EventView {
    /// Returns whether a thread exists: the one that [`WriteDocuments::thread`] returns. It must not be deleted until
    /// the plan is written.
    ///
    /// # Errors
    /// Any error of reading.
    fn has_thread(&self, thread: &ThreadId) -> Result<bool>;

    /// Returns what the store keeps about the id of that thread. The plan asks only under a claim.
    ///
    /// # Errors
    /// Any error of reading.
    fn id_record(&self, thread: &ThreadId) -> Result<ThreadIdRecord>;

    /// Returns the mailbox that the store keeps with its threads, if the write names a claim.
    fn fenced_mailbox(&self) -> Option<&dyn MailboxView>;
}

/// What happens to one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentWrite {
    /// The document is stored like this.
    Put(StoredDocument),
    /// The document is removed. It exists.
    Delete,
    /// Nothing is written, but the decision relied on what was found.
    Keep,
}

/// A planned change of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedDocument {
    /// The document.
    pub document: DocumentRef,
    /// The revision that the decision relied on; none if there was no document. A backend that holds no lock between
    /// decision and write compares it again when it writes.
    pub found: Option<u64>,
    /// What happens to the document.
    pub write: DocumentWrite,
}

/// The changes of documents that a write or a commit makes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DocumentPlan {
    /// The changes, in the order given.
    pub changes: Vec<PlannedDocument>,
    /// The revision of all documents that are put; absent if none is.
    pub revision: Option<u64>,
}

impl DocumentPlan {
    /// Sets the revision of all documents that are put. Does nothing if none is. For backends whose server numbers the
    /// writes.
    pub fn set_revision(&mut self, revision: u64) {
        if self.revision.is_none() {
            return;
        }
        self.revision = Some(revision);
        for change in &mut self.changes {
            if let DocumentWrite::Put(stored) = &mut change.write {
                stored.revision = revision;
            }
        }
    }
}

/// Everything that a write of documents writes. It is written as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DocumentWritePlan {
    /// The changes.
    pub documents: DocumentPlan,
    /// The events; none if there are none, or if they repeat earlier ones.
    pub events: Option<EventPlan>,
    /// Under a claim: the id of the claimed thread, with what the store keeps about it from now on.
    pub id_record: Option<(ThreadId, ThreadIdRecord)>,
}

/// The decision about a write of documents: what a store has to write, and the answer that the caller gets after that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentWriteDecision {
    /// What to write.
    pub plan: DocumentWritePlan,
    /// The answer to the caller.
    pub answer: WrittenDocuments,
}

/// Refuses changes that no store can accept. `thread` is the only thread whose documents may be named.
pub(crate) fn check_changes(changes: &[DocumentChange], thread: Option<&ThreadId>, limits: &Limits) -> Result<()> {
    check_limit("documents of a call", length(changes.len()), limits.commit_documents)?;
    let mut names = BTreeSet::new();
    for (index, change) in changes.iter().enumerate() {
        let name_part = |e: Error| e.in_part(format!("documents[{index}]"));
        if !names.insert(&change.document) {
            return Err(name_part(Error::invalid("documents", "a document is named twice")));
        }
        if change.document.scope.thread().is_some_and(|other| Some(other) != thread) {
            let reason = "it belongs to another thread than that of the call";
            return Err(name_part(Error::invalid("document", reason)));
        }
        check_limit("record bytes", change.value_bytes(), limits.record_bytes).map_err(name_part)?;
    }
    check_limit("commit bytes", changes.iter().map(DocumentChange::value_bytes).sum(), limits.commit_bytes)
}

/// Refuses a write that no store can accept. A store calls this before it loads what the plan needs; the plan calls it
/// again.
///
/// # Errors
/// `Invalid` and `LimitExceeded`.
pub fn check_write(request: &WriteDocuments, limits: &Limits) -> Result<()> {
    if request.changes.is_empty() && request.events.is_none() {
        return Err(Error::invalid("documents", "there are no changes in the call"));
    }
    let thread = request.thread();
    check_changes(&request.changes, thread, limits)?;
    let Some(events) = &request.events else { return Ok(()) };
    event::check_request(events, limits).map_err(in_events)?;
    if events.fence.is_some() {
        let error = Error::invalid("fence", "the events cannot have their own: that of the call covers them");
        return Err(error.in_part("events"));
    }
    let is_foreign = |scope: &Scope| matches!(scope, Scope::Thread(other) if Some(other) != thread);
    if request.fence.is_some() && events.drafts.iter().any(|draft| draft.scopes.iter().any(is_foreign)) {
        let error = Error::invalid("scopes", "they name another thread than that of the claim");
        return Err(error.in_part("events"));
    }
    let bytes = request.changes.iter().map(DocumentChange::value_bytes).sum::<u64>() + events.payload_bytes();
    check_limit("commit bytes", bytes, limits.commit_bytes)
}

fn in_events(error: Error) -> Error {
    if error.part().is_some() { error } else { error.in_part("events") }
}

/// Decides a write of documents: returns what to write, or the error with which the write is refused. The checks have
/// the order that [`DocumentStore::write_documents`](super::DocumentStore::write_documents) documents.
///
/// # Errors
/// The errors of that method; any error of the view.
pub fn plan_write(
    view: &(impl DocumentWriteView + ?Sized),
    request: &WriteDocuments,
    decision_context: DecisionContext<'_>,
) -> Result<DocumentWriteDecision> {
    check_write(request, decision_context.limits)?;
    let mut plan = DocumentWritePlan::default();
    if let Some((thread, fence)) = &request.fence {
        if let Some(mailbox) = view.fenced_mailbox() {
            mailbox::check_claim(mailbox, thread, fence)?;
        }
        let mut id_record = view.id_record(thread)?;
        id_record.check_and_record_claim(Some(fence))?;
        plan.id_record = Some((thread.clone(), id_record));
    }
    for (index, change) in request.changes.iter().enumerate() {
        if let DocumentScope::Thread(thread) = &change.document.scope {
            if !view.has_thread(thread)? {
                return Err(Error::not_found("thread", thread).in_part(format!("documents[{index}]")));
            }
            break;
        }
    }
    plan.documents = plan_changes(view, &request.changes, decision_context.now)?;
    let mut events = Vec::new();
    if let Some(append) = &request.events {
        let decision = event::append(view, append, decision_context, AppendOptions::default()).map_err(in_events)?;
        (plan.events, events) = (decision.plan, decision.answer.events);
    }
    let answer = WrittenDocuments::new(plan.documents.revision, events, decision_context.now);
    Ok(DocumentWriteDecision { plan, answer })
}

/// Checks the expectations of changes and plans them (DO-2, DO-3).
pub(crate) fn plan_changes(
    view: &(impl DocumentView + ?Sized),
    changes: &[DocumentChange],
    now: Timestamp,
) -> Result<DocumentPlan> {
    let mut states = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let state = view.document(&change.document)?;
        let actual = state.map(|state| state.revision);
        if !change.expect.holds(actual) {
            return Err(conflict(change, actual).in_part(format!("documents[{index}]")));
        }
        states.push(state);
    }
    let puts_a_document = changes.iter().any(|change| matches!(change.op, DocumentOp::Put(_)));
    let revision = if puts_a_document { Some(view.next_document_revision()?) } else { None };
    let planned = changes.iter().zip(states).map(|(change, state)| {
        let write = match &change.op {
            DocumentOp::Put(value) => {
                let revision = revision.unwrap_or_default();
                DocumentWrite::Put(StoredDocument::put(value.clone(), revision, state.as_ref(), now))
            }
            DocumentOp::Delete if state.is_some() => DocumentWrite::Delete,
            DocumentOp::Delete | DocumentOp::Keep => DocumentWrite::Keep,
        };
        PlannedDocument { document: change.document.clone(), found: state.map(|state| state.revision), write }
    });
    Ok(DocumentPlan { changes: planned.collect(), revision })
}

fn conflict(change: &DocumentChange, actual: Option<u64>) -> Error {
    let (document, expected) = (Box::new(change.document.clone()), change.expect);
    Error::new(Detail::DocumentConflict { document, expected, actual })
}

/// Returns the content of changes for the digest of a commit: everything but the expectations, ordered by document
/// (DO-9).
pub(crate) fn changes_digest(changes: &[DocumentChange]) -> Vec<String> {
    let mut changes: Vec<_> = changes.iter().collect();
    changes.sort_by(|a, b| a.document.cmp(&b.document));
    let write = |change: &DocumentChange| {
        let mut text = String::new();
        let mut object = ObjectWriter::open(&mut text);
        object.field("document", &change.document);
        match &change.op {
            DocumentOp::Put(value) => drop(object.field("put", value)),
            DocumentOp::Delete => object.key("delete").push_str("true"),
            DocumentOp::Keep => object.key("keep").push_str("true"),
        }
        object.close();
        text
    };
    changes.into_iter().map(write).collect()
}
