//! Writing the result of a decision in one statement.

mod answer;
mod append;
mod arguments;
mod documents;
mod fast_path;
mod group_commit;
pub(crate) mod rows;
mod statement;

use std::{collections::BTreeMap, sync::Arc};

use store_core::{
    Body, BodyKind, EntryId, Json, OutboxId, Result, Scope, TenantId, ThreadId, Timestamp,
    codec::Codec,
    commit::{Plan, PlannedEntry},
    event::ScopeState,
    log::{EntryMarks, MarkSource, NodeSource, assigned_name},
    mailbox::{MailboxPlan, MailboxView, StoredDispatch, StoredMailboxThread},
    outbox::{self, OrderGroup, StoredOutboxRow},
    pending::{QueuePlan, QueueWrite},
    thread::{StoredThread, ThreadIdRecord},
};

use self::{
    documents::DocumentRows,
    rows::{
        CommitKeyRow, DecisionRow, EndedRow, EntryRow, EventKeyRow, EventRow, InputRow, InterruptRow, LeafRow,
        MailboxRow, MarkRow, NameRow, OutboxChange, OutboxGroupRow, OutboxReady, OutboxRemoval, QueuedRow, RunRow,
        ScopeRow, StateRow, ThreadRow,
    },
};
use crate::{
    cache::{CachedThreadRow, DispatchChange, MailboxChanges, OutboxChanges, OutboxDraft, RecordCache},
    clock::DecisionTime,
    db::{Connection, StatementFailure, add, signed},
    tenant::Tenant,
};

pub(crate) use self::{
    answer::{WriteResult, WrittenThread},
    documents::WrittenRevision,
    group_commit::GroupCommit,
};

/// The maximum size in bytes of the entries of a batch that is written together with others.
const MAX_GROUPED_BYTES: usize = 64 * 1024;

/// Rows to be written, all of them or none.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    threads: Vec<ThreadRow>,
    entries: Vec<EntryRow>,
    marks: Vec<MarkRow>,
    leaves: Vec<LeafRow>,
    names: Vec<NameRow>,
    keys: Vec<CommitKeyRow>,
    /// The threads whose state is cleared first.
    cleared_states: Vec<i32>,
    state_values: Vec<StateRow>,
    runs: Vec<RunRow>,
    inputs: Vec<InputRow>,
    decisions: Vec<DecisionRow>,
    scopes: Vec<ScopeRow>,
    events: Vec<EventRow>,
    event_keys: Vec<EventKeyRow>,
    /// Documents, and what is written together with them.
    documents: DocumentRows,
    outbox: Vec<OutboxChange>,
    outbox_ready: Vec<OutboxReady>,
    outbox_removed: Vec<OutboxRemoval>,
    outbox_groups: Vec<OutboxGroupRow>,
    mailboxes: Vec<MailboxRow>,
    dispatches: Vec<StoredDispatch>,
    new_dispatches: Vec<StoredDispatch>,
    dispatches_removed: Vec<String>,
    queued_removed: Vec<QueuedRow>,
    /// Queued dispatches, each with whether it is available.
    queued: Vec<(bool, QueuedRow)>,
    ended_removed: Vec<EndedRow>,
    ended: Vec<EndedRow>,
    interrupts: Vec<InterruptRow>,
    /// The incarnation of the tenant's claim numbers. A deletion of the tenant changes it. Set if the batch is based on
    /// claims from the cache: it then takes effect only if the table `claims` still contains this incarnation.
    claim_incarnation: Option<u64>,
    claimable_from: Option<Timestamp>,
    /// The number of threads of the batch to which this one is appended.
    threads_before: usize,
}

impl Batch {
    /// Adds a thread with the state that it has after the batch. `None` deletes it. Returns the number by which other
    /// rows of the batch refer to it.
    pub(crate) fn add_thread(
        &mut self,
        id: &ThreadId,
        before: &CachedThreadRow,
        after: (Option<StoredThread>, ThreadIdRecord),
    ) -> i32 {
        let (thread, id_record) = after;
        let creates_thread = before.thread.is_none() && thread.is_some();
        let id = id.to_string();
        self.threads.push(ThreadRow { id, stamp: before.stamp, log: before.log, creates_thread, thread, id_record });
        i32::try_from(self.threads_before + self.threads.len()).unwrap_or(i32::MAX)
    }

