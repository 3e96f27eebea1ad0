//! Checks of the stored data, and repairs of the data that is derived from logs.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    ObjectKey, Progress, Result, Store, ThreadId,
    inspect::{
        Finding, FindingKind, Inspection, Inspector, RepairStatus, ThreadCheckResult, ThreadRecords, check_blobs,
        check_document, check_thread,
    },
    length,
};

use crate::{
    slot::{DerivedLogData, ThreadContents, ThreadSlot},
    store::MemoryStore,
    tenant::Tenant,
    yield_now::yield_now,
};

#[async_trait]
impl Inspector for MemoryStore {
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection> {
        self.inspect(progress, |tenant, id| tenant.slots.read(id, |slot| check_slot(tenant, id, slot))).await
    }

    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection> {
        if dry_run {
            return self.verify(progress).await;
        }
        self.inspect(progress, |tenant, id| tenant.slots.write(id, |slot| repair_slot(tenant, id, slot))).await
    }
}

impl MemoryStore {
    /// Visits every thread of every tenant.
    async fn inspect(
        &self,
        progress: &dyn Progress,
        visit: impl Fn(&Tenant, &ThreadId) -> Option<ThreadCheckResult> + Send + Sync,
    ) -> Result<Inspection> {
        let mut inspection = Inspection::default();
        for tenant in self.tenants()? {
            inspection.tenants += 1;
            for id in tenant.slots.ids() {
                let Some(check_result) = visit(&tenant, &id) else { continue };
                inspection.threads += 1;
                inspection.entries += check_result.entries;
                inspection.runs += check_result.runs;
                let findings = check_result.findings.into_iter().map(|finding| finding.of_thread(&tenant.name, &id));
                inspection.findings.extend(findings);
                if !progress.advance(inspection.threads, None) {
                    inspection.stopped = true;
                    return Ok(inspection);
                }
                yield_now().await;
            }
            inspect_documents(&tenant, &mut inspection);
            yield_now().await;
            let Ok(stores) = self.tenant(&tenant.name) else { continue };
            let place_of = |key: &ObjectKey| format!("object `{key}`");
            let done = inspection.threads + inspection.objects;
            let blobs = check_blobs(&stores, &tenant.name, place_of, (progress, done)).await?;
            inspection.add_blobs(blobs);
            if inspection.stopped {
                return Ok(inspection);
            }
        }
        Ok(inspection)
    }
}

/// Checks the documents of a tenant. Nothing of them can be rebuilt, so a repair does the same.
fn inspect_documents(tenant: &Tenant, inspection: &mut Inspection) {
    let index = tenant.index.read();
    let newest_revision = *tenant.shared.newest_document_revision.lock();
    for (scope, documents) in index.documents.scopes() {
        let has_scope = scope.thread().is_none_or(|thread| index.thread(thread).is_some());
        for document in documents.iter() {
            inspection.documents += 1;
            let finding = check_document(document, has_scope, newest_revision);
            inspection.findings.extend(finding.map(|finding| finding.of_tenant(&tenant.name)));
        }
    }
}

/// Checks a thread and the data derived from it. Returns `None` if the slot holds no thread.
fn check_slot(tenant: &Tenant, id: &ThreadId, slot: &ThreadSlot) -> Option<ThreadCheckResult> {
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
    let is_in_thread_list = index.thread(id).is_some_and(|row| row.thread == contents.thread);
    let has_runs_in_index = contents.runs.iter().all(|(id, run)| index.run(id) == Some(run));
    drop(index);
    let entries = contents.log.iter().map(|log_entry| Ok((Arc::clone(&log_entry.entry), log_entry.node.clone())));
    let mut check_result = check_thread(records, entries);
    for (location, is_consistent) in [
        ("lists of entries", contents.derived == DerivedLogData::of(&contents.log)),
        ("list of threads", is_in_thread_list),
        ("list of runs", has_runs_in_index),
    ] {
        if !is_consistent {
            let detail = "it does not agree with the thread";
            check_result.findings.push(Finding::new(FindingKind::StaleIndex, location, detail));
        }
    }
    Some(check_result)
}

