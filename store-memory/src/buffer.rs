//! The store behind a write buffer: views for the decisions of the buffer, and applying its deltas.

use async_trait::async_trait;
use store_core::{
    Error, Result, TenantId, ThreadId, Timestamp,
    buffer::{AppliedPosition, BufferTarget, DecideOverView, Delta, DeltaBatch, QuarantinedDelta, ThreadDeletion},
    commit::NeededKeys,
    document::DocumentWritePlan,
};

use crate::{
    commit::{self, LockedParts},
    store::MemoryStore,
    tenant::Tenant,
    threads::delete_all,
    view::{PlanView, TenantEventsView},
};

#[async_trait]
impl BufferTarget for MemoryStore {
    async fn now(&self) -> Result<Timestamp> {
        Ok(self.shared()?.config.clock.now())
    }

    async fn decide(
        &self,
        tenant: &TenantId,
        thread: &ThreadId,
        needed: &NeededKeys,
        decide: &mut DecideOverView<'_>,
    ) -> Result<()> {
        let tenant = self.open_tenant(tenant)?;
        tenant.slots.read(thread, |slot| {
            let index = tenant.index.read();
            let index_records = index.records_for_plan(needed);
            let view = PlanView {
                slot,
                index_records: &index_records,
                events: TenantEventsView { events: &index.events, tenant: &tenant },
                mailbox: None,
                outbox: &index.outbox,
                documents: &index.documents,
            };
            decide(&view, tenant.decision_context())
        })
    }

    async fn lineage(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Vec<ThreadId>> {
        Ok(self.open_tenant(tenant)?.index.read().lineage(thread))
    }

    async fn applied_position(&self) -> Result<AppliedPosition> {
        // While deltas are being applied, this waits until they all are.
        Ok(self.shared()?.attached_buffer.lock().position.clone())
    }

    async fn attach_buffer(&self, buffer: &str, position: u64) -> Result<u64> {
        let shared = self.shared()?;
        let mut attached = shared.attached_buffer.lock();
        if attached.position.buffer.is_none() {
            attached.position.buffer = Some(buffer.to_owned());
            attached.position.position = position;
        }
        attached.position.check(buffer)?;
        Ok(attached.position.position)
    }

    async fn detach_buffer(&self, buffer: &str, position: u64) -> Result<()> {
        let shared = self.shared()?;
        let mut attached = shared.attached_buffer.lock();
        attached.position.check_detachable(buffer, position, attached.quarantine.len())?;
        attached.position.buffer = None;
        Ok(())
    }

    async fn apply_deltas(&self, batch: DeltaBatch) -> Result<AppliedPosition> {
        let shared = self.shared()?;
        let mut attached = shared.attached_buffer.lock();
        attached.position.check(batch.expected.buffer.as_deref().unwrap_or_default())?;
        if attached.position != batch.expected {
            return Ok(attached.position.clone());
        }
        let (afterwards, deleted) = (batch.position_afterwards(), batch.deleted_tenant().cloned());
        for read in batch.deltas {
            if matches!(*read.delta, Delta::TenantDeletion) {
                self.remove_tenant(&read.tenant)?;
            } else {
                apply(&*self.open_tenant(&read.tenant)?, Delta::clone(&read.delta))?;
            }
        }
        attached
            .quarantine
            .retain(|delta| Some(&delta.tenant) != deleted.as_ref() && !batch.released.contains(&delta.sequence));
        attached.quarantine.extend(batch.quarantined);
        attached.quarantine.sort_by_key(|delta| delta.sequence);
        attached.position = afterwards.clone();
        Ok(afterwards)
    }

    async fn quarantined_deltas(&self) -> Result<(AppliedPosition, Vec<QuarantinedDelta>)> {
        let attached = self.shared()?.attached_buffer.lock().clone();
        Ok((attached.position, attached.quarantine))
    }
}

/// The buffer in front of the store.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttachedBuffer {
    position: AppliedPosition,
    quarantine: Vec<QuarantinedDelta>,
}

fn apply(tenant: &Tenant, delta: Delta) -> Result<()> {
    match delta {
        Delta::Thread(plan) => {
            let thread = plan.receipt.thread.clone();
            let has_parent = plan.thread.as_ref().is_some_and(|stored| stored.thread.parent_thread_id.is_some());
            let _family_guard = has_parent.then(|| tenant.family_lock.lock());
            tenant.slots.write(&thread, |slot| {
                let mut parts = LockedParts { slot, mailbox: None };
                commit::apply(&mut tenant.index.write(), &mut parts, &thread, *plan).map(drop)
            })
        }
        Delta::Documents(plan) => {
            apply_documents(tenant, *plan);
            Ok(())
        }
        Delta::Deletion(deletion) => {
            apply_deletion(tenant, &deletion);
            Ok(())
        }
        _ => Err(Error::corrupt("a delta of an unknown kind")),
    }
}

fn apply_documents(tenant: &Tenant, plan: DocumentWritePlan) {
    let apply_records = |documents, events| {
        let mut index = tenant.index.write();
        index.documents.apply(documents);
        if let Some(events) = events {
            index.events.apply(events);
        }
    };
    match plan.id_record {
        Some((thread, record)) => tenant.slots.write(&thread, |slot| {
            tenant.index.write().put_id_record(&thread, slot, record);
            apply_records(plan.documents, plan.events);
        }),
        None => apply_records(plan.documents, plan.events),
    }
}

fn apply_deletion(tenant: &Tenant, deletion: &ThreadDeletion) {
    let deleted: Vec<_> = deletion.deleted.iter().map(|(id, _)| id.clone()).collect();
    let detached: Vec<_> = deletion.detached.iter().map(|child| child.thread.id.clone()).collect();
    delete_all(tenant, &deleted, &detached, deletion.at);
    tenant.deferred_drops.purge_batch_if_many();
}
