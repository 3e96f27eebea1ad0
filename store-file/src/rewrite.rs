//! The logs of collections of documents are rewritten when more than half of one is overwritten or deleted (DO-10).
//!
//! A rewrite makes a new log, which takes all further writes. Then it moves what exists from the old log to the new
//! one, in bounded steps, between which other calls write. When nothing of the old log exists, it is purged. A rewrite
//! that was cut short goes on at the next one: each of its steps leaves the two logs and the index in a whole state.

use std::collections::BTreeSet;

use store_core::{CollectionId, Result, TenantId, codec::Codec};

use crate::{
    codec::{DocumentRow, LogRow, Rows, damaged},
    fold,
    index::Direction,
    line::{self, Line},
    mutex::guard,
    names::{LogKey, Part, documents_log_id, no_log_id},
    pages,
    purge::{self, check_tenant},
    records,
    shared::Shared,
    table,
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
        if !self.is_wanted()? {
            return Ok(());
        }
        let Some(old) = self.step(|round| self.begin(round))? else { return Ok(()) };
        let mut from = None;
        while let Some(last) = self.step(|round| self.move_some(round, old, from.take()))? {
            from = Some(last);
        }
        match self.step(|round| self.retire(round, old))? {
            Some(row) => purge::purge(self.shared, old, &row),
            None => Ok(()),
        }
    }

    fn step<T>(self, make: impl FnOnce(&mut Round<'_>) -> Result<T>) -> Result<T> {
        let key: LogKey = (self.tenant.clone(), no_log_id()?, Part::Events);
        alone(self.shared, key, How::Frees, |round| {
            check_tenant(self.shared, self.tenant)?;
            make(round)
        })
    }

    /// Looks whether there is something to do, without a round.
    fn is_wanted(self) -> Result<bool> {
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

    fn is_due(self, rows: &impl Rows) -> Result<bool> {
        let Some(row) = rows.collection_row(self.tenant, self.collection)? else { return Ok(false) };
        let Some(log) = rows.log_row(row.log)? else { return Ok(false) };
        Ok(fold::is_rewrite_due(log.end.offset, rows.document_bytes(row.log)?))
    }

    /// Makes the new log, unless that was done. Returns the number of the old one.
    fn begin(self, round: &mut Round<'_>) -> Result<Option<u64>> {
        // What a damaged log says of documents is not known, so nothing is moved, and nothing is removed.
        self.shared.check_collection(self.tenant, self.collection)?;
        if let Some(old) = self.old(&round.staged)? {
            return Ok(Some(old));
        }
        let Some(row) = round.staged.collection_row(self.tenant, self.collection)? else { return Ok(None) };
        if !self.is_due(&round.staged)? {
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
            last = Some(key);
            if found.log == old {
                bytes += u64::from(found.span.len);
                let document = records::read(self.shared, old, found.span, line::decode_document)?;
                lines.push(Line::Document(Box::new(document)));
            }
            if bytes > BYTES {
                break;
            }
        }
        if !lines.is_empty() {
            round.put_collection(self.collection, row.rewrites, lines, self.shared.time.now())?;
        }
        Ok(last)
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
