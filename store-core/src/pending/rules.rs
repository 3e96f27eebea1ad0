//! The rules for pending input: appending it, changing it, and consuming it.

use std::collections::BTreeSet;

use super::{
    AppendPending, AppendedInputs, Boundary, InputRef, NewInput, PendingBody, PendingInput, PendingUpdate, Reorder,
    StoredInput,
};
use crate::{
    codec::{Codec, Extra},
    commit::{CommitView, DecisionContext},
    error::{Detail, Error, Result},
    id::{EntryId, ThreadId},
    limits::{Limits, check_limit, length},
    log::{Decision, Message, NewEntry, check_message},
    run::RunStatus,
    thread::{self, NewThread, StoredThread, ThreadIdRecord},
    version::{Expect, Version},
};

/// Bytes reserved for the ids, numbers and times of an input and of its entry. There are four ids of 256 bytes, each up
/// to six times as long in JSON, and some other fields.
const MAX_ENVELOPE_BYTES: u64 = 8 << 10;

/// What a store writes to a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueWrite {
    /// Inputs that are new, or that changed and keep their rank.
    pub put: Vec<StoredInput>,
    /// Inputs that are removed.
    pub removed: Vec<EntryId>,
    /// Inputs with their new ranks.
    pub ranks: Vec<(EntryId, u64)>,
}

impl QueueWrite {
    /// Returns whether there is nothing to write.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.put.is_empty() && self.removed.is_empty() && self.ranks.is_empty()
    }
}

/// Everything that a change of a queue writes. It is written as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePlan {
    /// The thread after the change.
    pub thread: StoredThread,
    /// Whether the change creates the thread.
    pub creates_thread: bool,
    /// The record of the thread's id after the change.
    pub id_record: ThreadIdRecord,
    /// The change of the queue.
    pub write: QueueWrite,
}

/// The decision about a change of a queue: what a store has to write, and the answer. The caller gets the answer after
/// the write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDecision<T> {
    /// What to write; none if the request changes nothing.
    pub plan: Option<Box<QueuePlan>>,
    /// The answer to the caller.
    pub answer: T,
}

/// A thread whose queue is being changed.
struct QueueEditor {
    thread: StoredThread,
    creates_thread: bool,
    id_record: ThreadIdRecord,
}

impl QueueEditor {
    /// Returns the existing thread, or none if there is no such thread.
    fn load(view: &(impl CommitView + ?Sized), decision_context: DecisionContext<'_>) -> Result<Option<Self>> {
        let Some(mut thread) = view.thread()? else { return Ok(None) };
        thread.last_time = thread.last_time.max(decision_context.now);
        Ok(Some(Self { thread, creates_thread: false, id_record: view.id_record()? }))
    }

    fn raise_revision(&mut self) -> u64 {
        self.thread.queue.revision += 1;
        self.thread.queue.revision
    }

    fn into_decision<T>(self, write: QueueWrite, answer: T) -> QueueDecision<T> {
        let Self { thread, creates_thread, id_record } = self;
        QueueDecision { plan: Some(Box::new(QueuePlan { thread, creates_thread, id_record, write })), answer }
    }
}

/// Decides an append: returns what to write, or the error with which the append is refused (PI-1 to PI-4, PI-22,
/// RU-16).
///
/// # Errors
/// Any error of [`PendingStore::append_pending`](super::PendingStore::append_pending).
pub fn append(
    view: &(impl CommitView + ?Sized),
    request: &AppendPending,
    decision_context: DecisionContext<'_>,
) -> Result<QueueDecision<AppendedInputs>> {
    check_append(request, decision_context.limits)?;
    let editor = match QueueEditor::load(view, decision_context)? {
        Some(editor) => editor,
        None => create_thread(view, &request.thread, decision_context)?,
    };
    let mut existing_inputs = Vec::new();
    for (index, input) in request.inputs.iter().enumerate() {
        existing_inputs
            .extend(find_identical_input(view, &editor, input).map_err(|e| e.in_part(format!("inputs[{index}]")))?);
    }
    if existing_inputs.len() == request.inputs.len() {
        return Ok(QueueDecision { plan: None, answer: AppendedInputs::new(existing_inputs, true) });
    }
    // If some inputs were already appended and others were not, the call is not a repeat.
    if let Some(first_input) = existing_inputs.first() {
        let is_consumed = view.pending(&first_input.id)?.is_none();
        return Err(if is_consumed {
            already_consumed(&first_input.id)
        } else {
            Error::already_exists("pending input", &first_input.id)
        });
    }
    append_new_inputs(view, editor, request, decision_context)
}

