//! What an attempt does to the world outside of the store (EF-7).

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    BegunEffect, DocumentExpect, Effect, EffectEnd, EffectId, EffectIntent, EffectKind, EffectLayer, EffectName,
    EffectOwner, EffectQuery, EffectStatus, EffectStore, EndEffect, Error, LayerStore, MAX_PAGE, NewEffect, Outcome,
    PageRequest, Resolution, ResolveEffect, Result,
};
use tokio::time::sleep;

use super::{Failure, Verdict, Work};
use crate::Backoff;
use crate::options::unsupported;

/// The delays after which an outcome that was not recorded is recorded again.
const END_BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
/// How often an outcome that was not recorded is recorded again.
const MAX_END_RETRIES: u32 = 6;
/// How long a dispatch waits whose effects could not be read because the store was unavailable.
const UNAVAILABLE_SNOOZE: Duration = Duration::from_secs(1);

/// Asks the world outside of the store whether an effect happened. Any
/// `Fn(Effect) -> impl Future<Output = Result<Option<Resolution>, Failure>>` is a reconciler.
///
/// ```
/// use agentstore::{Effect, Failure, Json, Resolution, Worker};
///
/// # struct Bank;
/// # impl Bank { async fn find(&self, _key: &str) -> Result<Option<u32>, std::io::Error> { Ok(None) } }
/// fn with_payments(worker: Worker, bank: &'static Bank) -> agentstore::Result<Worker> {
///     Ok(worker.with_reconciler("payment".parse()?, async move |effect: Effect| {
///         Ok::<_, Failure>(match bank.find(effect.idempotency_key.as_str()).await? {
///             Some(receipt) => Some(Resolution::Done(Json::of(&receipt)?)),
///             None => Some(Resolution::Retry),
///         })
///     }))
/// }
/// ```
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Returns how the doubt ends; none if that cannot be found out now.
    ///
    /// # Errors
    /// Any error of asking. The attempt then fails before its handler is called.
    async fn reconcile(&self, effect: Effect) -> Result<Option<Resolution>, Failure>;
}

#[async_trait]
impl<F, R> Reconciler for F
where
    F: Fn(Effect) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Option<Resolution>, Failure>> + Send,
{
    async fn reconcile(&self, effect: Effect) -> Result<Option<Resolution>, Failure> {
        self(effect).await
    }
}

/// The reconcilers of a worker, by the kind of their effects.
#[derive(Clone, Default)]
pub(super) struct Reconcilers {
    by_kind: BTreeMap<EffectKind, Arc<dyn Reconciler>>,
}

impl Reconcilers {
    pub(super) fn set(&mut self, kind: EffectKind, reconciler: Arc<dyn Reconciler>) {
        self.by_kind.insert(kind, reconciler);
    }
}

impl fmt::Debug for Reconcilers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_kind.keys()).finish()
    }
}

impl Work {
    /// Returns the effects of the tenant. What is written through this handle is written under the claim, and only
    /// about effects of the thread of the dispatch.
    ///
    /// # Errors
    /// `Unsupported` if the store keeps no threads or no documents.
    pub fn effects(&self) -> Result<Arc<dyn EffectStore>> {
        let commits = self.commits()?;
        let documents = commits.documents().ok_or_else(|| unsupported("effects without documents"))?;
        Ok(Arc::new(EffectLayer::new(LayerStore { documents, events: commits.events() })))
    }

    /// Returns the effects of the run that were in doubt when this attempt began, and that have not been resolved
    /// through this work since. No reconciler of the worker could resolve them.
    #[must_use]
    pub fn effects_in_doubt(&self) -> Vec<Effect> {
        self.doubts().clone()
    }

