//! The contract of effects, and its implementation over documents.

use std::fmt;

use async_trait::async_trait;

use super::{
    record::{BegunEffect, Effect, EffectName},
    request::{EffectQuery, EndEffect, NewEffect, PurgeEffects, PurgedEffects, ResolveEffect},
    rules::{self, Generated, Group},
};
use crate::{
    claim::Fence,
    document::{Document, WriteDocuments, WrittenDocuments},
    error::{Error, Outcome, Result},
    event::NewEvent,
    ext::DocumentStoreExt,
    id::{IdSource, IdempotencyKey, UuidSource},
    layers::{LayerStore, load_in_parts, plan_and_write, write_of},
    page::{Cursor, Page, PageRequest},
    progress::Progress,
    run::RunReader,
};

/// Effects of runs on the world outside of the store: a payment, a message, a change in another system.
///
/// A caller begins an effect before it acts, and says afterwards how it ended. So after a crash the store knows which
/// effects have an outcome, and which may have happened.
///
/// ```
/// use store_core::{BegunEffect, EffectEnd, EffectStore, EndEffect, Error, Json, NewEffect, Result};
///
/// async fn pay(effects: &dyn EffectStore, new: NewEffect) -> Result<Json> {
///     let effect = match effects.begin_effect(new).await? {
///         BegunEffect::Fresh(effect) => effect,
///         BegunEffect::Finished(effect) => return Ok(effect.outcome.unwrap_or_else(Json::null)),
///         BegunEffect::InDoubt(_) => return Err(Error::unavailable("it is not known whether it was paid")),
///     };
///     let receipt = charge(effect.idempotency_key.as_str());
///     let end = EndEffect::new(effect.name, effect.attempt, EffectEnd::Done(receipt.clone()));
///     effects.end_effect(end).await?;
///     Ok(receipt)
/// }
/// # fn charge(_key: &str) -> Json { Json::null() }
/// ```
#[async_trait]
pub trait EffectStore: Send + Sync {
    /// Writes durably that an effect is about to be performed, and says whether the caller is to perform it (EF-1).
    ///
    /// # Guarantees
    /// - Of any number of callers that begin one effect at the same time, exactly one is told that it is new. The same
    ///   holds after a retry (EF-2, `effect::one_of_several_callers_is_told_that_an_effect_is_new`).
    /// - Under a claim, only its holder is (EF-2, `effect::only_the_holder_of_a_claim_begins_an_effect`).
    /// - The idempotency key is the same in every answer about the effect
    ///   (EF-6, `effect::a_retry_has_the_same_idempotency_key`).
    ///
    /// # Errors
    /// In this order: `IdempotencyMismatch` if the effect was begun with another kind, value or key; `ClaimLost` and
    /// `StaleEpoch` under a claim that is not current, if the effect would be new; `NotFound` if the thread does not
    /// exist; `LimitExceeded`. `Conflict` if other callers were faster 100 times in a row.
    ///
    /// After an `Unknown` outcome the caller must not perform the effect. If it begins it again, it may be told that
    /// the effect is in doubt.
    async fn begin_effect(&self, new: NewEffect) -> Result<BegunEffect>;

    /// Records how an effect ended, in a step of its own (EF-3). [`end_changes`](super::end_changes) makes it part of
    /// a commit. Returns the effect as it is now.
    ///
    /// The call may be repeated: the same end again changes nothing.
    ///
    /// # Errors
    /// `NotFound` for an unknown effect; `InvalidTransition` if it has another outcome (EF-4), if a later attempt has
    /// begun, and if what is to be tried again is said to be unknown; `ClaimLost` and `StaleEpoch` under a claim that
    /// is not current. After an `Unknown` outcome, repeat the call.
    async fn end_effect(&self, request: EndEffect) -> Result<Effect>;

    /// Ends a doubt by hand or by a reconciler (EF-6). Returns the effect as it is now.
    ///
    /// An effect that is to be tried again, but was not begun yet, can be resolved, too.
    ///
    /// # Errors
    /// `NotFound` for an unknown effect; `Conflict` if it is not as expected; `InvalidTransition` if it has another
    /// outcome; `ClaimLost` and `StaleEpoch` under a claim that is not current. After an `Unknown` outcome, load the
    /// effect.
    async fn resolve_effect(&self, request: ResolveEffect) -> Result<Effect>;

    /// Loads an effect; none if it does not exist.
    ///
    /// # Errors
    /// `Corrupt` if the effect cannot be read; any error of reading.
    async fn load_effect(&self, name: &EffectName) -> Result<Option<Effect>>;

