//! Checks of what the servers store: that every decision can be read, and that the large parts of each dispatch exist.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use store_core::{
    DispatchId, Error, Json, Progress, Result, TenantId, ThreadId, Timestamp, UnreadableThread,
    inspect::{Finding, FindingKind, Inspection, Inspector},
    length,
};
use tokio::time::Instant;

use crate::{
    codec::{DataRef, LargeParts},
    decide::write_decision,
    log::Log,
    server_names::LogSubject,
    store::NatsStore,
    view::{Mailbox, TenantState},
};

/// The number of dispatches checked at once. It is small, so that other calls do not wait long.
const DISPATCHES_PER_BATCH: usize = 1_000;
/// The largest number of payloads loaded concurrently.
const MAX_CONCURRENCY: usize = 16;

#[async_trait]
impl Inspector for NatsStore {
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection> {
        let log = self.log()?;
        log.catch_up().await?;
        let mut inspection = Inspection::default();
        for tenant_incarnation in tenants_to_check(log) {
            inspection.tenants += 1;
            verify_tenant(log, &tenant_incarnation, progress, &mut inspection).await?;
            if inspection.stopped {
                break;
            }
        }
        Ok(inspection)
    }

    /// Lets each thread with an unreadable decision continue without that decision (MB-55). Nothing else can be
    /// repaired: the log contains each piece of data only once, so no data can be derived from other data (VF-5).
    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection> {
        let (log, inspection) = (self.log()?, self.verify(progress).await?);
        if dry_run || inspection.stopped {
            return Ok(inspection);
        }
        for tenant_incarnation in tenants_to_check(log) {
            for UnreadableThread { thread, .. } in
                read_mailbox(log, &tenant_incarnation, |mailbox| mailbox.records.unreadable())
            {
                resume_thread(log, &tenant_incarnation, &thread).await?;
            }
        }
        Ok(inspection)
    }
}

/// A tenant and one of its incarnations.
struct TenantIncarnation {
    tenant: TenantId,
    incarnation: u64,
}

fn tenants_to_check(log: &Log) -> Vec<TenantIncarnation> {
    let has_data = |(_, tenant_state): &(&TenantId, &TenantState)| {
        !tenant_state.record.is_deleted && !tenant_state.mailbox.records.is_empty()
    };
    log.view().tenants.iter().filter(has_data).map(tenant_incarnation).collect()
}

fn tenant_incarnation((name, tenant_state): (&TenantId, &TenantState)) -> TenantIncarnation {
    TenantIncarnation { tenant: name.clone(), incarnation: tenant_state.record.incarnation }
}

/// A dispatch whose large parts are checked.
struct DispatchToCheck {
    position: (Timestamp, DispatchId),
    thread: ThreadId,
    large_parts: LargeParts,
}

async fn verify_tenant(
    log: &Log,
    tenant_incarnation: &TenantIncarnation,
    progress: &dyn Progress,
    inspection: &mut Inspection,
) -> Result<()> {
    let mut threads = HashSet::new();
    for UnreadableThread { thread, error, .. } in
        read_mailbox(log, tenant_incarnation, |mailbox| mailbox.records.unreadable())
    {
        let finding = Finding::new(FindingKind::Damaged, format!("the log of `{thread}`"), error.to_string());
        inspection.findings.push(finding.of_thread(&tenant_incarnation.tenant, &thread));
        threads.insert(thread);
    }
    let mut after = None;
    loop {
        let dispatches = read_mailbox(log, tenant_incarnation, |mailbox| next_batch(mailbox, after.take()));
        let Some(last) = dispatches.last() else { break };
        after = Some(last.position.clone());
        threads.extend(dispatches.iter().map(|dispatch| dispatch.thread.clone()));
        let checks = stream::iter(dispatches)
            .map(|dispatch| check_large_parts(log, tenant_incarnation, dispatch))
            .buffered(MAX_CONCURRENCY);
        for findings in checks.collect::<Vec<_>>().await {
            inspection.findings.extend(findings?);
        }
        if !progress.advance(inspection.threads + length(threads.len()), None) {
            inspection.stopped = true;
            break;
        }
    }
    inspection.threads += length(threads.len());
    Ok(())
}