    /// Begins an effect of the run of this dispatch, under the claim, and returns whether this attempt is to perform
    /// it (EF-1). [`perform`](Self::perform) does that, too.
    ///
    /// `id` is the same in every attempt, for example the id of a tool call. Say how the effect ended with
    /// [`end_effect`](Self::end_effect), or with [`end_changes`](store_core::end_changes) in the commit that carries
    /// its result.
    ///
    /// # Errors
    /// `InvalidTransition` if the effect would be new while another one of the run is in doubt since an earlier
    /// attempt; `LimitExceeded` for an id of more than 128 bytes; `Unsupported` if the store has no documents;
    /// otherwise as [`EffectStore::begin_effect`].
    pub async fn effect(&self, id: EffectId, intent: EffectIntent) -> Result<BegunEffect> {
        let (effects, name) = (self.effects()?, self.effect_name(id)?);
        if let Some(doubt) = self.doubt_besides(&*effects, &name).await? {
            let found = effects.load_effect(&name).await?;
            // What was begun before is told, because nothing is performed then.
            if found.is_none_or(|found| found.status == EffectStatus::Retry) {
                let error = Error::invalid_transition("effect", name.to_string(), "not begun", "begun");
                return Err(error.with_source(format!("effect {doubt} of the run is in doubt: resolve it first")));
            }
        }
        effects.begin_effect(NewEffect::new(name, intent).fenced(self.fence())).await
    }

    /// Records under the claim how an effect ended that this attempt has begun. Returns the effect.
    ///
    /// # Errors
    /// As [`EffectStore::end_effect`].
    pub async fn end_effect(&self, effect: &Effect, end: EffectEnd) -> Result<Effect> {
        let request = EndEffect::new(effect.name.clone(), effect.attempt, end).fenced(self.fence());
        let ended = self.effects()?.end_effect(request).await?;
        self.forget_doubt(&ended);
        Ok(ended)
    }

    /// Ends the doubt about an effect, under the claim, if the effect is still as it is given here. Returns the effect.
    ///
    /// # Errors
    /// As [`EffectStore::resolve_effect`].
    pub async fn resolve_effect(&self, effect: &Effect, resolution: Resolution) -> Result<Effect> {
        let request = ResolveEffect::new(effect.name.clone(), resolution);
        let request = request.expecting(DocumentExpect::Revision(effect.revision)).fenced(self.fence());
        let resolved = self.effects()?.resolve_effect(request).await?;
        self.forget_doubt(&resolved);
        Ok(resolved)
    }

    /// Performs an effect of the run of this dispatch once: begins it, calls `act` if it is new, and records how it
    /// ended. Returns the effect with its outcome, which may come from an earlier attempt.
    ///
    /// `act` gets the effect with its idempotency key, and returns what it knows. If it fails, is aborted or is killed
    /// with its process, the effect is in doubt. So it returns [`EffectEnd::Retry`] if it knows that nothing happened.
    ///
    /// ```
    /// use agentstore::{Effect, EffectEnd, EffectIntent, Failure, Json, Work};
    ///
    /// # async fn charge(_key: &str) -> Result<u32, std::io::Error> { Ok(7) }
    /// async fn pay(work: &Work) -> Result<Effect, Failure> {
    ///     let intent = EffectIntent::new("payment".parse()?, Json::parse(r#"{"cents":500}"#)?);
    ///     work.perform("charge".parse()?, intent, async |effect: Effect| {
    ///         let receipt = charge(effect.idempotency_key.as_str()).await?;
    ///         Ok(EffectEnd::Done(Json::of(&receipt)?))
    ///     })
    ///     .await
    /// }
    /// ```
    ///
    /// # Errors
    /// The failure of `act`; a failure if the effect is in doubt, or has no outcome yet; the errors of
    /// [`effect`](Self::effect) and of [`end_effect`](Self::end_effect).
    pub async fn perform<F, R>(&self, id: EffectId, intent: EffectIntent, act: F) -> Result<Effect, Failure>
    where
        F: FnOnce(Effect) -> R + Send,
        R: Future<Output = Result<EffectEnd, Failure>> + Send,
    {
        let effect = match self.effect(id, intent).await? {
            BegunEffect::Fresh(effect) => effect,
            BegunEffect::Finished(effect) => return Ok(effect),
            BegunEffect::InDoubt(effect) => return Err(without_outcome(&effect)),
        };
        match act(effect.clone()).await {
            Ok(end) => {
                let ended = self.end_with_retries(&effect, end).await?;
                if ended.status.is_ended() { Ok(ended) } else { Err(without_outcome(&ended)) }
            }
            Err(failure) => {
                // If this is not recorded, the effect is in doubt all the same.
                let unknown = EffectEnd::Unknown(failure.text_with_causes());
                if let Err(error) = self.end_effect(&effect, unknown).await {
                    tracing::warn!(%error, "it was not recorded why an effect is in doubt");
                }
                Err(failure)
            }
        }
    }

