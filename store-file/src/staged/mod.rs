//! Changes of the index that wait for their groups to be durable, and the index as it will be with them.
//!
//! The changes of a round lie over those of the round before it, which may be in its commit at the same time, and these
//! lie over the index. The index may have the changes of the round before, or not yet. The result is the same.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use store_core::{Error, Result, Scope, TenantId};

use crate::{
    codec::{Get, Row, damaged, read},
    index::{Changes, Direction, Index, Key, Snapshot, after_prefix},
    log::Position,
    planned::Planned,
    recent::{Decoded, Known, Recent},
    root, table,
    walk::{Walk, bounds},
};

/// How many keys of a list are read together.
const CHUNK: usize = 32;

/// What changes are laid over.
#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    /// The index as it is at any time.
    Index(&'a Index),
    /// A snapshot of the index, for a reader whose changes are never applied.
    Snapshot(&'a Snapshot),
}

/// The index with changes that readers do not see yet. The next request of the round is judged by it.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    source: Source<'a>,
    /// The round before, if it is being committed.
    previous: Option<Arc<Planned>>,
    changes: Changes,
    /// Rows that change, decoded.
    decoded: RefCell<HashMap<Vec<u8>, Decoded>>,
    /// Keys that get a value and have none in what the changes are laid over.
    new: HashSet<Vec<u8>>,
    /// Logs whose threads change: each gets the number of the change when that shows.
    touched: BTreeSet<u64>,
    /// Scopes that get events: their followers are told when these show.
    scopes: BTreeSet<(TenantId, Scope)>,
    /// What was read of the index and of the round before. It stays true while a round is planned: besides the round
    /// before only the flush of the journal changes the index then, and no round reads the row that the flush writes.
    recent: RefCell<Recent>,
}

impl<'a> Staged<'a> {
    pub(crate) fn new(index: &'a Index) -> Self {
        Self::of(Source::Index(index))
    }

    /// For the writer, with what it has read and written before.
    pub(crate) fn with_recent(index: &'a Index, recent: Recent, previous: Option<Arc<Planned>>) -> Self {
        // While a round is being committed, the index may get its changes at any time, so the version says nothing.
        // `recent` has them already. Besides, only the flush of the journal changes the index then, in a row that no
        // round reads.
        let recent = if previous.is_none() { recent.at(index.version()) } else { recent };
        Self { previous, recent: RefCell::new(recent), ..Self::new(index) }
    }

    /// For a reader, whose changes are never applied.
    pub(crate) fn over(snapshot: &'a Snapshot) -> Self {
        Self::of(Source::Snapshot(snapshot))
    }

    fn of(source: Source<'a>) -> Self {
        Self {
            source,
            previous: None,
            changes: Changes::default(),
            decoded: RefCell::default(),
            new: HashSet::new(),
            touched: BTreeSet::new(),
            scopes: BTreeSet::new(),
            recent: RefCell::default(),
        }
    }

    pub(crate) fn put(&mut self, key: Key, value: impl Into<Vec<u8>>) {
        self.decoded.get_mut().remove(key.as_bytes());
        self.changes.put(key, value);
    }

    /// Puts a row that is JSON. It need not be decoded when it is read again.
    pub(crate) fn put_row<T: Row>(&mut self, key: Key, row: T) {
        self.changes.put(key.as_bytes(), row.encode());
        self.decoded.get_mut().insert(key.into_bytes(), Box::new(row));
    }

    /// Notes what the caller knows: a key has no value. It need not be read.
    pub(crate) fn know_absent(&mut self, key: Key) {
        self.recent.get_mut().put_row(key.into_bytes(), None);
    }

    /// Puts a key that never had a value. If the same round deletes it, the round does not change it at all.
    pub(crate) fn put_new(&mut self, key: Key, value: impl Into<Vec<u8>>) {
        self.decoded.get_mut().remove(key.as_bytes());
        self.new.insert(key.as_bytes().to_vec());
        self.changes.put(key, value);
    }

    pub(crate) fn delete(&mut self, key: Key) {
        self.decoded.get_mut().remove(key.as_bytes());
        if self.new.remove(key.as_bytes()) {
            self.changes.forget(key.as_bytes());
        } else {
            self.changes.delete(key);
        }
    }

    /// Notes that the thread of a log changes.
    pub(crate) fn touch(&mut self, log: u64) {
        self.touched.insert(log);
    }