/// Writes the decision with which a thread continues without its unreadable messages, unless another process has
/// already written it.
async fn resume_thread(log: &Arc<Log>, tenant_incarnation: &TenantIncarnation, thread: &ThreadId) -> Result<()> {
    let log_subject =
        LogSubject::Thread(tenant_incarnation.tenant.clone(), tenant_incarnation.incarnation, thread.clone());
    let started_at = Instant::now();
    while started_at.elapsed() < log.answer_timeout {
        log.catch_up().await?;
        let (mut pending_decision, now) = (log.register_decision(), log.now()?);
        let repair = |mailbox: &Mailbox| mailbox.repair_message(thread, &pending_decision.name, now);
        let last_and_repair =
            read_mailbox(log, tenant_incarnation, |mailbox| Some((mailbox.last_message(thread), repair(mailbox)?)));
        let Some((last, decision)) = last_and_repair else { return Ok(()) };
        if write_decision(log, &mut pending_decision, (&log_subject, last), decision).await? {
            return Ok(());
        }
    }
    Err(Error::unavailable("other callers kept writing at the same time"))
}

/// Reads from the view of a tenant. Returns the default if the tenant was deleted in the meantime.
fn read_mailbox<T: Default>(log: &Log, tenant_incarnation: &TenantIncarnation, read: impl FnOnce(&Mailbox) -> T) -> T {
    let TenantIncarnation { tenant, incarnation } = tenant_incarnation;
    log.view().tenant_state(tenant, *incarnation).map(|tenant_state| read(&tenant_state.mailbox)).unwrap_or_default()
}

fn next_batch(mailbox: &Mailbox, after: Option<(Timestamp, DispatchId)>) -> Vec<DispatchToCheck> {
    let dispatch = |(time, stored): (Timestamp, &store_core::mailbox::StoredDispatch)| {
        let id = stored.id().clone();
        let large_parts = mailbox.large_parts(&id);
        DispatchToCheck { position: (time, id), thread: stored.body.thread.clone(), large_parts }
    };
    mailbox.records.dispatches(after).take(DISPATCHES_PER_BATCH).map(dispatch).collect()
}

async fn check_large_parts(
    log: &Log,
    tenant_incarnation: &TenantIncarnation,
    dispatch: DispatchToCheck,
) -> Result<Vec<Finding>> {
    let (_, id) = &dispatch.position;
    let mut findings = Vec::new();
    for (name, data_ref) in [("payload", dispatch.large_parts.payload), ("result", dispatch.large_parts.result)] {
        let Some(data_ref) = data_ref else { continue };
        let Some((kind, detail)) = find_damage(log, data_ref).await? else { continue };
        // A dispatch that was purged in the meantime no longer needs the part.
        let current_parts =
            read_mailbox(log, tenant_incarnation, |mailbox| Some(mailbox.large_parts(id))).unwrap_or_default();
        if [current_parts.payload, current_parts.result].contains(&Some(data_ref)) {
            let finding = Finding::new(kind, format!("the {name} of dispatch `{id}`"), detail);
            findings.push(finding.of_thread(&tenant_incarnation.tenant, &dispatch.thread));
        }
    }
    Ok(findings)
}

/// Returns what is wrong with a payload or result that is stored in a message of its own.
async fn find_damage(log: &Log, data_ref: DataRef) -> Result<Option<(FindingKind, String)>> {
    let stream = log.connection.names.data_stream();
    let place = format!("message {} of the stream `{stream}`", data_ref.sequence);
    let Some(text) =
        log.connection.load(&stream, data_ref.sequence).await.map(Some).or_else(none_if_corrupt)?.flatten()
    else {
        return Ok(Some((FindingKind::DanglingReference, format!("{place} does not exist, or is not text"))));
    };
    let is_intact = length(text.len()) == data_ref.bytes && Json::parse(&text).is_ok();
    Ok((!is_intact).then(|| (FindingKind::Damaged, format!("{place} differs from what was written"))))
}

/// Returns `None` for damage, which must not end the check, and any other error as an error.
fn none_if_corrupt<T>(error: Error) -> Result<Option<T>> {
    match error.kind() {
        store_core::ErrorKind::Corrupt => Ok(None),
        _ => Err(error),
    }
}
