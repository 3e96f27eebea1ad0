//! Pending input (promises PI of the contract): the queue of a thread, and the decisions on tickets.

use serde_json::json;
use store_core::{
    AppendPending, AppendedInputs, Boundary, Commit, Decision, Delivery, Detail, EntryId, Error, InputRef, NewBody,
    NewEntry, NewInput, PendingBody, PendingInput, PendingUpdate, Reorder, Result, RunStatus, ThreadId, Version,
    check_limit, codec::Codec, log::check_message,
};

use super::{
    bug::Bug,
    commit::{Environment, new_thread_data},
    model_data::{TenantData, ThreadData, ThreadIdHistory, record_from_json},
    tree::LogTree,
};

/// A decision on a ticket, and the input that contained it.
#[derive(Debug, Clone)]
pub(super) struct StoredDecision {
    decision: Decision,
    input: InputRef,
}

/// Puts inputs at the end of the queue.
pub(super) fn append(
    tenant: &mut TenantData,
    request: &AppendPending,
    env: &Environment<'_>,
) -> Result<AppendedInputs> {
    check_append(request, env)?;
    let mut id_history = tenant.id_histories.get(&request.thread).cloned().unwrap_or_default();
    let mut thread_data = match tenant.threads.get(&request.thread) {
        Some(thread_data) => thread_data.clone(),
        None if id_history.deleted_at.is_some() => return Err(Error::not_found("thread", &request.thread)),
        None => new_thread_data(&request.thread, store_core::ThreadFields::default(), &id_history, (env.now, env))?,
    };
    let mut repeated_inputs = Vec::new();
    for input in &request.inputs {
        repeated_inputs.extend(find_repeat(&thread_data, input, env.bug)?);
    }
    if repeated_inputs.len() == request.inputs.len() {
        return Ok(AppendedInputs::new(repeated_inputs, true));
    }
    // Some inputs repeat earlier ones, and others are new. Such an append is refused.
    if let (Some(first), false) = (repeated_inputs.first(), env.bug == Some(Bug::AppendInPart)) {
        let is_pending = thread_data.queue.iter().any(|pending| pending.id == first.id);
        let consumed = || Error::new(Detail::AlreadyConsumed { id: first.id.to_string() });
        return Err(if is_pending { Error::already_exists("pending input", &first.id) } else { consumed() });
    }
    thread_data.last_time = thread_data.last_time.max(env.now);
    let (mut input_refs, revision) = (Vec::new(), thread_data.queue_revision + 1);
    for input in &request.inputs {
        if let PendingBody::Decision(decision) = &input.body {
            check_ticket(tenant, &thread_data, decision)?;
        }
        let id = match &input.id {
            Some(id) => id.clone(),
            None => EntryId::new(env.id_source.next_id())?,
        };
        let now = thread_data.last_time;
        let mut stored: PendingInput = record_from_json(&json!({
            "id": id, "thread": request.thread, "revision": revision, "body": {"message": {"role": "user", "blocks": []}},
            "created_at": now, "updated_at": now,
        }))?;
        stored.body = input.body.clone();
        stored.delivery = input.delivery.clone();
        input_refs.push(stored.to_input_ref());
        if let PendingBody::Decision(decision) = &input.body {
            thread_data.decisions.push(StoredDecision { decision: decision.clone(), input: stored.to_input_ref() });
        }
        thread_data.queue.push(stored);
    }
    check_limit("pending inputs", thread_data.queue.len() as u64, env.limits.pending_inputs)?;
    thread_data.queue_revision = revision;
    id_history = ThreadIdHistory { generation: thread_data.thread.generation(), deleted_at: None, ..id_history };
    tenant.id_histories.insert(request.thread.clone(), id_history);
    tenant.store_thread(thread_data);
    Ok(AppendedInputs::new(input_refs, false))
}

/// Refuses an input that could become an entry above the limit of a record. So every appended input can be consumed. 8
/// KiB are reserved for the other fields of the entry.
fn check_size(body: &PendingBody, delivery: &Delivery, env: &Environment<'_>) -> Result<()> {
    let bytes = body.encode().len() + delivery.encode().len() + (8 << 10);
    check_limit("record bytes", bytes as u64, env.limits.record_bytes)
}

fn check_append(request: &AppendPending, env: &Environment<'_>) -> Result<()> {
    if request.inputs.is_empty() {
        return Err(Error::invalid("append", "it is empty"));
    }
    for (index, input) in request.inputs.iter().enumerate() {
        let earlier_inputs = request.inputs.iter().take(index);
        if let Some(id) =
            input.id.as_ref().filter(|id| earlier_inputs.clone().any(|other| other.id.as_ref() == Some(id)))
        {
            return Err(Error::already_exists("pending input", id));
        }
        match &input.body {
            PendingBody::Message(message) => check_message(message)?,
            PendingBody::Decision(decision) => {
                let has_same_ticket = |other: &NewInput| {
                    matches!(&other.body, PendingBody::Decision(other)
                    if (&other.run, &other.ticket) == (&decision.run, &decision.ticket))
                };
                let targets_other_run = input.delivery.target.as_ref().is_some_and(|target| target.run != decision.run);
                let delivery = &input.delivery;
                if earlier_inputs.clone().any(has_same_ticket)
                    || targets_other_run
                    || delivery.barrier
                    || delivery.boundary != Boundary::ResumeInput
                {
                    return Err(Error::invalid("decision", "its ticket, target, boundary or barrier is not allowed"));
                }
            }
        }
        check_size(&input.body, &input.delivery, env)?;
    }
    Ok(())
}

