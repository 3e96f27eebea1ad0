//! Verify and repair: each log is read byte by byte, and the index is compared with what the log gives.
//!
//! What a log gives is worked out by the very function that keeps the index up to date, into an index of its own. Every
//! difference is a stale index; a repair writes what came out. A damaged log is never touched (VF-5).

mod log;

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use store_core::{
    Progress, Result, RunId, TenantId,
    inspect::{Finding, FindingKind, Inspection, Inspector, Repairable},
};

use self::log::check_log;
use crate::{
    codec::{LogRow, RunRow, damaged, read},
    error,
    facts::Facts,
    index::{Direction, Key},
    log::Recovery,
    root::RootLog,
    shared::Shared,
    staged::Staged,
    store::FileStore,
    table,
    vfs::{FilePath, Kind},
};

/// What the check of a part of the store saw.
#[derive(Debug, Default)]
struct Part {
    entries: u64,
    runs: u64,
    findings: Vec<Finding>,
}

#[async_trait]
impl Inspector for FileStore {
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
        let of = Arc::clone(&shared);
        let (facts, logs, mut part) = pool.run(move || whole(&of, repair)).await??;
        let facts = Arc::new(facts);
        let mut seen = Inspection::default();
        seen.findings = std::mem::take(&mut part.findings);
        let tenants: BTreeSet<TenantId> = logs.iter().map(|(_, row)| row.tenant.clone()).collect();
        seen.tenants = store_core::length(tenants.len());
        let total = store_core::length(logs.len());
        for (log, row) in logs {
            let (of, facts) = (Arc::clone(&shared), Arc::clone(&facts));
            let part = pool.run(move || check_log(&of, &facts, (log, row), repair)).await??;
            seen.threads += 1;
            seen.entries += part.entries;
            seen.runs += part.runs;
            seen.findings.extend(part.findings);
            if !progress.advance(seen.threads, Some(total)) {
                seen.stopped = true;
                break;
            }
        }
        Ok(seen)
    }
}

type Logs = Vec<(u64, LogRow)>;

/// What is not about one log: the root log, files that belong to nothing, runs of no thread.
fn whole(shared: &Shared, repair: bool) -> Result<(Facts, Logs, Part)> {
    let mut part = Part::default();
    for damage in &shared.opened_with {
        part.findings.push(Finding::new(FindingKind::Damaged, "opening", damage.clone()));
    }
    let mut facts = Facts::default();
    let known = Recovery { read_only: true, ..Recovery::default() };
    if let Err(error) = RootLog::open(&*shared.vfs, known, |fact| {
        facts.take(fact);
        Ok(())
    }) {
        part.findings.push(Finding::new(FindingKind::Damaged, RootLog::path()?.as_str(), error.to_string()));
    }
    let snapshot = shared.index.snapshot();
    let mut logs = Vec::new();
    let mut known = BTreeSet::new();
    for (list, alive) in [(table::logs(), true), (table::purges(), false)] {
        for pair in snapshot.prefix(list.as_bytes(), Direction::Forward) {
            let (key, value) = pair?;
            let log = table::read_log(&key).ok_or_else(|| damaged("log"))?;
            let row: LogRow = read("log", &value)?;
            known.insert(Shared::log_path(&row.tenant, &row.thread, row.generation)?);
            if alive {
                logs.push((log, row));
            }
        }
    }
    drop(snapshot);
    orphan_files(shared, &known, &mut part)?;
    orphan_runs(shared, repair, &mut part)?;
    Ok((facts, logs, part))
}

fn orphan_files(shared: &Shared, known: &BTreeSet<FilePath>, part: &mut Part) -> Result<()> {
    let root = FilePath::new("tenants")?;
    let list = |folder: &FilePath| match shared.vfs.list(folder) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|source| error::io(folder, source)),
    };
    for tenant in list(&root)? {
        let folder = root.join(&tenant.name)?;
        if tenant.kind != Kind::Folder {
            part.findings.push(Finding::new(FindingKind::OrphanFile, folder.as_str(), "it is no folder of a tenant"));
            continue;
        }
        for file in list(&folder)? {
            let is_known = folder.join(&file.name).is_ok_and(|path| known.contains(&path));
            if !is_known {
                let place = format!("{folder}/{}", file.name);
                let detail = "no thread of the index has it; an index made anew reads it if it is a log";
                part.findings.push(Finding::new(FindingKind::OrphanFile, place, detail));
            }
        }
    }
    Ok(())
}

/// Runs of the index whose log is unknown to it.
fn orphan_runs(shared: &Shared, repair: bool, part: &mut Part) -> Result<()> {
    let snapshot = shared.index.snapshot();
    let mut staged = Staged::new(&shared.index);
    for pair in snapshot.prefix(table::all_runs().as_bytes(), Direction::Forward) {
        let (key, value) = pair?;
        let row: RunRow = read("run", &value)?;
        if crate::codec::Rows::any_log_row(&snapshot, row.log)?.is_some() {
            continue;
        }
        let (tenant, id) = table::read_run(&key).ok_or_else(|| damaged("run"))?;
        let (tenant, id) = (TenantId::new(tenant)?, RunId::new(id)?);
        let detail = format!("its thread `{}` does not exist", row.thread);
        let mut finding = Finding::new(FindingKind::OrphanRun, format!("index, run `{id}`"), detail);
        finding.repair = if repair { Repairable::Rebuilt } else { Repairable::CanBeRebuilt };
        finding.tenant = Some(tenant.clone());
        part.findings.push(finding);
        for place in crate::fold::run_places(&tenant, id.as_str(), &row) {
            staged.delete(place);
        }
        staged.delete(Key::from_bytes(&key));
    }
    drop(snapshot);
    if repair { shared.index.apply(staged.into_changes()) } else { Ok(()) }
}
