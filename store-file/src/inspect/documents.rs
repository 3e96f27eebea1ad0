//! What the index says of the documents of a collection, compared with what its logs say together: while a log is
//! rewritten, a newer log has what was written since and what was moved.

use std::collections::BTreeMap;

use store_core::{
    CollectionId, DocumentRef, Result, TenantId, ThreadId,
    inspect::{Finding, FindingKind, RepairStatus},
};

use super::{Inspected, together::take_log};
use crate::{
    codec::{Rows, damaged},
    fold,
    index::{Direction, Index, Key, Snapshot},
    line::Line,
    log::Span,
    names::{collection_log, documents_log_id, log_path},
    shared::Shared,
    staged::Staged,
    table,
};

/// The ids of the logs of a collection, by how often it was rewritten before.
type LogIds = BTreeMap<u64, ThreadId>;

/// Compares them, collection by collection, and with `repair` writes again what the index says. The logs were checked
/// before: of a collection with one that cannot be read to its end nothing follows.
pub(super) fn check(inspected: &Inspected, tenant: &TenantId) -> Result<Vec<Finding>> {
    let snapshot = inspected.shared.index.snapshot();
    if snapshot.get(table::dropping(tenant).as_bytes())?.is_some() {
        return Ok(Vec::new());
    }
    // What the ids of its logs have in common stands for a collection that the index does not know.
    let mut collections: BTreeMap<String, (Option<CollectionId>, LogIds)> = BTreeMap::new();
    for pair in snapshot.prefix(table::event_logs(tenant).as_bytes(), Direction::Forward) {
        let id = ThreadId::new(table::read_event_log(&pair?.0).ok_or_else(|| damaged("log of events"))?)?;
        if let Some((rewrites, name)) = collection_log(&id) {
            collections.entry(name.to_owned()).or_default().1.insert(rewrites, id.clone());
        }
    }
    for pair in snapshot.prefix(table::collections(tenant).as_bytes(), Direction::Forward) {
        let collection = table::read_collection(&pair?.0).ok_or_else(|| damaged("collection"))?;
        let collection = CollectionId::new(collection)?;
        if let Some((_, name)) = collection_log(&documents_log_id(&collection, 0)?) {
            collections.entry(name.to_owned()).or_default().0 = Some(collection);
        }
    }
    drop(snapshot);
    let mut findings = Vec::new();
    for (collection, logs) in collections.into_values() {
        findings.extend(check_one(inspected, tenant, (collection.as_ref(), &logs))?);
    }
    Ok(findings)
}

fn check_one(
    inspected: &Inspected,
    tenant: &TenantId,
    collection: (Option<&CollectionId>, &LogIds),
) -> Result<Vec<Finding>> {
    let Inspected { shared, repair, .. } = inspected;
    if let Some(first) = Comparison::by(shared, tenant, collection)?
        && first.differs()?.is_none()
    {
        return first.damaged();
    }
    // The writer may have written meanwhile, or dropped a log. Now it waits.
    let _exclusive = shared.exclusive();
    let Some(comparison) = Comparison::by(shared, tenant, collection)? else { return Ok(Vec::new()) };
    let mut findings = comparison.damaged()?;
    if let Some(key) = comparison.differs()? {
        let detail = format!("it does not agree with the logs about {}", table::describe(&key));
        let mut finding = Finding::new(FindingKind::StaleIndex, "index", detail).of_tenant(tenant);
        finding.repair = RepairStatus::CanBeRebuilt;
        if *repair {
            let _recent = shared.show(comparison.written(&shared.index)?)?;
            finding.repair = RepairStatus::Rebuilt;
        }
        findings.push(finding);
    }
    Ok(findings)
}

/// What the index said of a collection at a time, and what its logs say up to the same places.
struct Comparison<'a> {
    tenant: &'a TenantId,
    snapshot: Snapshot,
    given: Index,
    /// The keys under which there is something about the collection.
    lists: Vec<Key>,
    /// The logs, by their numbers.
    logs: BTreeMap<u64, ThreadId>,
    /// What the logs say to be damaged, and the place of the line that says so.
    damaged: Vec<(DocumentRef, (u64, Span))>,
}

