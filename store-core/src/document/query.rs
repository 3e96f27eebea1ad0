//! Queries of documents, and the ranges of encoded keys that they read.

use super::{
    Document, DocumentScope, KeySegment,
    key::{AFTER_EVERY_MARK, encode_segments},
};
use crate::{
    codec::Codec,
    error::Result,
    id::{CollectionId, TenantId},
    limits::length,
    log::Direction,
    page::{CursorKey, CursorScope, Page, PageBuilder, PageRequest, Position, encode_query_parts},
};

/// A query for documents of one collection and scope, in the order of their keys (DO-6).
///
/// All bounds are checked together: a document must be within each of them (PG-9).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentQuery {
    /// What the documents belong to.
    pub scope: DocumentScope,
    /// The collection.
    pub collection: CollectionId,
    /// The segments that the keys begin with; empty for all keys.
    pub prefix: Vec<KeySegment>,
    /// The keys are these segments, or come after them.
    pub from: Option<Vec<KeySegment>>,
    /// The keys come before these segments.
    pub before: Option<Vec<KeySegment>>,
    /// The keys come after all keys that begin with these segments.
    pub after_prefix: Option<Vec<KeySegment>>,
    /// First key first, or last key first.
    pub direction: Direction,
    /// Which page to return.
    pub page: PageRequest,
}

impl DocumentQuery {
    /// Makes a query for all documents of a collection that belong to the tenant, first key first.
    #[must_use]
    pub const fn new(collection: CollectionId) -> Self {
        Self {
            scope: DocumentScope::Tenant,
            collection,
            prefix: Vec::new(),
            from: None,
            before: None,
            after_prefix: None,
            direction: Direction::Forward,
            page: PageRequest { limit: None, cursor: None },
        }
    }

    /// Sets what the documents belong to.
    #[must_use]
    pub fn in_scope(mut self, scope: DocumentScope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets the segments that the keys begin with. A key that consists of exactly these segments belongs to the list.
    #[must_use]
    pub fn starting_with(mut self, prefix: impl IntoIterator<Item = KeySegment>) -> Self {
        self.prefix = prefix.into_iter().collect();
        self
    }

    /// Sets the first key, which is included.
    #[must_use]
    pub fn from(mut self, segments: impl IntoIterator<Item = KeySegment>) -> Self {
        self.from = Some(segments.into_iter().collect());
        self
    }

    /// Sets the key in front of which the list ends.
    #[must_use]
    pub fn before(mut self, segments: impl IntoIterator<Item = KeySegment>) -> Self {
        self.before = Some(segments.into_iter().collect());
        self
    }

    /// Sets the segments after which the list begins: after all keys that begin with them. So a walk finds each first
    /// segment with one document.
    ///
    /// ```
    /// use store_core::{CollectionId, DocumentKey, DocumentQuery, KeySegment};
    ///
    /// let segments = |texts: &[&str]| texts.iter().map(KeySegment::id).collect::<Result<Vec<_>, _>>();
    /// let query = DocumentQuery::new(CollectionId::new("notes")?).after_prefix(segments(&["a"])?);
    /// let has = |texts| Ok::<_, store_core::Error>(query.key_range()?.contains(
    ///     DocumentKey::new(CollectionId::new("notes")?, segments(texts)?)?.encoded(),
    /// ));
    /// assert_eq!((has(&["a", "z"])?, has(&["ab"])?, has(&["b"])?), (false, true, true));
    /// # Ok::<(), store_core::Error>(())
    /// ```
    #[must_use]
    pub fn after_prefix(mut self, segments: impl IntoIterator<Item = KeySegment>) -> Self {
        self.after_prefix = Some(segments.into_iter().collect());
        self
    }

    /// Sets the direction.
    #[must_use]
    pub const fn with_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// Sets the page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }

    /// Returns the encoded keys that the whole list contains.
    ///
    /// # Errors
    /// `LimitExceeded` for a prefix or a bound that no key could have.
    pub fn key_range(&self) -> Result<KeyRange> {
        let prefix = encode_segments(&self.prefix)?;
        // Every key that begins with the prefix is the prefix, or continues with the mark of a segment.
        let after_all_of = |prefix: &str| format!("{prefix}{AFTER_EVERY_MARK}");
        let mut range = KeyRange { before: after_all_of(&prefix), from: prefix };
        if let Some(from) = &self.from {
            range.from = range.from.max(encode_segments(from)?);
        }
        if let Some(prefix) = &self.after_prefix {
            range.from = range.from.max(after_all_of(&encode_segments(prefix)?));
        }
        if let Some(before) = &self.before {
            range.before = range.before.min(encode_segments(before)?);
        }
        Ok(range)
    }

    /// Begins a page: checks its limit and its cursor. For backends.
    ///
    /// `generation` is that of the thread whose documents are listed, or 0 if there is none: a cursor is bound to it
    /// (TH-24).
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `LimitExceeded`; `InvalidCursor`.
    pub fn begin_page(
        &self,
        generation: u64,
        tenant_and_cursor_key: (&TenantId, &CursorKey),
    ) -> Result<(KeyRange, DocumentPage)> {
        let (tenant, cursor_key) = tenant_and_cursor_key;
        let builder = PageBuilder::new(self.page.checked_limit()?);
        let mut range = self.key_range()?;
        let cursor_scope = CursorScope::new(tenant, "list_documents", &self.cursor_binding(generation)?);
        if let Some(position) = Position::from_cursor(cursor_key, &cursor_scope, self.page.cursor.as_ref())? {
            range = range.after(&position.id, self.direction);
        }
        Ok((range, DocumentPage { builder, cursor_scope, cursor_key: cursor_key.clone() }))
    }

    fn cursor_binding(&self, generation: u64) -> Result<String> {
        let encode = |segments: &Option<Vec<KeySegment>>| segments.as_deref().map(encode_segments).transpose();
        let prefix = encode_segments(&self.prefix)?;
        let thread = self.scope.thread().map(ToString::to_string);
        Ok(encode_query_parts(&[
            ("generation", thread.as_ref().map(|_| generation.to_string())),
            ("thread", thread),
            ("collection", Some(self.collection.to_string())),
            ("prefix", (!prefix.is_empty()).then_some(prefix)),
            ("from", encode(&self.from)?),
            ("before", encode(&self.before)?),
            ("direction", self.direction.cursor_binding()),
            ("after_prefix", encode(&self.after_prefix)?),
        ]))
    }
}

/// A range of encoded keys, as [`DocumentKey::encoded`](super::DocumentKey::encoded) returns them. It may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first text of the range.
    pub from: String,
    /// The text in front of which the range ends.
    pub before: String,
}

