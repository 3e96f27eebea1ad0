//! Documents: JSON values under ordered keys, with revisions, which belong to the tenant or to a thread.

mod key;
mod load;
mod query;
mod record;
mod request;
mod rules;
mod store;
#[cfg(test)]
mod tests;

pub use self::{
    key::{DocumentKey, KeySegment, MAX_KEY_BYTES, MAX_KEY_SEGMENTS},
    load::DocumentLoad,
    query::{DeleteDocuments, DeletedDocuments, DocumentPage, DocumentQuery, KeyRange},
    record::{Document, DocumentRef, DocumentScope, DocumentState, StoredDocument},
    request::{DocumentChange, DocumentExpect, DocumentOp, WriteDocuments, WrittenDocuments},
    rules::{
        DocumentPlan, DocumentView, DocumentWrite, DocumentWriteDecision, DocumentWritePlan, DocumentWriteView,
        PlannedDocument, check_write, plan_write,
    },
    store::DocumentStore,
};
pub(crate) use self::{
    load::is_too_large,
    rules::{changes_digest, check_changes, plan_changes},
};
