//! The index in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use super::{Direction, Journal, Pairs};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A map that is copied when it changes while a snapshot of it is alive: right for small stores and tests.
#[derive(Debug, Default)]
pub(super) struct MemoryIndex {
    map: RwLock<Arc<Map>>,
    /// Where a test has its batches written down.
    journal: Option<Journal>,
}

impl MemoryIndex {
    /// The index that was written down, and is written on.
    pub(super) fn journaled(journal: &Journal) -> Self {
        let index = Self::default();
        journal.batches().iter().for_each(|batch| index.apply(batch));
        Self { journal: Some(journal.clone()), ..index }
    }

    pub(super) fn persist(&self) {
        if let Some(journal) = &self.journal {
            journal.persist();
        }
    }

    pub(super) fn snapshot(&self) -> MemoryView {
        MemoryView(Arc::clone(&self.map.read().unwrap_or_else(PoisonError::into_inner)))
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub(super) fn apply(&self, changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(journal) = &self.journal {
            journal.note(changes);
        }
        let map = Arc::make_mut(&mut map);
        for (key, value) in changes {
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        }
    }
}

#[derive(Debug)]
pub(super) struct MemoryView(Arc<Map>);

impl MemoryView {
    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).cloned()
    }

    pub(super) fn range(&self, from: &[u8], to: &[u8], direction: Direction) -> Pairs<'_> {
        let pairs = self.0.range(from.to_vec()..to.to_vec()).map(|(key, value)| Ok((key.clone(), value.clone())));
        match direction {
            Direction::Forward => Box::new(pairs),
            Direction::Backward => Box::new(pairs.rev()),
        }
    }
}
