//! The store behind a write buffer: views for the decisions of the buffer, and applying its deltas.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use sqlx::{
    Error as SqlError,
    postgres::{PgArguments, PgRow},
};
use store_core::{
    Error, Outcome, Result, Store, TenantId, ThreadId, Timestamp,
    buffer::{
        AppliedPosition, ApplyStep, BufferTarget, DecideOverView, Delta, DeltaBatch, JoinedPlan, QuarantinedDelta,
        ThreadDeletion, join_deltas,
    },
    commit::{CommitView, DecisionContext, NeededKeys, Plan},
    document::{DocumentPlan, DocumentWritePlan},
    event::{EventPlan, EventView},
    log::{MarkSource, NodeSource},
};

use crate::{
    cache::{Lookup, RecordCache},
    columns::{read_optional, read_text, read_u64},
    db::{Connection, add, signed},
    decide::{self, CacheUpdate, MAX_ROUNDS, RuleResult},
    records::write_documents,
    store::{PostgresStore, TenantHandle},
    threads,
    write::Batch,
};

const LOAD: &str = "SELECT buffer, position, quarantine_revision FROM $schema$.write_buffer";
const LOCK: &str = "SELECT buffer, position, quarantine_revision FROM $schema$.write_buffer FOR UPDATE";
const ATTACH: &str = "INSERT INTO $schema$.write_buffer AS w (buffer, position) VALUES ($1, $2) ON CONFLICT (one) \
    DO UPDATE SET buffer = excluded.buffer, position = excluded.position WHERE w.buffer IS NULL";
const DETACH: &str = "UPDATE $schema$.write_buffer SET buffer = NULL WHERE buffer = $1 AND position = $2 \
    AND NOT EXISTS (SELECT FROM $schema$.quarantined_delta) RETURNING position";
const MOVE: &str = "UPDATE $schema$.write_buffer SET position = $1, quarantine_revision = $2";
const LOAD_QUARANTINE: &str = "SELECT w.buffer, w.position, w.quarantine_revision, q.sequence, q.tenant, q.reason, \
    q.since, q.message FROM $schema$.write_buffer w LEFT JOIN $schema$.quarantined_delta q ON true ORDER BY q.sequence";
const QUARANTINE: &str = "INSERT INTO $schema$.quarantined_delta (sequence, tenant, reason, since, message) \
    VALUES ($1, $2, $3, $4, $5)";
const RELEASE: &str = "DELETE FROM $schema$.quarantined_delta WHERE sequence = ANY ($1)";
const NEXT_DOCUMENT_REVISION: &str = "SELECT nextval('$schema$.document_revision')";
const RELEASE_TENANT: &str = "DELETE FROM $schema$.quarantined_delta WHERE tenant = $1";

#[async_trait]
impl BufferTarget for PostgresStore {
    async fn now(&self) -> Result<Timestamp> {
        let shared = self.shared();
        if shared.config.uses_test_clock {
            // Otherwise the time goes on by itself, and each flush corrects it.
            shared.db.update_clock().await?;
        }
        shared.db.clock.now()
    }

