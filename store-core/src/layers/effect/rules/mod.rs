//! The rules of effects: where they are kept, what a caller that begins one is told, how they end.

use super::{
    record::{BegunEffect, Effect, EffectEnd, EffectName, EffectStatus},
    request::{EffectIntent, EffectOwner, EffectQuery, EndEffect, NewEffect, ResolveEffect},
};
use crate::{
    codec::Extra,
    document::{Document, DocumentChange, DocumentExpect, DocumentKey, DocumentQuery, DocumentRef, KeySegment},
    error::{Detail, Error, Result},
    event::NewEvent,
    id::{CollectionId, EffectId, IdempotencyKey, RunId, ThreadId},
    json::Json,
    layers::{audit::audit_of_change, conflict_in, encoded},
};

// The collections, with what their keys consist of. The names are stored and never change.

/// Run, id; in the scope of the thread: the effect.
const EFFECTS: &str = "layer.effects";
/// Group, thread, run, id: exists while the effect belongs to the group. All lists read it.
const ORDER: &str = "layer.effects.order";

/// The parts of the order of effects.
///
/// An effect changes its group once, when it ends, and to a later group. So a walk in the order of the groups misses
/// no effect that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Effects that have not ended.
    Open,
    /// Effects with an outcome.
    Ended,
}

impl Group {
    pub(super) const ALL: [Self; 2] = [Self::Open, Self::Ended];

    pub(super) const fn of(status: EffectStatus) -> Self {
        if status.is_ended() { Self::Ended } else { Self::Open }
    }

    /// Returns the number that stands for the group in keys and cursors. It is stored and never changes.
    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Open => 1,
            Self::Ended => 2,
        }
    }

    /// Returns whether an effect of the group can have a status that a query asks for.
    pub(super) fn has_status_of(self, query: &EffectQuery) -> bool {
        EffectStatus::ALL.iter().any(|status| Self::of(*status) == self && query.has_status(*status))
    }

    /// Returns the query for the entries of the order that belong to the group and to an owner.
    pub(super) fn query(self, owner: &EffectOwner) -> Result<DocumentQuery> {
        let mut prefix = vec![KeySegment::Number(self.number())];
        match owner {
            EffectOwner::Tenant => {}
            EffectOwner::Thread(thread) => prefix.push(KeySegment::id(thread)?),
            EffectOwner::Run(thread, run) => prefix.extend([KeySegment::id(thread)?, KeySegment::id(run)?]),
        }
        Ok(DocumentQuery::new(CollectionId::new(ORDER)?).starting_with(prefix))
    }

    /// Names the entry of an effect in the order.
    pub(super) fn entry(self, name: &EffectName) -> Result<DocumentRef> {
        let ids = [KeySegment::id(name.thread())?, KeySegment::id(name.run())?, KeySegment::id(name.id())?];
        let segments = [KeySegment::Number(self.number())].into_iter().chain(ids);
        Ok(DocumentKey::new(CollectionId::new(ORDER)?, segments)?.into())
    }
}

/// Returns the queries for the entries of a thread in the order of all effects.
pub(in crate::layers) fn entries_of(thread: &ThreadId) -> Result<Vec<DocumentQuery>> {
    let owner = EffectOwner::Thread(thread.clone());
    Group::ALL.iter().map(|group| group.query(&owner)).collect()
}

/// Names the document of an effect.
pub(super) fn document_of(name: &EffectName) -> Result<DocumentRef> {
    let segments = [KeySegment::id(name.run())?, KeySegment::id(name.id())?];
    Ok(DocumentKey::new(CollectionId::new(EFFECTS)?, segments)?.in_thread(name.thread().clone()))
}

/// Reads the name of an effect from its entry in the order.
pub(super) fn name_of_entry(entry: &Document) -> Result<EffectName> {
    let segments = entry.key.segments();
    let [_, KeySegment::Id(thread), KeySegment::Id(run), KeySegment::Id(id)] = segments.as_slice() else {
        return Err(Error::corrupt(format!("document {}: it is no entry in the order of effects", entry.key)));
    };
    EffectName::new(ThreadId::new(thread)?, RunId::new(run)?, EffectId::new(id)?)
}

/// Returns the changes that write an effect over what was found, with its place in the order.
pub(super) fn changes(found: Option<&Effect>, effect: &Effect) -> Result<Vec<DocumentChange>> {
    let expect = found.map_or(DocumentExpect::Absent, |found| DocumentExpect::Revision(found.revision));
    let put = DocumentChange::put(document_of(&effect.name)?, encoded(&effect.stored())?);
    let mut changes = vec![put.expecting(expect)];
    let (before, after) = (found.map(|found| Group::of(found.status)), Group::of(effect.status));
    if before != Some(after) {
        if let Some(before) = before {
            changes.push(DocumentChange::delete(before.entry(&effect.name)?));
        }
        changes.push(DocumentChange::put(after.entry(&effect.name)?, Json::parse("{}")?));
    }
    Ok(changes)
}

/// What a call that begins an effect generates, once for all its decisions.
#[derive(Debug, Clone)]
pub(super) struct Generated {
    pub(super) idempotency_key: IdempotencyKey,
    pub(super) begun_by: String,
}