    /// Lists effects in pages: those that have not ended first, then the others; each by thread, run and id (EF-5).
    ///
    /// A walk misses no effect that stays. An effect that ends meanwhile may come twice.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list.
    async fn list_effects(&self, query: EffectQuery) -> Result<Page<Effect>>;

    /// Removes effects that ended before a time, except those of open runs (EF-5). An effect without an outcome is
    /// never removed. `runs` are those of the same tenant.
    ///
    /// The call also removes what deleted threads left in the order of the lists. It may be stopped between two
    /// batches, and repeated.
    ///
    /// # Errors
    /// Any error of reading and writing.
    async fn purge_effects(
        &self,
        request: PurgeEffects,
        runs: &dyn RunReader,
        progress: &dyn Progress,
    ) -> Result<PurgedEffects>;
}

/// The effects of a tenant, kept as documents of their threads.
#[derive(Clone)]
pub struct EffectLayer {
    pub(super) store: LayerStore,
}

impl fmt::Debug for EffectLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EffectLayer").finish_non_exhaustive()
    }
}

impl EffectLayer {
    /// Makes the effects over a store. It must be the store of the threads.
    #[must_use]
    pub const fn new(store: LayerStore) -> Self {
        Self { store }
    }

    /// Plans to begin an effect over what is stored now.
    async fn plan_begin(
        &self,
        new: &NewEffect,
        generated: &Generated,
    ) -> Result<((BegunEffect, Option<Effect>), Option<WriteDocuments>)> {
        let found = self.load_effect(&new.name).await?;
        let answer = rules::plan_begin(new, generated, found.as_ref())?;
        let write = match &answer {
            BegunEffect::Fresh(effect) => {
                let write = WriteDocuments::new(rules::changes(found.as_ref(), effect)?);
                Some(under_claim(write, &new.name, new.fence.as_ref()))
            }
            BegunEffect::Finished(_) | BegunEffect::InDoubt(_) => None,
        };
        Ok(((answer, found), write))
    }

    /// Changes an effect as `decide` says, which returns none if nothing changes.
    async fn change(
        &self,
        name: &EffectName,
        fence: Option<&Fence>,
        decide: impl Fn(&Effect) -> Result<Option<(Effect, Option<NewEvent>)>> + Send + Sync,
    ) -> Result<Effect> {
        let decide = &decide;
        let plan = || async move {
            let found = self.load_effect(name).await?;
            let found = found.ok_or_else(|| Error::not_found("effect", name.to_string()))?;
            let Some((effect, audit)) = decide(&found)? else { return Ok(((found.clone(), found), None)) };
            let write = write_of(rules::changes(Some(&found), &effect)?, audit.into_iter().collect());
            Ok(((found, effect), Some(under_claim(write, name, fence))))
        };
        let ((found, effect), written) = plan_and_write(&*self.store.documents, plan).await?;
        Ok(match written {
            Some(written) => as_written(effect, Some(&found), &written),
            None => found,
        })
    }

    /// Loads the effects of entries of the order; none where there is none.
    pub(super) async fn load_of_entries(&self, entries: &[Document]) -> Result<Vec<Option<Effect>>> {
        let names = entries.iter().map(|entry| rules::document_of(&rules::name_of_entry(entry)?));
        let names: Vec<_> = names.collect::<Result<_>>()?;
        let documents = load_in_parts(&*self.store.documents, &names).await?;
        documents.iter().map(|document| document.as_ref().map(Effect::from_document).transpose()).collect()
    }
}

/// Adds the claim under which a write about an effect is made.
fn under_claim(write: WriteDocuments, name: &EffectName, fence: Option<&Fence>) -> WriteDocuments {
    match fence {
        Some(fence) => write.fenced(name.thread().clone(), fence.clone()),
        None => write,
    }
}

/// Returns an effect with what the store gave it when it was written over what was found.
fn as_written(effect: Effect, found: Option<&Effect>, written: &WrittenDocuments) -> Effect {
    Effect {
        revision: written.revision.unwrap_or_default(),
        created_at: found.map_or(written.time, |found| found.created_at),
        updated_at: found.map_or(written.time, |found| written.time.max(found.updated_at)),
        ..effect
    }
}