    /// Notes that a scope gets an event, or loses some.
    pub(crate) fn tell(&mut self, tenant: &TenantId, scope: &Scope) {
        self.scopes.insert((tenant.clone(), scope.clone()));
    }

    /// Whether nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// How many keys change.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    fn previous_changes(&self) -> Option<&Changes> {
        self.previous.as_ref().map(|previous| &previous.changes)
    }

    fn look<T>(&self, at: impl FnOnce(&Snapshot) -> T) -> T {
        match self.source {
            Source::Index(index) => at(&index.snapshot()),
            Source::Snapshot(snapshot) => at(snapshot),
        }
    }

    /// A position under a name.
    pub(crate) fn get_position(&self, name: &str) -> Result<Option<Position>> {
        Ok(self.get(table::fact(name).as_bytes())?.and_then(|bytes| root::decode_position(&bytes)))
    }

    /// Removes every key that starts with `prefix`.
    pub(crate) fn delete_all(&mut self, prefix: &Key) -> Result<()> {
        for key in self.keys(prefix)? {
            self.decoded.get_mut().remove(&key);
            self.changes.delete(key);
        }
        Ok(())
    }

    /// The keys that start with `prefix`, in order.
    pub(crate) fn keys(&self, prefix: &Key) -> Result<Vec<Vec<u8>>> {
        let mut keys = BTreeSet::new();
        self.look(|snapshot| -> Result<()> {
            for pair in snapshot.prefix(prefix.as_bytes(), Direction::Forward) {
                keys.insert(pair?.0);
            }
            Ok(())
        })?;
        for changes in self.previous_changes().into_iter().chain([&self.changes]) {
            for (key, value) in changes.below(prefix.as_bytes()) {
                if value.is_some() {
                    keys.insert(key.to_vec());
                } else {
                    keys.remove(key);
                }
            }
        }
        Ok(keys.into_iter().collect())
    }

    /// The newest checkpoint of a name in a log.
    pub(crate) fn newest_snapshot(&self, log: u64, name: &str) -> Result<Option<u64>> {
        let prefix = table::snapshots(log).text(name);
        let newest = self.keys(&prefix)?.pop();
        newest.map(|key| table::last_number(&key).ok_or_else(|| damaged("snapshot"))).transpose()
    }

    /// Stores `number` as the number of the last change of each thread that changes.
    pub(crate) fn number_changes(&mut self, number: u64) {
        for log in std::mem::take(&mut self.touched) {
            self.put(table::changed(log), number.to_be_bytes());
        }
    }

    /// The changes, to be applied once their groups are committed, the scopes of events that change, and what is known
    /// of the index with these changes.
    pub(crate) fn into_parts(self) -> (Changes, BTreeSet<(TenantId, Scope)>, Recent) {
        let mut recent = self.recent.into_inner();
        recent.note(&self.changes, self.decoded.into_inner());
        (self.changes, self.scopes, recent.advanced())
    }

    /// What was read of the index. The changes are given up.
    pub(crate) fn into_recent(self) -> Recent {
        self.recent.into_inner()
    }

    /// The first key of a list in a range and a direction that this round does not change. The index has it, or the
    /// round before puts it.
    fn first_unchanged(&self, list: &Key, (from, to): (&[u8], &[u8]), direction: Direction) -> Result<Option<Vec<u8>>> {
        let stays = |key: &[u8]| self.changes.get(key).is_none();
        let is_forward = direction == Direction::Forward;
        loop {
            let mut recent = self.recent.borrow_mut();
            let is_full = recent.is_full();
            let beginning = recent.list(list.as_bytes());
            if is_forward
                && beginning.reaches(from)
                && let Some(key) = beginning.range(from, to).find(|key| stays(key))
            {
                return Ok(Some(key.clone()));
            }
            match beginning.known() {
                Known::All if is_forward => return Ok(None),
                Known::All => return Ok(beginning.range(from, to).rev().find(|key| stays(key)).cloned()),
                Known::UpTo(_) if !is_forward || !beginning.reaches(from) => break,
                _ if is_full => break,
                known => {
                    let (keys, known) = self.read_on(list, known)?;
                    let count = keys.len();
                    beginning.extend(keys, known);
                    recent.count_keys(count);
                }
            }
        }
        let previous = self.previous_changes();
        let is_removed = |key: &[u8]| previous.is_some_and(|changes| changes.get(key) == Some(None));
        let stored = self.look(|snapshot| {
            let keys = snapshot.range(from, to, direction).map(|pair| pair.map(|(key, _)| key));
            let mut stored = keys.filter(|key| key.as_ref().map_or(true, |key| stays(key) && !is_removed(key)));
            stored.next().transpose()
        })?;
        let added = previous.and_then(|changes| {
            let mut added = changes.puts(from, to).filter(|key| stays(key));
            if is_forward { added.next() } else { added.next_back() }.map(<[u8]>::to_vec)
        });
        Ok(first_of(stored, added, direction))
    }

    /// The next keys of a list after what is known of it, and how much is known with them.
    fn read_on(&self, list: &Key, known: &Known) -> Result<(BTreeSet<Vec<u8>>, Known)> {
        let end = after_prefix(list.as_bytes());
        let (from, is_first) = match known {
            Known::UpTo(last) => ([last.as_slice(), &[0]].concat(), false),
            Known::Nothing | Known::All => (list.as_bytes().to_vec(), true),
        };
        let stored = self.look(|snapshot| {
            let begin = if is_first { snapshot.front(list.as_bytes()) } else { from.clone() };
            let pairs = snapshot.range(&begin, &end, Direction::Forward).take(CHUNK);
            let keys = pairs.map(|pair| pair.map(|(key, _)| key)).collect::<Result<Vec<_>>>()?;
            if is_first {
                snapshot.remember_front(list.as_bytes(), keys.first().map(Vec::as_slice));
            }
            Ok::<_, Error>(keys)
        })?;
        let last = stored.last().filter(|_| stored.len() == CHUNK).cloned();
        let mut keys = BTreeSet::from_iter(stored);
        if let Some(changes) = self.previous_changes() {
            let end = last.as_ref().map_or(end, |last| [last.as_slice(), &[0]].concat());
            keys.retain(|key| changes.get(key) != Some(None));
            keys.extend(changes.puts(&from, &end).map(<[u8]>::to_vec));
        }
        Ok((keys, last.map_or(Known::All, Known::UpTo)))
    }

    /// The changes alone, for callers that do not use the cache.
    pub(crate) fn into_changes(self) -> Changes {
        self.changes
    }
}

