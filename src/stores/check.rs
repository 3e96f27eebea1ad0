//! A check of the stores of all parts: whether they answer, and what is wrong with them.

#![expect(clippy::disallowed_methods, reason = "measures how long a read takes")]

use std::time::Instant;

use serde::Serialize;
use store_core::{
    Capabilities, DispatchFilter, DispatchQuery, DispatchStatus, MailboxStore, OutboxFilter, OutboxQuery, OutboxStatus,
    OutboxStore, PageRequest, Processes, Result, StoreIdentity, TenantId, Timestamp,
    health::{Fact, Finding, HealthLimits, Lag, Severity, check_health, check_lag},
};

use super::{OpenedPart, Stores};
use crate::composed::OtherPart;

/// How many of the oldest records are read to find one that waits. Some of them may not be due yet.
const OLDEST_RECORDS: u32 = 100;

/// What a check of the stores found (CP-6).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct StoresCheck {
    /// The parts: `threads` first, and each part that has a store of its own.
    pub parts: Vec<PartCheck>,
    /// What follows from the composition.
    pub findings: Vec<Finding>,
}

/// What a check of the store of one part found.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct PartCheck {
    /// `threads`, `mailbox`, `settings` or `blobs`. The store of the threads has each part that is not listed.
    pub part: &'static str,
    /// The URL of the store, without its secrets; absent if the caller has opened it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The name of the backend.
    pub backend: &'static str,
    /// Which store it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<StoreIdentity>,
    /// The capabilities of the store.
    pub capabilities: Capabilities,
    /// Versions and settings.
    pub facts: Vec<Fact>,
    /// How long a small read took, in microseconds; absent if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_us: Option<u64>,
    /// How far the store's clock is ahead of the host's, in milliseconds; absent if it is the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_offset_ms: Option<i64>,
    /// The free bytes where the store keeps its data, if the backend knows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Dispatches of the tenant that wait for a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mailbox_lag: Option<Lag>,
    /// Rows of the tenant's outbox that wait for delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outbox_lag: Option<Lag>,
    /// What the check noticed, problems first.
    pub findings: Vec<Finding>,
}

impl StoresCheck {
    /// Returns whether nothing is wrong. There may be notes.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let findings = self.parts.iter().flat_map(|part| &part.findings).chain(&self.findings);
        findings.map(|finding| finding.severity).max() < Some(Severity::Problem)
    }
}

impl Stores {
    /// Checks the stores of all parts: versions, settings, the time of a read, clocks, free space, and what waits in
    /// the mailbox and the outbox of `tenant`, and whether a copy to it has not ended (CP-6). Nothing is written.
    ///
    /// A store that does not answer is a finding.
    ///
    /// # Errors
    /// `Closed` if the store was closed.
    ///
    /// # Example
    ///
    #[cfg_attr(feature = "memory", doc = "```")]
    #[cfg_attr(not(feature = "memory"), doc = "```ignore")]
    /// # async fn example() -> agentstore::Result<()> {
    /// let check = agentstore::open("memory:").await?.check(&agentstore::TenantId::default_tenant()).await?;
    /// assert!(check.is_healthy());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check(&self, tenant: &TenantId) -> Result<StoresCheck> {
        self.threads.store.tenant(tenant)?;
        let limits = HealthLimits::default();
        let has_mailbox = self.mailbox.is_none();
        let mut parts = vec![check_part("threads", &self.threads, (tenant, has_mailbox, true), &limits).await];
        for (part, other) in self.separate_parts() {
            let has_mailbox = part == OtherPart::Mailbox;
            parts.push(check_part(part.name(), other, (tenant, has_mailbox, false), &limits).await);
        }
        let mut findings = self.check_composition();
        // A store that does not answer is a finding of its part.
        if let Ok(Some(mark)) = self.unfinished_copy(tenant).await {
            let advice = "repeat the copy, which continues; or delete the tenant here, and begin again";
            findings.insert(0, Finding::problem("tenant", format!("tenant {tenant} is not complete: {mark}"), advice));
        }
        Ok(StoresCheck { findings, parts })
    }

    fn check_composition(&self) -> Vec<Finding> {
        let threads = self.threads.store.capabilities();
        let mut findings = Vec::new();
        for (part, other) in self.separate_parts() {
            let (name, capabilities) = (part.name(), other.store.capabilities());
            let (about, backend) = (format!("{name} beside threads"), other.backend);
            if capabilities.survives < threads.survives {
                let text =
                    format!("the {name} in `{backend}` survive less than the threads: a failure may take them alone");
                let advice = "keep both in stores that survive the same";
                findings.push(Finding::note(about.clone(), text, advice));
            }
            if capabilities.processes == Processes::One && threads.processes == Processes::Many {
                let text =
                    format!("only one process at a time can open the {name} in `{backend}`, and many the threads");
                let advice = "use a store on a server if several processes need it";
                findings.push(Finding::note(about, text, advice));
            }
        }
        if self.mailbox.is_some() && threads.fenced {
            let text = "the mailbox is in another store: a commit cannot settle its dispatch, and late attempts are \
                refused by claim number";
            let advice = "nothing to do; for one atomic step, keep the mailbox with the threads";
            findings.push(Finding::note("mailbox beside threads", text, advice));
        }
        findings
    }
}