fn create_thread(
    view: &(impl CommitView + ?Sized),
    thread: &ThreadId,
    decision_context: DecisionContext<'_>,
) -> Result<QueueEditor> {
    let mut id_record = view.id_record()?;
    if id_record.deleted_at.is_some() {
        return Err(Error::not_found("thread", thread));
    }
    let time_and_incarnation = (decision_context.now, view.incarnation());
    let draft = NewThread::new(thread.clone());
    let thread = thread::create(None, &id_record, &draft, decision_context.limits, time_and_incarnation)?;
    id_record.generation = thread.thread.generation();
    Ok(QueueEditor { thread, creates_thread: true, id_record })
}

/// Checks everything about an append that needs no stored data.
///
/// # Errors
/// `Invalid` and `LimitExceeded`.
pub fn check_append(request: &AppendPending, limits: &Limits) -> Result<()> {
    if request.inputs.is_empty() {
        return Err(Error::invalid("append", "it is empty"));
    }
    let (mut ids, mut tickets, mut total) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (index, input) in request.inputs.iter().enumerate() {
        let part = || format!("inputs[{index}]");
        if let Some(id) = input.id.as_ref().filter(|id| !ids.insert(*id)) {
            return Err(Error::already_exists("pending input", id).in_part(part()));
        }
        match &input.body {
            PendingBody::Message(message) => check_min_size(message, limits).and_then(|()| check_message(message)),
            PendingBody::Decision(decision) if !tickets.insert((&decision.run, &decision.ticket)) => {
                Err(Error::invalid("decision", "its ticket is decided twice"))
            }
            PendingBody::Decision(decision) => check_decision(decision, input),
        }
        .map_err(|e| e.in_part(part()))?;
        let bytes = input.body.encode().len() + input.delivery.encode().len();
        check_size(bytes, limits).map_err(|e| e.in_part(part()))?;
        total += length(bytes);
    }
    check_limit("commit bytes", total, limits.commit_bytes)
}

/// Checks everything about a change of an input that needs no stored data.
///
/// # Errors
/// `Invalid` and `LimitExceeded`.
pub fn check_update(request: &PendingUpdate, limits: &Limits) -> Result<()> {
    let Some(message) = &request.message else { return Ok(()) };
    check_min_size(message, limits)?;
    check_message(message)
}

/// Checks the size of the body and the delivery plus [`MAX_ENVELOPE_BYTES`]. An input that passes this check can also
/// be consumed later.
fn check_size(bytes: usize, limits: &Limits) -> Result<()> {
    check_limit("record bytes", length(bytes) + MAX_ENVELOPE_BYTES, limits.record_bytes)
}

/// Checks a lower bound of the size, before the message is encoded.
fn check_min_size(message: &Message, limits: &Limits) -> Result<()> {
    check_limit("record bytes", message.min_encoded_bytes().saturating_add(MAX_ENVELOPE_BYTES), limits.record_bytes)
}

fn check_decision(decision: &Decision, input: &NewInput) -> Result<()> {
    let target = input.delivery.target.as_ref();
    let has_other_target = target.is_some_and(|target| target.run != decision.run);
    if input.delivery.boundary != Boundary::ResumeInput || input.delivery.barrier || has_other_target {
        return Err(Error::invalid("decision", "it must go to its own run at `resume_input`, and cannot be a barrier"));
    }
    Ok(())
}