impl Get for Staged<'_> {
    fn decoded<T: Row>(&self, what: &'static str, key: &Key) -> Result<Option<T>> {
        let changes = self.changes.get(key.as_bytes()).is_some();
        let known = match changes {
            true => self.decoded.borrow().get(key.as_bytes()).and_then(|row| row.downcast_ref().cloned()),
            false => self.recent.borrow().decoded(key.as_bytes()).cloned(),
        };
        if known.is_some() {
            return Ok(known);
        }
        let Some(bytes) = self.get(key.as_bytes())? else { return Ok(None) };
        let row: T = read(what, &bytes)?;
        let decoded = Box::new(row.clone());
        match changes {
            true => drop(self.decoded.borrow_mut().insert(key.as_bytes().to_vec(), decoded)),
            false => self.recent.borrow_mut().put_decoded(key.as_bytes().to_vec(), decoded),
        }
        Ok(Some(row))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.changes.get(key) {
            Some(value) => Ok(value.map(<[u8]>::to_vec)),
            None => {
                if let Some(row) = self.recent.borrow_mut().row(key) {
                    return Ok(row);
                }
                let previous = self.previous_changes().and_then(|changes| changes.get(key));
                let value = match (previous, self.source) {
                    (Some(value), _) => value.map(<[u8]>::to_vec),
                    (None, Source::Index(index)) => index.get(key)?,
                    (None, Source::Snapshot(snapshot)) => snapshot.get(key)?,
                };
                self.recent.borrow_mut().put_row(key.to_vec(), value.clone());
                Ok(value)
            }
        }
    }
}

impl Walk for Staged<'_> {
    fn next(&self, list: &Key, after: Option<Vec<u8>>, direction: Direction) -> Result<Option<Vec<u8>>> {
        let (from, to) = bounds(list, after, direction);
        let stored = self.first_unchanged(list, (&from, &to), direction)?;
        let mut added = self.changes.puts(&from, &to);
        let added = match direction {
            Direction::Forward => added.next(),
            Direction::Backward => added.next_back(),
        };
        Ok(first_of(stored, added.map(<[u8]>::to_vec), direction))
    }
}

/// The one of two keys that comes first in a direction.
fn first_of(one: Option<Vec<u8>>, other: Option<Vec<u8>>, direction: Direction) -> Option<Vec<u8>> {
    match (one, other) {
        (Some(one), Some(other)) if direction == Direction::Forward => Some(one.min(other)),
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