/// Checks the store of a part. `of` is the tenant, and whether the part includes its mailbox and its outbox.
async fn check_part(
    name: &'static str,
    part: &OpenedPart,
    of: (&TenantId, bool, bool),
    limits: &HealthLimits,
) -> PartCheck {
    let mut check = PartCheck {
        part: name,
        url: part.url.as_deref().map(str::to_owned),
        backend: part.backend,
        identity: part.store.identity(),
        capabilities: part.store.capabilities().clone(),
        facts: Vec::new(),
        read_us: None,
        clock_offset_ms: None,
        free_bytes: None,
        mailbox_lag: None,
        outbox_lag: None,
        findings: Vec::new(),
    };
    if let Err(error) = fill(&mut check, part, of, limits).await {
        let advice = "check that the server or the medium of the store works, and that this process may use it";
        check.findings.push(Finding::problem("answer", format!("the store does not answer: {error}"), advice));
    }
    check.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    check
}

async fn fill(
    check: &mut PartCheck,
    part: &OpenedPart,
    (tenant, has_mailbox, has_outbox): (&TenantId, bool, bool),
    limits: &HealthLimits,
) -> Result<()> {
    let started_at = Instant::now();
    part.store.list_tenants(PageRequest::first(1)).await?;
    let latency = started_at.elapsed();
    check.read_us = Some(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    let health = part.store.health().await?;
    check.clock_offset_ms = health.clock.map(|clock| clock.offset_ms());
    check.free_bytes = health.free_bytes;
    check.findings = check_health(&health, latency, limits);
    let now = health.clock.map_or_else(|| part.clock.now(), |clock| clock.store_time());
    check.facts = health.facts;
    let stores = part.store.tenant(tenant)?;
    if let Some(mailbox) = stores.mailbox.filter(|_| has_mailbox) {
        let lag = mailbox_lag(&*mailbox, now).await?;
        check.findings.extend(check_lag(lag, false, limits));
        check.mailbox_lag = Some(lag);
    }
    if let Some(outbox) = stores.outbox.filter(|_| has_outbox) {
        let lag = outbox_lag(&*outbox, now).await?;
        check.findings.extend(check_lag(lag, true, limits));
        check.outbox_lag = Some(lag);
    }
    Ok(())
}

async fn mailbox_lag(mailbox: &dyn MailboxStore, now: Timestamp) -> Result<Lag> {
    let waiting = mailbox.count_dispatches(None).await?.queued;
    let filter = DispatchFilter::default().in_status([DispatchStatus::Queued]);
    let query = DispatchQuery::new(filter).with_page(PageRequest::first(OLDEST_RECORDS));
    let dispatches = mailbox.list_dispatches(query).await?.items;
    let due = dispatches.iter().map(|dispatch| dispatch.available_at).filter(|due| *due <= now);
    Ok(Lag::new(waiting, due.min(), now))
}

async fn outbox_lag(outbox: &dyn OutboxStore, now: Timestamp) -> Result<Lag> {
    let filter = OutboxFilter::default().in_status([OutboxStatus::Pending]);
    let waiting = outbox.count_outbox(&filter).await?.pending;
    let query = OutboxQuery::new(filter).with_page(PageRequest::first(OLDEST_RECORDS));
    let rows = outbox.list_outbox(query).await?.items;
    let due = rows.iter().map(|row| row.available_at).filter(|due| *due <= now);
    Ok(Lag::new(waiting, due.min(), now))
}
