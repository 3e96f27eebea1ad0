//! Checks of the stored data, and repairs of the data that is derived from logs.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Progress, Result, ThreadId,
    inspect::{Checked, Finding, FindingKind, Inspection, Inspector, Repairable, ThreadRecords, check_thread},
    length,
};

use crate::{
    pause::pause,
    slot::{Contents, Derived, Slot},
    store::MemoryStore,
    tenant::Tenant,
};

#[async_trait]
impl Inspector for MemoryStore {
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection> {
        self.inspect(progress, |tenant, id| tenant.slots.read(id, |slot| check(tenant, id, slot))).await
    }

    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection> {
        if dry_run {
            return self.verify(progress).await;
        }
        self.inspect(progress, |tenant, id| tenant.slots.write(id, |slot| repair(tenant, id, slot))).await
    }
}

impl MemoryStore {
    /// Visits every thread of every tenant.
    async fn inspect(
        &self,
        progress: &dyn Progress,
        visit: impl Fn(&Tenant, &ThreadId) -> Option<Checked> + Send + Sync,
    ) -> Result<Inspection> {
        let mut inspection = Inspection::default();
        for tenant in self.tenants()? {
            inspection.tenants += 1;
            for id in tenant.slots.ids() {
                let Some(checked) = visit(&tenant, &id) else { continue };
                inspection.threads += 1;
                inspection.entries += checked.entries;
                inspection.runs += checked.runs;
                let findings = checked.findings.into_iter().map(|finding| finding.of_thread(&tenant.name, &id));
                inspection.findings.extend(findings);
                if !progress.advance(inspection.threads, None) {
                    inspection.stopped = true;
                    return Ok(inspection);
                }
                pause().await;
            }
        }
        Ok(inspection)
    }
}

/// Checks a thread and the data derived from it. Returns `None` if the slot holds no thread.
fn check(tenant: &Tenant, id: &ThreadId, slot: &Slot) -> Option<Checked> {
    let contents = slot.contents.as_deref()?;
    let index = tenant.index.read();
    let parent = contents.thread.thread.parent_thread_id.as_ref();
    let records = ThreadRecords {
        thread: &contents.thread,
        has_parent: parent.is_none_or(|parent| index.thread(parent).is_some()),
        marks: contents,
        runs: &contents.runs,
        state: &contents.state,
        inputs: length(contents.queue.inputs().count()),
    };
    let in_list = index.thread(id).is_some_and(|row| row.thread == contents.thread);
    let in_runs = contents.runs.iter().all(|(id, run)| index.run(id) == Some(run));
    drop(index);
    let entries = contents.log.iter().map(|log_entry| Ok((Arc::clone(&log_entry.entry), log_entry.node.clone())));
    let mut checked = check_thread(records, entries);
    for (place, is_right) in [
        ("lists of entries", contents.derived == Derived::of(&contents.log)),
        ("list of threads", in_list),
        ("list of runs", in_runs),
    ] {
        if !is_right {
            let detail = "it does not agree with the thread";
            checked.findings.push(Finding::new(FindingKind::StaleIndex, place, detail));
        }
    }
    Some(checked)
}

/// Rebuilds the data that is derived from the log, unless the log itself is damaged.
fn repair(tenant: &Tenant, id: &ThreadId, slot: &mut Slot) -> Option<Checked> {
    let mut checked = check(tenant, id, slot)?;
    let can_be_rebuilt = |finding: &Finding| finding.repair == Repairable::CanBeRebuilt;
    if checked.findings.is_empty() || !checked.findings.iter().all(can_be_rebuilt) {
        return Some(checked);
    }
    if let Some(contents) = slot.contents.as_deref_mut() {
        rebuild(tenant, contents, &checked);
    }
    for finding in &mut checked.findings {
        finding.repair = Repairable::Rebuilt;
    }
    Some(checked)
}

