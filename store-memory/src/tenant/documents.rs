//! The documents of a tenant, in the order of their keys.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

use store_core::{
    CollectionId, Direction, Document, DocumentRef, DocumentScope, ThreadId,
    document::{DocumentPlan, DocumentWrite, KeyRange},
};

/// The documents of one scope, by their collections and encoded keys. A collection without documents is not kept.
#[derive(Debug, Default)]
pub(crate) struct ScopeDocuments(BTreeMap<CollectionId, BTreeMap<String, Document>>);

impl ScopeDocuments {
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// Returns the documents.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Document> {
        self.0.values().flat_map(BTreeMap::values)
    }

    /// Removes one document. Returns whether there was one.
    pub(crate) fn remove_last(&mut self) -> bool {
        let Some(mut collection) = self.0.last_entry() else { return false };
        collection.get_mut().pop_last();
        if collection.get().is_empty() {
            collection.remove();
        }
        true
    }

    fn remove(&mut self, document: &DocumentRef) {
        if let Some(collection) = self.0.get_mut(document.key.collection()) {
            collection.remove(document.key.encoded());
            if collection.is_empty() {
                self.0.remove(document.key.collection());
            }
        }
    }
}

/// Documents by their scope. A scope without documents is not kept.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    scopes: HashMap<DocumentScope, ScopeDocuments>,
}

impl Documents {
    pub(crate) fn is_empty(&self) -> bool {
        self.scopes.is_empty()
    }

    pub(crate) fn get(&self, document: &DocumentRef) -> Option<&Document> {
        self.scopes.get(&document.scope)?.0.get(document.key.collection())?.get(document.key.encoded())
    }

    /// Returns the documents of a collection whose encoded keys are in `range`, in the given direction.
    pub(crate) fn walk(
        &self,
        (scope, collection): (&DocumentScope, &CollectionId),
        range: &KeyRange,
        direction: Direction,
    ) -> Box<dyn Iterator<Item = &Document> + '_> {
        let documents = self.scopes.get(scope).and_then(|documents| documents.0.get(collection));
        let Some(documents) = documents.filter(|_| !range.is_empty()) else { return Box::new(std::iter::empty()) };
        let bounds = (Bound::Included(range.from.as_str()), Bound::Excluded(range.before.as_str()));
        let documents = documents.range::<str, _>(bounds).map(|(_, document)| document);
        match direction {
            Direction::Forward => Box::new(documents),
            Direction::Backward => Box::new(documents.rev()),
        }
    }

    pub(crate) fn apply(&mut self, plan: DocumentPlan) {
        for change in plan.changes {
            let document = change.document;
            match change.write {
                DocumentWrite::Put(stored) => {
                    let collections = &mut self.scopes.entry(document.scope.clone()).or_default().0;
                    let collection = collections.entry(document.key.collection().clone()).or_default();
                    collection.insert(document.key.encoded().to_owned(), Document::new(document, stored));
                }
                DocumentWrite::Delete => {
                    if let Some(documents) = self.scopes.get_mut(&document.scope) {
                        documents.remove(&document);
                        if documents.0.is_empty() {
                            self.scopes.remove(&document.scope);
                        }
                    }
                }
                DocumentWrite::Keep => {}
            }
        }
    }

    /// Writes a document as it was in another store.
    pub(crate) fn restore(&mut self, document: Document) {
        let collections = &mut self.scopes.entry(document.scope.clone()).or_default().0;
        let collection = collections.entry(document.key.collection().clone()).or_default();
        collection.insert(document.key.encoded().to_owned(), document);
    }

    /// Takes the documents of a deleted thread away from all readers (DO-8). The caller frees them.
    pub(crate) fn take_of_thread(&mut self, thread: &ThreadId) -> ScopeDocuments {
        self.scopes.remove(&DocumentScope::Thread(thread.clone())).unwrap_or_default()
    }

    /// Returns the scopes that have documents, with these.
    pub(crate) fn scopes(&self) -> impl Iterator<Item = (&DocumentScope, &ScopeDocuments)> {
        self.scopes.iter()
    }
}
