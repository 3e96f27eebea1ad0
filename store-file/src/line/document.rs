//! The lines of documents.

use store_core::{
    CollectionId, Document, DocumentRef,
    codec::{DecodeError, Fields},
    document::DocumentState,
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

/// A document whose line was damaged when its log was rewritten. It is read as damage until it is put again or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DamagedDocumentLine {
    pub(crate) document: DocumentRef,
    pub(crate) state: DocumentState,
    /// The bytes that were found, in hexadecimal.
    pub(crate) found: String,
}

impl DamagedDocumentLine {
    pub(super) fn encode(&self) -> String {
        let DocumentState { revision, created_at, updated_at } = &self.state;
        tagged("document_damaged", |object| {
            object.field("name", &self.document).field("revision", revision);
            object.field("created_at", created_at).field("updated_at", updated_at).field("found", &self.found);
        })
    }

    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, DecodeError> {
        let state = DocumentState {
            revision: fields.take("revision")?,
            created_at: fields.take("created_at")?,
            updated_at: fields.take("updated_at")?,
        };
        Ok(Self { document: fields.take("name")?, state, found: fields.take("found")? })
    }
}

/// A document that was deleted.
pub(super) fn document_gone(document: &DocumentRef) -> String {
    tagged("document_gone", |object| {
        object.field("document", document);
    })
}

/// The document of a line. A line that says that a document is damaged has none.
pub(crate) fn decode_document(raw: &str) -> Result<Document, DecodeError> {
    Fields::parse(raw)?.take("document")
}