fn rebuild(tenant: &Tenant, contents: &mut Contents, checked: &Checked) {
    contents.thread = Arc::new(checked.thread.clone());
    for log_entry in &mut contents.log {
        log_entry.marks = checked.marks.get(&log_entry.node.seq).cloned().unwrap_or_default();
    }
    contents.derived = Derived::of(&contents.log);
    let mut index = tenant.index.write();
    index.put_thread(&contents.thread);
    for run in contents.runs.values() {
        index.put_run(run);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store_core::{
        AgentId, Body, Commit, Compaction, EntryId, EntryRange, Expect, Interval, Label, Message, NewBody, NewEntry,
        RewindTo, RunChange, RunId, RunStatus, Silent, Store, TenantId, ThreadId,
        inspect::{FindingKind, Inspection, Inspector, Repairable},
    };

    use crate::{MemoryConfig, MemoryStore, slot::Contents};

    fn thread() -> ThreadId {
        ThreadId::new("t").unwrap()
    }

    /// Returns a store with a thread that has branches, a name and a run.
    async fn store() -> MemoryStore {
        let store = MemoryStore::open(MemoryConfig::default()).unwrap();
        let commits = store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap();
        let run = RunId::new("r").unwrap();
        let change = RunChange::new(run.clone(), RunStatus::Running).with_agent(AgentId::new("a").unwrap());
        let id = |text: &str| EntryId::new(text).unwrap();
        let commit = Commit::new(thread())
            .expecting(Expect::Absent)
            .with_run(change)
            .entry(NewEntry::new(Message::user("a")).with_id(id("a")).with_run(run, None))
            .entry(NewEntry::new(NewBody::Checkpoint { number: None, label: Some("x".into()) }).with_id(id("b")))
            .entry(NewEntry::new(RewindTo::Entry(id("a"))))
            .entry(NewEntry::new(Message::assistant("c")))
            .entry(NewEntry::new(Label::new(id("b"), Some("y".into()))));
        let _ = commits.commit(commit).await.unwrap();
        store
    }

    async fn kinds_after(change: impl FnOnce(&mut Contents)) -> (MemoryStore, Vec<FindingKind>) {
        let store = store().await;
        store.tenants().unwrap()[0].slots.write(&thread(), |slot| change(slot.contents.as_mut().unwrap()));
        let found = store.verify(&Silent).await.unwrap();
        (store, kinds(&found))
    }

    fn kinds(inspection: &Inspection) -> Vec<FindingKind> {
        inspection.findings.iter().map(|finding| finding.kind).collect()
    }

    #[tokio::test]
    async fn a_sound_store_has_no_findings() {
        let store = store().await;
        assert!(store.inspector().is_some());
        let found = store.verify(&Silent).await.unwrap();
        assert_eq!(found.findings, []);
        assert_eq!((found.tenants, found.threads, found.entries, found.runs), (1, 1, 5, 1));
    }

    #[tokio::test]
    async fn data_derived_from_the_log_is_rebuilt() {
        let (store, found) = kinds_after(|contents| {
            let mut thread = (*contents.thread).clone();
            (thread.head_seq, thread.roots) = (Some(1), 4);
            contents.thread = Arc::new(thread);
            contents.log[0].marks.children = 9;
        })
        .await;
        assert_eq!(
            found,
            [FindingKind::WrongHead, FindingKind::WrongSum, FindingKind::WrongSum, FindingKind::StaleIndex]
        );
        let dry = store.repair(true, &Silent).await.unwrap();
        assert!(dry.findings.iter().all(|finding| finding.repair == Repairable::CanBeRebuilt));
        let repaired = store.repair(false, &Silent).await.unwrap();
        assert!(repaired.findings.iter().all(|finding| finding.repair == Repairable::Rebuilt));
        assert_eq!(kinds(&store.verify(&Silent).await.unwrap()), []);
    }

    #[tokio::test]
    async fn a_repair_never_changes_accepted_data() {
        let (store, found) = kinds_after(|contents| drop(contents.log.remove(1))).await;
        assert_eq!(found, [FindingKind::SequenceGap, FindingKind::StaleIndex]);
        let repaired = store.repair(false, &Silent).await.unwrap();
        assert!(repaired.findings.iter().all(|finding| finding.repair != Repairable::Rebuilt));
        assert_eq!(kinds(&store.verify(&Silent).await.unwrap()), found);
    }

    #[tokio::test]
    async fn dangling_references_are_found() {
        let (_, found) = kinds_after(|contents| contents.runs.clear()).await;
        assert_eq!(found, [FindingKind::DanglingReference, FindingKind::WrongSum, FindingKind::DanglingReference]);
    }

    #[tokio::test]
    async fn a_wrong_sequence_number_in_a_node_is_a_gap() {
        let (_, found) = kinds_after(|contents| contents.log[1].node.seq = 9).await;
        assert_eq!(found.first(), Some(&FindingKind::SequenceGap));
    }

    #[tokio::test]
    async fn a_node_with_a_wrong_depth_or_target_is_damage() {
        let (_, found) = kinds_after(|contents| contents.log[0].node.depth = 7).await;
        assert!(found.contains(&FindingKind::Damaged), "{found:?}");
        let (_, found) = kinds_after(|contents| contents.log[4].node.target = Some(1)).await;
        assert_eq!(found.first(), Some(&FindingKind::Damaged));
    }

    #[tokio::test]
    async fn a_compaction_of_missing_entries_is_a_dangling_reference() {
        let (_, found) = kinds_after(|contents| {
            let mut compaction = Compaction::default();
            compaction.covers = Some(Interval::new(EntryId::new("a").unwrap(), EntryId::new("nobody").unwrap()));
            let mut entry = (*contents.log[3].entry).clone();
            entry.body = Arc::new(Body::Compaction(compaction));
            contents.log[3].entry = Arc::new(entry);
        })
        .await;
        assert!(found.contains(&FindingKind::DanglingReference), "{found:?}");
    }

    #[tokio::test]
    async fn the_ranges_of_a_run_lie_inside_of_the_log() {
        for (last, wanted) in [(4, false), (5, false), (6, true)] {
            let (_, found) = kinds_after(|contents| {
                let run = Arc::make_mut(contents.runs.values_mut().next().unwrap());
                run.output = vec![EntryRange { from: 1, to: last }];
            })
            .await;
            assert_eq!(found.contains(&FindingKind::DanglingReference), wanted, "{last}: {found:?}");
        }
    }
}
