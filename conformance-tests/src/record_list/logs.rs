//! Lists of records that commits write: entries, leaves, branch points, snapshots and runs.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Commit, CommitCoordinator, Direction, EntryId, EntryQuery, Error, NewBody, NewEntry, Page, PageRequest, ParentRef,
    Result, RunChange, RunId, RunOutcome, RunQuery, RunStatus, TenantStores, ThreadId, ThreadRunStore,
};

use super::{BOTH_DIRECTIONS, FORWARD_ONLY, ListedRecord, RecordList};
use crate::given::{id, message_entry};

/// The thread to which a list's records are committed. Each list has its own thread.
fn thread_of(records: &impl RecordList) -> ThreadId {
    id(records.name())
}

fn commits(stores: &TenantStores) -> Result<Arc<dyn CommitCoordinator>> {
    stores.commits.clone().ok_or_else(|| Error::unavailable("the store has no commits"))
}

fn threads(stores: &TenantStores) -> Result<Arc<dyn ThreadRunStore>> {
    commits(stores).map(|commits| commits.threads())
}

/// Commits entries. The commit key is the id of the record.
async fn commit(thread: ThreadId, stores: &TenantStores, key: &str, entries: Vec<NewEntry>) -> Result<()> {
    let commit = Commit::new(thread).with_key(key.parse()?).entries(entries);
    commits(stores)?.commit(commit).await.map(drop)
}

async fn has_entry(thread: &ThreadId, stores: &TenantStores, entry: &str) -> Result<bool> {
    Ok(threads(stores)?.load_entry(thread, &EntryId::new(entry)?).await?.is_some())
}

/// Entries, ordered by sequence number.
pub(super) struct Entries;

#[async_trait]
impl RecordList for Entries {
    fn name(&self) -> &'static str {
        "entries"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        commit(thread_of(self), stores, id, vec![message_entry("x").with_id(id.parse()?)]).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        has_entry(&thread_of(self), stores, id).await
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<ListedRecord>> {
        let query = EntryQuery::all().with_direction(direction).with_page(page);
        let page = threads(stores)?.list_entries(&thread_of(self), query).await?;
        Ok(page.map(|entry| ListedRecord::new(entry.seq, &entry.id)))
    }
}

/// Leaves, ordered by sequence number. Each entry is a root, so none has children: all are leaves.
pub(super) struct Leaves;

#[async_trait]
impl RecordList for Leaves {
    fn name(&self) -> &'static str {
        "leaves"
    }

    fn directions(&self) -> &'static [Direction] {
        FORWARD_ONLY
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        commit(thread_of(self), stores, id, vec![message_entry("x").with_id(id.parse()?).with_parent(ParentRef::Root)])
            .await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        has_entry(&thread_of(self), stores, id).await
    }

    async fn list(
        &self,
        stores: &TenantStores,
        _direction: Direction,
        page: PageRequest,
    ) -> Result<Page<ListedRecord>> {
        let page = threads(stores)?.list_leaves(&thread_of(self), page).await?;
        Ok(page.map(|leaf| ListedRecord::new(leaf.seq, leaf.entry)))
    }
}

/// Branch points, ordered by sequence number. Each record is an entry with two children. The next record is a child of
/// the second child.
pub(super) struct BranchPoints;

#[async_trait]
impl RecordList for BranchPoints {
    fn name(&self) -> &'static str {
        "branch points"
    }

    fn directions(&self) -> &'static [Direction] {
        FORWARD_ONLY
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        let branch_point: EntryId = id.parse()?;
        let child = || message_entry("x").below(branch_point.clone());
        commit(thread_of(self), stores, id, vec![message_entry("x").with_id(branch_point.clone()), child(), child()])
            .await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        has_entry(&thread_of(self), stores, id).await
    }

    async fn list(
        &self,
        stores: &TenantStores,
        _direction: Direction,
        page: PageRequest,
    ) -> Result<Page<ListedRecord>> {
        let threads = threads(stores)?;
        let page = threads.list_branch_points(&thread_of(self), page).await?;
        let mut items = Vec::new();
        for branch_point in &page.items {
            let entry = branch_point.entry.as_ref().ok_or_else(|| Error::corrupt("the log has several roots"))?;
            let found =
                threads.load_entry(&thread_of(self), entry).await?.ok_or_else(|| Error::not_found("entry", entry))?;
            items.push(ListedRecord::new(found.seq, entry));
        }
        Ok(Page { items, next: page.next })
    }
}

/// Named checkpoints, ordered by name.
pub(super) struct Snapshots;

#[async_trait]
impl RecordList for Snapshots {
    fn name(&self) -> &'static str {
        "snapshots"
    }

    fn directions(&self) -> &'static [Direction] {
        FORWARD_ONLY
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        let body = NewBody::Checkpoint { number: None, label: Some(id.to_owned()) };
        commit(thread_of(self), stores, id, vec![NewEntry::new(body).with_id(id.parse()?)]).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        has_entry(&thread_of(self), stores, id).await
    }

    async fn list(
        &self,
        stores: &TenantStores,
        _direction: Direction,
        page: PageRequest,
    ) -> Result<Page<ListedRecord>> {
        let page = threads(stores)?.list_snapshots(&thread_of(self), page).await?;
        Ok(page.map(|snapshot| ListedRecord::new(0, snapshot.name)))
    }
}

/// Runs, ordered by creation. Each run is created as a finished run, because the number of open runs of a thread is
/// limited.
pub(super) struct Runs;

#[async_trait]
impl RecordList for Runs {
    fn name(&self) -> &'static str {
        "runs"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        let run = RunChange::new(id.parse()?, RunStatus::done(RunOutcome::NaturalEnd)).with_agent("agent".parse()?);
        commits(stores)?.commit(Commit::new(thread_of(self)).with_run(run)).await.map(drop)
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        Ok(threads(stores)?.load_run(&RunId::new(id)?).await?.is_some())
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<ListedRecord>> {
        let mut query = RunQuery::default();
        (query.direction, query.page) = (direction, page);
        let page = threads(stores)?.list_runs(query).await?;
        Ok(page.map(|run| ListedRecord::new(run.created_at.as_millis(), run.id)))
    }
}
