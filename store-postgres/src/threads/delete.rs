//! Deleting threads, in one atomic step over all threads concerned, and pruning those that nobody wrote for a while.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use sqlx::postgres::PgArguments;
use store_core::{
    ChildStrategy, DeleteRequest, Deletion, Error, PruneRequest, Pruned, Result, ThreadId, Timestamp, length,
    thread::{self, StoredThread},
};

use crate::{
    clock::Moment,
    db::{Connection, add, signed},
    facts::{self, Row, decode},
    pages::{int, number, optional, text},
    tenant::Tenant,
    write::{Batch, Written},
};

/// How often a deletion is tried again because others wrote meanwhile.
const ROUNDS: usize = 64;
/// Ids that one batch forgets.
const BATCH: u64 = 1_000;

/// Which threads a deletion changes.
#[derive(Debug, Default)]
struct Family {
    children: u64,
    deleted: Vec<ThreadId>,
    detached: Vec<ThreadId>,
}

impl Family {
    /// Those of a deletion of `id`; once there are more than `most`, only some of them.
    async fn of(at: &mut At<'_>, id: &ThreadId, strategy: ChildStrategy, most: u64) -> Result<Self> {
        let children = at.children(id).await?;
        let mut family = Self { children: length(children.len()), deleted: vec![id.clone()], detached: Vec::new() };
        match strategy {
            ChildStrategy::Reject => {}
            ChildStrategy::Detach => family.detached = children,
            ChildStrategy::Cascade => {
                let mut next = children;
                while let Some(thread) = next.pop().filter(|_| family.changed() <= most) {
                    next.extend(at.children(&thread).await?);
                    family.deleted.push(thread);
                }
            }
        }
        Ok(family)
    }

    fn changed(&self) -> u64 {
        length(self.deleted.len() + self.detached.len())
    }
}

/// Where a deletion works: nobody else of the tenant changes parents meanwhile, or deletes.
struct At<'a> {
    tenant: &'a Tenant,
    connection: Connection<'a>,
}

impl<'a> At<'a> {
    async fn begin(tenant: &'a Tenant) -> Result<Self> {
        let connection = tenant.db().family(&tenant.fixed.tenant).await?;
        Ok(Self { tenant, connection })
    }

    fn about(&self) -> Result<PgArguments> {
        let mut with = PgArguments::default();
        add(&mut with, self.tenant.fixed.tenant.as_str())?;
        Ok(with)
    }

    async fn children(&mut self, of: &ThreadId) -> Result<Vec<ThreadId>> {
        let mut with = self.about()?;
        add(&mut with, of.as_str())?;
        let rows = self.connection.read(|sql| &sql.children, with).await?;
        rows.iter().map(|row| text(row, 0)?.parse()).collect()
    }

    async fn rows<'i>(&mut self, ids: impl Iterator<Item = &'i ThreadId>) -> Result<BTreeMap<ThreadId, Row>> {
        let ids: Vec<&str> = ids.map(ThreadId::as_str).collect();
        let mut with = self.about()?;
        add(&mut with, ids)?;
        let rows = self.connection.read(|sql| &sql.load_rows, with).await?;
        let read = |row| {
            let (stamp, log) = (number(row, 1)?, optional(row, 2)?);
            let (record, id): (Option<String>, Option<String>) = (optional(row, 3)?, optional(row, 4)?);
            Ok((text(row, 0)?.parse()?, facts::row(stamp, log, record.as_deref(), id.as_deref())?))
        };
        rows.iter().map(read).collect()
    }

    /// Deletes and detaches threads, in one step for every reader; whether nobody wrote to them meanwhile.
    async fn write(&mut self, rows: &BTreeMap<ThreadId, Row>, family: &Family, moment: Moment) -> Result<bool> {
        let mut batch = Batch::default();
        for id in &family.deleted {
            let Some((row, stored)) = rows.get(id).and_then(|row| Some((row, row.thread.as_ref()?))) else { continue };
            batch.thread(id, row, (None, thread::deleted_id(&row.id, stored, moment.now)));
        }
        for id in &family.detached {
            let Some((row, stored)) = rows.get(id).and_then(|row| Some((row, row.thread.clone()?))) else { continue };
            batch.thread(id, row, (Some(thread::detach(stored, moment.now)), row.id.clone()));
        }
        let written = Arc::new(batch).write(&mut self.connection, self.tenant, moment).await;
        for id in family.deleted.iter().chain(&family.detached) {
            self.tenant.forget(id);
        }
        Ok(matches!(written.map_err(|failed| failed.error)?, Written::Done(_)))
    }
}

pub(super) async fn delete(tenant: &Tenant, id: &ThreadId, request: DeleteRequest) -> Result<Deletion> {
    for _ in 0..ROUNDS {
        let mut at = At::begin(tenant).await?;
        match try_delete(&mut at, id, request).await {
            Ok(Some(family)) => {
                at.connection.finish(true).await?;
                return Ok(Deletion::new(family.deleted, family.detached));
            }
            Ok(None) => at.connection.finish(false).await?,
            Err(error) => {
                at.connection.finish(false).await?;
                return Err(error);
            }
        }
    }
    Err(Error::unavailable("others wrote to the threads at the same time, again and again"))
}

