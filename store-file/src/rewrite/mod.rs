//! The logs of collections of documents are rewritten when more than half of one is overwritten or deleted (DO-10).
//!
//! A rewrite makes a new log, which takes all further writes. Then it moves what exists from the old log to the new
//! one, in bounded steps, between which other calls write. When nothing of the old log exists, it is purged. A rewrite
//! that was cut short goes on at the next one: each of its steps leaves the two logs and the index in a whole state.
//!
//! A collection has two logs at most: the next rewrite begins when the old log of the one before is gone. If an older
//! log outlived a newer one, an index that is made anew would show documents again that were deleted in between.

use std::collections::BTreeSet;

use store_core::{CollectionId, DocumentKey, ErrorKind, Result, TenantId, codec::Codec};

use crate::{
    codec::{DocumentRow, LogRow, Rows, damaged},
    fold,
    index::{Direction, KeyReader},
    line::{DamagedDocumentLine, Line},
    mutex::guard,
    names::{LogKey, Part, documents_log_id, no_log_id},
    pages,
    purge::{self, check_tenant},
    records,
    shared::Shared,
    table,
    vfs::hex,
    writer::{How, Round, alone},
};

/// How many documents a step moves.
const KEYS: usize = 1_000;
/// About how many bytes a step moves.
const BYTES: u64 = 128 << 10;

/// Rewrites and purges what waits for it, until nothing does. What fails is done by the next call.
pub(crate) fn behind(shared: &Shared) {
    loop {
        let mut waiting = guard(&shared.behind);
        let Some(tenant) = waiting.as_mut().and_then(BTreeSet::pop_first) else {
            *waiting = None;
            return;
        };
        drop(waiting);
        let _ = all(shared, &tenant);
        let _ = purge::all(shared, Some(&tenant));
    }
}

/// Rewrites the logs of a tenant's collections that are due, and ends rewrites that were cut short.
pub(crate) fn all(shared: &Shared, tenant: &TenantId) -> Result<()> {
    shared.check_writable()?;
    let snapshot = shared.index.snapshot();
    let mut collections = Vec::new();
    for pair in snapshot.prefix(table::collections(tenant).as_bytes(), Direction::Forward) {
        let collection = table::read_collection(&pair?.0).ok_or_else(|| damaged("collection"))?;
        collections.push(CollectionId::new(collection)?);
    }
    drop(snapshot);
    let mut first = Ok(());
    for collection in collections {
        // One log that cannot be read keeps no other from its rewrite.
        first = first.and(Rewrite { shared, tenant, collection: &collection }.run());
        shared.check_sound()?;
    }
    first
}

/// The rewrite of the log of a collection.
#[derive(Clone, Copy)]
struct Rewrite<'a> {
    shared: &'a Shared,
    tenant: &'a TenantId,
    collection: &'a CollectionId,
}

