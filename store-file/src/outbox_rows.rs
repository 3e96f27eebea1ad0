//! The rows of a tenant's outbox in the index, as the rules of core ask for them and change them.

use std::collections::BTreeSet;

use store_core::{
    Json, OutboxId, Result, TenantId,
    outbox::{self, OutboxList, OutboxPosition, OutboxView, StoredOutboxRow},
};

use crate::{
    codec::{Rows, damaged},
    index::{Direction, Key},
    log::Span,
    staged::Staged,
    table,
    walk::Walk,
};

/// Where the payloads of rows stand.
pub(crate) trait Payloads {
    /// The incarnation of the store.
    fn incarnation(&self) -> u64;
    /// The payload at a place in a log.
    fn payload(&self, at: (u64, Span)) -> Result<Json>;
}

/// The outbox of a tenant, with changes that readers do not see yet.
pub(crate) struct OutboxTable<'a, 'b> {
    staged: &'a mut Staged<'b>,
    tenant: &'a TenantId,
    /// Where payloads are read: only a claim asks for them.
    payloads: Option<&'a dyn Payloads>,
    changed: BTreeSet<OutboxId>,
}

impl<'a, 'b> OutboxTable<'a, 'b> {
    pub(crate) const fn new(staged: &'a mut Staged<'b>, tenant: &'a TenantId) -> Self {
        Self { staged, tenant, payloads: None, changed: BTreeSet::new() }
    }

    /// For calls that read payloads.
    pub(crate) const fn of(staged: &'a mut Staged<'b>, tenant: &'a TenantId, payloads: &'a dyn Payloads) -> Self {
        Self { staged, tenant, payloads: Some(payloads), changed: BTreeSet::new() }
    }

    /// The rows that were written or removed.
    pub(crate) fn into_changed(self) -> BTreeSet<OutboxId> {
        self.changed
    }
}

/// The first or last place of a list, or the next one after a place.
pub(crate) fn place(
    staged: &Staged<'_>,
    tenant: &TenantId,
    list: &OutboxList,
    from: (Option<&OutboxPosition>, Direction),
) -> Result<Option<OutboxPosition>> {
    let (after, direction) = from;
    let list = table::outbox_list(tenant, list);
    let after = after.map(|place| table::outbox_place(list.clone(), place).into_bytes());
    let key = staged.next(&list, after, direction)?;
    key.map(|key| table::read_outbox_place(&list, &key).ok_or_else(|| damaged("place of an outbox row"))).transpose()
}

impl OutboxView for OutboxTable<'_, '_> {
    fn row(&self, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        self.staged.outbox_row(self.tenant, id)
    }

    fn next(&self, list: &OutboxList, after: Option<&OutboxPosition>) -> Result<Option<OutboxPosition>> {
        place(self.staged, self.tenant, list, (after, Direction::Forward))
    }

    fn last(&self, list: &OutboxList) -> Result<Option<OutboxPosition>> {
        place(self.staged, self.tenant, list, (None, Direction::Backward))
    }
}

impl outbox::OutboxTable for OutboxTable<'_, '_> {
    fn incarnation(&self) -> u64 {
        self.payloads.map_or(0, Payloads::incarnation)
    }

    fn payload(&self, id: &OutboxId) -> Result<Json> {
        let payloads = self.payloads.ok_or_else(|| damaged("outbox row"))?;
        let at = self.staged.outbox_payload(self.tenant, id)?.ok_or_else(|| damaged("outbox row"))?;
        payloads.payload(at)
    }

    fn set_row(&mut self, id: &OutboxId, row: Option<StoredOutboxRow>) {
        self.changed.insert(id.clone());
        let key = table::outbox_row(self.tenant, id);
        match row {
            Some(row) => self.staged.put(key, store_core::codec::Codec::encode(&row)),
            None => self.staged.delete(key),
        }
    }

    fn set_position(&mut self, list: &OutboxList, place: &OutboxPosition, stands: bool) {
        let key: Key = table::outbox_place(table::outbox_list(self.tenant, list), place);
        if stands { self.staged.put(key, []) } else { self.staged.delete(key) }
    }
}