/// Returns the reference to the input if exactly the same input was already appended.
fn find_identical_input(
    view: &(impl CommitView + ?Sized),
    editor: &QueueEditor,
    input: &NewInput,
) -> Result<Option<InputRef>> {
    if let PendingBody::Decision(decision) = &input.body
        && !editor.creates_thread
        && let Some(record) = view.decision(&decision.run, &decision.ticket)?
    {
        if !record.is_record_of(decision) {
            let decided_version = version(&editor.thread, record.revision);
            return Err(Error::conflict("the decision of the ticket", None, Some(decided_version)));
        }
        return Ok(Some(InputRef::new(record.id, record.revision)));
    }
    let Some(id) = input.id.as_ref().filter(|_| !editor.creates_thread) else { return Ok(None) };
    match view.pending(id)? {
        Some(stored) if stored.input.body == input.body && stored.input.delivery == input.delivery => {
            Ok(Some(stored.input.to_input_ref()))
        }
        Some(_) => Err(Error::already_exists("pending input", id)),
        None if view.entry(id)?.is_some() => Err(already_consumed(id)),
        None => Ok(None),
    }
}

fn append_new_inputs(
    view: &(impl CommitView + ?Sized),
    mut editor: QueueEditor,
    request: &AppendPending,
    decision_context: DecisionContext<'_>,
) -> Result<QueueDecision<AppendedInputs>> {
    let revision = editor.raise_revision();
    let now = editor.thread.last_time;
    let mut write = QueueWrite::default();
    for (index, input) in request.inputs.iter().enumerate() {
        if let PendingBody::Decision(decision) = &input.body {
            check_ticket(view, &request.thread, decision).map_err(|e| e.in_part(format!("inputs[{index}]")))?;
        }
        let id = match &input.id {
            Some(id) => id.clone(),
            None => {
                let id = EntryId::new(decision_context.ids.next_id())?;
                let is_in_use = !editor.creates_thread && (view.pending(&id)?.is_some() || view.entry(&id)?.is_some());
                if is_in_use || write.put.iter().any(|other| other.input.id == id) {
                    return Err(Error::already_exists("pending input", &id).in_part(format!("inputs[{index}]")));
                }
                id
            }
        };
        let stored = PendingInput {
            id,
            thread: request.thread.clone(),
            position: None,
            revision,
            body: input.body.clone(),
            delivery: input.delivery.clone(),
            created_at: now,
            updated_at: now,
            extra: Extra::default(),
        };
        let queue = &mut editor.thread.queue;
        queue.last_rank += 1;
        queue.count += 1;
        write.put.push(StoredInput::new(stored, queue.last_rank));
    }
    check_limit("pending inputs", editor.thread.queue.count, decision_context.limits.pending_inputs)?;
    let inputs = write.put.iter().map(|stored| stored.input.to_input_ref()).collect();
    Ok(editor.into_decision(write, AppendedInputs::new(inputs, false)))
}

/// Checks that a decision names a waiting run of the thread and one of its tickets (PI-22).
fn check_ticket(view: &(impl CommitView + ?Sized), thread: &ThreadId, decision: &Decision) -> Result<()> {
    let run = view.run(&decision.run)?.filter(|run| run.thread == *thread);
    match run.map(|run| run.status) {
        Some(RunStatus::Waiting(waiting)) if waiting.tickets.iter().any(|ticket| ticket.id == decision.ticket) => {
            Ok(())
        }
        Some(RunStatus::Waiting(_)) => Err(Error::invalid("decision", "its run is not waiting for this ticket")),
        _ => Err(Error::invalid("decision", "its run is not waiting")),
    }
}

