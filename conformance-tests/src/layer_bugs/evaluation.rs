//! Evaluation runs with planted bugs.

use async_trait::async_trait;
use store_core::{
    DatasetLayer, DatasetStore, DeleteDocuments, DocumentQuery, DocumentStoreExt, Error, ErrorKind, Evaluation,
    EvaluationEnd, EvaluationId, EvaluationLayer, EvaluationReader, EvaluationResult, EvaluationWriter, IgnoreProgress,
    Json, MissingResult, NewEvaluation, NewResult, Page, PageRequest, Progress, PurgeEvaluations, PurgedEvaluations,
    Result, ResultKey, ResultQuery, layers::LayerStore,
};

use super::LayerBug;

/// Evaluation runs with a planted bug.
pub(super) struct BuggyEvaluations {
    inner: EvaluationLayer,
    layers: LayerStore,
    bug: LayerBug,
}

impl BuggyEvaluations {
    pub(super) const fn new(inner: EvaluationLayer, layers: LayerStore, bug: LayerBug) -> Self {
        Self { inner, layers, bug }
    }

    /// Loads what an `AlreadyExists` or an `InvalidTransition` is about.
    async fn found(&self, id: &EvaluationId, error: Error) -> Result<Evaluation> {
        self.inner.load_evaluation(id).await?.ok_or(error)
    }

    /// Removes everything that a layer keeps in a collection.
    async fn clear(&self, collection: &str) -> Result<()> {
        let all = DeleteDocuments::new(DocumentQuery::new(collection.parse()?));
        self.layers.documents.delete_documents(all, &IgnoreProgress).await.map(drop)
    }

