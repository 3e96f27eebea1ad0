//! Records as the log has them: dumps and restores, for copies.
//!
//! A dump reads the view. A restore makes a decision for each thread, whose message has the records unchanged. So it is
//! atomic for each thread only; a copy that is interrupted restores the same records again.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use store_core::{
    Error, Result,
    commit::DecisionContext,
    mailbox::StoredDispatch,
    records::{
        RecordList, RecordPort, RecordQuery, StoredRecord, WriteHold, dump_mailbox, no_list, restore_to_mailbox,
    },
};

use crate::{
    codec::{DataRef, LargeParts},
    decide::{self, CatchUpOnly},
    mailbox::decide_by_thread,
    store::TenantHandle,
    tenant::Tenant,
    view::MailboxDraft,
};

/// The records of a tenant.
#[derive(Clone)]
pub(crate) struct NatsRecords {
    tenant: TenantHandle,
}

impl NatsRecords {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }
}

#[async_trait]
impl RecordPort for NatsRecords {
    fn holds(&self, list: RecordList) -> bool {
        list.is_of_mailbox()
    }

    /// There is no lock that every process would respect, so nothing is held.
    async fn hold_writes(&self) -> Result<WriteHold> {
        self.tenant.check_open()?;
        Ok(WriteHold::without_lock())
    }

    async fn dump_records(&self, query: &RecordQuery) -> Result<Vec<StoredRecord>> {
        if !self.holds(query.list) {
            return Err(no_list(query.list));
        }
        let query = query.clone();
        self.tenant.read(|tenant: Arc<Tenant>| async move { dump(&tenant, &query).await }).await
    }

    async fn restore_records(&self, records: Vec<StoredRecord>) -> Result<()> {
        if let Some(other) = records.iter().map(StoredRecord::list).find(|list| !list.is_of_mailbox()) {
            return Err(no_list(other));
        }
        self.tenant.write(None, |tenant: Arc<Tenant>| async move { restore(&tenant, records).await }).await
    }
}

/// Returns the next records of a list, with their large parts.
async fn dump(tenant: &Tenant, query: &RecordQuery) -> Result<Vec<StoredRecord>> {
    tenant.log().catch_up().await?;
    let (records, parts) = {
        let view = tenant.log().view();
        let Some(tenant_state) = tenant.tenant_state(&view)? else { return Ok(Vec::new()) };
        let mailbox = &tenant_state.mailbox;
        if let Some(unreadable) = mailbox.records.unreadable().into_iter().next() {
            return Err(Error::new(unreadable.error.detail().clone()));
        }
        let bytes_of = |part: DataRef| usize::try_from(part.bytes).unwrap_or(usize::MAX);
        let records = dump_mailbox(&mailbox.records, query, |id| mailbox.large_parts(id).data().map(bytes_of).sum());
        let parts_of = |record: &StoredRecord| match record {
            StoredRecord::Dispatch(stored) => mailbox.large_parts(stored.id()),
            _ => LargeParts::default(),
        };
        let parts: Vec<_> = records.iter().map(parts_of).collect();
        (records, parts)
    };
    let mut complete = Vec::with_capacity(records.len());
    for (mut record, parts) in records.into_iter().zip(parts) {
        if let StoredRecord::Dispatch(stored) = &mut record {
            load_large_parts(tenant, stored, parts).await?;
        }
        complete.push(record);
    }
    Ok(complete)
}

/// Adds the large parts of a dispatch, which are in messages of their own.
async fn load_large_parts(tenant: &Tenant, stored: &mut StoredDispatch, parts: LargeParts) -> Result<()> {
    if let Some(payload) = parts.payload {
        let payload = decide::load_large_part(tenant, payload).await?;
        Arc::make_mut(&mut stored.body).payload = Some(payload);
    }
    if let Some(result) = parts.result {
        stored.state.result = Some(decide::load_large_part(tenant, result).await?);
    }
    Ok(())
}

async fn restore(tenant: &Tenant, records: Vec<StoredRecord>) -> Result<()> {
    let incarnation = records.iter().find_map(|record| match record {
        StoredRecord::Numbers(numbers) => Some(numbers.claim_incarnation),
        _ => None,
    });
    tenant.log().catch_up().await?;
    if let Some(incarnation) = incarnation.filter(|incarnation| *incarnation > 0) {
        create_tenant(tenant, incarnation).await?;
    }
    let mut missing = Vec::with_capacity(records.len());
    for record in records {
        if !is_known_with_large_parts(tenant, &record).await? {
            missing.push(record);
        }
    }
    let thread_of = |record: &StoredRecord| record.mailbox_thread().cloned();
    let rule =
        |view: &MailboxDraft<'_>, record: &StoredRecord, _: DecisionContext<'_>| restore_to_mailbox(view, record);
    let answers = decide_by_thread(tenant, &missing, (thread_of, &CatchUpOnly), rule).await;
    answers.into_iter().collect()
}

/// Creates the tenant with an incarnation above `incarnation`. A tenant that exists keeps its own: the record of each
/// restored thread has its last claim number, and the next one is above it (MB-25).
async fn create_tenant(tenant: &Tenant, incarnation: u64) -> Result<()> {
    decide::create_tenant(tenant, incarnation.saturating_add(1)).await?;
    tenant.log().catch_up().await
}

/// Whether the mailbox has a dispatch with large parts already. Without these the rule would take it for another one,
/// and write it again.
async fn is_known_with_large_parts(tenant: &Tenant, record: &StoredRecord) -> Result<bool> {
    let StoredRecord::Dispatch(restored) = record else { return Ok(false) };
    let known = {
        let view = tenant.log().view();
        tenant.tenant_state(&view)?.and_then(|tenant_state| {
            let mailbox = &tenant_state.mailbox;
            Some((mailbox.records.get(restored.id())?.clone(), mailbox.large_parts(restored.id())))
        })
    };
    let Some((mut known, parts)) = known.filter(|(_, parts)| *parts != LargeParts::default()) else { return Ok(false) };
    load_large_parts(tenant, &mut known, parts).await?;
    Ok(known == **restored)
}

impl fmt::Debug for NatsRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsRecords").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}
