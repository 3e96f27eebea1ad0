//! What one call loads: how many documents, and how many bytes of values.

use super::{Document, DocumentRef};
use crate::{
    error::{Detail, Error, Result},
    limits::{Limits, check_limit, length},
};

/// The name of the limit on the bytes of one load.
const LOAD_BYTES: &str = "load bytes";

/// A load of documents while a backend reads it (DO-5).
///
/// The backend begins it with the names of the documents, adds those that exist in the order of the names, and reads no
/// more after an error. So it never holds more values than one load may have, and one more.
///
/// ```
/// use store_core::{DocumentKey, DocumentRef, KeySegment, Limits, document::DocumentLoad};
///
/// # fn main() -> store_core::Result<()> {
/// let name: DocumentRef = DocumentKey::new("notes".parse()?, [KeySegment::id("a")?])?.into();
/// let load = DocumentLoad::begin(&[name], &Limits::default())?;
/// assert_eq!(load.finish(), [None]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DocumentLoad {
    found: Vec<Option<Document>>,
    /// The number of documents and the bytes of their values.
    documents: u64,
    bytes: u64,
    max_bytes: u64,
}

impl DocumentLoad {
    /// Begins the load of these documents.
    ///
    /// # Errors
    /// `LimitExceeded` if they are too many.
    pub fn begin(names: &[DocumentRef], limits: &Limits) -> Result<Self> {
        check_limit("documents of a call", length(names.len()), limits.commit_documents)?;
        Ok(Self { found: vec![None; names.len()], documents: 0, bytes: 0, max_bytes: limits.load_bytes })
    }

    /// Adds a document that exists. `index` is that of its name. A document that is named twice is added twice.
    ///
    /// # Errors
    /// `LimitExceeded`, which names the part, if the values have too many bytes with this one. The first document is
    /// always accepted.
    pub fn add(&mut self, index: usize, document: Document) -> Result<()> {
        self.bytes = self.bytes.saturating_add(length(document.value.as_str().len()));
        self.documents += 1;
        if self.documents > 1 {
            let checked = check_limit(LOAD_BYTES, self.bytes, self.max_bytes);
            checked.map_err(|error| error.in_part(format!("documents[{index}]")))?;
        }
        if let Some(place) = self.found.get_mut(index) {
            *place = Some(document);
        }
        Ok(())
    }

    /// Returns what was found, in the order of the names.
    #[must_use]
    pub fn finish(self) -> Vec<Option<Document>> {
        self.found
    }
}

/// Returns whether a load was refused because of its bytes. A load of fewer documents may be accepted.
pub(crate) fn is_too_large(error: &Error) -> bool {
    matches!(error.detail(), Detail::LimitExceeded { limit, .. } if *limit == LOAD_BYTES)
}
