//! The state that results from the log. Every process that has a store open reads the log in order and so derives the
//! same state.
//!
//! A decision is made at one position of the log, and accepted only if its thread has not changed since that position.
//! So a decision that was made with an outdated view is refused, and is made again. Before a call answers without
//! writing, it asks for the end of the log, and reads up to that end.

mod draft;
mod mailbox;
mod superseded;

use std::collections::{BTreeMap, HashMap};

use store_core::{
    DispatchId, TenantId, Timestamp,
    codec::{Codec, DecodeError},
};

pub(crate) use self::{draft::MailboxDraft, mailbox::Mailbox};
use crate::{
    codec::{self, DataRef, DecisionMessage, IdReservation, TenantRecord},
    server_names::LogSubject,
};

/// The state of a tenant, as derived from the log.
#[derive(Debug)]
pub(crate) struct TenantState {
    /// The sequence number of the message with the record of the tenant.
    pub(crate) sequence: u64,
    pub(crate) record: TenantRecord,
    pub(crate) mailbox: Mailbox,
    /// The reservations of ids that callers chose: the record of each id, and the sequence number of its message.
    pub(crate) reservations: HashMap<DispatchId, (IdReservation, u64)>,
}

/// What one message changed.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The tenant that the message is about.
    pub(crate) tenant: Option<TenantId>,
    /// The earliest time at which a claim may find something.
    pub(crate) claimable_from: Option<Timestamp>,
    /// Superseded messages of the log.
    pub(crate) superseded_messages: Vec<u64>,
    /// Payloads and results that are no longer needed.
    pub(crate) unneeded_data: Vec<DataRef>,
    /// Ids of this incarnation of the tenant under which no dispatch exists any more.
    pub(crate) unused_ids: Vec<DispatchId>,
    /// The name of the decision. The process that wrote the decision chose the name.
    pub(crate) decision_name: Option<String>,
}

/// The state of the log up to a position.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The sequence number of the last message that was read.
    pub(crate) position: u64,
    /// The time that a test has set.
    pub(crate) clock: Option<Timestamp>,
    pub(crate) tenants: BTreeMap<TenantId, TenantState>,
    /// The sequence number of the last message with a time that a test has set.
    clock_message: u64,
    /// The sequence number of the last message without content.
    marker_message: u64,
}

impl View {
    /// Returns the state of a tenant, or `None` if the tenant does not exist.
    pub(crate) fn tenant(&self, name: &TenantId) -> Option<&TenantState> {
        self.tenants.get(name).filter(|tenant| !tenant.record.is_deleted)
    }

    /// Returns the state of a tenant if it exists in this incarnation.
    pub(crate) fn tenant_state(&self, name: &TenantId, incarnation: u64) -> Option<&TenantState> {
        self.tenant(name).filter(|tenant| tenant.record.incarnation == incarnation)
    }

    pub(crate) fn tenant_state_mut(&mut self, name: &TenantId, incarnation: u64) -> Option<&mut TenantState> {
        let tenant = self.tenants.get_mut(name);
        tenant.filter(|tenant| !tenant.record.is_deleted && tenant.record.incarnation == incarnation)
    }

    /// Applies the next message of the log. A late message has no effect, except that it becomes the last one on its
    /// subject.
    pub(crate) fn apply(
        &mut self,
        sequence: u64,
        log_subject: Option<LogSubject>,
        text: &str,
        is_late: bool,
    ) -> Change {
        self.position = sequence;
        let mut change = Change::default();
        match log_subject {
            None | Some(LogSubject::Meta) => {}
            Some(LogSubject::Clock) => {
                self.clock = codec::parse_test_time(text).or(self.clock);
                let previous_message = std::mem::replace(&mut self.clock_message, sequence);
                change.superseded_messages.extend((previous_message > 0).then_some(previous_message));
            }
            Some(LogSubject::Marker) => {
                let previous_message = std::mem::replace(&mut self.marker_message, sequence);
                change.superseded_messages.extend((previous_message > 0).then_some(previous_message));
            }
            Some(LogSubject::Tenant(tenant)) if is_late => {
                if let Some(tenant_state) = self.tenants.get_mut(&tenant) {
                    tenant_state.sequence = sequence;
                }
            }
            Some(LogSubject::Tenant(tenant)) => self.apply_tenant(sequence, tenant, text, &mut change),
            Some(LogSubject::Thread(tenant, incarnation, thread)) => {
                let mut decision = DecisionMessage::read(text);
                change.decision_name = decision.as_ref().ok().map(|decision| decision.decision_name.clone());
                if is_late {
                    decision = Ok(DecisionMessage::default());
                }
                match self.tenant_state_mut(&tenant, incarnation) {
                    Some(tenant_state) => {
                        tenant_state.mailbox.apply(&thread, (sequence, decision), &mut change);
                        change.unused_ids.retain(|id| tenant_state.reservations.contains_key(id));
                    }
                    // The message came after its tenant was deleted.
                    None => change.superseded_messages.push(sequence),
                }
                change.tenant = Some(tenant);
            }
            Some(LogSubject::ReservedId(tenant, incarnation, id)) => {
                match self.tenant_state_mut(&tenant, incarnation) {
                    Some(tenant_state) => tenant_state.apply_id(sequence, id, &IdReservation::read(text), &mut change),
                    None => change.superseded_messages.push(sequence),
                }
            }
        }
        change
    }

    fn apply_tenant(&mut self, sequence: u64, name: TenantId, text: &str, change: &mut Change) {
        // If the record cannot be read, the tenant counts as deleted, because its data may have been deleted.
        let record = TenantRecord::read(text).unwrap_or(TenantRecord { incarnation: u64::MAX, is_deleted: true });
        change.tenant = Some(name.clone());
        let tenant_state = self.tenants.get_mut(&name);
        change.superseded_messages.extend(tenant_state.as_ref().map(|tenant_state| tenant_state.sequence));
        match tenant_state {
            Some(tenant_state) if tenant_state.record.incarnation == record.incarnation && !record.is_deleted => {
                tenant_state.sequence = sequence;
            }
            _ => {
                let mailbox = Mailbox::new(record.incarnation);
                let tenant_state = TenantState { sequence, record, mailbox, reservations: HashMap::new() };
                self.tenants.insert(name, tenant_state);
            }
        }
        change.claimable_from = Some(Timestamp::MIN);
    }
}

impl TenantState {
    /// Forgets the record of an id, if it comes from this message.
    pub(crate) fn forget_id(&mut self, id: &DispatchId, sequence: u64) {
        if self.reservations.get(id).is_some_and(|(_, message)| *message == sequence) {
            self.reservations.remove(id);
        }
    }

    /// Returns the reserved ids under which no dispatch exists. They may still be used by the thread for which they are
    /// reserved.
    pub(crate) fn unused_ids(&self) -> Vec<DispatchId> {
        self.reservations.keys().filter(|id| self.mailbox.records.get(id).is_none()).cloned().collect()
    }

    fn apply_id(
        &mut self,
        sequence: u64,
        id: DispatchId,
        record: &Result<IdReservation, DecodeError>,
        change: &mut Change,
    ) {
        if let Ok(record) = record {
            let previous_reservation = self.reservations.insert(id, (record.clone(), sequence));
            change.superseded_messages.extend(previous_reservation.map(|(_, message)| message));
        }
    }
}
