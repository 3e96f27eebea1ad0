//! Facts of the root log, worked out before the logs are read: which threads are gone, and what is remembered of ids.

use std::collections::{BTreeMap, BTreeSet};

use store_core::{
    ClaimNumber, Result, TenantId, ThreadId, Timestamp,
    codec::Codec,
    thread::{self, ThreadIdRecord},
};

use crate::{
    codec::{Rows, ThreadRow, damaged},
    fold::{self, Owner},
    index::{Direction, Index},
    line::{Fact, Named},
    names::ThreadKey,
    staged::Staged,
    table,
};

/// What the facts after a position of the root log come to, taken in order.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    ids: BTreeMap<ThreadKey, Remembered>,
    /// The last time that a thread lost its parent.
    detached: BTreeMap<ThreadKey, (Named, Timestamp)>,
    /// Tenants that are being removed.
    pub(crate) dropped: BTreeSet<TenantId>,
    /// The highest incarnation of claim numbers of tenants that were removed.
    pub(crate) claims: Option<u64>,
    /// The revision of documents above which others are put.
    pub(crate) documents: Option<u64>,
    /// The last opening that acknowledged what a power cut may take.
    pub(crate) relaxed: Option<u64>,
}

#[derive(Debug, Default, Clone)]
struct Remembered {
    deleted: Option<(u64, Timestamp)>,
    fence: Option<Option<ClaimNumber>>,
    forgotten: bool,
}

impl Facts {
    /// What the index knows up to its position in the root log, as far as it is not finished yet.
    pub(crate) fn unfinished(index: &Index) -> Result<Self> {
        let mut facts = Self::default();
        for pair in index.snapshot().prefix(table::all_dropping().as_bytes(), Direction::Forward) {
            let tenant = table::read_dropping(&pair?.0).ok_or_else(|| damaged("tenant"))?;
            facts.dropped.insert(TenantId::new(tenant)?);
        }
        Ok(facts)
    }

    pub(crate) fn take(&mut self, fact: Fact) {
        match fact {
            Fact::Delete { tenant, deleted, detached, at } => {
                for named in deleted {
                    // A thread that is gone has lost no parent: the next one of its id may have its generation again.
                    self.detached.remove(&(tenant.clone(), named.thread.clone()));
                    let id = self.ids.entry((tenant.clone(), named.thread)).or_default();
                    id.deleted = Some((named.generation, at));
                    id.fence = Some(named.fence);
                }
                for named in detached {
                    self.detached.insert((tenant.clone(), named.thread.clone()), (named, at));
                }
            }
            Fact::Fence { tenant, thread, fence } => {
                self.ids.entry((tenant, thread)).or_default().fence = Some(fence);
            }
            Fact::Forget { tenant, threads } => {
                for thread in threads {
                    self.ids.insert((tenant.clone(), thread), Remembered { forgotten: true, ..Remembered::default() });
                }
            }
            Fact::DropTenant { tenant, claims } => {
                self.dropped.insert(tenant);
                self.claims = self.claims.max(claims);
            }
            Fact::TenantGone { tenant } => {
                self.dropped.remove(&tenant);
                self.ids.retain(|(of, _), _| *of != tenant);
                self.detached.retain(|(of, _), _| *of != tenant);
            }
            Fact::Numbers { documents } => self.documents = self.documents.max(Some(documents)),
            Fact::Relaxed { session } => self.relaxed = Some(session),
            Fact::Unknown => {}
        }
    }

    /// Whether this generation of a thread is gone. What lies outside of threads goes with its tenant only.
    pub(crate) fn is_deleted(&self, tenant: &TenantId, thread: &ThreadId, generation: u64) -> bool {
        let deleted = self.ids.get(&(tenant.clone(), thread.clone())).and_then(|id| id.deleted);
        let is_of_thread = generation > 0;
        self.dropped.contains(tenant) || (is_of_thread && deleted.is_some_and(|(deleted, _)| generation <= deleted))
    }

    /// Takes threads out of the index that are gone, before the ends of logs are read.
    pub(crate) fn remove_deleted(&self, staged: &mut Staged<'_>) -> Result<()> {
        for ((tenant, thread), id) in &self.ids {
            let Some((generation, at)) = id.deleted else { continue };
            if let Some(row) = staged.thread_row(tenant, thread)?
                && row.stored.thread.generation() <= generation
            {
                remove(staged, tenant, (&row, at))?;
            }
        }
        Ok(())
    }

    /// Writes what is remembered of ids, and takes parents from threads that lost them, after the logs were read.
    pub(crate) fn finish(&self, staged: &mut Staged<'_>) -> Result<()> {
        for ((tenant, thread), id) in &self.ids {
            let row = staged.thread_row(tenant, thread)?;
            if row.is_some() {
                continue;
            }
            if id.forgotten {
                staged.delete(table::id(tenant, thread));
            }
            let mut record =
                if id.forgotten { ThreadIdRecord::default() } else { staged.id_record(tenant, thread, None)? };
            if let Some((generation, at)) = id.deleted {
                record.generation = record.generation.max(generation);
                record.deleted_at = Some(at);
            }
            if let Some(fence) = id.fence {
                record.fence = fence;
            }
            if record != ThreadIdRecord::default() {
                staged.put(table::id(tenant, thread), record.encode());
            }
        }
        self.detach(staged)
    }

    /// Takes parents from threads that lost them.
    pub(crate) fn detach(&self, staged: &mut Staged<'_>) -> Result<()> {
        for ((tenant, _), (named, at)) in &self.detached {
            let Some(row) = staged.thread_row(tenant, &named.thread)? else { continue };
            let mut stored = row.stored.clone();
            if stored.thread.generation() == named.generation && fold::detach(&mut stored, named.revision, *at) {
                let owner = Owner {
                    tenant: tenant.clone(),
                    thread: named.thread.clone(),
                    generation: named.generation,
                    log: row.log,
                };
                fold::put_thread(staged, &owner, Some(&row.stored), &stored);
            }
        }
        Ok(())
    }
}

/// Takes a thread out of the index; what its log left there waits for the purge.
pub(crate) fn remove(staged: &mut Staged<'_>, tenant: &TenantId, what: (&ThreadRow, Timestamp)) -> Result<()> {
    let (row, now) = what;
    let thread = &row.stored.thread;
    let log_row = staged.log_row(row.log)?.ok_or_else(|| damaged("log"))?;
    let id = staged.id_record(tenant, &thread.id, Some(&row.stored))?;
    fold::remove_thread(staged, tenant, &row.stored);
    staged.put(table::id(tenant, &thread.id), thread::id_record_after_deletion(&id, &row.stored, now).encode());
    staged.delete(table::log(row.log));
    staged.delete(table::changed(row.log));
    staged.put(table::purge(row.log), log_row.encode());
    Ok(())
}
