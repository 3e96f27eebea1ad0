//! Checks of a commit that need no stored data: whether it has the parts that it needs, whether they fit together, and
//! whether they are within the limits (CM-7, CM-9, CM-19, CM-25).

use std::collections::BTreeSet;

use super::{Commit, StateChange, StateOp};
use crate::{
    document::check_changes,
    error::{Error, Result},
    event::{self, AppendEvents, Scope},
    limits::{Limits, check_limit, length},
    log::{Label, NewBody, NewEntry, RewindTo, check_body},
    mailbox, outbox, thread,
    version::Expect,
};

/// Refuses a commit that no store can accept.
///
/// A store calls this before it loads what the plan needs, so that a commit that is far too large is neither copied nor
/// sent to a server (ER-9). The plan calls it again.
///
/// # Errors
/// `Invalid` and `LimitExceeded`.
pub fn check(commit: &Commit, limits: &Limits) -> Result<()> {
    let has_entries = !commit.entries.is_empty() || !commit.consume.is_empty();
    if has_no_content(commit) && commit.fence.is_none() {
        return Err(Error::invalid("commit", "it is empty"));
    }
    if has_entries && commit.expect == Expect::Any && commit.key.is_none() {
        return Err(Error::invalid("commit", "entries need a guard (`expect`) or a `key`"));
    }
    check_limit("entries of a commit", length(commit.entries.len()), limits.commit_entries)?;
    check_limit("inputs consumed by a commit", length(commit.consume.len()), limits.commit_inputs)?;
    if let Some(create) = &commit.create {
        thread::check_fields(create, limits).map_err(|e| e.in_part("create"))?;
    }
    let mut ids = BTreeSet::new();
    for (at, input) in commit.consume.iter().enumerate() {
        if !ids.insert(&input.id) {
            return Err(Error::already_exists("entry", &input.id).in_part(format!("consume[{at}]")));
        }
    }
    let mut min_bytes = 0;
    for (at, entry) in commit.entries.iter().enumerate() {
        let part = || format!("entries[{at}]");
        if entry.id.as_ref().is_some_and(|id| !ids.insert(id)) {
            let id = entry.id.as_ref().map_or("", |id| id.as_str());
            return Err(Error::already_exists("entry", id).in_part(part()));
        }
        check_entry(entry, limits).map_err(|e| e.in_part(part()))?;
        min_bytes += entry.body.min_encoded_bytes();
    }
    check_limit("commit bytes", min_bytes, limits.commit_bytes)?;
    check_changes(&commit.documents, Some(&commit.thread), limits)?;
    if let Some(events) = &commit.events {
        check_events(commit, events, limits).map_err(|e| if e.part().is_some() { e } else { e.in_part("events") })?;
    }
    if let Some(settlement) = &commit.settle {
        if commit.fence.is_none() {
            return Err(Error::invalid("settle", "it needs the `fence` of the claim that it ends"));
        }
        mailbox::check_settlement(settlement, limits).map_err(|e| e.in_part("settle"))?;
    }
    outbox::check_drafts(&commit.outbox, limits)?;
    if let Some(state) = &commit.state {
        check_state(state, limits).map_err(|e| e.in_part("state"))?;
    }
    Ok(())
}

/// Returns whether a commit contains nothing to write besides a claim and its settlement.
pub(super) fn has_no_content(commit: &Commit) -> bool {
    let has_entries = !commit.entries.is_empty() || !commit.consume.is_empty();
    let changes_state = commit.state.as_ref().is_some_and(|change| !change.is_empty());
    let has_events_or_rows = commit.events.is_some() || !commit.outbox.is_empty() || !commit.documents.is_empty();
    !has_entries && !changes_state && !has_events_or_rows && commit.run.is_none() && commit.create.is_none()
}

/// Checks the events of a commit. The plan checks later whether the runs that they name belong to the thread.
fn check_events(commit: &Commit, events: &AppendEvents, limits: &Limits) -> Result<()> {
    event::check_request(events, limits)?;
    if events.fence.is_some() {
        return Err(Error::invalid("events", "they cannot have their own fence: that of the commit covers them"));
    }
    for (index, draft) in events.drafts.iter().enumerate() {
        let is_other_thread = |scope: &Scope| matches!(scope, Scope::Thread(thread) if *thread != commit.thread);
        if draft.scopes.iter().any(is_other_thread) {
            let error = Error::invalid("scopes", "it names a thread other than that of the commit");
            return Err(error.in_part(format!("events[{index}]")));
        }
    }
    Ok(())
}

fn check_entry(entry: &NewEntry, limits: &Limits) -> Result<()> {
    let check_label = |text: &Option<String>| match text {
        Some(text) => check_limit("label bytes", length(text.len()), limits.text_bytes),
        None => Ok(()),
    };
    check_limit("record bytes", entry.body.min_encoded_bytes(), limits.record_bytes)?;
    check_body(&entry.body)?;
    match &entry.body {
        NewBody::Decision(_) => Err(Error::invalid("entry", "a decision can only be added as pending input")),
        NewBody::Checkpoint { label, .. } => check_label(label),
        NewBody::Label(Label { text: label, .. }) => check_label(label),
        NewBody::Rewind(_) if entry.side == Some(false) => {
            Err(Error::invalid("rewind", "a rewind is always a side entry"))
        }
        NewBody::Rewind(RewindTo::Label(name) | RewindTo::Snapshot(name)) => {
            check_limit("label bytes", length(name.len()), limits.text_bytes)
        }
        _ => Ok(()),
    }
}

fn check_state(state: &StateChange, limits: &Limits) -> Result<()> {
    check_limit("state keys of a commit", length(state.changes.len()), limits.commit_state_keys)?;
    let mut keys = BTreeSet::new();
    for (key, op) in &state.changes {
        if !keys.insert(key) {
            return Err(Error::invalid("state", "a key is named twice"));
        }
        let result = match op {
            StateOp::Set(value) => check_limit("record bytes", length(value.as_str().len()), limits.record_bytes),
            StateOp::Merge(object) if !object.is_object() => {
                Err(Error::invalid("state", "only an object can be merged"))
            }
            _ => Ok(()),
        };
        result?;
    }
    Ok(())
}