/// Rebuilds the data that is derived from the log, unless the log itself is damaged.
fn repair_slot(tenant: &Tenant, id: &ThreadId, slot: &mut ThreadSlot) -> Option<ThreadCheckResult> {
    let mut check_result = check_slot(tenant, id, slot)?;
    let can_be_rebuilt = |finding: &Finding| finding.repair == RepairStatus::CanBeRebuilt;
    if check_result.findings.is_empty() || !check_result.findings.iter().all(can_be_rebuilt) {
        return Some(check_result);
    }
    if let Some(contents) = slot.contents.as_deref_mut() {
        rebuild_derived_data(tenant, contents, &check_result);
    }
    for finding in &mut check_result.findings {
        finding.repair = RepairStatus::Rebuilt;
    }
    Some(check_result)
}

fn rebuild_derived_data(tenant: &Tenant, contents: &mut ThreadContents, check_result: &ThreadCheckResult) {
    contents.thread = Arc::new(check_result.thread.clone());
    for log_entry in &mut contents.log {
        log_entry.marks = check_result.marks.get(&log_entry.node.seq).cloned().unwrap_or_default();
    }
    contents.derived = DerivedLogData::of(&contents.log);
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
        AgentId, Body, Commit, Compaction, DocumentChange, DocumentKey, DocumentRef, EntryId, EntryRange, Expect,
        IgnoreProgress, Interval, Json, KeySegment, Label, Message, NewBody, NewEntry, RewindTo, RunChange, RunId,
        RunStatus, Store, TenantId, ThreadId, WriteDocuments,
        inspect::{FindingKind, Inspection, Inspector, RepairStatus},
    };

    use crate::{MemoryConfig, MemoryStore, slot::ThreadContents};

    fn thread_id() -> ThreadId {
        ThreadId::new("t").unwrap()
    }

    /// Returns a store with a thread that has branches, a named checkpoint and a run.
    async fn store_with_thread() -> MemoryStore {
        let store = MemoryStore::open(MemoryConfig::default()).unwrap();
        let commits = store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap();
        let run = RunId::new("r").unwrap();
        let change = RunChange::new(run.clone(), RunStatus::Running).with_agent(AgentId::new("a").unwrap());
        let id = |text: &str| EntryId::new(text).unwrap();
        let commit = Commit::new(thread_id())
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

    #[tokio::test]
    async fn documents_are_checked() {
        let store = store_with_thread().await;
        let documents = store.tenant(&TenantId::default_tenant()).unwrap().documents.unwrap();
        let key = || DocumentKey::new("c".parse().unwrap(), [KeySegment::Number(1)]).unwrap();
        let puts = [key().into(), key().in_thread(thread_id())]
            .map(|document: DocumentRef| DocumentChange::put(document, Json::null()));
        let _ = documents.write_documents(WriteDocuments::new(puts)).await.unwrap();
        let inspection = store.verify(&IgnoreProgress).await.unwrap();
        assert_eq!((inspection.documents, finding_kinds(&inspection)), (2, vec![]));
        store.tenants().unwrap()[0].slots.write(&thread_id(), |slot| {
            slot.contents = None;
            store.tenants().unwrap()[0].index.write().remove_thread(&thread_id());
        });
        let repaired = store.repair(false, &IgnoreProgress).await.unwrap();
        assert_eq!(finding_kinds(&repaired), [FindingKind::OrphanDocument]);
        assert_eq!(documents.load_documents(&[key().in_thread(thread_id())]).await.unwrap().len(), 1);
    }

    async fn finding_kinds_after(change: impl FnOnce(&mut ThreadContents)) -> (MemoryStore, Vec<FindingKind>) {
        let store = store_with_thread().await;
        store.tenants().unwrap()[0].slots.write(&thread_id(), |slot| change(slot.contents.as_mut().unwrap()));
        let inspection = store.verify(&IgnoreProgress).await.unwrap();
        (store, finding_kinds(&inspection))
    }

    fn finding_kinds(inspection: &Inspection) -> Vec<FindingKind> {
        inspection.findings.iter().map(|finding| finding.kind).collect()
    }

    #[tokio::test]
    async fn a_sound_store_has_no_findings() {
        let store = store_with_thread().await;
        assert!(store.inspector().is_some());
        let inspection = store.verify(&IgnoreProgress).await.unwrap();
        assert_eq!(inspection.findings, []);
        assert_eq!((inspection.tenants, inspection.threads, inspection.entries, inspection.runs), (1, 1, 5, 1));
    }

    #[tokio::test]
    async fn data_derived_from_the_log_is_rebuilt() {
        let (store, kinds) = finding_kinds_after(|contents| {
            let mut thread = (*contents.thread).clone();
            (thread.head_seq, thread.roots) = (Some(1), 4);
            contents.thread = Arc::new(thread);
            contents.log[0].marks.children = 9;
        })
        .await;
        assert_eq!(
            kinds,
            [FindingKind::WrongHead, FindingKind::WrongSum, FindingKind::WrongSum, FindingKind::StaleIndex]
        );
        let dry_run = store.repair(true, &IgnoreProgress).await.unwrap();
        assert!(dry_run.findings.iter().all(|finding| finding.repair == RepairStatus::CanBeRebuilt));
        let repaired = store.repair(false, &IgnoreProgress).await.unwrap();
        assert!(repaired.findings.iter().all(|finding| finding.repair == RepairStatus::Rebuilt));
        assert_eq!(finding_kinds(&store.verify(&IgnoreProgress).await.unwrap()), []);
    }

    #[tokio::test]
    async fn a_repair_never_changes_accepted_data() {
        let (store, kinds) = finding_kinds_after(|contents| drop(contents.log.remove(1))).await;
        assert_eq!(kinds, [FindingKind::SequenceGap, FindingKind::StaleIndex]);
        let repaired = store.repair(false, &IgnoreProgress).await.unwrap();
        assert!(repaired.findings.iter().all(|finding| finding.repair != RepairStatus::Rebuilt));
        assert_eq!(finding_kinds(&store.verify(&IgnoreProgress).await.unwrap()), kinds);
    }

    #[tokio::test]
    async fn dangling_references_are_found() {
        let (_, kinds) = finding_kinds_after(|contents| contents.runs.clear()).await;
        assert_eq!(kinds, [FindingKind::DanglingReference, FindingKind::WrongSum, FindingKind::DanglingReference]);
    }

    #[tokio::test]
    async fn a_wrong_sequence_number_in_a_node_is_a_gap() {
        let (_, kinds) = finding_kinds_after(|contents| contents.log[1].node.seq = 9).await;
        assert_eq!(kinds.first(), Some(&FindingKind::SequenceGap));
    }

    #[tokio::test]
    async fn a_node_with_a_wrong_depth_or_target_is_damage() {
        let (_, kinds) = finding_kinds_after(|contents| contents.log[0].node.depth = 7).await;
        assert!(kinds.contains(&FindingKind::Damaged), "{kinds:?}");
        let (_, kinds) = finding_kinds_after(|contents| contents.log[4].node.target = Some(1)).await;
        assert_eq!(kinds.first(), Some(&FindingKind::Damaged));
    }

    #[tokio::test]
    async fn a_compaction_of_missing_entries_is_a_dangling_reference() {
        let (_, kinds) = finding_kinds_after(|contents| {
            let mut compaction = Compaction::default();
            compaction.covers = Some(Interval::new(EntryId::new("a").unwrap(), EntryId::new("missing").unwrap()));
            let mut entry = (*contents.log[3].entry).clone();
            entry.body = Arc::new(Body::Compaction(compaction));
            contents.log[3].entry = Arc::new(entry);
        })
        .await;
        assert!(kinds.contains(&FindingKind::DanglingReference), "{kinds:?}");
    }

    #[tokio::test]
    async fn a_run_with_a_range_outside_of_the_log_is_found() {
        for (last, is_dangling) in [(4, false), (5, false), (6, true)] {
            let (_, kinds) = finding_kinds_after(|contents| {
                let run = Arc::make_mut(contents.runs.values_mut().next().unwrap());
                run.output = vec![EntryRange { from: 1, to: last }];
            })
            .await;
            assert_eq!(kinds.contains(&FindingKind::DanglingReference), is_dangling, "{last}: {kinds:?}");
        }
    }
}