/// Decides a change of one input (PI-6, PI-9).
///
/// # Errors
/// Any error of [`PendingStore::update_pending`](super::PendingStore::update_pending).
pub fn update(
    view: &(impl CommitView + ?Sized),
    request: &PendingUpdate,
    decision_context: DecisionContext<'_>,
) -> Result<QueueDecision<PendingInput>> {
    check_update(request, decision_context.limits)?;
    let (mut editor, mut stored) = load_pending_input(view, &request.id, decision_context)?;
    if let PendingBody::Decision(_) = &stored.input.body {
        return Err(Error::invalid("decision", "it cannot be changed"));
    }
    if let Some(expected) = request.expect_revision {
        check_revision("the input's revision", &editor.thread, expected, stored.input.revision)?;
    }
    let old_input = stored.input.clone();
    if let Some(message) = &request.message {
        stored.input.body = PendingBody::Message(message.clone());
    }
    if let Some(delivery) = &request.delivery {
        stored.input.delivery = delivery.clone();
    }
    if stored.input == old_input {
        return Ok(QueueDecision { plan: None, answer: old_input });
    }
    check_size(stored.input.body.encode().len() + stored.input.delivery.encode().len(), decision_context.limits)?;
    stored.input.revision = editor.raise_revision();
    stored.input.updated_at = editor.thread.last_time;
    let answer = stored.input.clone();
    Ok(editor.into_decision(QueueWrite { put: vec![stored], ..QueueWrite::default() }, answer))
}

/// Decides a retraction. The answer is the removed input (PI-7, PI-9).
///
/// # Errors
/// Any error of [`PendingStore::retract_pending`](super::PendingStore::retract_pending).
pub fn retract(
    view: &(impl CommitView + ?Sized),
    id: &EntryId,
    decision_context: DecisionContext<'_>,
) -> Result<QueueDecision<PendingInput>> {
    let (mut editor, stored) = load_pending_input(view, id, decision_context)?;
    if let PendingBody::Decision(decision) = &stored.input.body
        && editor.thread.thread.open_runs.contains(&decision.run)
    {
        return Err(Error::invalid("decision", "it cannot be retracted while its run is open"));
    }
    let _ = editor.raise_revision();
    editor.thread.queue.count = editor.thread.queue.count.saturating_sub(1);
    let write = QueueWrite { removed: vec![id.clone()], ..QueueWrite::default() };
    Ok(editor.into_decision(write, stored.input))
}

/// Returns an input that is pending, and its thread.
fn load_pending_input(
    view: &(impl CommitView + ?Sized),
    id: &EntryId,
    decision_context: DecisionContext<'_>,
) -> Result<(QueueEditor, StoredInput)> {
    let Some(editor) = QueueEditor::load(view, decision_context)? else { return Err(unknown_input(id)) };
    match view.pending(id)? {
        Some(stored) => Ok((editor, stored)),
        None if view.entry(id)?.is_some() => Err(already_consumed(id)),
        None => Err(unknown_input(id)),
    }
}

/// Decides a new order of the queue. The answer is the revision of the queue (PI-8, PI-9).
///
/// # Errors
/// Any error of [`PendingStore::reorder_pending`](super::PendingStore::reorder_pending).
pub fn reorder(
    view: &(impl CommitView + ?Sized),
    request: &Reorder,
    decision_context: DecisionContext<'_>,
) -> Result<QueueDecision<u64>> {
    let Some(mut editor) = QueueEditor::load(view, decision_context)? else {
        return Err(Error::not_found("thread", &request.thread));
    };
    check_revision("the queue's revision", &editor.thread, request.expect_revision, editor.thread.queue.revision)?;
    let queued_ids = view.queue()?;
    let (mut unplaced_ids, mut write) = (queued_ids.iter().collect::<BTreeSet<_>>(), QueueWrite::default());
    for (index, id) in request.order.iter().enumerate() {
        if !unplaced_ids.remove(id) {
            let is_consumed = !queued_ids.contains(id) && view.entry(id)?.is_some();
            let error = if is_consumed {
                already_consumed(id)
            } else {
                Error::invalid("order", "it is not pending, or named twice")
            };
            return Err(error.in_part(format!("order[{index}]")));
        }
        editor.thread.queue.last_rank += 1;
        write.ranks.push((id.clone(), editor.thread.queue.last_rank));
    }
    if let Some(id) = unplaced_ids.first() {
        return Err(Error::invalid("order", format!("pending input {} is missing", crate::error::Quoted(id.as_str()))));
    }
    if request.order == queued_ids {
        return Ok(QueueDecision { plan: None, answer: request.expect_revision });
    }
    let revision = editor.raise_revision();
    Ok(editor.into_decision(write, revision))
}