    async fn decide(
        &self,
        tenant: &TenantId,
        thread: &ThreadId,
        needed: &NeededKeys,
        decide: &mut DecideOverView<'_>,
    ) -> Result<()> {
        let tenant = self.open_tenant(tenant)?;
        tenant.check_open()?;
        if tenant.shared.config.uses_test_clock {
            tenant.db().update_clock().await?;
        }
        // The number must be taken after the caller has read the deltas that its decision relies on.
        let revision = if needed.documents.is_empty() { 0 } else { next_document_revision(&tenant).await? };
        let decide = Mutex::new(decide);
        let rule = |cache: &RecordCache, context: DecisionContext<'_>| {
            cache.document_revision.set(revision);
            // What the rule says about a record that is not loaded yet is not kept: the rule then runs again.
            (decide.lock().unwrap_or_else(PoisonError::into_inner))(cache, context)?;
            Ok(RuleResult::Answer(()))
        };
        decide::read_by_rule(&tenant, thread, lookup_of(needed), rule).await
    }

    async fn lineage(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Vec<ThreadId>> {
        let tenant = self.open_tenant(tenant)?;
        let lookup = Lookup { lineage: [thread.clone()].into(), ..Lookup::default() };
        let rule = |cache: &RecordCache, _: DecisionContext<'_>| Ok(RuleResult::Answer(cache.lineage(thread)?));
        decide::read_by_rule(&tenant, thread, lookup, rule).await
    }

    async fn applied_position(&self) -> Result<AppliedPosition> {
        let mut connection = self.shared().db.any_connection();
        read_position(&mut connection, false).await
    }

    async fn attach_buffer(&self, buffer: &str, position: u64) -> Result<u64> {
        self.check_writable()?;
        let mut arguments = PgArguments::default();
        add(&mut arguments, buffer)?;
        add(&mut arguments, signed(position)?)?;
        let mut connection = self.shared().db.any_connection();
        run(&mut connection, ATTACH, arguments).await?;
        let attached = read_position(&mut connection, false).await?;
        attached.check(buffer)?;
        Ok(attached.position)
    }

    async fn detach_buffer(&self, buffer: &str, position: u64) -> Result<()> {
        let mut arguments = PgArguments::default();
        add(&mut arguments, buffer)?;
        add(&mut arguments, signed(position)?)?;
        let mut connection = self.shared().db.any_connection();
        let rows = run(&mut connection, DETACH, arguments).await?;
        if rows.is_empty() {
            let (attached, quarantine) = self.quarantined_deltas().await?;
            attached.check_detachable(buffer, position, quarantine.len())?;
            return Err(Error::unavailable("another node changed the buffer meanwhile"));
        }
        Ok(())
    }

    async fn apply_deltas(&self, batch: DeltaBatch) -> Result<AppliedPosition> {
        self.check_writable()?;
        // The position stays locked until the transaction ends, so only one node applies deltas at a time.
        let tenants = batch.deltas.iter().map(|read| Ok((read.tenant.clone(), self.open_tenant(&read.tenant)?)));
        let tenants: HashMap<TenantId, TenantHandle> = tenants.collect::<Result<_>>()?;
        let mut connection = self.shared().db.begin_transaction().await?;
        let attached = read_position(&mut connection, true).await?;
        let is_attached = attached.check(batch.expected.buffer.as_deref().unwrap_or_default());
        if is_attached.is_err() || attached != batch.expected {
            connection.roll_back().await?;
            return is_attached.map(|()| attached);
        }
        let (mut written, deleted) = (Vec::new(), batch.deleted_tenant());
        if let Some(tenant) = deleted {
            // This is many transactions. It is repeated if the position is not moved after it.
            self.delete_tenant(tenant).await?;
        }
        let steps = if deleted.is_some() { Vec::new() } else { join_deltas(&batch.deltas) };
        for step in &steps {
            let (given_back, result) = apply(&tenants, connection, step).await;
            connection = given_back;
            match result {
                Ok(batches) => written.extend(batches),
                Err(error) => {
                    connection.roll_back().await?;
                    return Err(refusal_of_delta(error));
                }
            }
        }
        change_quarantine(&mut connection, &batch).await?;
        let afterwards = batch.position_afterwards();
        let mut arguments = PgArguments::default();
        add(&mut arguments, signed(afterwards.position)?)?;
        add(&mut arguments, signed(afterwards.quarantine_revision)?)?;
        run(&mut connection, MOVE, arguments).await?;
        if let Err(error) = connection.commit().await {
            // Whether it was committed shows the position, which the next call finds.
            return match error.outcome() {
                Outcome::Unknown => {
                    Err(Error::server_unavailable("the server did not confirm a flush").with_source(error))
                }
                Outcome::NotApplied => Err(error),
            };
        }
        for (tenant, batch) in written {
            tenant.notify_subscribers(batch.scopes_written());
        }
        Ok(afterwards)
    }

    async fn quarantined_deltas(&self) -> Result<(AppliedPosition, Vec<QuarantinedDelta>)> {
        let mut connection = self.shared().db.any_connection();
        let rows = run(&mut connection, LOAD_QUARANTINE, PgArguments::default()).await?;
        let Some(first) = rows.first() else { return Ok((AppliedPosition::default(), Vec::new())) };
        let position = position_of(first)?;
        let is_quarantined = |row: &&PgRow| read_optional::<i64>(row, 3).is_ok_and(|sequence| sequence.is_some());
        let quarantined = rows.iter().filter(is_quarantined).map(quarantined_of);
        Ok((position, quarantined.collect::<Result<_>>()?))
    }
}

