//! The plan of a commit: what the store must write, or why the commit is refused.

use std::collections::BTreeMap;

pub use super::entries::PlannedEntry;
use super::{
    Commit, CommitKeyRecord, Receipt, StateWrite, digest, entries::PlannedLog, state, view::CommitView, well_formed,
};
use crate::{
    codec::{Codec, Extra},
    document::{DocumentChange, DocumentPlan, plan_changes},
    error::{Detail, Error, Result},
    event::{self, AppendEvents, AppendOptions, EventDecision, EventPlan, EventRef, Scope},
    id::{IdSource, RunId, ThreadId},
    limits::{Limits, check_limit, length},
    log::{EntryMarks, NewEntry, spent_tokens},
    mailbox::{self, MailboxPlan},
    outbox::{self, NewOutboxRow, OutboxPlan},
    pending::{self, QueuePlan, QueueWrite},
    run::{self, Run, RunContext},
    thread::{self, NewThread, StoredThread, ThreadIdRecord},
    time::Timestamp,
    version::{Expect, Version},
};

/// The time, the limits and the source of ids that a plan is made with.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DecisionContext<'a> {
    /// Store time, read in the atomic step (PR-22).
    pub now: Timestamp,
    /// The limits of the store.
    pub limits: &'a Limits,
    /// The source of the ids that the caller does not give.
    pub ids: &'a dyn IdSource,
}

impl<'a> DecisionContext<'a> {
    /// Creates the context of a decision.
    #[must_use]
    pub fn new(now: Timestamp, limits: &'a Limits, ids: &'a dyn IdSource) -> Self {
        Self { now, limits, ids }
    }
}

/// The decision about a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitDecision {
    /// The commit was applied before: return this receipt and write nothing (CM-10).
    Repeat(Box<Receipt>),
    /// Write this plan, in full or not at all (CM-1).
    Write(Box<Plan>),
}

/// Everything that a commit writes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The thread after the commit. Absent for a commit that only records a claim for an id without a thread.
    pub thread: Option<StoredThread>,
    /// Whether the commit creates the thread.
    pub creates_thread: bool,
    /// What the store keeps about the thread's id after the commit, such as the highest claim that wrote (CM-32).
    pub id_record: ThreadIdRecord,
    /// Entries to append.
    pub entries: Vec<PlannedEntry>,
    /// The changed marks, by sequence number.
    pub marks: BTreeMap<u64, EntryMarks>,
    /// The runs after the commit. The run that the commit names is the last.
    pub runs: Vec<Run>,
    /// Changes of the thread's state.
    pub state: StateWrite,
    /// Changes of the thread's queue of pending input: the inputs that were consumed.
    pub queue: QueueWrite,
    /// Changes of documents.
    pub documents: DocumentPlan,
    /// The events, with their scopes. None if the commit has no events, or if all of them repeat earlier ones.
    pub events: Option<EventPlan>,
    /// If the commit settles the claim that it names: the plan of that settlement.
    pub mailbox: Option<Box<MailboxPlan>>,
    /// New rows of the outbox.
    pub outbox: OutboxPlan,
    /// The record of the commit key.
    pub key: Option<CommitKeyRecord>,
    /// The receipt, which the caller gets when the commit is durable.
    pub receipt: Receipt,
}

impl Plan {
    /// Sets the revision of all documents that the commit puts, in the plan and in its receipts. For backends whose
    /// server numbers the writes.
    pub fn set_document_revision(&mut self, revision: u64) {
        self.documents.set_revision(revision);
        self.receipt.document_revision = self.documents.revision;
        if let Some(key) = &mut self.key {
            key.receipt.document_revision = self.documents.revision;
        }
    }

    /// Makes the plan of a change of a thread's record and queue, in the form of the plan of a commit.
    pub(crate) fn of_queue(plan: QueuePlan) -> Self {
        let QueuePlan { thread, creates_thread, id_record, write } = plan;
        let receipt = build_receipt(&thread, &[], None);
        Self { thread: Some(thread), creates_thread, queue: write, ..Self::of_receipt(id_record, receipt) }
    }

