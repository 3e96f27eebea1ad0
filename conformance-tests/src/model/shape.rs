//! The checks of a commit that do not depend on stored data: its shape and the limits. They are the first step of
//! CM-43.

use std::collections::BTreeSet;

use store_core::{
    Commit, Error, Expect, JsonMap, Limits, NewBody, NewEntry, Result, RewindTo, Scope, StateChange, StateOp,
    ThreadFields, check_limit, log::check_body,
};

use super::bug::Bug;

/// Refuses a commit that has a wrong shape or exceeds a limit.
pub(super) fn check_shape(commit: &Commit, limits_and_bug: (&Limits, Option<Bug>)) -> Result<()> {
    let (limits, bug) = limits_and_bug;
    let Commit { create, key, fence, entries, run, state, consume, .. } = commit;
    let new_entries = entries.len() + consume.len();
    if create.is_none()
        && fence.is_none()
        && commit.events.is_none()
        && commit.outbox.is_empty()
        && (commit.documents.is_empty() || bug == Some(Bug::DocumentsAreNoContent))
        && new_entries == 0
        && run.is_none()
        && !changes_state(commit)
    {
        return Err(Error::invalid("commit", "it is empty"));
    }
    if new_entries > 0 && commit.expect == Expect::Any && key.is_none() {
        return Err(Error::invalid("commit", "it has entries, but neither guard nor key"));
    }
    check_limit("entries of a commit", entries.len() as u64, limits.commit_entries)?;
    check_limit("inputs of a commit", consume.len() as u64, limits.commit_inputs)?;
    if let Some(create) = create {
        check_fields(create, limits).map_err(|e| e.in_part("create"))?;
    }
    for (at, input) in consume.iter().enumerate() {
        if consume.iter().take(at).any(|other| other.id == input.id) {
            return Err(Error::already_exists("entry", &input.id).in_part(format!("consume[{at}]")));
        }
    }
    for (at, entry) in entries.iter().enumerate() {
        let earlier_ids = entries.iter().take(at).filter_map(|other| other.id.as_ref());
        let mut used_ids = earlier_ids.chain(consume.iter().map(|input| &input.id));
        if let Some(id) = entry.id.as_ref().filter(|id| used_ids.any(|other| other == *id)) {
            return Err(Error::already_exists("entry", id).in_part(format!("entries[{at}]")));
        }
        check_entry(entry, limits).map_err(|e| e.in_part(format!("entries[{at}]")))?;
    }
    if let Some(settlement) = &commit.settle {
        super::mailbox::check_settlement(settlement, limits).map_err(|e| e.in_part("settle"))?;
        if fence.is_none() {
            return Err(Error::invalid("settle", "it needs the fence of its claim"));
        }
    }
    super::documents::check_shape(&commit.documents, Some(&commit.thread), (limits, bug))?;
    if let Some(events) = &commit.events {
        let is_other_thread = |scope: &Scope| matches!(scope, Scope::Thread(thread) if *thread != commit.thread);
        super::events::check_request(events, (limits, bug))?;
        if events.fence.is_some() {
            return Err(Error::invalid("events", "they must not have a fence of their own"));
        }
        if let Some(index) = events.drafts.iter().position(|draft| draft.scopes.iter().any(is_other_thread)) {
            return Err(Error::invalid("events", "they belong to another thread").in_part(format!("events[{index}]")));
        }
    }
    super::outbox::check_rows(commit, limits)?;
    state.as_ref().map_or(Ok(()), |state| check_state(state, limits)).map_err(|e| e.in_part("state"))
}

/// Returns whether a commit changes the state. A commit that only names an expected revision of the state does not.
pub(super) fn changes_state(commit: &Commit) -> bool {
    commit.state.as_ref().is_some_and(|state| state.clear || !state.changes.is_empty())
}

/// Refuses fields of a thread that are too large.
pub(super) fn check_fields(fields: &ThreadFields, limits: &Limits) -> Result<()> {
    let title = fields.title.as_deref().unwrap_or_default();
    check_limit("title bytes", title.len() as u64, limits.text_bytes)?;
    check_limit("metadata bytes", map_bytes(&fields.metadata)?, limits.metadata_bytes)
}

/// Returns the length of a map as JSON text; 0 if the map is empty.
fn map_bytes(map: &JsonMap) -> Result<u64> {
    if map.is_empty() { Ok(0) } else { Ok(store_core::Json::of(map)?.as_str().len() as u64) }
}

fn check_entry(entry: &NewEntry, limits: &Limits) -> Result<()> {
    let check_label = |text: &str| check_limit("label bytes", text.len() as u64, limits.text_bytes);
    check_body(&entry.body)?;
    match &entry.body {
        NewBody::Decision(_) => Err(Error::invalid("decision", "it must be appended as pending input")),
        NewBody::Checkpoint { label, .. } => check_label(label.as_deref().unwrap_or_default()),
        NewBody::Label(label) => check_label(label.text.as_deref().unwrap_or_default()),
        NewBody::Rewind(_) if entry.side == Some(false) => Err(Error::invalid("rewind", "it is always a side entry")),
        NewBody::Rewind(RewindTo::Label(name) | RewindTo::Snapshot(name)) => check_label(name),
        _ => Ok(()),
    }
}

fn check_state(state: &StateChange, limits: &Limits) -> Result<()> {
    check_limit("state keys of a commit", state.changes.len() as u64, limits.commit_state_keys)?;
    let mut seen_keys = BTreeSet::new();
    for (key, op) in &state.changes {
        if !seen_keys.insert(key) {
            return Err(Error::invalid("state", "a key is named twice"));
        }
        match op {
            StateOp::Set(value) => check_limit("record bytes", value.as_str().len() as u64, limits.record_bytes)?,
            StateOp::Merge(value) if !value.is_object() => {
                return Err(Error::invalid("state", "only an object can be merged"));
            }
            _ => {}
        }
    }
    Ok(())
}