#[async_trait]
impl EffectStore for EffectLayer {
    async fn begin_effect(&self, new: NewEffect) -> Result<BegunEffect> {
        let idempotency_key = IdempotencyKey::new(UuidSource.next_id())?;
        let generated = Generated { idempotency_key, begun_by: UuidSource.next_id() };
        match plan_and_write(&*self.store.documents, || self.plan_begin(&new, &generated)).await {
            Ok(((BegunEffect::Fresh(effect), found), Some(written))) => {
                Ok(BegunEffect::Fresh(as_written(effect, found.as_ref(), &written)))
            }
            Ok(((answer, _), _)) => Ok(answer),
            // If the write took effect, this caller is the one that was told that the effect is new.
            Err(error) if error.outcome() == Outcome::Unknown => match self.load_effect(&new.name).await {
                Ok(Some(found)) if found.begun_by == generated.begun_by => Ok(BegunEffect::Fresh(found)),
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    async fn end_effect(&self, request: EndEffect) -> Result<Effect> {
        let decide = |effect: &Effect| Ok(rules::plan_end(effect, &request)?.map(|ended| (ended, None)));
        self.change(&request.name, request.fence.as_ref(), decide).await
    }

    async fn resolve_effect(&self, request: ResolveEffect) -> Result<Effect> {
        let decide = |effect: &Effect| rules::plan_resolution(effect, &request);
        self.change(&request.name, request.fence.as_ref(), decide).await
    }

    async fn load_effect(&self, name: &EffectName) -> Result<Option<Effect>> {
        let document = self.store.documents.load_document(&rules::document_of(name)?).await?;
        document.as_ref().map(Effect::from_document).transpose()
    }

    async fn list_effects(&self, query: EffectQuery) -> Result<Page<Effect>> {
        let limit = query.page.checked_limit()?;
        let (first, mut cursor) = query.page.cursor.as_ref().map_or(Ok((Group::Open, None)), decode_cursor)?;
        let mut items = Vec::new();
        for group in Group::ALL.into_iter().filter(|group| *group >= first && group.has_status_of(&query)) {
            let left = u32::try_from(limit - items.len()).unwrap_or_default();
            if left == 0 {
                return Ok(Page { items, next: Some(encode_cursor(group, None)) });
            }
            let page = PageRequest { limit: Some(left), cursor: cursor.take() };
            let entries = self.store.documents.list_documents(group.query(&query.owner)?.with_page(page)).await?;
            let effects = self.load_of_entries(&entries.items).await?.into_iter().flatten();
            // What has changed its group since the entries were read is listed in the other group. The entry of a
            // deleted thread may be older than the effect.
            let belongs = |effect: &Effect| Group::of(effect.status) == group && query.has_status(effect.status);
            items.extend(effects.filter(belongs));
            if let Some(next) = entries.next {
                return Ok(Page { items, next: Some(encode_cursor(group, Some(&next))) });
            }
        }
        Ok(Page { items, next: None })
    }

    async fn purge_effects(
        &self,
        request: PurgeEffects,
        runs: &dyn RunReader,
        progress: &dyn Progress,
    ) -> Result<PurgedEffects> {
        self.purge(request, runs, progress).await
    }
}

/// Returns the cursor that continues in a group, after a position of its entries; at its beginning if there is none.
fn encode_cursor(group: Group, position: Option<&Cursor>) -> Cursor {
    Cursor::from_text(format!("{}.{}", group.number(), position.map_or("", Cursor::as_str)))
}

/// Reads a cursor. The position in the group is checked when it is used.
fn decode_cursor(cursor: &Cursor) -> Result<(Group, Option<Cursor>)> {
    let malformed = || Error::invalid_cursor("it is malformed");
    let (number, position) = cursor.as_str().split_once('.').ok_or_else(malformed)?;
    let group = Group::ALL.into_iter().find(|group| group.number().to_string() == number).ok_or_else(malformed)?;
    Ok((group, (!position.is_empty()).then(|| Cursor::from_text(position))))
}

#[cfg(test)]
mod tests {
    use super::{Group, decode_cursor, encode_cursor};
    use crate::{Cursor, ErrorKind};

    #[test]
    fn a_cursor_names_its_group() {
        for group in Group::ALL {
            for position in [None, Some(Cursor::from_text("a.b"))] {
                let cursor = encode_cursor(group, position.as_ref());
                assert_eq!(decode_cursor(&cursor).unwrap(), (group, position));
            }
        }
        for text in ["", "1", "3.", "01.", "x.y", ".", "-1.a"] {
            let error = decode_cursor(&Cursor::from_text(text)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{text:?}");
        }
    }
}