    /// Makes the plan that writes nothing but what is kept about the id of a thread.
    pub(crate) fn of_id_record(thread: ThreadId, id_record: ThreadIdRecord, incarnation: u64, now: Timestamp) -> Self {
        let version = Version::new(0, id_record.generation, incarnation);
        let receipt = Receipt {
            thread,
            version,
            first_seq: None,
            entry_ids: Vec::new(),
            consumed: Vec::new(),
            document_revision: None,
            events: Vec::new(),
            outbox: Vec::new(),
            head: None,
            state_revision: 0,
            run_status: None,
            time: now,
            deduplicated: false,
            extra: Extra::default(),
        };
        Self::of_receipt(id_record, receipt)
    }

    fn of_receipt(id_record: ThreadIdRecord, receipt: Receipt) -> Self {
        Self {
            thread: None,
            creates_thread: false,
            id_record,
            entries: Vec::new(),
            marks: BTreeMap::new(),
            runs: Vec::new(),
            state: StateWrite::default(),
            queue: QueueWrite::default(),
            documents: DocumentPlan::default(),
            events: None,
            mailbox: None,
            outbox: OutboxPlan::default(),
            key: None,
            receipt,
        }
    }
}

/// Decides what a commit writes, or refuses it. Nothing is written yet.
///
/// The checks are made in the order of CM-43.
///
/// # Errors
/// The errors of [`CommitCoordinator::commit`](super::CommitCoordinator::commit); any error of the view.
pub fn plan(
    view: &(impl CommitView + ?Sized),
    commit: &Commit,
    decision_context: DecisionContext<'_>,
) -> Result<CommitDecision> {
    let limits = decision_context.limits;
    well_formed::check(commit, limits)?;
    let stored_thread = view.thread()?;
    let mut id_record = view.id_record()?;
    if stored_thread.is_none() && id_record.deleted_at.is_some() && commit.expect != Expect::Absent {
        return Err(Error::not_found("thread", &commit.thread));
    }
    if let Some(receipt) = receipt_of_earlier_commit(view, commit)? {
        return Ok(CommitDecision::Repeat(Box::new(receipt)));
    }
    let mailbox = check_claim_and_plan_settlement(view, commit, decision_context)?;
    id_record.check_and_record_claim(commit.fence.as_ref())?;
    commit.expect.check("version", stored_thread.as_ref().map(|stored_thread| stored_thread.thread.version))?;
    let now = stored_thread
        .as_ref()
        .map_or(decision_context.now, |stored_thread| decision_context.now.max(stored_thread.last_time));
    if commit.at.is_some_and(|at| at > now) {
        return Err(Error::invalid("at", "it is after the store's time"));
    }
    // A commit that contains nothing but a fence records its claim for the thread id, and creates no thread (CM-32).
    let creates_thread = stored_thread.is_none() && !well_formed::has_no_content(commit);
    let thread = match stored_thread {
        Some(stored_thread) => Some(stored_thread),
        None if creates_thread => Some(create_thread(view, commit, &id_record, (limits, now))?),
        None => None,
    };
    match thread {
        Some(thread) => plan_writes(
            view,
            commit,
            DecisionContext { now, ..decision_context },
            PlanStart { thread, creates_thread, id_record, mailbox },
        ),
        None => {
            Ok(CommitDecision::Write(Box::new(Plan { mailbox, ..plan_without_thread(view, commit, id_record, now) })))
        }
    }
}