impl<'a> Comparison<'a> {
    /// None if a log cannot be read, or if it is unknown where it ends.
    fn by(shared: &Shared, tenant: &'a TenantId, collection: (Option<&CollectionId>, &LogIds)) -> Result<Option<Self>> {
        let (collection, mut ids) = (collection.0.cloned(), collection.1.clone());
        let (snapshot, given) = (shared.index.snapshot(), Index::in_memory());
        if let Some(collection) = &collection
            && let Some(row) = snapshot.collection_row(tenant, collection)?
        {
            // A rewrite may have been begun since the list of logs was made.
            for rewrites in row.rewrites.saturating_sub(1)..=row.rewrites {
                ids.insert(rewrites, documents_log_id(collection, rewrites)?);
            }
        }
        let (mut logs, mut lines) = (BTreeMap::new(), Vec::new());
        for id in ids.into_values() {
            let Some(log) = snapshot.event_log(tenant, &id)? else { continue };
            let Some(row) = snapshot.log_row(log)? else { return Ok(None) };
            let is_whole = take_log(shared, &given, (log, &row), |staged, owner, (line, span)| {
                if let Line::DamagedDocument(line) = line {
                    lines.push((line.document.clone(), (log, span)));
                }
                fold::documents::line(staged, owner, (line, span))
            })?;
            if !is_whole {
                return Ok(None);
            }
            logs.insert(log, id);
        }
        let mut lists: Vec<Key> = logs.keys().map(|log| table::document_bytes(*log)).collect();
        let collection = match collection {
            None => collection_of(&given.snapshot(), tenant)?,
            known => known,
        };
        if let Some(collection) = collection {
            lists.push(table::collection(tenant, &collection));
            lists.push(table::documents(tenant).text(collection.as_str()));
        }
        Ok(Some(Self { tenant, snapshot, given, lists, logs, damaged: lines }))
    }

    /// The key of something that differs.
    fn differs(&self) -> Result<Option<Vec<u8>>> {
        let given = self.given.snapshot();
        for list in &self.lists {
            for (one, other) in [(&given, &self.snapshot), (&self.snapshot, &given)] {
                for pair in one.prefix(list.as_bytes(), Direction::Forward) {
                    let (key, value) = pair?;
                    if other.get(&key)?.as_ref() != Some(&value) {
                        return Ok(Some(key));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The documents that were damaged when their log was rewritten, and that were not put or deleted since.
    fn damaged(&self) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for (document, (log, span)) in &self.damaged {
            let row = self.given.document_row(&table::document(self.tenant, document, *log))?;
            if row.is_none_or(|row| (row.log, row.span) != (*log, *span)) {
                continue;
            }
            let Some(id) = self.logs.get(log) else { continue };
            let place = format!("{}:{}", log_path(self.tenant, id, 0)?, span.offset);
            let detail = format!("document {document} was damaged before its log was rewritten");
            findings.push(Finding::new(FindingKind::Damaged, place, detail).of_thread(self.tenant, id));
        }
        Ok(findings)
    }

    /// What makes the index say what the logs say.
    fn written<'b>(&self, index: &'b Index) -> Result<Staged<'b>> {
        let mut staged = Staged::new(index);
        for list in &self.lists {
            staged.delete_all(list)?;
            for pair in self.given.snapshot().prefix(list.as_bytes(), Direction::Forward) {
                let (key, value) = pair?;
                staged.put(Key::from_bytes(&key), value);
            }
        }
        Ok(staged)
    }
}

/// The collection that the first line of its logs names.
fn collection_of(given: &Snapshot, tenant: &TenantId) -> Result<Option<CollectionId>> {
    let first = given.prefix(table::collections(tenant).as_bytes(), Direction::Forward).next().transpose()?;
    let Some((key, _)) = first else { return Ok(None) };
    let collection = table::read_collection(&key).ok_or_else(|| damaged("collection"))?;
    Ok(Some(CollectionId::new(collection)?))
}