/// Writes what a batch changes in the quarantine.
async fn change_quarantine(connection: &mut Connection<'_>, batch: &DeltaBatch) -> Result<()> {
    for delta in &batch.quarantined {
        let mut arguments = PgArguments::default();
        add(&mut arguments, signed(delta.sequence)?)?;
        add(&mut arguments, delta.tenant.as_str())?;
        add(&mut arguments, delta.reason.as_str())?;
        add(&mut arguments, signed(delta.since.as_millis())?)?;
        add(&mut arguments, delta.message.as_str())?;
        run(connection, QUARANTINE, arguments).await?;
    }
    if !batch.released.is_empty() {
        let sequences = batch.released.iter().map(|sequence| signed(*sequence)).collect::<Result<Vec<_>>>()?;
        let mut arguments = PgArguments::default();
        add(&mut arguments, sequences)?;
        run(connection, RELEASE, arguments).await?;
    }
    if let Some(tenant) = batch.deleted_tenant() {
        let mut arguments = PgArguments::default();
        add(&mut arguments, tenant.as_str())?;
        run(connection, RELEASE_TENANT, arguments).await?;
    }
    Ok(())
}

fn quarantined_of(row: &PgRow) -> Result<QuarantinedDelta> {
    let (tenant, since) = (TenantId::new(read_text(row, 4)?)?, Timestamp::from_millis(read_u64(row, 6)?)?);
    Ok(QuarantinedDelta::new(read_u64(row, 3)?, tenant, read_text(row, 5)?, since, read_text(row, 7)?))
}

/// Returns the error about a delta whose rows the server refuses, however often they are written: its data, a
/// constraint, a limit of the server, or a trigger. Other errors are about the server (NB-7).
fn refusal_of_delta(error: Error) -> Error {
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<SqlError>());
    let code = source.and_then(|source| source.as_database_error()?.code()).unwrap_or_default();
    let is_about_rows = ["22", "23", "44", "54", "P0"].iter().any(|class| code.starts_with(class));
    if !is_about_rows {
        return error;
    }
    let reason = format!("the server refuses its rows with code {code}");
    Error::invalid("delta", reason).with_source(error)
}

impl PostgresStore {
    /// Refuses to write without the buffer that is attached, unless the store is opened behind it. Warns of reading
    /// without it.
    pub(crate) async fn check_buffer(&self) -> Result<()> {
        let config = &self.shared().config;
        if config.behind_buffer {
            return Ok(());
        }
        match self.applied_position().await?.buffer {
            Some(buffer) if config.read_only => {
                tracing::warn!("the write buffer `{buffer}` is attached: what it has not applied yet does not show");
                Ok(())
            }
            Some(buffer) => Err(Error::behind_buffer(format!(
                "the write buffer `{buffer}` is attached to the store: open the store through it, or detach it"
            ))),
            None => Ok(()),
        }
    }
}

async fn read_position(connection: &mut Connection<'_>, locks: bool) -> Result<AppliedPosition> {
    let rows = run(connection, if locks { LOCK } else { LOAD }, PgArguments::default()).await?;
    rows.first().map_or_else(|| Ok(AppliedPosition::default()), position_of)
}

fn position_of(row: &PgRow) -> Result<AppliedPosition> {
    Ok(AppliedPosition::new(read_optional(row, 0)?, read_u64(row, 1)?, read_u64(row, 2)?))
}

fn lookup_of(needed: &NeededKeys) -> Lookup {
    Lookup {
        threads: needed.parent_thread.iter().cloned().collect(),
        runs: needed.runs.clone(),
        keys: needed.key.iter().cloned().collect(),
        entries: needed.entries.clone(),
        names: needed.snapshots.clone(),
        states: needed.state.clone(),
        inputs: needed.pending.clone(),
        documents: needed.documents.clone(),
        ..Lookup::default()
    }
}

async fn next_document_revision(tenant: &TenantHandle) -> Result<u64> {
    let rows = run(&mut tenant.db().any_connection(), NEXT_DOCUMENT_REVISION, PgArguments::default()).await?;
    rows.first().map_or(Ok(0), |row| read_u64(row, 0))
}

/// Runs one of the statements of this file.
async fn run(connection: &mut Connection<'_>, text: &str, arguments: PgArguments) -> Result<Vec<PgRow>> {
    connection.write_text(text, || Ok(arguments)).await.map_err(|failed| failed.error)
}

