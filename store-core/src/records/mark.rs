//! The mark of a tenant that is the target of a copy: a document, which each batch of the copy writes with its records.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{RecordKey, RecordList, StoredRecord};
use crate::{
    codec::Codec,
    document::{
        Document, DocumentChange, DocumentKey, DocumentRef, DocumentState, DocumentStore, KeySegment, StoredDocument,
        WriteDocuments,
    },
    error::{Error, Result},
    id::CollectionId,
    json::Json,
    time::Timestamp,
};

/// The collection of the mark. It is not copied, and no part of a digest.
pub const COPY_COLLECTION: &str = "agentstore.copy";

/// What a copy has done so far. A tenant that has a mark is not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyMark {
    /// What names the source. Only a copy of the same source continues.
    pub source: String,
    /// Whether the target may have other records.
    pub merge: bool,
    /// The list that is being copied; absent when all are copied.
    pub list: Option<String>,
    /// The encoded key of the last record of the list that was copied.
    pub after: Option<String>,
    /// How many records were copied.
    pub records: u64,
}

impl fmt::Display for CopyMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, records, .. } = self;
        write!(f, "a copy from {source} has not ended ({records} records so far)")
    }
}

impl CopyMark {
    /// Makes the mark of a copy that begins.
    pub(super) fn new(source: &str, merge: bool) -> Self {
        let list = RecordList::ALL.first().map(|list| list.name().to_owned());
        Self { source: source.to_owned(), merge, list, after: None, records: 0 }
    }

    /// Returns where the copy continues: the list, and the key after which it continues. None if all records are
    /// copied.
    pub(super) fn position(&self) -> Result<Option<(RecordList, Option<RecordKey>)>> {
        let Some(list) = &self.list else { return Ok(None) };
        let after = self.after.as_deref().map(RecordKey::read).transpose();
        let after = after.map_err(|error| Error::corrupt("mark of a copy").with_source(error))?;
        Ok(Some((list.parse()?, after)))
    }

    /// Sets where the copy continues.
    pub(super) fn move_to(&mut self, list: Option<RecordList>, after: Option<&RecordKey>) {
        self.list = list.map(|list| list.name().to_owned());
        self.after = after.map(Codec::encode);
    }

    /// Returns the mark as a record to be restored.
    pub(super) fn to_record(&self) -> Result<StoredRecord> {
        let text = serde_json::to_string(self).map_err(|error| Error::invalid("mark of a copy", error.to_string()))?;
        let value = Json::parse(&text)?;
        let state = DocumentState { revision: 1, created_at: Timestamp::MIN, updated_at: Timestamp::MIN };
        let stored = StoredDocument::new(value, state);
        Ok(StoredRecord::Document(Box::new(Document::new(name()?, stored))))
    }

    /// Reads the mark of a tenant. There is one from the first record that a copy writes until the copy has ended with
    /// no difference.
    ///
    /// # Errors
    /// `Corrupt` if the mark cannot be read; any error of reading.
    pub async fn load(documents: &dyn DocumentStore) -> Result<Option<Self>> {
        let found = documents.load_documents(&[name()?]).await?.into_iter().next().flatten();
        let read = |document: Document| {
            serde_json::from_str(document.value.as_str())
                .map_err(|error| Error::corrupt("mark of a copy").with_source(error))
        };
        found.map(read).transpose()
    }

    /// Removes the mark of a tenant.
    pub(super) async fn remove(documents: &dyn DocumentStore) -> Result<()> {
        documents.write_documents(WriteDocuments::new([DocumentChange::delete(name()?)])).await.map(drop)
    }
}

/// Returns whether a record is the mark of a copy.
#[must_use]
pub fn is_copy_mark(record: &StoredRecord) -> bool {
    matches!(record, StoredRecord::Document(document) if document.key.collection().as_str() == COPY_COLLECTION)
}

fn name() -> Result<DocumentRef> {
    Ok(DocumentKey::new(CollectionId::new(COPY_COLLECTION)?, [KeySegment::id("mark")?])?.into())
}

#[cfg(test)]
mod tests {
    use super::{CopyMark, is_copy_mark};
    use crate::records::{RecordKey, RecordList};

    #[test]
    fn a_mark_says_where_a_copy_continues_vf_2() {
        let mut mark = CopyMark::new("file:a", false);
        assert_eq!(mark.position().unwrap(), Some((RecordList::Numbers, None)));
        let key = RecordKey::of("t").and(7);
        mark.move_to(Some(RecordList::Entries), Some(&key));
        assert_eq!(mark.position().unwrap(), Some((RecordList::Entries, Some(key))));
        mark.move_to(None, None);
        assert_eq!(mark.position().unwrap(), None);
        mark.records = 7;
        assert_eq!(mark.to_string(), "a copy from file:a has not ended (7 records so far)");
        assert!(is_copy_mark(&mark.to_record().unwrap()));
    }
}
