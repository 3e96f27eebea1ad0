//! Lists of records that commits write: entries, leaves, branch points, snapshots and runs.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Commit, CommitCoordinator, Direction, EntryId, EntryQuery, Error, NewBody, NewEntry, Page, PageRequest, ParentRef,
    Result, RunChange, RunId, RunOutcome, RunQuery, RunStatus, TenantStores, ThreadId, ThreadRunStore,
};

use super::{BOTH_DIRECTIONS, FORWARD_ONLY, Item, Probe};
use crate::given::{id, message_entry};

/// The thread to which a list's records are committed. Each list has its own thread.
fn log(probe: &impl Probe) -> ThreadId {
    id(probe.name())
}

fn commits(stores: &TenantStores) -> Result<Arc<dyn CommitCoordinator>> {
    stores.commits.clone().ok_or_else(|| Error::unavailable("the store has no commits"))
}

fn threads(stores: &TenantStores) -> Result<Arc<dyn ThreadRunStore>> {
    commits(stores).map(|commits| commits.threads())
}

/// Commits entries. The commit key is the id of the record.
async fn commit(log: ThreadId, stores: &TenantStores, key: &str, entries: Vec<NewEntry>) -> Result<()> {
    let commit = Commit::new(log).with_key(key.parse()?).entries(entries);
    commits(stores)?.commit(commit).await.map(drop)
}

async fn has_entry(log: &ThreadId, stores: &TenantStores, entry: &str) -> Result<bool> {
    Ok(threads(stores)?.load_entry(log, &EntryId::new(entry)?).await?.is_some())
}

/// Entries, ordered by sequence number.
pub(super) struct Entries;

#[async_trait]
impl Probe for Entries {
    fn name(&self) -> &'static str {
        "entries"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        commit(log(self), stores, id, vec![message_entry("x").with_id(id.parse()?)]).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        has_entry(&log(self), stores, id).await
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<Item>> {
        let query = EntryQuery::all().with_direction(direction).with_page(page);
        let page = threads(stores)?.list_entries(&log(self), query).await?;
        Ok(page.map(|entry| Item::new(entry.seq, &entry.id)))
    }
}

/// Leaves, ordered by sequence number. Each entry is a root, and therefore a leaf.
pub(super) struct Leaves;

#[async_trait]
impl Probe for Leaves {
    fn name(&self) -> &'static str {
        "leaves"
    }

    fn directions(&self) -> &'static [Direction] {
        FORWARD_ONLY
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        commit(log(self), stores, id, vec![message_entry("x").with_id(id.parse()?).with_parent(ParentRef::Root)]).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        has_entry(&log(self), stores, id).await
    }

    async fn list(&self, stores: &TenantStores, _direction: Direction, page: PageRequest) -> Result<Page<Item>> {
        let page = threads(stores)?.list_leaves(&log(self), page).await?;
        Ok(page.map(|leaf| Item::new(leaf.seq, leaf.entry)))
    }
}

/// Branch points, ordered by sequence number. Each entry gets two children, and the next entry is a child of the second
/// one.
pub(super) struct BranchPoints;

#[async_trait]
impl Probe for BranchPoints {
    fn name(&self) -> &'static str {
        "branch points"
    }

    fn directions(&self) -> &'static [Direction] {
        FORWARD_ONLY
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        let point: EntryId = id.parse()?;
        let child = || message_entry("x").below(point.clone());
        commit(log(self), stores, id, vec![message_entry("x").with_id(point.clone()), child(), child()]).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        has_entry(&log(self), stores, id).await
    }

    async fn list(&self, stores: &TenantStores, _direction: Direction, page: PageRequest) -> Result<Page<Item>> {
        let threads = threads(stores)?;
        let page = threads.list_branch_points(&log(self), page).await?;
        let mut items = Vec::new();
        for point in &page.items {
            let entry = point.entry.as_ref().ok_or_else(|| Error::corrupt("the log has several roots"))?;
            let found = threads.load_entry(&log(self), entry).await?.ok_or_else(|| Error::not_found("entry", entry))?;
            items.push(Item::new(found.seq, entry));
        }
        Ok(Page { items, next: page.next })
    }
}

/// Named checkpoints, ordered by name.
pub(super) struct Snapshots;

#[async_trait]
impl Probe for Snapshots {
    fn name(&self) -> &'static str {
        "snapshots"
    }

    fn directions(&self) -> &'static [Direction] {
        FORWARD_ONLY
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        let body = NewBody::Checkpoint { number: None, label: Some(id.to_owned()) };
        commit(log(self), stores, id, vec![NewEntry::new(body).with_id(id.parse()?)]).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        has_entry(&log(self), stores, id).await
    }

    async fn list(&self, stores: &TenantStores, _direction: Direction, page: PageRequest) -> Result<Page<Item>> {
        let page = threads(stores)?.list_snapshots(&log(self), page).await?;
        Ok(page.map(|snapshot| Item::new(0, snapshot.name)))
    }
}

/// Runs, ordered by creation. They have ended when they are created, because the number of open runs of a thread is
/// limited.
pub(super) struct Runs;

#[async_trait]
impl Probe for Runs {
    fn name(&self) -> &'static str {
        "runs"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        let run = RunChange::new(id.parse()?, RunStatus::done(RunOutcome::NaturalEnd)).with_agent("agent".parse()?);
        commits(stores)?.commit(Commit::new(log(self)).with_run(run)).await.map(drop)
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        Ok(threads(stores)?.load_run(&RunId::new(id)?).await?.is_some())
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<Item>> {
        let mut query = RunQuery::default();
        (query.direction, query.page) = (direction, page);
        let page = threads(stores)?.list_runs(query).await?;
        Ok(page.map(|run| Item::new(run.created_at.as_millis(), run.id)))
    }
}