impl Rewrite<'_> {
    fn run(self) -> Result<()> {
        match self.run_to_end() {
            // It goes on when there is space: logs and index say how far it came.
            Err(error) if error.kind() == ErrorKind::StorageFull => Ok(()),
            done => done,
        }
    }

    fn run_to_end(self) -> Result<()> {
        if !self.is_wanted()? {
            return Ok(());
        }
        if let Some((log, row)) = self.waiting()? {
            purge::purge(self.shared, log, &row)?;
        }
        // Nothing is freed before the end, so the reserve is left to what frees space at once.
        let Some(old) = self.step(How::AsAsked, |round| self.begin(round))? else { return Ok(()) };
        let mut from = None;
        while let Some(last) = self.step(How::AsAsked, |round| self.move_some(round, old, from.take()))? {
            from = Some(last);
        }
        match self.step(How::Frees, |round| self.retire(round, old))? {
            Some(row) => purge::purge(self.shared, old, &row),
            None => Ok(()),
        }
    }

    fn step<T>(self, how: How, make: impl FnOnce(&mut Round<'_>) -> Result<T>) -> Result<T> {
        let key: LogKey = (self.tenant.clone(), no_log_id()?, Part::Events);
        alone(self.shared, key, how, |round| {
            check_tenant(self.shared, self.tenant)?;
            make(round)
        })
    }

    /// Looks whether there is something to do, without a round. Of a collection with a log that could not be read when
    /// the store was opened, it is not known which documents exist: nothing is moved and nothing is removed. Every call
    /// about the collection reports the damage.
    fn is_wanted(self) -> Result<bool> {
        if self.shared.check_collection(self.tenant, self.collection).is_err() {
            return Ok(false);
        }
        let snapshot = self.shared.index.snapshot();
        Ok(self.old(&snapshot)?.is_some() || self.is_due(&snapshot)?)
    }

    /// The log of which a rewrite was begun.
    fn old(self, rows: &impl Rows) -> Result<Option<u64>> {
        let Some(row) = rows.collection_row(self.tenant, self.collection)? else { return Ok(None) };
        match row.rewrites.checked_sub(1) {
            Some(before) => rows.event_log(self.tenant, &documents_log_id(self.collection, before)?),
            None => Ok(None),
        }
    }

    /// The old log of the rewrite before, if it waits for its purge.
    fn waiting(self) -> Result<Option<(u64, LogRow)>> {
        let row = self.shared.index.collection_row(self.tenant, self.collection)?;
        let Some(before) = row.and_then(|row| row.rewrites.checked_sub(1)) else { return Ok(None) };
        let id = documents_log_id(self.collection, before)?;
        let waiting = purge::left_behind(self.shared, Some(self.tenant))?;
        Ok(waiting.into_iter().find(|(_, row)| row.generation == 0 && row.thread == id))
    }

    fn is_due(self, rows: &impl Rows) -> Result<bool> {
        let Some(row) = rows.collection_row(self.tenant, self.collection)? else { return Ok(false) };
        let Some(log) = rows.log_row(row.log)? else { return Ok(false) };
        Ok(fold::is_rewrite_due(log.end.offset, rows.document_bytes(row.log)?))
    }

    /// Makes the new log, unless that was done. Returns the number of the old one.
    fn begin(self, round: &mut Round<'_>) -> Result<Option<u64>> {
        if let Some(old) = self.old(&round.staged)? {
            return Ok(Some(old));
        }
        let Some(row) = round.staged.collection_row(self.tenant, self.collection)? else { return Ok(None) };
        if !self.is_due(&round.staged)? || self.waiting()?.is_some() {
            return Ok(None);
        }
        let now = self.shared.time.now();
        round.begin_collection(self.collection, row.rewrites + 1, Vec::new(), now)?;
        Ok(Some(row.log))
    }

    /// Moves documents from the old log, those after a key of the index. Returns the last key that was looked at.
    fn move_some(self, round: &mut Round<'_>, old: u64, from: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        let Some(row) = round.staged.collection_row(self.tenant, self.collection)? else { return Ok(None) };
        let list = table::documents(self.tenant).text(self.collection.as_str());
        let snapshot = self.shared.index.snapshot();
        let (mut lines, mut bytes, mut last) = (Vec::new(), 0, None);
        for pair in pages::behind(&snapshot, &list, Direction::Forward, from).take(KEYS) {
            let (key, value) = pair?;
            let found = DocumentRow::decode(&value).ok_or_else(|| damaged("document"))?;
            if found.log == old {
                bytes += u64::from(found.span.len);
                let encoded = KeyReader::below(&list, &key).and_then(|mut key| key.text());
                lines.push(self.line(&encoded.ok_or_else(|| damaged("document"))?, &found)?);
            }
            last = Some(key);
            if bytes > BYTES {
                break;
            }
        }
        if !lines.is_empty() {
            round.put_collection(self.collection, row.rewrites, lines, self.shared.time.now())?;
        }
        Ok(last)
    }

    /// The line of a document for the new log. One that is damaged does not keep the others from being moved: what is
    /// found in its place goes on as damage.
    fn line(self, encoded: &str, row: &DocumentRow) -> Result<Line> {
        match records::read(self.shared, row.log, row.span, Line::decode) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                // An error here is about the whole log.
                let found = records::read_unproved(self.shared, row.log, row.span)?;
                let document = DocumentKey::from_encoded(self.collection.clone(), encoded)?.into();
                let line = DamagedDocumentLine { document, state: row.state, found: hex(&found) };
                Ok(Line::DamagedDocument(Box::new(line)))
            }
            line => line,
        }
    }

    /// Takes the old log out of the index, if nothing of it exists. It waits for the purge then.
    fn retire(self, round: &mut Round<'_>, old: u64) -> Result<Option<LogRow>> {
        let (staged, tenant) = (&mut round.staged, self.tenant);
        let Some(row) = staged.log_row(old)?.filter(|row| row.tenant == *tenant) else { return Ok(None) };
        if staged.document_bytes(old)? > 0 {
            return Ok(None);
        }
        staged.delete(table::log(old));
        staged.delete(table::event_log(tenant, &row.thread));
        staged.put(table::purge(old), row.encode());
        round.forget(&(tenant.clone(), row.thread.clone(), Part::Events));
        Ok(Some(row))
    }
}

#[cfg(test)]
mod tests;
