//! Datasets with planted bugs.

use std::time::Duration;

use async_trait::async_trait;
use store_core::{
    CaseChange, CaseContent, CaseId, ChangeDataset, ChangedDataset, Dataset, DatasetCase, DatasetId, DatasetLayer,
    DatasetStore, DatasetVersion, DatasetVersionRef, DocumentChange, DocumentQuery, Error, ErrorKind, Json, Page,
    PageRequest, Result, TenantStores, Version, WriteDocuments,
};

use super::LayerBug;

/// Datasets with a planted bug.
pub(super) struct BuggyDatasets {
    inner: DatasetLayer,
    stores: TenantStores,
    bug: LayerBug,
}

impl BuggyDatasets {
    pub(super) const fn new(inner: DatasetLayer, stores: TenantStores, bug: LayerBug) -> Self {
        Self { inner, stores, bug }
    }

    /// Returns the name of a dataset as the bug changes it.
    fn dataset(&self, dataset: &DatasetId) -> Result<DatasetId> {
        if self.bug == LayerBug::DatasetsMerged { "all".parse() } else { Ok(dataset.clone()) }
    }

    fn version(&self, version: &DatasetVersionRef) -> Result<DatasetVersionRef> {
        Ok(DatasetVersionRef::new(self.dataset(&version.dataset)?, version.version))
    }

    /// Changes the content of a case as the bug does.
    fn change_content(&self, content: &mut CaseContent) {
        match self.bug {
            LayerBug::CaseExpectationForgotten => content.expectation = None,
            LayerBug::CaseToolResultsForgotten => content.tool_results.clear(),
            _ => {}
        }
    }

    fn change_cases(&self, changes: &mut [CaseChange]) {
        for change in changes {
            match change {
                CaseChange::Add(_, content) | CaseChange::Replace(_, content) | CaseChange::Put(_, content) => {
                    self.change_content(content);
                }
                CaseChange::Remove(case) if self.bug == LayerBug::RemovedCaseIsNull => {
                    *change = CaseChange::Replace(case.clone(), CaseContent::new(Json::null()));
                }
                CaseChange::Remove(_) => {}
            }
        }
    }

    /// Checks the expected version, and waits.
    async fn check_early(&self, request: &mut ChangeDataset) -> Result<()> {
        let Some(expected) = request.expect_version.take() else { return Ok(()) };
        let actual = self.inner.load_dataset(&request.dataset).await?.map_or(0, |dataset| dataset.version);
        if expected != actual {
            let version = |number| Some(Version::new(number, 1, 0));
            return Err(Error::conflict("the dataset's version", version(expected), version(actual)));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(())
    }

    /// Writes the rows of all cases again.
    async fn rewrite(&self) -> Result<()> {
        let Some(documents) = &self.stores.documents else { return Ok(()) };
        let all = DocumentQuery::new("layer.datasets.cases".parse()?);
        let found = documents.list_documents(all.with_page(PageRequest::first(store_core::MAX_PAGE))).await?;
        let puts = found.items.iter().map(|row| DocumentChange::put(row.to_ref(), row.value.clone()));
        documents.write_documents(WriteDocuments::new(puts)).await.map(drop)
    }

    /// Returns the current version of the same dataset.
    async fn current(&self, version: &DatasetVersionRef) -> Result<DatasetVersionRef> {
        let dataset = self.inner.load_dataset(&version.dataset).await?;
        Ok(dataset.map_or_else(|| version.clone(), |dataset| dataset.current()))
    }

    async fn has_run(&self, case: &DatasetCase) -> Result<bool> {
        match (&case.content.origin, &self.stores.threads) {
            (Some(origin), Some(threads)) => Ok(threads.load_run(&origin.run).await?.is_some()),
            _ => Ok(true),
        }
    }
}

#[async_trait]
impl DatasetStore for BuggyDatasets {
    async fn change_dataset(&self, mut request: ChangeDataset) -> Result<ChangedDataset> {
        request.dataset = self.dataset(&request.dataset)?;
        self.change_cases(&mut request.changes);
        match self.bug {
            LayerBug::DatasetExpectationIgnored => request.expect_version = None,
            LayerBug::DatasetExpectationCheckedEarly => self.check_early(&mut request).await?,
            LayerBug::DatasetChangesOneByOne => {
                for change in request.changes.iter().skip(1) {
                    self.inner.change_dataset(ChangeDataset::new(request.dataset.clone(), [change.clone()])).await?;
                }
                request.changes.truncate(1);
            }
            _ => {}
        }
        let answer = self.inner.change_dataset(request.clone()).await;
        match self.bug {
            LayerBug::DatasetRewritten => self.rewrite().await?,
            LayerBug::RefusedDatasetChangeStays if answer.is_err() => {
                if let Some(first) = request.changes.first() {
                    self.inner.change_dataset(ChangeDataset::new(request.dataset, [first.clone()])).await?;
                }
            }
            _ => {}
        }
        let mut changed = answer?;
        if self.bug == LayerBug::UnchangedDatasetHasAVersion && !changed.created {
            changed.version.version += 1;
            changed.created = true;
        }
        Ok(changed)
    }

    async fn load_dataset(&self, dataset: &DatasetId) -> Result<Option<Dataset>> {
        self.inner.load_dataset(&self.dataset(dataset)?).await
    }

    async fn list_datasets(&self, page: PageRequest) -> Result<Page<Dataset>> {
        let mut page = self.inner.list_datasets(page).await?;
        if self.bug == LayerBug::DatasetsReversed {
            page.items.reverse();
        }
        Ok(page)
    }

    async fn load_dataset_version(&self, version: &DatasetVersionRef) -> Result<Option<DatasetVersion>> {
        self.inner.load_dataset_version(&self.version(version)?).await
    }

    async fn list_dataset_versions(&self, dataset: &DatasetId, page: PageRequest) -> Result<Page<DatasetVersion>> {
        self.inner.list_dataset_versions(&self.dataset(dataset)?, page).await
    }

    async fn load_case(&self, version: &DatasetVersionRef, case: &CaseId) -> Result<Option<DatasetCase>> {
        let found = self.inner.load_case(&self.version(version)?, case).await?;
        match &found {
            Some(case) if self.bug == LayerBug::CaseGoesWithItsRun && !self.has_run(case).await? => Ok(None),
            _ => Ok(found),
        }
    }

    async fn list_cases(&self, version: &DatasetVersionRef, page: PageRequest) -> Result<Page<DatasetCase>> {
        let mut version = self.version(version)?;
        match self.bug {
            LayerBug::DatasetVersionIgnored => {
                // An unknown version is still refused.
                self.inner.list_cases(&version, page.clone()).await?;
                version = self.current(&version).await?;
            }
            LayerBug::DatasetWalkOfTheCurrent if page.cursor.is_some() => {
                let mut rest = self.inner.list_cases(&version, page).await?;
                let current = self.current(&version).await?;
                for case in &mut rest.items {
                    if let Some(found) = self.inner.load_case(&current, &case.id).await? {
                        *case = found;
                    }
                }
                return Ok(rest);
            }
            _ => {}
        }
        match self.inner.list_cases(&version, page.clone()).await {
            Err(error) if self.bug == LayerBug::CaseCursorUnbound && error.kind() == ErrorKind::InvalidCursor => {
                self.inner.list_cases(&version, PageRequest { cursor: None, ..page }).await
            }
            answer => answer,
        }
    }
}