/// Returns the earlier input that equals `input`, if there is one. Refuses an id or a ticket that another input uses.
fn find_repeat(thread_data: &ThreadData, input: &NewInput, bug: Option<Bug>) -> Result<Option<InputRef>> {
    if let PendingBody::Decision(decision) = &input.body {
        let has_same_ticket = |stored_decision: &&StoredDecision| {
            (&stored_decision.decision.run, &stored_decision.decision.ticket) == (&decision.run, &decision.ticket)
        };
        match thread_data.decisions.iter().find(has_same_ticket) {
            _ if bug == Some(Bug::DecidedTwice) => {}
            Some(stored_decision) if stored_decision.decision == *decision => {
                return Ok(Some(stored_decision.input.clone()));
            }
            Some(_) => return Err(Error::conflict("decision", None, None)),
            None => {}
        }
    }
    let Some(id) = &input.id else { return Ok(None) };
    if let Some(pending) = thread_data.queue.iter().find(|pending| pending.id == *id) {
        let is_equal = pending.body == input.body && pending.delivery == input.delivery;
        return if is_equal {
            Ok(Some(pending.to_input_ref()))
        } else {
            Err(Error::already_exists("pending input", id))
        };
    }
    already_consumed(thread_data, id, bug).map_or(Ok(None), Err)
}

/// Returns the error for an id that is in the log, or `None` if it is not in the log.
fn already_consumed(thread_data: &ThreadData, id: &EntryId, bug: Option<Bug>) -> Option<Error> {
    let is_consumed = LogTree::new(&thread_data.entries).find(id).is_some() && bug != Some(Bug::ConsumedIdIsFree);
    is_consumed.then(|| Error::new(Detail::AlreadyConsumed { id: id.to_string() }))
}

fn check_ticket(tenant: &TenantData, thread_data: &ThreadData, decision: &Decision) -> Result<()> {
    let run = tenant.find_run(&decision.run).filter(|(owner, _)| owner.thread.id == thread_data.thread.id);
    let is_waited_for = run.is_some_and(|(_, run)| match &run.status {
        RunStatus::Waiting(waiting) => waiting.tickets.iter().any(|ticket| ticket.id == decision.ticket),
        _ => false,
    });
    if is_waited_for { Ok(()) } else { Err(Error::invalid("decision", "its run does not wait for this ticket")) }
}

/// What a caller does with an input that is in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputChange {
    Update,
    Retract,
}

/// Returns the index of an input that may be changed in this way. A decision can never be updated, and can be retracted
/// only when its run is done (RU-16).
fn find_changeable_input(
    thread_data: &ThreadData,
    id: &EntryId,
    change: InputChange,
    bug: Option<Bug>,
) -> Result<usize> {
    match thread_data.queue.iter().position(|pending| pending.id == *id) {
        Some(position)
            if thread_data.queue.get(position).is_some_and(|input| is_protected(thread_data, input, change)) =>
        {
            Err(Error::invalid("decision", "it cannot be changed or removed now"))
        }
        Some(position) => Ok(position),
        None => Err(already_consumed(thread_data, id, bug).unwrap_or_else(|| Error::not_found("pending input", id))),
    }
}

fn is_protected(thread_data: &ThreadData, input: &PendingInput, change: InputChange) -> bool {
    let PendingBody::Decision(decision) = &input.body else { return false };
    change == InputChange::Update || thread_data.runs.iter().any(|run| run.id == decision.run && run.is_open())
}

fn check_revision(thread_data: &ThreadData, expected: u64, actual: u64) -> Result<()> {
    let version = |revision| Some(Version::new(revision, thread_data.thread.generation(), 0));
    if expected == actual { Ok(()) } else { Err(Error::conflict("revision", version(expected), version(actual))) }
}

/// Changes one input.
pub(super) fn update(tenant: &mut TenantData, request: &PendingUpdate, env: &Environment<'_>) -> Result<PendingInput> {
    if let Some(message) = &request.message {
        check_message(message)?;
    }
    let unknown = || Error::not_found("pending input", &request.id);
    let mut thread_data = tenant.threads.get(&request.thread).cloned().ok_or_else(unknown)?;
    let position = find_changeable_input(&thread_data, &request.id, InputChange::Update, env.bug)?;
    let stored_input = thread_data.queue.get(position).cloned().ok_or_else(unknown)?;
    if let Some(expected) = request.expect_revision.filter(|_| env.bug != Some(Bug::UpdateUnguarded)) {
        check_revision(&thread_data, expected, stored_input.revision)?;
    }
    let mut changed_input = stored_input.clone();
    changed_input.body = request.message.clone().map_or(changed_input.body, PendingBody::Message);
    changed_input.delivery = request.delivery.clone().unwrap_or(changed_input.delivery);
    if changed_input == stored_input {
        return Ok(stored_input);
    }
    check_size(&changed_input.body, &changed_input.delivery, env)?;
    thread_data.last_time = thread_data.last_time.max(env.now);
    thread_data.queue_revision += 1;
    changed_input.revision = thread_data.queue_revision;
    changed_input.updated_at = thread_data.last_time;
    if env.bug == Some(Bug::UpdateMovesToTheEnd) {
        thread_data.queue.remove(position);
        thread_data.queue.push(changed_input.clone());
    } else if let Some(stored) = thread_data.queue.get_mut(position) {
        *stored = changed_input.clone();
    }
    tenant.store_thread(thread_data);
    Ok(changed_input)
}