    /// Adds everything that a commit writes. The cache must contain the records from before the commit, because they
    /// determine what changes.
    pub(crate) fn add_commit(&mut self, id: &ThreadId, cache: &RecordCache, plan: &Plan) -> Result<()> {
        if let Some(settled) = &plan.mailbox {
            let mut changes = MailboxChanges::default();
            changes.apply(cache, MailboxPlan::clone(settled))?;
            self.add_mailbox_changes(changes);
        }
        let row_before = cache.row.clone().unwrap_or_default();
        let head_before = row_before.thread.as_ref().and_then(|thread| thread.head_seq);
        let thread_number = self.add_thread(id, &row_before, (plan.thread.clone(), plan.id_record.clone()));
        if let Some(events) = &plan.events {
            self.add_events(cache, events);
        }
        let mut draft = OutboxDraft::new(cache);
        for (row, _) in &plan.outbox.rows {
            outbox::put_row(&mut draft, row.clone())?;
        }
        self.add_outbox_changes(draft.into_changes()?, &plan.outbox.rows);
        let Some(thread) = &plan.thread else { return Ok(()) };
        for planned in &plan.entries {
            self.add_entry(thread_number, planned)?;
        }
        for seq in plan.marks.keys() {
            self.add_mark(thread_number, *seq, cache, plan)?;
        }
        self.add_leaf_changes(thread_number, (head_before, thread.head_seq), cache, plan)?;
        self.add_names(thread_number, cache, plan)?;
        let key = plan.key.as_ref().map(|record| CommitKeyRow::of(thread_number, record));
        if plan.documents.revision.is_some() {
            self.documents.key = key
        } else {
            self.keys.extend(key)
        }
        if plan.state.clear {
            self.cleared_states.push(thread_number);
        }
        self.state_values.extend(plan.state.values.iter().map(|(key, value)| StateRow {
            thread: thread_number,
            key: key.clone(),
            value: value.as_ref().map(|value| value.as_str().to_owned()),
        }));
        for run in &plan.runs {
            let is_new = !cache.is_cached_run(&run.id);
            self.runs.push(RunRow { thread: thread_number, is_new, run: run.clone() });
        }
        self.add_queue_rows(thread_number, &plan.queue)
    }

    /// Adds changes of the outbox. New rows come with their payloads.
    pub(crate) fn add_outbox_changes(&mut self, changes: OutboxChanges, payloads: &[(StoredOutboxRow, Json)]) {
        for (before, row, ready) in changes.rows {
            let payload = payloads.iter().find(|(new, _)| new.id == row.id).map(|(_, it)| it.as_str().to_owned());
            self.outbox.push(OutboxChange::of(before, &row, ready, payload));
        }
        let ready = |(id, ready): (OutboxId, bool)| OutboxReady { id: id.to_string(), ready };
        self.outbox_ready.extend(changes.ready.into_iter().map(ready));
        let deleted = |(id, before): (OutboxId, u64)| OutboxRemoval { id: id.to_string(), before };
        self.outbox_removed.extend(changes.deleted.into_iter().map(deleted));
        let group = |(OrderGroup { lane, target, key }, stamp)| OutboxGroupRow {
            lane: lane.to_string(),
            target: target.to_string(),
            key: key.to_string(),
            stamp,
        };
        self.outbox_groups.extend(changes.groups.into_iter().map(group));
    }

    /// Adds changes of the mailbox.
    pub(crate) fn add_mailbox_changes(&mut self, changes: MailboxChanges) {
        for (id, DispatchChange { before, after }) in changes.dispatches {
            let [old, new] = [&before, &after].map(|stored| stored.as_ref().and_then(QueuedRow::of));
            if old.as_ref().map(|row| row.at) != new.as_ref().map(|row| row.at) {
                self.queued_removed.extend(old);
                self.queued.extend(new.map(|row| {
                    let mailbox = after.as_ref().and_then(|stored| changes.threads.get(&stored.body.thread));
                    // A dispatch that returns to the queue of an earlier epoch is never available.
                    let is_available = |mailbox: &StoredMailboxThread| {
                        row.at.epoch == mailbox.epoch && row.at.due <= mailbox.last_time
                    };
                    (mailbox.is_some_and(|(_, mailbox)| is_available(mailbox)), row)
                }));
            }
            let [old, new] = [&before, &after].map(|stored| stored.as_ref().and_then(EndedRow::of));
            if old != new {
                self.ended_removed.extend(old);
                self.ended.extend(new);
            }
            match after {
                Some(stored) if before.is_none() => self.new_dispatches.push(stored),
                Some(stored) => self.dispatches.push(stored),
                None => self.dispatches_removed.push(id.to_string()),
            }
        }
        for (thread, (before, stored)) in changes.threads {
            self.mailboxes.push(MailboxRow {
                thread: thread.to_string(),
                before,
                revision: stored.revision,
                epoch: stored.epoch,
                free_since: stored.free_since.as_millis(),
                running: stored.running.as_ref().map(|running| running.dispatch.to_string()),
                lease_until: stored.running.as_ref().map(|running| running.lease_until.as_millis()),
                last_time: stored.last_time.as_millis(),
                record: Some(stored.encode()),
            });
        }
        for ((thread, epoch), stored) in changes.interrupts {
            self.interrupts.push(InterruptRow {
                thread: thread.to_string(),
                epoch,
                at: stored.as_ref().map(|stored| stored.at.as_millis()),
                needed_by_count: stored.as_ref().map(|stored| stored.holds),
                record: stored.as_ref().map(Codec::encode),
            });
        }
        self.claimable_from = changes.claimable_from;
    }

