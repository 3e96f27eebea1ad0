//! Verify and repair: each log is read byte by byte, and the index is compared with what the log gives.
//!
//! What a log gives is worked out by the very function that keeps the index up to date, into an index of its own. Every
//! difference is a stale index; a repair writes what came out. A damaged log is never touched (VF-5).

mod documents;
mod events;
mod log;
mod mailbox;
mod outbox;
mod root;
mod together;

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use store_core::{
    ObjectKey, Progress, Result, Store, TenantId,
    inspect::{Finding, FindingKind, Inspection, Inspector, Note, check_blobs},
};

use self::log::check_log;
use crate::{
    codec::LogRow, facts::Facts, lock::Lock, object_files::object_path, opening, shared::Shared, store::FileStore,
};

/// What the check of a part of the store saw.
#[derive(Debug, Default)]
struct Part {
    entries: u64,
    runs: u64,
    findings: Vec<Finding>,
    notes: Vec<Note>,
}

impl Part {
    fn find(&mut self, kind: FindingKind, place: impl Into<String>, detail: impl Into<String>) {
        self.findings.push(Finding::new(kind, place, detail));
    }
}

/// The logs of a store: number, and what the index knows of each; nothing but its name of one that it does not know.
type Logs = Vec<(u64, LogRow)>;

/// The store that is inspected.
struct Inspected {
    shared: Arc<Shared>,
    facts: Facts,
    repair: bool,
}

/// Whether another process has the root open for writing, if it is open here for reading. What differs then may be
/// newer than what was read.
fn is_in_use(shared: &Shared) -> Result<bool> {
    Ok(shared.config.read_only && Lock::of_nobody(&*shared.vfs)?.is_none())
}

#[async_trait]
impl Inspector for FileStore {
    /// A store that is open for reading is seen as its next holder will find it, with the index that is on the disk.
    /// Beside a holder, whose index is in use, the logs alone are read.
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection> {
        self.inspect(false, progress).await
    }

    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection> {
        if !dry_run {
            self.shared().check_writable()?;
        }
        self.inspect(!dry_run, progress).await
    }
}

impl FileStore {
    /// Log by log, so that it can be stopped between two of them (PR-17).
    async fn inspect(&self, repair: bool, progress: &dyn Progress) -> Result<Inspection> {
        let shared = Arc::clone(self.shared());
        shared.check_open()?;
        let pool = shared.pool.clone();
        let (inspected, logs, part) = pool.run(move || begin(shared, repair)).await??;
        let inspected = Arc::new(inspected);
        let mut seen = Inspection::default();
        (seen.findings, seen.notes) = (part.findings, part.notes);
        let tenants: BTreeSet<TenantId> = logs.iter().map(|(_, row)| row.tenant.clone()).collect();
        seen.tenants = store_core::length(tenants.len());
        let total = store_core::length(logs.len());
        let mut done = 0;
        for log in logs {
            let (of, is_thread) = (Arc::clone(&inspected), log.1.generation > 0);
            let part = pool.run(move || check_log(&of, &log)).await??;
            done += 1;
            seen.threads += u64::from(is_thread);
            seen.entries += part.entries;
            seen.runs += part.runs;
            seen.findings.extend(part.findings);
            if !progress.advance(done, Some(total)) {
                seen.stopped = true;
                return Ok(seen);
            }
        }
        for tenant in tenants {
            let (of, checked) = (Arc::clone(&inspected), tenant.clone());
            let together = move || -> Result<Vec<Finding>> {
                let mailbox = mailbox::check(&of, &checked)?;
                Ok(mailbox.into_iter().chain(documents::check(&of, &checked)?).collect())
            };
            seen.findings.extend(pool.run(together).await??);
            // One that was deleted meanwhile has no blobs.
            let Ok(stores) = self.tenant(&tenant) else { continue };
            let place_of = |key: &ObjectKey| {
                object_path(&tenant, key).map_or_else(|_| key.to_string(), |path| path.as_str().to_owned())
            };
            let done = done + seen.objects;
            seen.add_blobs(check_blobs(&stores, &tenant, place_of, (progress, done)).await?);
            if seen.stopped {
                return Ok(seen);
            }
        }
        let strays = pool.run(move || root::stray_places(&inspected.shared, repair)).await??;
        seen.findings.extend(strays);
        Ok(seen)
    }
}

/// Checks what is not about one log, and lists the logs.
fn begin(shared: Arc<Shared>, repair: bool) -> Result<(Inspected, Logs, Part)> {
    let at_rest = if shared.config.read_only { opening::at_rest(&shared)? } else { None };
    let shared = at_rest.unwrap_or(shared);
    let mut part = Part::default();
    let facts = root::facts(&shared, &mut part)?;
    root::opening(&shared, &mut part);
    root::uploads(&shared, &mut part)?;
    let mut logs = root::logs(&shared, &facts, &mut part)?;
    // What becomes of rows of the outbox builds on the rows themselves.
    logs.sort_by_key(|(log, row)| (row.generation == 0, *log));
    root::orphan_runs(&shared, repair, &mut part)?;
    Ok((Inspected { shared, facts, repair }, logs, part))
}