/// The connection, and what was written to each tenant.
type Written<'a> = (Connection<'a>, Result<Vec<(&'a TenantHandle, Arc<Batch>)>>);

/// Applies a step in the transaction of `connection`.
async fn apply<'a>(
    tenants: &'a HashMap<TenantId, TenantHandle>,
    connection: Connection<'a>,
    step: &ApplyStep,
) -> Written<'a> {
    match step {
        ApplyStep::Plans(plans) => apply_plans(tenants, connection, plans).await,
        ApplyStep::Other(read) => match tenants.get(&read.tenant) {
            Some(tenant) => apply_other(tenant, connection, &read.delta).await,
            None => (connection, Err(Error::closed())),
        },
        _ => (connection, Err(Error::corrupt("a step that cannot be applied"))),
    }
}

/// Applies the plans of several threads: those of each tenant with one statement.
async fn apply_plans<'a>(
    tenants: &'a HashMap<TenantId, TenantHandle>,
    mut connection: Connection<'a>,
    plans: &[JoinedPlan],
) -> Written<'a> {
    let mut written = Vec::new();
    for (name, tenant) in tenants {
        let of_tenant: Vec<_> = plans.iter().filter(|joined| joined.tenant == *name).collect();
        if of_tenant.is_empty() {
            continue;
        }
        let (given_back, result) = apply_plans_of_tenant(tenant, connection, &of_tenant).await;
        connection = given_back;
        match result {
            Ok(batch) => written.push((tenant, batch)),
            Err(error) => return (connection, Err(error)),
        }
    }
    (connection, Ok(written))
}

/// Applies plans, again and again if what they change is changed meanwhile: claims of the outbox and trims of events go
/// past the buffer.
async fn apply_plans_of_tenant<'a>(
    tenant: &'a TenantHandle,
    mut connection: Connection<'a>,
    plans: &[&JoinedPlan],
) -> (Connection<'a>, Result<Arc<Batch>>) {
    for _ in 0..MAX_ROUNDS {
        let (given_back, batch) = batch_of(tenant, connection, plans).await;
        connection = given_back;
        let batch = match batch {
            Ok(batch) => Arc::new(batch),
            Err(error) => return (connection, Err(error)),
        };
        match decide::write_batch_in_transaction(tenant, &mut connection, &batch).await {
            Ok(true) => {
                for joined in plans {
                    if let Err(error) = write_documents(&mut connection, tenant, &joined.plan.documents).await {
                        return (connection, Err(error));
                    }
                }
                return (connection, Ok(batch));
            }
            Ok(false) => {}
            Err(error) => return (connection, Err(error)),
        }
    }
    (connection, Err(Error::unavailable("other callers kept writing to the same records")))
}

/// Makes one batch of the plans of several threads.
async fn batch_of<'a>(
    tenant: &'a TenantHandle,
    mut connection: Connection<'a>,
    plans: &[&JoinedPlan],
) -> (Connection<'a>, Result<Batch>) {
    let mut batch = Batch::default();
    for joined in plans {
        let thread = &joined.plan.receipt.thread;
        let rule = |cache: &RecordCache| {
            let mut part = batch.next_part();
            add_plan(&mut part, cache, joined).map(|()| part)
        };
        let (given_back, part) =
            decide::batch_in_transaction(tenant, thread, (connection, lookup_of_plan(&joined.plan)), rule).await;
        connection = given_back;
        match part {
            Ok(part) if batch.is_empty() => batch = part,
            Ok(part) => batch.append(part),
            Err(error) => return (connection, Err(error)),
        }
        // The records in the cache of this process are older.
        tenant.remove_cached(thread);
    }
    (connection, Ok(batch))
}

/// Applies a delta that is not a plan.
async fn apply_other<'a>(tenant: &'a TenantHandle, connection: Connection<'a>, delta: &Delta) -> Written<'a> {
    let (connection, written) = match delta {
        Delta::Documents(plan) => apply_documents(tenant, connection, plan).await,
        Delta::Deletion(deletion) => apply_deletion(tenant, connection, deletion).await,
        _ => (connection, Err(Error::corrupt("a delta that cannot be applied"))),
    };
    (connection, written.map(|batches| batches.into_iter().map(|batch| (tenant, batch)).collect()))
}