    /// Makes the batch take effect only if the tenant's claim numbers still have this incarnation.
    pub(crate) const fn require_claim_incarnation(&mut self, incarnation: Option<u64>) {
        self.claim_incarnation = incarnation;
    }

    /// Makes the batch take effect only if the claims of a thread do not change until it is written.
    pub(crate) fn require_unchanged_claims(&mut self, cache: &RecordCache, thread: &ThreadId) -> Result<()> {
        let before = MailboxView::mailbox(cache, thread)?.map_or(0, |stored| stored.revision);
        self.mailboxes.push(MailboxRow { thread: thread.to_string(), before, ..MailboxRow::default() });
        Ok(())
    }

    /// Returns the earliest time at which a claim may find dispatches of this batch.
    pub(crate) const fn claimable_from(&self) -> Option<Timestamp> {
        self.claimable_from
    }

    /// Returns whether there is nothing to write.
    pub(crate) const fn is_empty(&self) -> bool {
        self.threads.is_empty()
            && self.scopes.is_empty()
            && self.documents.is_empty()
            && self.outbox.is_empty()
            && self.outbox_ready.is_empty()
            && self.outbox_removed.is_empty()
            && self.mailboxes.is_empty()
    }

    /// Adds a scope with its states before and after the batch.
    pub(crate) fn add_scope(&mut self, scope: &Scope, before: ScopeState, after: ScopeState) {
        self.scopes.push(ScopeRow { scope: scope.clone(), before, after });
    }

    /// Returns the scopes that the batch writes to.
    pub(crate) fn scopes_written(&self) -> impl Iterator<Item = &Scope> + Clone {
        self.scopes.iter().map(|row| &row.scope)
    }

    /// Adds everything that a change of a queue writes.
    pub(crate) fn add_queue_change(&mut self, id: &ThreadId, before: &CachedThreadRow, plan: &QueuePlan) -> Result<()> {
        let thread_number = self.add_thread(id, before, (Some(plan.thread.clone()), plan.id_record.clone()));
        self.add_queue_rows(thread_number, &plan.write)
    }

    fn add_queue_rows(&mut self, thread_number: i32, write: &QueueWrite) -> Result<()> {
        for stored in &write.put {
            let input = &stored.input;
            if let Some((decision, record)) = input.decision() {
                self.decisions.push(DecisionRow {
                    thread: thread_number,
                    run: decision.run.to_string(),
                    ticket: decision.ticket.clone(),
                    record: record.encode(),
                });
            }
            let (rank, record) = (Some(signed(stored.rank)?), Some(input.encode()));
            self.inputs.push(InputRow { thread: thread_number, id: input.id.to_string(), rank, record });
        }
        let removed_row =
            |id: &EntryId| InputRow { thread: thread_number, id: id.to_string(), rank: None, record: None };
        self.inputs.extend(write.removed.iter().map(removed_row));
        for (id, rank) in &write.ranks {
            let rank = Some(signed(*rank)?);
            self.inputs.push(InputRow { thread: thread_number, id: id.to_string(), rank, record: None });
        }
        Ok(())
    }

    fn add_entry(&mut self, thread: i32, planned: &PlannedEntry) -> Result<()> {
        let node = &planned.node;
        self.entries.push(EntryRow {
            thread,
            seq: signed(node.seq)?,
            id: planned.entry.id.to_string(),
            parent: node.parent.map(signed).transpose()?,
            jump: node.jump.map(signed).transpose()?,
            side: node.side,
            node: node.encode(),
            body: planned.text.clone(),
        });
        Ok(())
    }

