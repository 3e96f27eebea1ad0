//! Pending input (PI): the queue of a thread, and the decisions on tickets.

use serde_json::json;
use store_core::{
    AppendPending, Appended, Boundary, Commit, Decision, Delivery, Detail, EntryId, Error, InputRef, NewBody, NewEntry,
    NewInput, PendingBody, PendingInput, PendingUpdate, Reorder, Result, RunStatus, ThreadId, Version, check_limit,
    codec::Codec, log::check_message,
};

use super::{
    bug::Bug,
    commit::{Setting, new_slot},
    tree::Tree,
    world::{Memory, Slot, Tenant, record},
};

/// A decision on a ticket, and the input that contained it.
#[derive(Debug, Clone)]
pub(super) struct Decided {
    decision: Decision,
    input: InputRef,
}

/// Puts inputs at the end of the queue.
pub(super) fn append(tenant: &mut Tenant, request: &AppendPending, setting: &Setting<'_>) -> Result<Appended> {
    check(request, setting)?;
    let mut memory = tenant.ids.get(&request.thread).cloned().unwrap_or_default();
    let mut slot = match tenant.threads.get(&request.thread) {
        Some(slot) => slot.clone(),
        None if memory.deleted_at.is_some() => return Err(Error::not_found("thread", &request.thread)),
        None => new_slot(&request.thread, store_core::ThreadFields::default(), &memory, (setting.now, setting))?,
    };
    let mut known = Vec::new();
    for input in &request.inputs {
        known.extend(find(&slot, input, setting.bug)?);
    }
    if known.len() == request.inputs.len() {
        return Ok(Appended::new(known, true));
    }
    if let (Some(first), false) = (known.first(), setting.bug == Some(Bug::AppendInPart)) {
        let is_pending = slot.queue.iter().any(|pending| pending.id == first.id);
        let consumed = || Error::new(Detail::AlreadyConsumed { id: first.id.to_string() });
        return Err(if is_pending { Error::already_exists("pending input", &first.id) } else { consumed() });
    }
    slot.last_time = slot.last_time.max(setting.now);
    let (mut refs, revision) = (Vec::new(), slot.queue_revision + 1);
    for input in &request.inputs {
        if let PendingBody::Decision(decision) = &input.body {
            check_ticket(tenant, &slot, decision)?;
        }
        let id = match &input.id {
            Some(id) => id.clone(),
            None => EntryId::new(setting.ids.next_id())?,
        };
        let now = slot.last_time;
        let mut stored: PendingInput = record(&json!({
            "id": id, "thread": request.thread, "revision": revision, "body": {"message": {"role": "user", "blocks": []}},
            "created_at": now, "updated_at": now,
        }))?;
        stored.body = input.body.clone();
        stored.delivery = input.delivery.clone();
        refs.push(stored.as_ref());
        if let PendingBody::Decision(decision) = &input.body {
            slot.decisions.push(Decided { decision: decision.clone(), input: stored.as_ref() });
        }
        slot.queue.push(stored);
    }
    check_limit("pending inputs", slot.queue.len() as u64, setting.limits.pending_inputs)?;
    slot.queue_revision = revision;
    memory = Memory { generation: slot.thread.generation(), deleted_at: None, ..memory };
    tenant.ids.insert(request.thread.clone(), memory);
    tenant.put(slot);
    Ok(Appended::new(refs, false))
}

/// Refuses an input that could be too large as an entry, so that every input that was appended can be consumed. 8 KiB
/// are reserved for the other fields of the entry.
fn check_size(body: &PendingBody, delivery: &Delivery, setting: &Setting<'_>) -> Result<()> {
    let bytes = body.encode().len() + delivery.encode().len() + (8 << 10);
    check_limit("record bytes", bytes as u64, setting.limits.record_bytes)
}

fn check(request: &AppendPending, setting: &Setting<'_>) -> Result<()> {
    if request.inputs.is_empty() {
        return Err(Error::invalid("append", "it is empty"));
    }
    for (index, input) in request.inputs.iter().enumerate() {
        let before = request.inputs.iter().take(index);
        if let Some(id) = input.id.as_ref().filter(|id| before.clone().any(|other| other.id.as_ref() == Some(id))) {
            return Err(Error::already_exists("pending input", id));
        }
        match &input.body {
            PendingBody::Message(message) => check_message(message)?,
            PendingBody::Decision(decision) => {
                let same = |other: &NewInput| {
                    matches!(&other.body, PendingBody::Decision(other)
                    if (&other.run, &other.ticket) == (&decision.run, &decision.ticket))
                };
                let elsewhere = input.delivery.target.as_ref().is_some_and(|target| target.run != decision.run);
                let delivery = &input.delivery;
                if before.clone().any(same)
                    || elsewhere
                    || delivery.barrier
                    || delivery.boundary != Boundary::ResumeInput
                {
                    return Err(Error::invalid("decision", "its ticket, target, boundary or barrier is not allowed"));
                }
            }
        }
        check_size(&input.body, &input.delivery, setting)?;
    }
    Ok(())
}