async fn apply_documents<'a>(
    tenant: &'a TenantHandle,
    connection: Connection<'a>,
    plan: &DocumentWritePlan,
) -> (Connection<'a>, Result<Vec<Arc<Batch>>>) {
    let scopes = plan.events.iter().flat_map(|events| events.scopes.keys().cloned()).collect();
    let lookup = Lookup { scopes, ..Lookup::default() };
    let thread = plan.id_record.as_ref().map(|(thread, _)| thread);
    let rule = |cache: &RecordCache, _: DecisionContext<'_>| write_events(cache, plan);
    let (mut connection, written) = decide::write_in_transaction(tenant, thread, (connection, lookup), rule).await;
    match written {
        Ok(written) => {
            let documents = write_documents(&mut connection, tenant, &plan.documents).await;
            (connection, documents.map(|()| written))
        }
        refused => (connection, refused),
    }
}

fn lookup_of_plan(plan: &Plan) -> Lookup {
    Lookup {
        runs: plan.runs.iter().map(|run| run.id.clone()).collect(),
        scopes: plan.events.iter().flat_map(|events| events.scopes.keys().cloned()).collect(),
        ..Lookup::default()
    }
}

async fn apply_deletion<'a>(
    tenant: &'a TenantHandle,
    mut connection: Connection<'a>,
    deletion: &ThreadDeletion,
) -> (Connection<'a>, Result<Vec<Arc<Batch>>>) {
    let deleted: Vec<_> = deletion.deleted.iter().map(|(id, _)| id.clone()).collect();
    let detached: Vec<_> = deletion.detached.iter().map(|child| child.thread.id.clone()).collect();
    let result = threads::apply_deletion(tenant, &mut connection, (&deleted, &detached), deletion.at).await;
    (connection, result.map(|()| Vec::new()))
}

/// Makes sure that the cache has what a batch is made from: the records that the plan changes, as they are stored.
fn load_changed(cache: &RecordCache, plan: &Plan) -> Result<()> {
    let stored = cache.thread()?;
    plan.runs.iter().try_for_each(|run| cache.run(&run.id).map(drop))?;
    for scope in plan.events.iter().flat_map(|events| events.scopes.keys()) {
        cache.scope(scope)?;
    }
    let first_new = plan.entries.first().map_or(u64::MAX, |planned| planned.node.seq);
    let head = stored.and_then(|stored| stored.head_seq);
    let new_head = plan.thread.as_ref().and_then(|stored| stored.head_seq);
    for seq in plan.marks.keys().copied().chain(head).chain(new_head).filter(|seq| *seq < first_new) {
        cache.node(seq)?;
        cache.marks(seq)?;
    }
    Ok(())
}

/// Returns the events with the floors that their scopes have now: a trim may have come first.
fn with_present_floors(cache: &RecordCache, events: &EventPlan) -> Result<EventPlan> {
    let mut events = events.clone();
    for (scope, state) in &mut events.scopes {
        *state = std::mem::take(state).after_trim(cache.scope(scope)?.floor);
    }
    Ok(events)
}

/// Adds what the plans of a thread write.
fn add_plan(batch: &mut Batch, cache: &RecordCache, joined: &JoinedPlan) -> Result<()> {
    let plan = &joined.plan;
    load_changed(cache, plan)?;
    if plan.thread.is_none() {
        // Only what is kept about the id changes. The thread stays if there is one.
        let row = cache.row.clone().unwrap_or_default();
        batch.add_thread(&plan.receipt.thread, &row, (cache.thread()?, plan.id_record.clone()));
        return Ok(());
    }
    let mut joined = joined.clone();
    // They are written after the batch: the batch would number them.
    joined.plan.documents = DocumentPlan::default();
    if let Some(events) = &mut joined.plan.events {
        *events = with_present_floors(cache, events)?;
    }
    batch.add_joined(cache, &joined)
}

fn write_events(cache: &RecordCache, plan: &DocumentWritePlan) -> Result<RuleResult<()>> {
    let mut batch = Batch::default();
    if let Some((thread, id_record)) = &plan.id_record {
        let stored = cache.thread()?;
        let row = cache.row.clone().unwrap_or_default();
        batch.add_thread(thread, &row, (stored, id_record.clone()));
    }
    if let Some(events) = &plan.events {
        batch.add_events(cache, &with_present_floors(cache, events)?);
    }
    Ok(RuleResult::Write { batch, cache_update: CacheUpdate::Nothing, answer: () })
}
