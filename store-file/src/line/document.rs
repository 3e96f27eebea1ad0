//! The lines of documents.

use store_core::{
    CollectionId, Document, DocumentRef,
    codec::{DecodeError, Fields},
};

use super::tagged;

/// The first line of the log of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CollectionLine {
    pub(crate) collection: CollectionId,
    /// How often the log of the collection was rewritten.
    pub(crate) rewrites: u64,
}

impl CollectionLine {
    pub(super) fn encode(&self) -> String {
        tagged("collection", |object| {
            object.field("collection", &self.collection).field("rewrites", &self.rewrites);
        })
    }
}

/// A document that was deleted.
pub(super) fn document_gone(document: &DocumentRef) -> String {
    tagged("document_gone", |object| {
        object.field("document", document);
    })
}

/// The document of a line.
pub(crate) fn decode_document(raw: &str) -> Result<Document, DecodeError> {
    Fields::parse(raw)?.take("document")
}