/// Takes inputs out of the queue and returns them as entries of a commit (CM-27, CM-28).
pub(crate) fn consume(
    view: &(impl CommitView + ?Sized),
    thread: &mut StoredThread,
    inputs: &[InputRef],
) -> Result<(Vec<NewEntry>, QueueWrite)> {
    let (mut entries, mut write) = (Vec::new(), QueueWrite::default());
    for (index, input) in inputs.iter().enumerate() {
        let name_part = |error: Error| error.in_part(format!("consume[{index}]"));
        let stored = match view.pending(&input.id)? {
            Some(stored) => stored,
            None if view.entry(&input.id)?.is_some() => return Err(name_part(already_consumed(&input.id))),
            None => return Err(name_part(unknown_input(&input.id))),
        };
        check_revision("the input's revision", thread, input.revision, stored.input.revision).map_err(name_part)?;
        entries.push(NewEntry::new(stored.input.body).with_id(input.id.clone()));
        write.removed.push(input.id.clone());
    }
    thread.queue.revision += u64::from(!inputs.is_empty());
    thread.queue.count = thread.queue.count.saturating_sub(length(inputs.len()));
    Ok((entries, write))
}

fn check_revision(what: &'static str, thread: &StoredThread, expected: u64, actual: u64) -> Result<()> {
    Expect::Version(version(thread, expected)).check(what, Some(version(thread, actual)))
}

/// Returns a revision of the thread's queue or of an input as a [`Version`], so that [`Expect`] can check it.
fn version(thread: &StoredThread, revision: u64) -> Version {
    Version::new(revision, thread.thread.generation(), thread.thread.version.incarnation())
}

fn already_consumed(id: &EntryId) -> Error {
    Error::new(Detail::AlreadyConsumed { id: id.to_string() })
}

fn unknown_input(id: &EntryId) -> Error {
    Error::not_found("pending input", id)
}

#[cfg(test)]
mod tests {
    use super::{MAX_ENVELOPE_BYTES, QueueWrite, check_append};
    use crate::{AppendPending, EntryId, ErrorKind, Limits, Message, NewInput, ThreadId, codec::Codec, limits::length};

    #[test]
    fn an_input_leaves_room_for_the_other_fields_of_its_entry() {
        let input = NewInput::message(Message::user("x".repeat(100)));
        let bytes = length(input.body.encode().len() + input.delivery.encode().len());
        let request = AppendPending::new(ThreadId::new("t").unwrap(), [input.clone(), input]);
        let limits = |record_bytes, commit_bytes| Limits { record_bytes, commit_bytes, ..Limits::default() };
        check_append(&request, &limits(bytes + MAX_ENVELOPE_BYTES, 2 * bytes)).unwrap();
        for too_small_limits in
            [limits(bytes + MAX_ENVELOPE_BYTES - 1, 2 * bytes), limits(bytes + MAX_ENVELOPE_BYTES, 2 * bytes - 1)]
        {
            assert_eq!(check_append(&request, &too_small_limits).unwrap_err().kind(), ErrorKind::LimitExceeded);
        }
    }

    #[test]
    fn a_queue_write_with_any_change_is_not_empty() {
        let id = || EntryId::new("e").unwrap();
        assert!(QueueWrite::default().is_empty());
        assert!(!QueueWrite { removed: vec![id()], ..QueueWrite::default() }.is_empty());
        assert!(!QueueWrite { ranks: vec![(id(), 1)], ..QueueWrite::default() }.is_empty());
    }
}
