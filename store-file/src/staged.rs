//! Changes of the index that wait for their groups to be durable, and the index as it will be with them.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap, HashSet},
};

use store_core::{Result, Scope, TenantId};

use crate::{
    codec::{Get, Row, damaged, read},
    index::{Changes, Direction, Index, Key, Snapshot, after_prefix},
    log::Position,
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

/// The index with changes that readers do not see yet. The next commit of the batch is checked against it.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    source: Source<'a>,
    changes: Changes,
    /// Rows that change, decoded.
    decoded: RefCell<HashMap<Vec<u8>, Decoded>>,
    /// Keys that get a value and have none in what the changes are laid over.
    new: HashSet<Vec<u8>>,
    /// Logs whose threads change: each gets a number when that shows.
    touched: BTreeSet<u64>,
    /// Scopes that get events: who follows them is told when these show.
    scopes: BTreeSet<(TenantId, Scope)>,
    /// What was read of the index, which stays: nothing else writes to it meanwhile.
    recent: RefCell<Recent>,
}

impl<'a> Staged<'a> {
    pub(crate) fn new(index: &'a Index) -> Self {
        Self::of(Source::Index(index))
    }

    /// The same for the writer, with what it has read and written before.
    pub(crate) fn with_recent(index: &'a Index, recent: Recent) -> Self {
        Self { recent: RefCell::new(recent.at(index.version())), ..Self::new(index) }
    }

    /// For a reader, whose changes are never applied.
    pub(crate) fn over(snapshot: &'a Snapshot) -> Self {
        Self::of(Source::Snapshot(snapshot))
    }

    fn of(source: Source<'a>) -> Self {
        Self {
            source,
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

    /// Says that the index has nothing under a key, which need not be looked for.
    pub(crate) fn know_absent(&mut self, key: Key) {
        self.recent.get_mut().put_row(key.into_bytes(), None);
    }

    /// Puts a key that nothing was ever stored at: if it is deleted before that shows, nothing of it remains.
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

    /// Says that the thread of a log changes.
    pub(crate) fn touch(&mut self, log: u64) {
        self.touched.insert(log);
    }

    /// Says that a scope gets an event, or loses some.
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
        for (key, value) in self.changes.below(prefix.as_bytes()) {
            if value.is_some() {
                keys.insert(key.to_vec());
            } else {
                keys.remove(key);
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

    /// Gives all threads that change the number of this change.
    pub(crate) fn number_changes(&mut self, number: u64) {
        for log in std::mem::take(&mut self.touched) {
            self.put(table::changed(log), number.to_be_bytes());
        }
    }

    /// The changes, to be applied once what they stand for is durable, the scopes of events that change, and what is
    /// known of the index with these changes.
    pub(crate) fn into_parts(self) -> (Changes, BTreeSet<(TenantId, Scope)>, Recent) {
        let mut recent = self.recent.into_inner();
        recent.note(&self.changes, self.decoded.into_inner());
        (self.changes, self.scopes, recent)
    }

    /// What was read of the index. The changes are given up.
    pub(crate) fn into_recent(self) -> Recent {
        self.recent.into_inner()
    }

    /// The first key of a list in a range and a direction that the index has and that does not change.
    fn stored(&self, list: &Key, (from, to): (&[u8], &[u8]), direction: Direction) -> Result<Option<Vec<u8>>> {
        let stays = |key: &&Vec<u8>| self.changes.get(key).is_none();
        let is_forward = direction == Direction::Forward;
        loop {
            let mut recent = self.recent.borrow_mut();
            let is_full = recent.is_full();
            let beginning = recent.list(list.as_bytes());
            if is_forward
                && beginning.reaches(from)
                && let Some(key) = beginning.range(from, to).find(stays)
            {
                return Ok(Some(key.clone()));
            }
            match beginning.known() {
                Known::All if is_forward => return Ok(None),
                Known::All => return Ok(beginning.range(from, to).rev().find(stays).cloned()),
                Known::UpTo(_) if !is_forward || !beginning.reaches(from) => break,
                _ if is_full => break,
                known => {
                    let (keys, known) = self.look(|snapshot| read_on(snapshot, list, known))?;
                    let count = keys.len();
                    beginning.extend(keys, known);
                    recent.count_keys(count);
                }
            }
        }
        self.look(|snapshot| {
            let keys = snapshot.range(from, to, direction).map(|pair| pair.map(|(key, _)| key));
            let mut stored = keys.filter(|key| key.as_ref().map_or(true, |key| stays(&key)));
            stored.next().transpose()
        })
    }

    /// The changes of an opening. No reader exists yet.
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
                let value = match self.source {
                    Source::Index(index) => index.get(key)?,
                    Source::Snapshot(snapshot) => snapshot.get(key)?,
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
        let stored = self.stored(list, (&from, &to), direction)?;
        let added = self.changes.first_put(&from, &to, direction);
        Ok(match (stored, added) {
            (Some(stored), Some(added)) if direction == Direction::Forward => Some(stored.min(added)),
            (Some(stored), Some(added)) => Some(stored.max(added)),
            (stored, added) => stored.or(added),
        })
    }
}

/// The next keys of a list behind what is known of it, and how much is known with them.
fn read_on(snapshot: &Snapshot, list: &Key, known: &Known) -> Result<(Vec<Vec<u8>>, Known)> {
    let from = match known {
        Known::UpTo(last) => [last.as_slice(), &[0]].concat(),
        Known::Nothing | Known::All => snapshot.front(list.as_bytes()),
    };
    let pairs = snapshot.range(&from, &after_prefix(list.as_bytes()), Direction::Forward).take(CHUNK);
    let keys = pairs.map(|pair| pair.map(|(key, _)| key)).collect::<Result<Vec<_>>>()?;
    if *known == Known::Nothing {
        snapshot.remember_front(list.as_bytes(), keys.first().map(Vec::as_slice));
    }
    let known = match keys.last() {
        Some(last) if keys.len() == CHUNK => Known::UpTo(last.clone()),
        _ => Known::All,
    };
    Ok((keys, known))
}