    /// Records how an effect ended, and tries again for a while if the store does not answer: an outcome that is not
    /// recorded leaves the effect in doubt.
    async fn end_with_retries(&self, effect: &Effect, end: EffectEnd) -> Result<Effect> {
        let mut failures = 0;
        loop {
            match self.end_effect(effect, end.clone()).await {
                Err(error)
                    if failures < MAX_END_RETRIES
                        && (error.is_retryable() || error.outcome() == Outcome::Unknown)
                        && !self.cancellation().is_cancelled() =>
                {
                    failures += 1;
                    sleep(END_BACKOFF.delay(failures)).await;
                }
                answer => return answer,
            }
        }
    }

    /// Loads the effects of the run that are in doubt, and lets the reconciler of their kind resolve them. The others
    /// are handed to the handler.
    pub(super) async fn meet_effects_in_doubt(&self, reconcilers: &Reconcilers) -> Result<(), Failure> {
        let Ok(effects) = self.effects() else { return Ok(()) };
        let owner = EffectOwner::Run(self.dispatch().thread.clone(), self.dispatch().run.clone());
        let (query, mut next) = (EffectQuery::of(owner).in_doubt(), Some(PageRequest::first(MAX_PAGE)));
        let mut found = Vec::new();
        while let Some(request) = next.take() {
            let page = effects.list_effects(query.clone().with_page(request)).await.map_err(store_failure)?;
            found.extend(page.items);
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
        for effect in found {
            let resolution = match reconcilers.by_kind.get(&effect.kind) {
                Some(reconciler) => reconciler.reconcile(effect.clone()).await?,
                None => None,
            };
            match resolution {
                Some(resolution) => {
                    let _resolved = self.resolve_effect(&effect, resolution).await.map_err(store_failure)?;
                }
                None => {
                    tracing::warn!(effect = %effect.name, kind = %effect.kind, "an effect is in doubt");
                    self.doubts().push(effect);
                }
            }
        }
        Ok(())
    }

    fn effect_name(&self, id: EffectId) -> Result<EffectName> {
        EffectName::new(self.dispatch().thread.clone(), self.dispatch().run.clone(), id)
    }

    /// Returns the name of an effect that is in doubt since an earlier attempt, other than `name`.
    async fn doubt_besides(&self, effects: &dyn EffectStore, name: &EffectName) -> Result<Option<EffectName>> {
        for doubt in self.effects_in_doubt().into_iter().filter(|doubt| doubt.name != *name) {
            // It may have been resolved by hand meanwhile.
            match effects.load_effect(&doubt.name).await? {
                Some(found) if found.status.is_in_doubt() => return Ok(Some(found.name)),
                _ => self.doubts().retain(|other| other.name != doubt.name),
            }
        }
        Ok(None)
    }

    fn forget_doubt(&self, effect: &Effect) {
        if !effect.status.is_in_doubt() {
            self.doubts().retain(|doubt| doubt.name != effect.name);
        }
    }
}

/// Returns the failure of an attempt whose store failed before the handler was called. An unavailable store is no
/// failure of the work, so it uses up no attempt.
fn store_failure(error: Error) -> Failure {
    let is_retryable = error.is_retryable();
    let failure = Failure::new(error);
    if is_retryable { failure.with_verdict(Verdict::Snooze(UNAVAILABLE_SNOOZE)) } else { failure }
}

/// Returns the failure of an attempt that needs the outcome of an effect and does not get it.
fn without_outcome(effect: &Effect) -> Failure {
    let Effect { name, status, .. } = effect;
    Failure::new(Error::invalid_transition("effect", name.to_string(), status.name(), "performed"))
}