/// Refuses a commit under a claim that is lost or stale (CM-31), and plans the settlement if the commit has one
/// (CM-33).
fn check_claim_and_plan_settlement(
    view: &(impl CommitView + ?Sized),
    commit: &Commit,
    decision_context: DecisionContext<'_>,
) -> Result<Option<Box<MailboxPlan>>> {
    let Some(fence) = &commit.fence else { return Ok(None) };
    let fenced_mailbox = view.fenced_mailbox();
    if let Some(fenced_mailbox) = fenced_mailbox {
        mailbox::check_claim(fenced_mailbox, &commit.thread, fence)?;
    }
    let Some(settlement) = &commit.settle else { return Ok(None) };
    let unsupported = || Error::new(Detail::Unsupported { operation: "settling in a commit" });
    mailbox::settle_in_commit(fenced_mailbox.ok_or_else(unsupported)?, fence, settlement, decision_context).map(Some)
}

/// Returns the receipt of an earlier commit with the key of this commit, if there is one (CM-10 to CM-12).
fn receipt_of_earlier_commit(view: &(impl CommitView + ?Sized), commit: &Commit) -> Result<Option<Receipt>> {
    let Some(key) = &commit.key else { return Ok(None) };
    let Some(record) = view.key(key)? else { return Ok(None) };
    if !digest::matches(commit, &record.digest) {
        return Err(Error::new(Detail::IdempotencyMismatch { key: key.to_string() }));
    }
    let mut receipt = record.receipt;
    receipt.deduplicated = true;
    for event in &mut receipt.events {
        if let Some(stored) = view.event(&event.id)? {
            *event = EventRef::from(&event::event_with_cursors(&stored, view.tenant_and_cursor_key()));
        }
    }
    Ok(Some(receipt))
}

fn create_thread(
    view: &(impl CommitView + ?Sized),
    commit: &Commit,
    id_record: &ThreadIdRecord,
    limits_and_time: (&Limits, Timestamp),
) -> Result<StoredThread> {
    let (limits, now) = limits_and_time;
    let fields = commit.create.clone().unwrap_or_default();
    if let Some(parent) = &fields.parent_thread_id {
        let existing_parents = if view.thread_exists(parent)? { vec![parent.clone()] } else { Vec::new() };
        thread::check_parent(&commit.thread, parent, &existing_parents).map_err(|e| e.in_part("create"))?;
    }
    let new_thread = NewThread { id: commit.thread.clone(), fields, at: commit.at };
    thread::create(None, id_record, &new_thread, limits, (now, view.incarnation()))
}

/// Returns the plan of a commit that contains nothing but a fence, for an id without a thread. The plan records the
/// claim (CM-32).
fn plan_without_thread(
    view: &(impl CommitView + ?Sized),
    commit: &Commit,
    id_record: ThreadIdRecord,
    now: Timestamp,
) -> Plan {
    Plan::of_id_record(commit.thread.clone(), id_record, view.incarnation(), now)
}

/// What [`plan_writes`] begins with: the thread before the writes of the commit, and what was decided before.
struct PlanStart {
    thread: StoredThread,
    creates_thread: bool,
    id_record: ThreadIdRecord,
    mailbox: Option<Box<MailboxPlan>>,
}