/// Decides what a caller that begins an effect is told (EF-1). If it is told that the effect is new, the effect has to
/// be written first.
///
/// # Errors
/// `IdempotencyMismatch` if the effect was begun with another kind, value or key.
pub(super) fn plan_begin(new: &NewEffect, generated: &Generated, found: Option<&Effect>) -> Result<BegunEffect> {
    let claim = new.fence.as_ref().map(|fence| fence.claim);
    let begun_by = generated.begun_by.clone();
    let EffectIntent { kind, value, step, idempotency_key } = new.intent.clone();
    let Some(found) = found else {
        return Ok(BegunEffect::Fresh(Effect {
            name: new.name.clone(),
            kind,
            intent: value,
            step,
            idempotency_key: idempotency_key.unwrap_or_else(|| generated.idempotency_key.clone()),
            attempt: 1,
            claim,
            status: EffectStatus::Intended,
            outcome: None,
            reason: None,
            revision: 0,
            created_at: crate::time::Timestamp::default(),
            updated_at: crate::time::Timestamp::default(),
            begun_by,
            extra: Extra::default(),
        }));
    };
    let is_other_key = idempotency_key.is_some_and(|key| key != found.idempotency_key);
    if kind != found.kind || value != found.intent || is_other_key {
        return Err(Error::new(Detail::IdempotencyMismatch { key: new.name.to_string() }));
    }
    Ok(match found.status {
        EffectStatus::Intended | EffectStatus::Unknown => BegunEffect::InDoubt(found.clone()),
        EffectStatus::Done | EffectStatus::Failed => BegunEffect::Finished(found.clone()),
        EffectStatus::Retry => {
            let attempt = found.attempt.saturating_add(1);
            let status = EffectStatus::Intended;
            BegunEffect::Fresh(Effect { attempt, claim, status, begun_by, ..found.clone() })
        }
    })
}

/// Decides what becomes of an effect that ends; none if it has already ended like this.
///
/// # Errors
/// `InvalidTransition` if the effect has another outcome (EF-4), and if what is to be tried again is said to be
/// unknown.
fn after_end(effect: &Effect, end: &EffectEnd) -> Result<Option<Effect>> {
    let status = end.status();
    let (outcome, reason) = match end {
        EffectEnd::Done(outcome) | EffectEnd::Failed(outcome) => (Some(outcome.clone()), None),
        EffectEnd::Unknown(reason) => (None, Some(reason.clone())),
        EffectEnd::Retry => (None, None),
    };
    if (effect.status, &effect.outcome, &effect.reason) == (status, &outcome, &reason) {
        return Ok(None);
    }
    if effect.status.is_ended() || (effect.status, status) == (EffectStatus::Retry, EffectStatus::Unknown) {
        let to = if status == effect.status { "another outcome" } else { status.name() };
        return Err(Error::invalid_transition("effect", effect.name.to_string(), effect.status.name(), to));
    }
    Ok(Some(Effect { status, outcome, reason, ..effect.clone() }))
}

/// Decides what becomes of an effect whose outcome is recorded alone; none if nothing changes (EF-3).
///
/// # Errors
/// `InvalidTransition` if another attempt has begun, if the effect has another outcome (EF-4), and if what is to be
/// tried again is said to be unknown.
pub(super) fn plan_end(effect: &Effect, request: &EndEffect) -> Result<Option<Effect>> {
    if request.attempt != effect.attempt {
        let (from, to) = (format!("attempt {}", effect.attempt), format!("the end of attempt {}", request.attempt));
        return Err(Error::invalid_transition("effect", effect.name.to_string(), from, to));
    }
    after_end(effect, &request.end)
}

/// Decides what becomes of an effect whose doubt ends, with the audit record; none if nothing changes (EF-6).
///
/// # Errors
/// `Conflict` if the effect is not as expected; `InvalidTransition` if it has another outcome.
pub(super) fn plan_resolution(effect: &Effect, request: &ResolveEffect) -> Result<Option<(Effect, Option<NewEvent>)>> {
    if !request.expect.holds(Some(effect.revision)) {
        return Err(conflict_in(document_of(&effect.name)?, request.expect, Some(effect.revision)));
    }
    let Some(resolved) = after_end(effect, &request.resolution.clone().into())? else { return Ok(None) };
    let (before, after) = (encoded(&effect.stored())?, encoded(&resolved.stored())?);
    let audit = audit_of_change(request.audit.as_ref(), &effect.name.resource()?, Some(&before), Some(&after))?;
    Ok(Some((resolved, audit)))
}

/// Returns the changes that record how an effect ended, for the commit that carries its result (EF-3).
///
/// `effect` is what the caller was told when it began the effect. If the effect has changed since, the commit is
/// refused with `Conflict`, as a whole. The commit must be one to the thread of the effect.
///
/// ```
/// use store_core::{Commit, Effect, EffectEnd, Json, Message, NewEntry, Result, end_changes};
///
/// fn commit_of(effect: &Effect, receipt: &str) -> Result<Commit> {
///     let outcome = EffectEnd::Done(Json::of(receipt)?);
///     let answer = NewEntry::new(Message::assistant(format!("Paid, receipt {receipt}.")));
///     let commit = Commit::new(effect.name.thread().clone()).with_key("paid".parse()?).entry(answer);
///     Ok(commit.with_documents(end_changes(effect, outcome)?))
/// }
/// ```
///
/// # Errors
/// `InvalidTransition` if the effect has another outcome.
pub fn end_changes(effect: &Effect, end: EffectEnd) -> Result<Vec<DocumentChange>> {
    let request = EndEffect::new(effect.name.clone(), effect.attempt, end);
    match plan_end(effect, &request)? {
        Some(ended) => changes(Some(effect), &ended),
        None => {
            let expect = DocumentExpect::Revision(effect.revision);
            Ok(vec![DocumentChange::check(document_of(&effect.name)?, expect)])
        }
    }
}

#[cfg(test)]
mod tests;