/// Removes one input.
pub(super) fn retract(
    tenant: &mut TenantData,
    thread: &ThreadId,
    id: &EntryId,
    env: &Environment<'_>,
) -> Result<PendingInput> {
    let mut thread_data = tenant.threads.get(thread).cloned().ok_or_else(|| Error::not_found("pending input", id))?;
    let position = find_changeable_input(&thread_data, id, InputChange::Retract, env.bug)?;
    let removed = thread_data.queue.remove(position);
    thread_data.last_time = thread_data.last_time.max(env.now);
    thread_data.queue_revision += 1;
    if env.bug == Some(Bug::RetractForgetsTheRevision) && thread_data.queue.is_empty() {
        thread_data.queue_revision = 0;
    }
    tenant.store_thread(thread_data);
    Ok(removed)
}

/// Changes the order of the queue.
pub(super) fn reorder(tenant: &mut TenantData, request: &Reorder, env: &Environment<'_>) -> Result<u64> {
    let unknown = || Error::not_found("thread", &request.thread);
    let mut thread_data = tenant.threads.get(&request.thread).cloned().ok_or_else(unknown)?;
    if env.bug != Some(Bug::ReorderUnguarded) {
        check_revision(&thread_data, request.expect_revision, thread_data.queue_revision)?;
    }
    let mut unplaced = thread_data.queue.clone();
    let mut ordered = Vec::new();
    for id in &request.order {
        match unplaced.iter().position(|pending| pending.id == *id) {
            Some(position) => ordered.push(unplaced.remove(position)),
            None => {
                let is_pending = thread_data.queue.iter().any(|pending| pending.id == *id);
                let consumed = if is_pending { None } else { already_consumed(&thread_data, id, env.bug) };
                return Err(consumed.unwrap_or_else(|| Error::invalid("order", "it names no input, or one twice")));
            }
        }
    }
    if !unplaced.is_empty() {
        return Err(Error::invalid("order", "an input is missing"));
    }
    if ordered == thread_data.queue {
        return Ok(thread_data.queue_revision);
    }
    thread_data.queue = ordered;
    thread_data.queue_revision += 1;
    thread_data.last_time = thread_data.last_time.max(env.now);
    let revision = thread_data.queue_revision;
    tenant.store_thread(thread_data);
    Ok(revision)
}

/// Removes from the queue the inputs that a commit consumes, and returns them as entries (CM-27, CM-28).
pub(super) fn consume(thread_data: &mut ThreadData, commit: &Commit, bug: Option<Bug>) -> Result<Vec<NewEntry>> {
    let mut entries = Vec::new();
    for (index, input) in commit.consume.iter().enumerate() {
        let in_part = |error: Error| error.in_part(format!("consume[{index}]"));
        let Some(position) = thread_data.queue.iter().position(|pending| pending.id == input.id) else {
            let refusal = already_consumed(thread_data, &input.id, bug);
            return Err(in_part(refusal.unwrap_or_else(|| Error::not_found("pending input", &input.id))));
        };
        let pending = if bug == Some(Bug::ConsumedStays) {
            thread_data.queue.get(position).cloned().ok_or_else(|| Error::not_found("pending input", &input.id))?
        } else {
            thread_data.queue.remove(position)
        };
        if bug != Some(Bug::ConsumeUnguarded) {
            check_revision(thread_data, input.revision, pending.revision).map_err(in_part)?;
        }
        let body = match pending.body {
            PendingBody::Message(message) => NewBody::Message(message),
            PendingBody::Decision(decision) => NewBody::Decision(decision),
        };
        entries.push(NewEntry::new(body).with_id(pending.id));
    }
    thread_data.queue_revision += u64::from(!commit.consume.is_empty());
    Ok(entries)
}

/// Refuses a new entry with the id of a pending input (EN-16).
pub(super) fn check_ids_unused(thread_data: &ThreadData, commit: &Commit, bug: Option<Bug>) -> Result<()> {
    let is_taken = |id: &&EntryId| thread_data.queue.iter().any(|pending| pending.id == **id);
    match commit.entries.iter().filter_map(|entry| entry.id.as_ref()).find(is_taken) {
        Some(id) if bug != Some(Bug::PendingIdIsFree) => Err(Error::already_exists("entry", id)),
        _ => Ok(()),
    }
}