/// Plans everything that a commit writes, for a thread that exists or that the commit creates.
fn plan_writes(
    view: &(impl CommitView + ?Sized),
    commit: &Commit,
    decision_context: DecisionContext<'_>,
    start: PlanStart,
) -> Result<CommitDecision> {
    let PlanStart { mut thread, creates_thread, mut id_record, mailbox } = start;
    let limits = decision_context.limits;
    let at = commit.at.unwrap_or(decision_context.now);
    if let Some(change) = &commit.state {
        state::check_revision(&thread, change)?;
    }
    let documents = plan_changes(view, &commit.documents, decision_context.now)?;
    let run = plan_run(view, commit, &thread, decision_context)?;
    let had_pending_input = thread.queue.count > 0;
    let (inputs, queue) = pending::consume(view, &mut thread, &commit.consume)?;
    if had_pending_input {
        check_ids_not_pending(view, &commit.entries)?;
    }
    let mut log = PlannedLog::new(view, &thread)?;
    for (part, drafts) in [("consume", &inputs), ("entries", &commit.entries)] {
        for (index, draft) in drafts.iter().enumerate() {
            log.plan_entry(&mut thread, draft, decision_context.ids, (limits, at))
                .map_err(|e| e.in_part(format!("{part}[{index}]")))?;
        }
    }
    let (entries, marks) = log.into_parts();
    let runs = add_spent_tokens(view, commit, &entries, run)?;
    let events = plan_events(view, commit, &runs, decision_context)?;
    let (outbox, outbox_ids) = outbox::plan_rows(view, &commit.outbox, &commit.thread, decision_context)?;
    let state = match &commit.state {
        Some(change) => state::plan_state_change(view, &mut thread, change, limits)?,
        None => StateWrite::default(),
    };
    let bytes = entries.iter().map(|planned| length(planned.text.len())).sum::<u64>()
        + runs.iter().map(|run| length(run.encode().len())).sum::<u64>()
        + commit.documents.iter().map(DocumentChange::value_bytes).sum::<u64>()
        + commit.events.as_ref().map_or(0, AppendEvents::payload_bytes)
        + commit.outbox.iter().map(NewOutboxRow::payload_bytes).sum::<u64>()
        + state.values.values().flatten().map(|value| length(value.as_str().len())).sum::<u64>();
    check_limit("commit bytes", bytes, limits.commit_bytes)?;
    if let (Some(_), Some(run)) = (&commit.run, runs.last()) {
        thread.record_run(run);
        check_limit("open runs", length(thread.thread.open_runs.len()), limits.open_runs)?;
    }
    id_record = ThreadIdRecord { generation: thread.thread.generation(), deleted_at: None, ..id_record };
    thread.last_time = decision_context.now;
    thread.thread.updated_at = thread.thread.updated_at.max(at);
    let mut receipt = build_receipt(&thread, &entries, commit.run.as_ref().and_then(|_| runs.last()));
    receipt.consumed.clone_from(&queue.removed);
    receipt.document_revision = documents.revision;
    receipt.events = events.iter().flat_map(|events| &events.answer.events).map(EventRef::from).collect();
    receipt.outbox = outbox_ids;
    let key = commit.key.clone().map(|key| CommitKeyRecord {
        key,
        digest: digest::current_digest(commit),
        receipt: Receipt { events: receipt.events.iter().map(EventRef::without_cursors).collect(), ..receipt.clone() },
        extra: Extra::default(),
    });
    let plan = Plan {
        thread: Some(thread),
        creates_thread,
        id_record,
        entries,
        marks,
        runs,
        state,
        queue,
        documents,
        events: events.and_then(|events| events.plan),
        outbox,
        mailbox,
        key,
        receipt,
    };
    Ok(CommitDecision::Write(Box::new(plan)))
}

/// Plans the events of the commit. They must belong to the thread of the commit or to runs of that thread (CM-21).
fn plan_events(
    view: &(impl CommitView + ?Sized),
    commit: &Commit,
    written_runs: &[Run],
    decision_context: DecisionContext<'_>,
) -> Result<Option<EventDecision>> {
    let Some(request) = &commit.events else { return Ok(None) };
    for (index, draft) in request.drafts.iter().enumerate() {
        for scope in &draft.scopes {
            let Scope::Run(id) = scope else { continue };
            let belongs_to_thread = written_runs.iter().any(|run| run.id == *id)
                || view.run(id)?.is_some_and(|run| run.thread == commit.thread);
            if !belongs_to_thread {
                let error = Error::invalid("scopes", "it names a run that does not belong to the thread of the commit");
                return Err(error.in_part(format!("events[{index}]")));
            }
        }
    }
    let name_part = |e: Error| if e.part().is_some() { e } else { e.in_part("events") };
    event::append(view, request, decision_context, AppendOptions { at: commit.at, ..AppendOptions::default() })
        .map(Some)
        .map_err(name_part)
}

