//! The rules of a thread, over what the index says of it and what its log holds.

use std::{collections::BTreeMap, sync::Arc};

use store_core::{
    ErrorKind, Result, Run, RunId,
    inspect::{Finding, FindingKind, RepairStatus, ThreadCheckResult, ThreadRecords, check_thread},
    length,
    thread::StoredThread,
};

use super::{
    Check,
    replay::{Entries, Log, Replayed},
};
use crate::{
    codec::{Rows, StoredLog, damaged},
    entries,
    fold::Owner,
    index::{Direction, Index},
    pending, runs, table,
};

impl Check<'_> {
    /// The rules of a thread, over what the index says and what the log holds.
    pub(super) fn thread(&mut self, log: &Log<'_>, replayed: &Replayed) -> Result<()> {
        let Owner { tenant, thread, log: number, .. } = self.owner.clone();
        let Some(row) = self.shared.index.thread_row(&tenant, &thread)?.filter(|row| row.log == number) else {
            self.find(FindingKind::StaleIndex, "index", "the thread is missing");
            return Ok(());
        };
        let runs = self.runs()?;
        let checked = self.checked(&self.shared.index, (&row.stored, &runs), log.entries(log.len))?;
        self.part.entries += checked.entries;
        self.part.runs += checked.runs;
        if checked.findings.is_empty() {
            return Ok(());
        }
        // What is wrong with the log alone nothing can be rebuilt from; all else is about the index.
        let alone = self.alone(log, replayed)?;
        for mut finding in checked.findings {
            finding = finding.of_thread(&tenant, &thread);
            if !alone.contains(&finding) {
                finding.repair = RepairStatus::CanBeRebuilt;
            }
            self.part.findings.push(finding);
        }
        Ok(())
    }

    /// What is wrong with a log, without regard to the index of the store: the rules of a thread, applied to what the
    /// log gives.
    pub(super) fn alone(&self, log: &Log<'_>, replayed: &Replayed) -> Result<Vec<Finding>> {
        let Replayed { index, stored: Some(stored), runs, misfit, .. } = replayed else { return Ok(Vec::new()) };
        let Owner { tenant, thread, .. } = &self.owner;
        let len = misfit.as_ref().map_or(log.len, |(_, end, _)| *end);
        let findings = self.checked(index, (stored, runs), log.entries(len))?.findings.into_iter();
        // Of a group that does not fit not all was worked in: sums that it changes say nothing.
        let of_log = findings.filter(|finding| finding.repair == RepairStatus::NeedsBackup);
        Ok(of_log.map(|finding| finding.of_thread(tenant, thread)).collect())
    }

    /// Checks a thread and its runs with the entries of its log: state, marks and pending input are those of `index`.
    fn checked(
        &self,
        index: &Index,
        (thread, runs): (&StoredThread, &BTreeMap<RunId, Arc<Run>>),
        entries: Entries<'_>,
    ) -> Result<ThreadCheckResult> {
        let log = self.owner.log;
        let snapshot = index.snapshot();
        let state = entries::state(&snapshot, log)?;
        let marks = StoredLog(index, log);
        let has_parent = self.has_parent(thread)?;
        let inputs = length(pending::inputs(&snapshot, log)?.len());
        Ok(check_thread(ThreadRecords { thread, has_parent, marks: &marks, runs, state: &state, inputs }, entries))
    }

    fn has_parent(&self, stored: &StoredThread) -> Result<bool> {
        let Some(parent) = &stored.thread.parent_thread_id else { return Ok(true) };
        let tenant = &self.owner.tenant;
        match self.shared.known_thread(&self.shared.index.snapshot(), tenant, parent) {
            // It is damaged, which is found where it is.
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(true),
            found => Ok(found?.is_some()),
        }
    }

    fn runs(&mut self) -> Result<BTreeMap<RunId, Arc<Run>>> {
        let snapshot = self.shared.index.snapshot();
        let mut found = BTreeMap::new();
        for pair in snapshot.prefix(table::log_runs(self.owner.log).as_bytes(), Direction::Forward) {
            let id = RunId::new(table::read_log_run(&pair?.0).ok_or_else(|| damaged("run"))?)?;
            let Some(row) = snapshot.run_row(&self.owner.tenant, &id)? else { continue };
            match runs::load(self.shared, &row) {
                Ok(run) => drop(found.insert(id, Arc::new(run))),
                Err(error) => self.find(FindingKind::Damaged, format!("run `{id}`"), error.to_string()),
            }
        }
        Ok(found)
    }
}
