//! Effects with planted bugs that change the calls of the layer and their answers.

use async_trait::async_trait;
use store_core::{
    BegunEffect, Cursor, DocumentExpect, Effect, EffectEnd, EffectLayer, EffectName, EffectOwner, EffectQuery,
    EffectStore, EndEffect, ErrorKind, Json, NewEffect, Page, PageRequest, Progress, PurgeEffects, PurgedEffects,
    Resolution, ResolveEffect, Result, Run, RunFilter, RunId, RunQuery, RunReader, Timestamp,
};

use super::LayerBug;

/// Effects with a planted bug.
pub(super) struct BuggyEffects {
    inner: EffectLayer,
    bug: LayerBug,
}

impl BuggyEffects {
    pub(super) const fn new(inner: EffectLayer, bug: LayerBug) -> Self {
        Self { inner, bug }
    }

    /// Changes a request to begin an effect as the bug does.
    async fn change_begin(&self, new: &mut NewEffect) -> Result<()> {
        match self.bug {
            LayerBug::EffectStepForgotten => new.intent.step = None,
            LayerBug::EffectKeysRepeat => new.intent.idempotency_key = Some("always".parse()?),
            LayerBug::EffectKeyReplaced => new.intent.idempotency_key = None,
            LayerBug::EffectFenceForgotten => new.fence = None,
            LayerBug::EffectIntentIgnored => {
                if let Some(found) = self.inner.load_effect(&new.name).await? {
                    (new.intent.kind, new.intent.value) = (found.kind, found.intent);
                    new.intent.idempotency_key = None;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes a request to end an effect as the bug does.
    async fn change_end(&self, request: &mut EndEffect) -> Result<()> {
        match (self.bug, &request.end) {
            (LayerBug::EffectOutcomeForgotten, EffectEnd::Done(_)) => request.end = EffectEnd::Done(Json::null()),
            (LayerBug::EffectUnknownIsRetried, EffectEnd::Unknown(_)) => request.end = EffectEnd::Retry,
            (LayerBug::EffectRetryIsUnknown, EffectEnd::Retry) => request.end = EffectEnd::Unknown("retry".to_owned()),
            (LayerBug::EffectEndUnfenced, _) => request.fence = None,
            (LayerBug::EffectAttemptIgnored, _) => {
                if let Some(found) = self.inner.load_effect(&request.name).await? {
                    request.attempt = found.attempt;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the effect instead of the error that says that it has ended.
    async fn without_transition_error(&self, name: &EffectName, answer: Result<Effect>) -> Result<Effect> {
        match answer {
            Err(error) if error.kind() == ErrorKind::InvalidTransition => {
                self.inner.load_effect(name).await?.ok_or(error)
            }
            answer => answer,
        }
    }
}

#[async_trait]
impl EffectStore for BuggyEffects {
    async fn begin_effect(&self, mut new: NewEffect) -> Result<BegunEffect> {
        self.change_begin(&mut new).await?;
        let mut answer = self.inner.begin_effect(new.clone()).await;
        if self.bug == LayerBug::EffectBegunWithoutClaim && answer.is_err() && new.fence.take().is_some() {
            answer = self.inner.begin_effect(new).await;
        }
        Ok(match (self.bug, answer?) {
            (LayerBug::EffectInDoubtIsNew, BegunEffect::InDoubt(effect)) => BegunEffect::Fresh(effect),
            (LayerBug::EffectFinishedIsInDoubt, BegunEffect::Finished(effect)) => BegunEffect::InDoubt(effect),
            (_, answer) => answer,
        })
    }

    async fn end_effect(&self, mut request: EndEffect) -> Result<Effect> {
        self.change_end(&mut request).await?;
        let name = request.name.clone();
        if self.bug == LayerBug::EffectEndNotRepeatable
            && let Some(found) = self.inner.load_effect(&name).await?
            && found.status == request.end.status()
        {
            return Err(store_core::Error::invalid_transition("effect", name.to_string(), "ended", "ended"));
        }
        let answer = self.inner.end_effect(request).await;
        if self.bug == LayerBug::EffectOtherOutcomeAccepted {
            return self.without_transition_error(&name, answer).await;
        }
        answer
    }

    async fn resolve_effect(&self, mut request: ResolveEffect) -> Result<Effect> {
        match (self.bug, &request.resolution) {
            (LayerBug::EffectFailureIsDone, Resolution::Failed(outcome)) => {
                request.resolution = Resolution::Done(outcome.clone());
            }
            (LayerBug::EffectResolutionUnguarded, _) => request.expect = DocumentExpect::Any,
            (LayerBug::EffectAuditForgotten, _) => request.audit = None,
            _ => {}
        }
        let name = request.name.clone();
        let answer = self.inner.resolve_effect(request).await;
        if self.bug == LayerBug::EffectResolvedAgain {
            return self.without_transition_error(&name, answer).await;
        }
        answer
    }

    async fn load_effect(&self, name: &EffectName) -> Result<Option<Effect>> {
        self.inner.load_effect(name).await
    }

    async fn list_effects(&self, mut query: EffectQuery) -> Result<Page<Effect>> {
        match (self.bug, &query.owner) {
            (LayerBug::EffectStatusFilterIgnored, _) => query.statuses = None,
            (LayerBug::EffectRunFilterIgnored, EffectOwner::Run(thread, _)) => {
                query.owner = EffectOwner::Thread(thread.clone());
            }
            _ => {}
        }
        let limit = query.page.limit;
        let page = match self.inner.list_effects(query.clone()).await {
            Err(error) if self.bug == LayerBug::EffectCursorUnbound && error.kind() == ErrorKind::InvalidCursor => {
                self.inner.list_effects(query.with_page(PageRequest { limit, cursor: None })).await
            }
            answer => answer,
        };
        let mut page: Page<Effect> = page?;
        match self.bug {
            LayerBug::EffectsReversed => page.items.reverse(),
            LayerBug::EffectWalkWithoutEnded => {
                page.next = page.next.filter(|next: &Cursor| !next.as_str().starts_with("2."));
            }
            _ => {}
        }
        Ok(page)
    }

    async fn purge_effects(
        &self,
        mut request: PurgeEffects,
        runs: &dyn RunReader,
        progress: &dyn Progress,
    ) -> Result<PurgedEffects> {
        match self.bug {
            LayerBug::EffectPurgeIgnoresTime => request.before = far_future()?,
            LayerBug::EffectDryPurgeRemoves => request.dry_run = false,
            LayerBug::EffectPurgeIgnoresRuns => return self.inner.purge_effects(request, &NoRuns, progress).await,
            LayerBug::EffectPurgeTakesDoubts => {
                let query = EffectQuery::default().in_doubt().with_page(PageRequest::first(store_core::MAX_PAGE));
                for effect in self.inner.list_effects(query).await?.items {
                    let failed = ResolveEffect::new(effect.name, Resolution::Failed(Json::null()));
                    self.inner.resolve_effect(failed).await?;
                }
                request.before = far_future()?;
            }
            _ => {}
        }
        self.inner.purge_effects(request, runs, progress).await
    }
}

fn far_future() -> Result<Timestamp> {
    Timestamp::from_millis(4_000_000_000_000)
}

/// Runs of which none exists.
struct NoRuns;

#[async_trait]
impl RunReader for NoRuns {
    async fn load_run(&self, _: &RunId) -> Result<Option<Run>> {
        Ok(None)
    }

    async fn list_runs(&self, _: RunQuery) -> Result<Page<Run>> {
        Ok(Page::empty())
    }

    async fn count_runs(&self, _: &RunFilter) -> Result<u64> {
        Ok(0)
    }
}