async fn try_delete(at: &mut At<'_>, id: &ThreadId, request: DeleteRequest) -> Result<Option<Family>> {
    let limits = &at.tenant.common.config.limits;
    let family = Family::of(at, id, request.children, limits.deletion_threads).await?;
    let rows = at.rows(family.deleted.iter().chain(&family.detached)).await?;
    let stored = rows.get(id).and_then(|row| row.thread.as_ref());
    thread::check_deletion(id, stored, request, (family.children, family.changed()), limits)?;
    let moment = at.tenant.db().clock.moment()?;
    Ok(at.write(&rows, &family, moment).await?.then_some(family))
}

pub(super) async fn prune(tenant: &Tenant, request: PruneRequest) -> Result<Pruned> {
    if !(1..=1_000).contains(&request.limit) {
        return Err(Error::invalid("prune limit", "it must be from 1 to 1000"));
    }
    let pruned = prune_idle(tenant, request).await?;
    while !request.dry_run && forget(tenant).await? == BATCH {}
    Ok(pruned)
}

async fn prune_idle(tenant: &Tenant, request: PruneRequest) -> Result<Pruned> {
    for _ in 0..ROUNDS {
        let mut at = At::begin(tenant).await?;
        let moment = tenant.db().clock.moment()?;
        let (chosen, more) =
            Choice { at: &mut at, request, now: moment.now, chosen: Vec::new(), staying: HashMap::new() }
                .make()
                .await?;
        let family = Family { deleted: chosen, ..Family::default() };
        let rows = at.rows(family.deleted.iter()).await?;
        // What was written since it was chosen is no longer idle (TH-27).
        let is_idle = |stored: &StoredThread| thread::is_idle(stored, request.idle, moment.now);
        let stay =
            family.deleted.iter().all(|id| rows.get(id).and_then(|row| row.thread.as_ref()).is_some_and(is_idle));
        let is_done =
            request.dry_run || (stay && (family.deleted.is_empty() || at.write(&rows, &family, moment).await?));
        at.connection.finish(is_done).await?;
        if is_done {
            return Ok(Pruned::new(family.deleted, more));
        }
    }
    Err(Error::unavailable("others wrote to the threads at the same time, again and again"))
}

/// The choice of threads to prune.
struct Choice<'a, 'b> {
    at: &'a mut At<'b>,
    request: PruneRequest,
    now: Timestamp,
    chosen: Vec<ThreadId>,
    /// How many children stay, of each thread that had one chosen.
    staying: HashMap<ThreadId, u64>,
}

impl Choice<'_, '_> {
    fn is_idle(&self, stored: &StoredThread) -> bool {
        thread::is_idle(stored, self.request.idle, self.now)
    }

    /// Idle threads, children before their parents, at most `limit`; and whether there are more (TH-26, TH-28).
    async fn make(mut self) -> Result<(Vec<ThreadId>, bool)> {
        let before = signed(self.now.saturating_sub(self.request.idle).as_millis())?;
        let mut after = (i64::MIN, String::new());
        loop {
            let mut with = self.at.about()?;
            add(&mut with, before)?;
            add(&mut with, after.0)?;
            add(&mut with, after.1.as_str())?;
            let rows = self.at.connection.read(|sql| &sql.list_idle, with).await?;
            let Some(last) = rows.last() else { return Ok((self.chosen, false)) };
            after = (number(last, 1)?, text(last, 0)?);
            for row in &rows {
                let stored = decode::<StoredThread>("thread", &text(row, 2)?)?;
                // One with children is taken behind the last of them, which may come before or after it here.
                let mut next = Some(stored).filter(|_| int(row, 3).is_ok_and(|children| children == 0));
                while let Some(stored) = next.take().filter(|stored| self.is_idle(stored)) {
                    if length(self.chosen.len()) == u64::from(self.request.limit) {
                        return Ok((self.chosen, true));
                    }
                    self.chosen.push(stored.thread.id.clone());
                    next = self.last_child_of(&stored).await?;
                }
            }
        }
    }

    /// The parent of a chosen thread, if no child of it stays.
    async fn last_child_of(&mut self, stored: &StoredThread) -> Result<Option<StoredThread>> {
        let Some(parent) = &stored.thread.parent_thread_id else { return Ok(None) };
        if !self.staying.contains_key(parent) {
            let children = length(self.at.children(parent).await?.len());
            self.staying.insert(parent.clone(), children);
        }
        let Some(left) = self.staying.get_mut(parent) else { return Ok(None) };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return Ok(None);
        }
        Ok(self.at.rows([parent].into_iter()).await?.remove(parent).and_then(|row| row.thread))
    }
}

/// Forgets a batch of ids that were deleted long enough ago (TH-25). How many.
async fn forget(tenant: &Tenant) -> Result<u64> {
    let before = tenant.db().clock.now()?.saturating_sub(thread::REMEMBERED_FOR);
    let mut with = PgArguments::default();
    add(&mut with, tenant.fixed.tenant.as_str())?;
    add(&mut with, signed(before.as_millis())?)?;
    add(&mut with, signed(BATCH)?)?;
    let rows = tenant.db().any().write(|sql| &sql.forget, with).await.map_err(|failed| failed.error)?;
    for row in &rows {
        tenant.forget(&text(row, 0)?.parse()?);
    }
    Ok(length(rows.len()))
}