/// Refuses new entries that have the id of a pending input (EN-16), even if the commit consumes that input.
fn check_ids_not_pending(view: &(impl CommitView + ?Sized), entries: &[NewEntry]) -> Result<()> {
    for (index, id) in entries.iter().enumerate().filter_map(|(index, draft)| Some((index, draft.id.as_ref()?))) {
        if view.pending(id)?.is_some() {
            return Err(Error::already_exists("entry", id).in_part(format!("entries[{index}]")));
        }
    }
    Ok(())
}

fn build_receipt(thread: &StoredThread, entries: &[PlannedEntry], run: Option<&Run>) -> Receipt {
    let record = &thread.thread;
    Receipt {
        thread: record.id.clone(),
        version: record.version,
        first_seq: entries.first().map(|planned| planned.entry.seq),
        entry_ids: entries.iter().map(|planned| planned.entry.id.clone()).collect(),
        consumed: Vec::new(),
        document_revision: None,
        events: Vec::new(),
        outbox: Vec::new(),
        head: record.head.clone(),
        state_revision: record.state_revision,
        run_status: run.map(|run| run.status.clone()),
        time: thread.last_time,
        deduplicated: false,
        extra: Extra::default(),
    }
}

/// Returns the run that the commit names, in its state after the commit.
fn plan_run(
    view: &(impl CommitView + ?Sized),
    commit: &Commit,
    thread: &StoredThread,
    decision_context: DecisionContext<'_>,
) -> Result<Option<Run>> {
    let Some(change) = &commit.run else { return Ok(None) };
    let stored = view.run(&change.id)?;
    let log_length = thread.thread.version.number() + length(commit.consume.len() + commit.entries.len());
    let context = RunContext::new(&commit.thread, log_length, decision_context.now, decision_context.limits);
    let run = run::change(stored.as_ref(), change, context).map_err(|e| e.in_part("run"))?;
    if stored.is_none()
        && let Some(parent) = &run.parent_run
        && (*parent == run.id || view.run(parent)?.is_none())
    {
        return Err(Error::not_found("parent run", parent).in_part("run"));
    }
    Ok(Some(run))
}

/// Adds the tokens that the entries spent to the sums of the runs that the entries name (EN-26).
///
/// Returns the changed runs. The run of the commit is the last of them.
fn add_spent_tokens(
    view: &(impl CommitView + ?Sized),
    commit: &Commit,
    entries: &[PlannedEntry],
    run: Option<Run>,
) -> Result<Vec<Run>> {
    let mut commit_run = run;
    let mut other_runs: BTreeMap<RunId, (Run, bool)> = BTreeMap::new();
    // The entries of consumed inputs come first. They belong to no run.
    for (index, planned) in entries.iter().skip(commit.consume.len()).enumerate() {
        let Some(id) = &planned.entry.run else { continue };
        let tokens = spent_tokens(&planned.entry);
        if let Some(run) = commit_run.as_mut().filter(|run| run.id == *id) {
            run.spent = tokens.map_or_else(|| run.spent.clone(), |tokens| run.spent.plus(tokens));
            continue;
        }
        let part = format!("entries[{index}]");
        if !other_runs.contains_key(id) {
            let stored = view.run(id)?.filter(|run| run.thread == commit.thread);
            let run = stored.ok_or_else(|| Error::not_found("run", id).in_part(&part))?;
            other_runs.insert(id.clone(), (run, false));
        }
        if let (Some(tokens), Some((run, is_changed))) = (tokens, other_runs.get_mut(id)) {
            if !run.is_open() {
                return Err(Error::invalid_transition("run", id, "done", "done").in_part(part));
            }
            run.spent = run.spent.plus(tokens);
            *is_changed = true;
        }
    }
    let changed_runs = other_runs.into_values().filter_map(|(run, is_changed)| is_changed.then_some(run));
    Ok(changed_runs.chain(commit_run).collect())
}