/// Returns the earlier input that equals this one, if there is one. Refuses an id or a ticket that another input uses.
fn find(slot: &Slot, input: &NewInput, bug: Option<Bug>) -> Result<Option<InputRef>> {
    if let PendingBody::Decision(decision) = &input.body {
        let same =
            |decided: &&Decided| (&decided.decision.run, &decided.decision.ticket) == (&decision.run, &decision.ticket);
        match slot.decisions.iter().find(same) {
            _ if bug == Some(Bug::DecidedTwice) => {}
            Some(decided) if decided.decision == *decision => return Ok(Some(decided.input.clone())),
            Some(_) => return Err(Error::conflict("decision", None, None)),
            None => {}
        }
    }
    let Some(id) = &input.id else { return Ok(None) };
    if let Some(pending) = slot.queue.iter().find(|pending| pending.id == *id) {
        let equal = pending.body == input.body && pending.delivery == input.delivery;
        return if equal { Ok(Some(pending.as_ref())) } else { Err(Error::already_exists("pending input", id)) };
    }
    in_log(slot, id, bug).map_or(Ok(None), Err)
}

/// Returns the error for an id that is in the log, or `None` if it is not in the log.
fn in_log(slot: &Slot, id: &EntryId, bug: Option<Bug>) -> Option<Error> {
    let found = Tree(&slot.entries).find(id).is_some() && bug != Some(Bug::ConsumedIdIsFree);
    found.then(|| Error::new(Detail::AlreadyConsumed { id: id.to_string() }))
}

fn check_ticket(tenant: &Tenant, slot: &Slot, decision: &Decision) -> Result<()> {
    let run = tenant.run(&decision.run).filter(|(owner, _)| owner.thread.id == slot.thread.id);
    let waits = run.is_some_and(|(_, run)| match &run.status {
        RunStatus::Waiting(waiting) => waiting.tickets.iter().any(|ticket| ticket.id == decision.ticket),
        _ => false,
    });
    if waits { Ok(()) } else { Err(Error::invalid("decision", "its run does not wait for this ticket")) }
}

/// Returns the index of an input that may be changed or, if `retracts` is set, removed. A decision can never be
/// changed, and can be removed only when its run is done (RU-16).
fn place(slot: &Slot, id: &EntryId, bug: Option<Bug>, retracts: bool) -> Result<usize> {
    match slot.queue.iter().position(|pending| pending.id == *id) {
        Some(place) if slot.queue.get(place).is_some_and(|input| stays(slot, input, retracts)) => {
            Err(Error::invalid("decision", "it cannot be changed or removed now"))
        }
        Some(place) => Ok(place),
        None => Err(in_log(slot, id, bug).unwrap_or_else(|| Error::not_found("pending input", id))),
    }
}

fn stays(slot: &Slot, input: &PendingInput, retracts: bool) -> bool {
    let PendingBody::Decision(decision) = &input.body else { return false };
    !retracts || slot.runs.iter().any(|run| run.id == decision.run && run.is_open())
}

fn check_revision(slot: &Slot, expected: u64, actual: u64) -> Result<()> {
    let version = |revision| Some(Version::new(revision, slot.thread.generation(), 0));
    if expected == actual { Ok(()) } else { Err(Error::conflict("revision", version(expected), version(actual))) }
}

/// Changes one input.
pub(super) fn update(tenant: &mut Tenant, request: &PendingUpdate, setting: &Setting<'_>) -> Result<PendingInput> {
    if let Some(message) = &request.message {
        check_message(message)?;
    }
    let unknown = || Error::not_found("pending input", &request.id);
    let mut slot = tenant.threads.get(&request.thread).cloned().ok_or_else(unknown)?;
    let place = place(&slot, &request.id, setting.bug, false)?;
    let before = slot.queue.get(place).cloned().ok_or_else(unknown)?;
    if let Some(expected) = request.expect_revision.filter(|_| setting.bug != Some(Bug::UpdateUnguarded)) {
        check_revision(&slot, expected, before.revision)?;
    }
    let mut after = before.clone();
    after.body = request.message.clone().map_or(after.body, PendingBody::Message);
    after.delivery = request.delivery.clone().unwrap_or(after.delivery);
    if after == before {
        return Ok(before);
    }
    check_size(&after.body, &after.delivery, setting)?;
    slot.last_time = slot.last_time.max(setting.now);
    slot.queue_revision += 1;
    after.revision = slot.queue_revision;
    after.updated_at = slot.last_time;
    if setting.bug == Some(Bug::UpdateMovesToTheEnd) {
        slot.queue.remove(place);
        slot.queue.push(after.clone());
    } else if let Some(stored) = slot.queue.get_mut(place) {
        *stored = after.clone();
    }
    tenant.put(slot);
    Ok(after)
}

