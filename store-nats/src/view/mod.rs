//! What the log says: every process that has a store open reads the log in its order, and so knows what is decided.
//!
//! A decision is made from one place of the log, and written only if its thread is still as it was there. So a view
//! that is behind costs another try and nothing else; whoever answers without writing looks first how far the log is.

mod desk;
mod garbage;
mod mailbox;

use std::collections::{BTreeMap, HashMap};

use store_core::{
    DispatchId, TenantId, Timestamp,
    codec::{Codec, DecodeError},
};

pub(crate) use self::{desk::Desk, mailbox::Mailbox};
use crate::{
    codec::{self, Datum, Deed, IdRecord, TenantRecord},
    key::Key,
};

/// What is known of a tenant.
#[derive(Debug)]
pub(crate) struct OfTenant {
    /// The message that says so.
    pub(crate) sequence: u64,
    pub(crate) record: TenantRecord,
    pub(crate) mailbox: Mailbox,
    /// Who may enqueue under ids that callers gave: the record, and its message.
    pub(crate) ids: HashMap<DispatchId, (IdRecord, u64)>,
}

/// What one message changed.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The tenant that it is about.
    pub(crate) tenant: Option<TenantId>,
    /// From when on a claim may find something.
    pub(crate) claimable_from: Option<Timestamp>,
    /// Messages of the log that say nothing any more.
    pub(crate) garbage: Vec<u64>,
    /// Payloads that nobody needs any more.
    pub(crate) data: Vec<Datum>,
    /// Ids that nothing stands under any more, of this life of the tenant.
    pub(crate) ids: Vec<DispatchId>,
    /// Who wrote it.
    pub(crate) by: Option<String>,
}

/// What the log says up to a place.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The last message that was read.
    pub(crate) position: u64,
    /// The time of tests.
    pub(crate) clock: Option<Timestamp>,
    pub(crate) tenants: BTreeMap<TenantId, OfTenant>,
    clock_at: u64,
    touched_at: u64,
}

impl View {
    /// A tenant that is there.
    pub(crate) fn tenant(&self, name: &TenantId) -> Option<&OfTenant> {
        self.tenants.get(name).filter(|tenant| !tenant.record.is_deleted)
    }

    /// One life of a tenant.
    pub(crate) fn life(&self, name: &TenantId, incarnation: u64) -> Option<&OfTenant> {
        self.tenant(name).filter(|tenant| tenant.record.incarnation == incarnation)
    }

    pub(crate) fn life_mut(&mut self, name: &TenantId, incarnation: u64) -> Option<&mut OfTenant> {
        let tenant = self.tenants.get_mut(name);
        tenant.filter(|tenant| !tenant.record.is_deleted && tenant.record.incarnation == incarnation)
    }

    /// Takes in the next message of the log. One that came too late says nothing: it only is the last on its subject.
    pub(crate) fn apply(&mut self, sequence: u64, key: Option<Key>, text: &str, is_late: bool) -> Change {
        self.position = sequence;
        let mut change = Change::default();
        match key {
            None | Some(Key::Meta) => {}
            Some(Key::Clock) => {
                self.clock = codec::time(text).or(self.clock);
                let before = std::mem::replace(&mut self.clock_at, sequence);
                change.garbage.extend((before > 0).then_some(before));
            }
            Some(Key::Touch) => {
                let before = std::mem::replace(&mut self.touched_at, sequence);
                change.garbage.extend((before > 0).then_some(before));
            }
            Some(Key::Tenant(tenant)) if is_late => {
                if let Some(found) = self.tenants.get_mut(&tenant) {
                    found.sequence = sequence;
                }
            }
            Some(Key::Tenant(tenant)) => self.apply_tenant(sequence, tenant, text, &mut change),
            Some(Key::Thread(tenant, incarnation, thread)) => {
                let mut deed = Deed::read(text);
                change.by = deed.as_ref().ok().map(|deed| deed.by.clone());
                if is_late {
                    deed = Ok(Deed::default());
                }
                match self.life_mut(&tenant, incarnation) {
                    Some(found) => {
                        found.mailbox.apply(&thread, (sequence, deed), &mut change);
                        change.ids.retain(|id| found.ids.contains_key(id));
                    }
                    // It came after its tenant was deleted.
                    None => change.garbage.push(sequence),
                }
                change.tenant = Some(tenant);
            }
            Some(Key::Id(tenant, incarnation, id)) => match self.life_mut(&tenant, incarnation) {
                Some(found) => found.apply_id(sequence, id, &IdRecord::read(text), &mut change),
                None => change.garbage.push(sequence),
            },
        }
        change
    }

    fn apply_tenant(&mut self, sequence: u64, name: TenantId, text: &str, change: &mut Change) {
        // A record that cannot be read closes the tenant: nobody knows what of it counts.
        let record = TenantRecord::read(text).unwrap_or(TenantRecord { incarnation: u64::MAX, is_deleted: true });
        change.tenant = Some(name.clone());
        let found = self.tenants.get_mut(&name);
        change.garbage.extend(found.as_ref().map(|found| found.sequence));
        match found {
            Some(found) if found.record.incarnation == record.incarnation && !record.is_deleted => {
                found.sequence = sequence;
            }
            _ => {
                let mailbox = Mailbox::new(record.incarnation);
                let found = OfTenant { sequence, record, mailbox, ids: HashMap::new() };
                self.tenants.insert(name, found);
            }
        }
        change.claimable_from = Some(Timestamp::MIN);
    }
}

impl OfTenant {
    /// Forgets what is said about an id, if it is this message that says so.
    pub(crate) fn forget_id(&mut self, id: &DispatchId, sequence: u64) {
        if self.ids.get(id).is_some_and(|(_, at)| *at == sequence) {
            self.ids.remove(id);
        }
    }

    /// Ids that nothing stands under: whoever wanted them did not enqueue, or not yet.
    pub(crate) fn unused_ids(&self) -> Vec<DispatchId> {
        self.ids.keys().filter(|id| self.mailbox.map.get(id).is_none()).cloned().collect()
    }

    fn apply_id(&mut self, sequence: u64, id: DispatchId, record: &Result<IdRecord, DecodeError>, change: &mut Change) {
        if let Ok(record) = record {
            let before = self.ids.insert(id, (record.clone(), sequence));
            change.garbage.extend(before.map(|(_, before)| before));
        }
    }
}