    /// Changes a result that is recorded as the bug does.
    async fn change_result(&self, id: &EvaluationId, new: &mut NewResult) -> Result<()> {
        match self.bug {
            LayerBug::ResultOutputForgotten => new.output = None,
            LayerBug::ResultScoreForgotten => new.score = None,
            LayerBug::ResultNotRepeatable if self.inner.load_result(id, &new.key).await?.is_some() => {
                return Err(Error::already_exists("result", new.key.to_string()));
            }
            LayerBug::ResultOfAnyCell => {
                if let Some(found) = self.inner.load_evaluation(id).await?
                    && found.cells.iter().all(|cell| cell.name != new.key.cell)
                {
                    new.key.cell = found.cells[0].name.clone();
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[async_trait]
impl EvaluationReader for BuggyEvaluations {
    async fn load_evaluation(&self, id: &EvaluationId) -> Result<Option<Evaluation>> {
        let mut found = self.inner.load_evaluation(id).await?;
        if self.bug == LayerBug::EvaluationFollowsTheDataset
            && let Some(found) = &mut found
            && let Some(dataset) = DatasetLayer::new(self.layers.clone()).load_dataset(&found.dataset.dataset).await?
        {
            found.dataset = dataset.current();
        }
        Ok(found)
    }

    async fn list_evaluations(&self, page: PageRequest) -> Result<Page<Evaluation>> {
        self.inner.list_evaluations(page).await
    }

    async fn list_missing(&self, id: &EvaluationId, page: PageRequest) -> Result<Page<MissingResult>> {
        let mut missing = match self.inner.list_missing(id, page.clone()).await {
            Err(error) if self.bug == LayerBug::MissingCursorUnbound && error.kind() == ErrorKind::InvalidCursor => {
                self.inner.list_missing(id, PageRequest { cursor: None, ..page }).await?
            }
            answer => answer?,
        };
        match self.bug {
            LayerBug::MissingResultsReversed => missing.items.reverse(),
            LayerBug::MissingResultsEndEarly if missing.items.is_empty() => missing.next = None,
            _ => {}
        }
        Ok(missing)
    }

    async fn load_result(&self, id: &EvaluationId, key: &ResultKey) -> Result<Option<EvaluationResult>> {
        self.inner.load_result(id, key).await
    }

    async fn load_output(&self, id: &EvaluationId, key: &ResultKey) -> Result<Option<Json>> {
        self.inner.load_output(id, key).await
    }

    async fn list_results(&self, mut query: ResultQuery) -> Result<Page<EvaluationResult>> {
        if self.bug == LayerBug::ResultsAfterTheCase
            && let Some((_, cell)) = &mut query.after
        {
            // No cell of a case comes after it.
            *cell = "z".parse()?;
        }
        let mut page = self.inner.list_results(query).await?;
        match self.bug {
            LayerBug::FailedResultsNotListed => page.items.retain(|result| !result.is_failed()),
            LayerBug::ResultCaseForgotten => {
                page.items.iter_mut().for_each(|result| result.content.case_hash.clear());
            }
            _ => {}
        }
        Ok(page)
    }
}

#[async_trait]
impl EvaluationWriter for BuggyEvaluations {
    async fn create_evaluation(&self, mut new: NewEvaluation) -> Result<Evaluation> {
        let id = new.id.clone();
        match self.bug {
            LayerBug::EvaluationMetadataForgotten => new.metadata = None,
            LayerBug::EvaluationManifestUnchecked => new.manifest = None,
            LayerBug::EvaluationCreatedOnce if self.inner.load_evaluation(&id).await?.is_some() => {
                return Err(Error::already_exists("evaluation", &id));
            }
            _ => {}
        }
        match self.inner.create_evaluation(new).await {
            Err(error) if self.bug == LayerBug::OtherEvaluationAccepted && error.kind() == ErrorKind::AlreadyExists => {
                self.found(&id, error).await
            }
            answer => answer,
        }
    }

    async fn record_result(&self, id: &EvaluationId, mut new: NewResult) -> Result<EvaluationResult> {
        self.change_result(id, &mut new).await?;
        let key = new.key.clone();
        match self.inner.record_result(id, new).await {
            Err(error) if self.bug == LayerBug::OtherResultAccepted && error.kind() == ErrorKind::AlreadyExists => {
                self.inner.load_result(id, &key).await?.ok_or(error)
            }
            answer => answer,
        }
    }

    async fn end_evaluation(&self, id: &EvaluationId, end: EvaluationEnd) -> Result<Evaluation> {
        if self.bug == LayerBug::EvaluationEndForgotten && end == EvaluationEnd::Abandoned {
            return self.found(id, Error::not_found("evaluation", id)).await;
        }
        match self.inner.end_evaluation(id, end).await {
            Err(error) if error.kind() == ErrorKind::InvalidTransition => match self.bug {
                LayerBug::OtherEvaluationEndAccepted => self.found(id, error).await,
                LayerBug::EvaluationCompletedEarly => {
                    let mut found = self.found(id, error).await?;
                    found.status = end.status();
                    Ok(found)
                }
                _ => Err(error),
            },
            answer => answer,
        }
    }

    async fn pin_evaluation(&self, id: &EvaluationId, pinned: bool) -> Result<Evaluation> {
        if self.bug == LayerBug::EvaluationPinForgotten {
            let mut found = self.found(id, Error::not_found("evaluation", id)).await?;
            found.pinned = pinned;
            return Ok(found);
        }
        self.inner.pin_evaluation(id, pinned).await
    }

    async fn purge_evaluations(
        &self,
        mut request: PurgeEvaluations,
        progress: &dyn Progress,
    ) -> Result<PurgedEvaluations> {
        match self.bug {
            LayerBug::EvaluationAgeIgnored => request.before = None,
            LayerBug::NewestEvaluationsRemoved => request.keep_newest = 0,
            LayerBug::EvaluationDryPurgeRemoves => request.dry_run = false,
            LayerBug::EvaluationPurgeTakesCases => self.clear("layer.datasets.cases").await?,
            LayerBug::EvaluationPurgeNotStopped => return self.inner.purge_evaluations(request, &IgnoreProgress).await,
            _ => {}
        }
        self.inner.purge_evaluations(request, progress).await
    }
}
