//! What the index says of the outbox, compared with what a log says: a row is in one log, and what became of it in
//! another.

use std::collections::{BTreeMap, BTreeSet};

use store_core::{
    ErrorKind, OutboxId, Result, TenantId,
    outbox::{self, StoredOutboxRow, positions},
};

use crate::{
    codec::{Rows as _, payload_place},
    decoded,
    fold::{self, Owner},
    line::Line,
    log::{Header, Scanner, Span, read_header},
    names::{log_path, outbox_log_id},
    outbox_rows::OutboxTable,
    shared::Shared,
    staged::Staged,
    table,
    vfs::Open,
};

/// What a log says of rows, the last thing of each.
#[derive(Debug, Default)]
pub(super) struct Rows(BTreeMap<OutboxId, Row>);

#[derive(Debug, Default)]
struct Row {
    /// Where its payload is, if it is here.
    payload: Option<Span>,
    /// Its newest record; none once it is purged.
    stored: Option<StoredOutboxRow>,
}

impl Rows {
    pub(super) fn take(&mut self, lines: &[(Line, Span)]) {
        for (line, span) in lines {
            match line {
                Line::Outbox(line) => {
                    let row = self.0.entry(line.stored.id.clone()).or_default();
                    (row.payload, row.stored) = (Some(*span), Some(line.stored.clone()));
                }
                Line::OutboxState(stored) => {
                    self.0.entry(stored.id.clone()).or_default().stored = Some((**stored).clone());
                }
                Line::OutboxGone(ids) => {
                    ids.iter().for_each(|id| drop(self.0.insert(id.clone(), Row::default())));
                }
                _ => {}
            }
        }
    }

    /// The key of something that the index lacks, or has otherwise.
    pub(super) fn differs(&self, shared: &Shared, owner: &Owner) -> Result<Option<Vec<u8>>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (snapshot, tenant) = (shared.index.snapshot(), &owner.tenant);
        let mut purged = None;
        for (id, row) in &self.0 {
            let key = table::outbox_row(tenant, id).into_bytes();
            let (found, Some(stored)) = (snapshot.outbox_row(tenant, id)?, &row.stored) else {
                if snapshot.outbox_row(tenant, id)?.is_some() {
                    return Ok(Some(key));
                }
                continue;
            };
            let Some(found) = found else {
                // A row that is not in this log has its own finding; one that was purged is in no list.
                if row.payload.is_some() && !is_purged(&mut purged, (shared, tenant), id)? {
                    return Ok(Some(key));
                }
                continue;
            };
            let is_newer = found.revision > stored.revision;
            let mut is_whole = is_newer || found == *stored;
            for (list, place) in positions(&found) {
                let place = table::outbox_place(table::outbox_list(tenant, &list), &place);
                is_whole &= snapshot.get(place.as_bytes())?.is_some();
            }
            if !is_whole || snapshot.outbox_payload(tenant, id)?.is_none() {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Writes what a log says of rows into the index.
    pub(super) fn restore(&self, shared: &Shared, staged: &mut Staged<'_>, owner: &Owner) -> Result<()> {
        let (tenant, mut purged) = (&owner.tenant, None);
        for (id, row) in &self.0 {
            let Some(stored) = &row.stored else {
                fold::outbox::gone(staged, owner, id)?;
                continue;
            };
            if let Some(span) = row.payload
                && !is_purged(&mut purged, (shared, tenant), id)?
            {
                if staged.outbox_payload(tenant, id)?.is_none() {
                    staged.put(table::log_outbox(owner.log).text(id.as_str()), []);
                    staged.put(table::outbox_payload(tenant, id), payload_place(owner.log, span));
                }
                outbox::put_row(&mut OutboxTable::new(staged, tenant), stored.clone())?;
            } else if staged.outbox_row(tenant, id)?.is_some() {
                outbox::put_row(&mut OutboxTable::new(staged, tenant), stored.clone())?;
            }
            // Its places are written again, also if the index has them.
            if let Some(found) = staged.outbox_row(tenant, id)? {
                for (list, place) in positions(&found) {
                    staged.put(table::outbox_place(table::outbox_list(tenant, &list), &place), []);
                }
            }
        }
        Ok(())
    }
}

/// Whether the log of the outbox says that a row was purged, or cannot be read to where it would. It is read once, if
/// it is asked for.
fn is_purged(known: &mut Option<Option<BTreeSet<OutboxId>>>, of: (&Shared, &TenantId), id: &OutboxId) -> Result<bool> {
    if known.is_none() {
        *known = Some(purged(of.0, of.1)?);
    }
    Ok(known.as_ref().is_some_and(|known| known.as_ref().is_none_or(|known| known.contains(id))))
}

/// The rows that were purged; none if that cannot be told.
fn purged(shared: &Shared, tenant: &TenantId) -> Result<Option<BTreeSet<OutboxId>>> {
    let path = log_path(tenant, &outbox_log_id()?, 0)?;
    let mut gone = BTreeSet::new();
    let own = outbox_log_id()?;
    let known = shared.index.event_log(tenant, &own)?.map(|log| shared.index.log_row(log)).transpose()?.flatten();
    let file = match shared.vfs.open(&path, Open::Read) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound && known.is_none() => return Ok(Some(gone)),
        Err(_) => return Ok(None),
        Ok(file) => file,
    };
    let fail = |source| crate::error::io(&path, source);
    let Header::Good(_, start) = read_header(&*file).map_err(fail)? else { return Ok(None) };
    let len = file.len().map_err(fail)?;
    let mut scanner = Scanner::new(&*file, start, len);
    while let Some(group) = scanner.next_group().map_err(fail)? {
        let lines = match decoded::decode(&path, &group) {
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(None),
            decoded => decoded?.lines,
        };
        for (line, _) in lines {
            if let Line::OutboxGone(ids) = line {
                gone.extend(ids);
            }
        }
    }
    let is_whole = known.is_none_or(|row| scanner.position().offset >= row.end.offset);
    Ok(is_whole.then_some(gone))
}