impl KeyRange {
    /// Returns whether the range contains an encoded key.
    #[must_use]
    pub fn contains(&self, encoded: &str) -> bool {
        self.from.as_str() <= encoded && encoded < self.before.as_str()
    }

    /// Returns whether no text is in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.from >= self.before
    }

    /// Returns the part of the range that a walk in this direction reads after the key `encoded`.
    fn after(self, encoded: &str, direction: Direction) -> Self {
        match direction {
            // The shortest text that is larger than the key.
            Direction::Forward => Self { from: self.from.max(format!("{encoded}\0")), ..self },
            Direction::Backward => Self { before: self.before.min(encoded.to_owned()), ..self },
        }
    }
}

/// A page of documents while a backend reads it.
#[derive(Debug)]
pub struct DocumentPage {
    builder: PageBuilder<Document>,
    cursor_scope: CursorScope,
    cursor_key: CursorKey,
}

impl DocumentPage {
    /// Offers the next document of the range, in the direction of the query. Returns false when the page needs no more.
    pub fn offer(&mut self, document: Document) -> bool {
        let position = Position::new(0, document.key.encoded());
        let bytes = length(document.value.encode().len());
        self.builder.offer(position, bytes, Some(document))
    }

    /// Returns the page.
    #[must_use]
    pub fn finish(self) -> Page<Document> {
        self.builder.finish(|position| position.to_cursor(&self.cursor_key, &self.cursor_scope))
    }
}

/// Which documents [`delete_documents`](crate::DocumentStoreExt::delete_documents) removes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteDocuments {
    /// The documents: all that this query lists. Its direction and its page do not matter.
    pub query: DocumentQuery,
    /// Only documents that were last put before this time.
    pub updated_before: Option<crate::Timestamp>,
    /// Whether to report the number of documents without removing them.
    pub dry_run: bool,
}

impl DeleteDocuments {
    /// Requests the removal of all documents that `query` lists.
    #[must_use]
    pub const fn new(query: DocumentQuery) -> Self {
        Self { query, updated_before: None, dry_run: false }
    }

    /// Restricts the request to documents that were last put before this time.
    #[must_use]
    pub const fn updated_before(mut self, time: crate::Timestamp) -> Self {
        self.updated_before = Some(time);
        self
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// The result of a deletion of documents or of a dry run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct DeletedDocuments {
    /// The number of documents that were removed, or would be.
    pub documents: u64,
    /// Whether the deletion was stopped before its end.
    pub stopped: bool,
}

impl DeletedDocuments {
    pub(crate) const fn new(documents: u64, stopped: bool) -> Self {
        Self { documents, stopped }
    }
}