    /// Adds the marks of an entry. They have no row if they say only whether the next entry of the log is its child.
    fn add_mark(&mut self, thread: i32, seq: u64, cache: &RecordCache, plan: &Plan) -> Result<()> {
        if plan.entries.first().is_none_or(|first| seq < first.node.seq) {
            cache.marks(seq)?;
        }
        if let Some(known) = cache.marks_after(seq, plan).filter(|known| known.has_row) {
            let (seq, children) = (signed(seq)?, i64::from(known.marks.children));
            self.marks.push(MarkRow { thread, seq, children, record: known.marks.encode() });
        }
        Ok(())
    }

    /// Adds the changes of the list of leaves, which does not contain the head.
    fn add_leaf_changes(
        &mut self,
        thread_number: i32,
        (head_before, head): (Option<u64>, Option<u64>),
        cache: &RecordCache,
        plan: &Plan,
    ) -> Result<()> {
        let children = |seq: u64| match plan.marks.get(&seq) {
            Some(marks) => Ok(marks.children),
            None => cache.marks(seq).map(|marks| marks.children),
        };
        let first_new = plan.entries.first().map(|planned| planned.node.seq);
        let is_new = |seq: u64| first_new.is_some_and(|first| seq >= first);
        let mut changed: BTreeMap<u64, bool> = BTreeMap::new();
        for planned in plan.entries.iter().filter(|planned| !planned.node.side) {
            let seq = planned.node.seq;
            changed.insert(seq, plan.marks.get(&seq).is_none_or(|marks| marks.children == 0));
        }
        for (seq, marks) in plan.marks.iter().filter(|(seq, _)| cache.is_side(**seq) == Some(false)) {
            changed.insert(*seq, marks.children == 0);
        }
        for seq in head_before.into_iter().chain(head).filter(|seq| head_before != head && !is_new(*seq)) {
            changed.insert(seq, children(seq)? == 0);
        }
        for (seq, is_leaf) in changed {
            let is_listed = is_leaf && head != Some(seq);
            // New entries and the previous head are not in the list, so they need not be removed.
            if is_listed || !(is_new(seq) || head_before == Some(seq)) {
                self.leaves.push(LeafRow { thread: thread_number, seq: signed(seq)?, is_listed });
            }
        }
        Ok(())
    }

    /// Adds the names of checkpoints, and the entries that gave them.
    fn add_names(&mut self, thread_number: i32, cache: &RecordCache, plan: &Plan) -> Result<()> {
        let is_checkpoint = |seq: u64| -> Result<bool> {
            let new = plan.entries.iter().find(|planned| planned.node.seq == seq);
            let node = new.map_or_else(|| cache.node(seq), |planned| Ok(planned.node.clone()))?;
            Ok(node.checkpoint == Some(seq))
        };
        let mut names = BTreeMap::new();
        for planned in &plan.entries {
            let seq = planned.node.seq;
            let target = match &*planned.entry.body {
                Body::Checkpoint(_) => Some(seq),
                Body::Label(_) => match planned.node.target {
                    Some(target) if is_checkpoint(target)? => Some(target),
                    _ => None,
                },
                _ => None,
            };
            let name = assigned_name(&planned.entry).map(str::to_owned);
            if let Some(target) = target.filter(|_| name.is_some() || planned.entry.kind() == BodyKind::Label) {
                names.insert(target, (name, seq));
            }
        }
        for (target, (name, naming_seq)) in names {
            let may_replace_name = plan.entries.iter().all(|planned| planned.node.seq != target);
            let (seq, naming_seq) = (signed(target)?, signed(naming_seq)?);
            self.names.push(NameRow { thread: thread_number, seq, name, naming_seq, may_replace_name });
        }
        Ok(())
    }

    /// Sets the marks of an entry to those derived from its log. Only repairs need this.
    pub(crate) fn repair_mark(&mut self, thread: i32, seq: u64, marks: &EntryMarks) -> Result<()> {
        let children = i64::from(marks.children);
        self.marks.push(MarkRow { thread, seq: signed(seq)?, children, record: marks.encode() });
        Ok(())
    }

    /// Adds an entry to the list of leaves, or removes it. The list does not contain the head. Only repairs need this.
    pub(crate) fn repair_leaf(&mut self, thread: i32, seq: u64, is_listed: bool) -> Result<()> {
        self.leaves.push(LeafRow { thread, seq: signed(seq)?, is_listed });
        Ok(())
    }

    /// Sets the name of a checkpoint and the entry that gave it, or removes the name. Only repairs need this.
    pub(crate) fn repair_name(&mut self, thread: i32, seq: u64, name: Option<&(String, u64)>) -> Result<()> {
        let naming_seq = signed(name.map_or(0, |(_, naming_seq)| *naming_seq))?;
        let (seq, name) = (signed(seq)?, name.map(|(name, _)| name.clone()));
        self.names.push(NameRow { thread, seq, name, naming_seq, may_replace_name: true });
        Ok(())
    }