/// Removes one input.
pub(super) fn retract(
    tenant: &mut Tenant,
    thread: &ThreadId,
    id: &EntryId,
    setting: &Setting<'_>,
) -> Result<PendingInput> {
    let mut slot = tenant.threads.get(thread).cloned().ok_or_else(|| Error::not_found("pending input", id))?;
    let place = place(&slot, id, setting.bug, true)?;
    let removed = slot.queue.remove(place);
    slot.last_time = slot.last_time.max(setting.now);
    slot.queue_revision += 1;
    if setting.bug == Some(Bug::RetractForgetsTheRevision) && slot.queue.is_empty() {
        slot.queue_revision = 0;
    }
    tenant.put(slot);
    Ok(removed)
}

/// Changes the order of the queue.
pub(super) fn reorder(tenant: &mut Tenant, request: &Reorder, setting: &Setting<'_>) -> Result<u64> {
    let unknown = || Error::not_found("thread", &request.thread);
    let mut slot = tenant.threads.get(&request.thread).cloned().ok_or_else(unknown)?;
    if setting.bug != Some(Bug::ReorderUnguarded) {
        check_revision(&slot, request.expect_revision, slot.queue_revision)?;
    }
    let mut left = slot.queue.clone();
    let mut ordered = Vec::new();
    for id in &request.order {
        match left.iter().position(|pending| pending.id == *id) {
            Some(place) => ordered.push(left.remove(place)),
            None => {
                let pending = slot.queue.iter().any(|pending| pending.id == *id);
                let consumed = if pending { None } else { in_log(&slot, id, setting.bug) };
                return Err(consumed.unwrap_or_else(|| Error::invalid("order", "it names no input, or one twice")));
            }
        }
    }
    if !left.is_empty() {
        return Err(Error::invalid("order", "an input is missing"));
    }
    if ordered == slot.queue {
        return Ok(slot.queue_revision);
    }
    slot.queue = ordered;
    slot.queue_revision += 1;
    slot.last_time = slot.last_time.max(setting.now);
    let revision = slot.queue_revision;
    tenant.put(slot);
    Ok(revision)
}

/// Removes the inputs that a commit consumes from the queue, and returns them as entries (CM-27, CM-28).
pub(super) fn take(slot: &mut Slot, commit: &Commit, bug: Option<Bug>) -> Result<Vec<NewEntry>> {
    let mut entries = Vec::new();
    for (index, input) in commit.consume.iter().enumerate() {
        let part = |error: Error| error.in_part(format!("consume[{index}]"));
        let Some(place) = slot.queue.iter().position(|pending| pending.id == input.id) else {
            let refusal = in_log(slot, &input.id, bug);
            return Err(part(refusal.unwrap_or_else(|| Error::not_found("pending input", &input.id))));
        };
        let pending = if bug == Some(Bug::ConsumedStays) {
            slot.queue.get(place).cloned().ok_or_else(|| Error::not_found("pending input", &input.id))?
        } else {
            slot.queue.remove(place)
        };
        if bug != Some(Bug::ConsumeUnguarded) {
            check_revision(slot, input.revision, pending.revision).map_err(part)?;
        }
        let body = match pending.body {
            PendingBody::Message(message) => NewBody::Message(message),
            PendingBody::Decision(decision) => NewBody::Decision(decision),
        };
        entries.push(NewEntry::new(body).with_id(pending.id));
    }
    slot.queue_revision += u64::from(!commit.consume.is_empty());
    Ok(entries)
}

/// Refuses a new entry with the id of a pending input (EN-16).
pub(super) fn check_unused(slot: &Slot, commit: &Commit, bug: Option<Bug>) -> Result<()> {
    let taken = |id: &&EntryId| slot.queue.iter().any(|pending| pending.id == **id);
    match commit.entries.iter().filter_map(|entry| entry.id.as_ref()).find(taken) {
        Some(id) if bug != Some(Bug::PendingIdIsFree) => Err(Error::already_exists("entry", id)),
        _ => Ok(()),
    }
}
