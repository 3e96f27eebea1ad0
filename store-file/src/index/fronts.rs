//! Where lists begin. The first keys of a queue are removed again and again. The list keeps traces of them for a while,
//! and a search for its first key would walk over all of these.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How many lists are remembered. With more of them all are forgotten.
const MOST: usize = 4_096;

/// What is known of the beginnings of lists. No list is below another one.
#[derive(Debug, Default)]
pub(super) struct Fronts {
    /// Held while a batch is applied, so that the numbers of batches are in the order in which they show.
    applying: Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The last batch that was begun, and the last one that every later view shows.
    begun: u64,
    ended: u64,
    lists: BTreeMap<Vec<u8>, Front>,
}

#[derive(Debug)]
struct Front {
    /// No key of the list is below.
    from: Vec<u8>,
    /// For views that show this batch, and all before it.
    since: u64,
    /// The last batch that put something into the list.
    put: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A batch that is being applied.
pub(super) struct Applying<'a> {
    fronts: &'a Fronts,
    _one: MutexGuard<'a, ()>,
}

impl Drop for Applying<'_> {
    fn drop(&mut self) {
        let mut known = lock(&self.fronts.known);
        known.ended = known.begun;
    }
}

impl Fronts {
    /// Begins a batch that puts something under these keys. It is applied when what this gives is dropped.
    pub(super) fn begin<'a>(&self, puts: impl Iterator<Item = &'a Vec<u8>>) -> Applying<'_> {
        let applying = Applying { fronts: self, _one: lock(&self.applying) };
        let mut known = lock(&self.known);
        known.begun += 1;
        let begun = known.begun;
        for key in puts {
            // What is before it in order is the one list that it can be of.
            if let Some((list, front)) = known.lists.range_mut(..=key.clone()).next_back()
                && key.starts_with(list)
            {
                front.put = begun;
                if *key < front.from {
                    front.from.clone_from(key);
                }
            }
        }
        drop(known);
        applying
    }

    /// The last batch that a view shows which is taken from now on; it may show later ones.
    pub(super) fn ended(&self) -> u64 {
        lock(&self.known).ended
    }

    /// From where on a view that shows this batch has keys of a list.
    pub(super) fn of(&self, list: &[u8], ended: u64) -> Option<Vec<u8>> {
        let known = lock(&self.known);
        known.lists.get(list).filter(|front| front.since <= ended).map(|front| front.from.clone())
    }

    /// Remembers the first key of a list that a view showed, or the end of the list if it showed none.
    pub(super) fn remember(&self, list: &[u8], from: &[u8], ended: u64) {
        let mut known = lock(&self.known);
        let begun = known.begun;
        match known.lists.get_mut(list) {
            // A key that was put after the view was taken may come before it.
            Some(front) if front.put > ended => {}
            Some(front) if front.from == from => {}
            Some(front) => (front.from, front.since) = (from.to_vec(), begun),
            // It is unknown what was put before. From now on puts are noted.
            None => {
                if known.lists.len() >= MOST {
                    known.lists.clear();
                }
                let front = Front { from: list.to_vec(), since: 0, put: begun };
                known.lists.insert(list.to_vec(), front);
            }
        }
    }
}