    /// Returns whether the batch contains log rows of kinds that few commits have.
    fn has_rare_log_rows(&self) -> bool {
        let of_log = !(self.marks.is_empty() && self.leaves.is_empty() && self.names.is_empty());
        let of_state = !(self.cleared_states.is_empty() && self.state_values.is_empty());
        of_log || of_state || !(self.inputs.is_empty() && self.decisions.is_empty())
    }

    /// Returns whether the batch contains rows outside of the logs of threads.
    fn writes_outside_log(&self) -> bool {
        let of_events = !self.scopes.is_empty();
        let of_outbox = !(self.outbox.is_empty() && self.outbox_ready.is_empty() && self.outbox_removed.is_empty());
        of_events || of_outbox || !self.mailboxes.is_empty()
    }

    /// Returns whether the batch can be written in one statement with others.
    fn can_group(&self) -> bool {
        self.fits_fast_path() && self.entry_bytes() <= MAX_GROUPED_BYTES && self.documents.is_empty()
    }

    /// Returns whether the batch writes to one thread only, which exists before and after the batch, and does not clear
    /// its state, or only writes documents. Outside of the thread, such a batch only writes documents, appends events,
    /// inserts outbox rows without an order key, and requires that mailboxes are unchanged.
    fn fits_fast_path(&self) -> bool {
        let is_thread_that_stays = |row: &ThreadRow| row.stamp > 0 && !row.creates_thread && row.thread.is_some();
        let writes_documents_only = self.threads.is_empty() && self.scopes.is_empty() && !self.documents.is_empty();
        (writes_documents_only || matches!(&*self.threads, [row] if is_thread_that_stays(row)))
            && self.outbox_groups.is_empty()
            && self.mailboxes.iter().all(|row| row.before > 0 && row.record.is_none())
            && self.outbox_ready.is_empty()
            && self.outbox_removed.is_empty()
            && self.outbox.iter().all(|row| row.before == 0)
            && self.cleared_states.is_empty()
    }

    fn entry_bytes(&self) -> usize {
        self.entries.iter().map(|row| row.body.len()).sum()
    }

    /// Returns whether both batches write to the same thread or scope.
    fn overlaps(&self, other: &Self) -> bool {
        self.threads.iter().any(|row| other.threads.iter().any(|theirs| theirs.id == row.id))
            || self.scopes.iter().any(|row| other.scopes.iter().any(|theirs| theirs.scope == row.scope))
    }

    /// Writes the whole batch or nothing.
    pub(crate) async fn write(
        self: &Arc<Self>,
        connection: &mut Connection<'_>,
        tenant: &Tenant,
        decision_time: DecisionTime,
    ) -> Result<WriteResult, StatementFailure> {
        let id = &tenant.constants.tenant;
        if !connection.is_unpooled_autocommit() || !self.can_group() {
            return write_alone(connection, self, id, decision_time).await;
        }
        Box::pin(tenant.group_commit.write(connection, id, self, decision_time)).await
    }
}

/// Writes the whole batch or nothing.
async fn write_alone(
    connection: &mut Connection<'_>,
    batch: &Batch,
    tenant: &TenantId,
    decision_time: DecisionTime,
) -> Result<WriteResult, StatementFailure> {
    if connection.is_unpooled_autocommit() && batch.fits_fast_path() {
        match fast_path::write(connection, &[batch], tenant, decision_time).await {
            Ok(rows) if rows.is_empty() => {}
            Ok(rows) => return answer::write_result(connection, batch, &rows).map_err(StatementFailure::after_answer),
            Err(failed) if failed.is_transient && !failed.is_outcome_unknown() => {}
            Err(failed) => return Err(failed),
        }
    }
    // The SQL function `write` also reports why nothing was written.
    let mut arguments = arguments::arguments(batch, tenant)?;
    // This is called immediately before the statement is sent. The last argument is the time of the decision plus the
    // time that has passed since.
    let arguments_at_send = || {
        add(&mut arguments, signed(decision_time.current_time().as_millis())?)?;
        Ok(arguments)
    };
    let has_documents = !batch.documents.is_empty();
    let rows = connection
        .write_with_arguments_at_send(
            |sql| if has_documents { &sql.write_with_documents } else { &sql.write },
            arguments_at_send,
        )
        .await?;
    answer::write_result(connection, batch, &rows).map_err(StatementFailure::after_answer)
}
