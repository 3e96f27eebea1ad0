//! The contracts of evaluation runs, and their implementation over documents.

use std::fmt;

use async_trait::async_trait;

use super::{
    keys::{self, OUTPUTS, RESULTS},
    record::{Evaluation, EvaluationResult, ResultKey},
    request::{
        EvaluationEnd, MissingResult, NewEvaluation, NewResult, PurgeEvaluations, PurgedEvaluations, ResultQuery,
    },
    rules,
};
use crate::{
    codec::sha256_hex,
    document::{DocumentExpect, DocumentRef, WriteDocuments, WrittenDocuments},
    error::{Error, Result},
    ext::DocumentStoreExt,
    id::{EvaluationId, PublicationId},
    layers::{
        LayerStore,
        dataset::{CaseRow, DatasetLayer, DatasetStore, DatasetVersion, DatasetVersionRef},
        load_in_parts, plan_and_write,
        registry::{ManifestChoice, RegistryLayer},
    },
    limits::length,
    page::{Cursor, MAX_PAGE, Page, PageRequest},
    progress::Progress,
};

/// Reads evaluation runs. [`EvaluationReaderExt`](super::EvaluationReaderExt) adds summaries and comparisons.
#[async_trait]
pub trait EvaluationReader: Send + Sync {
    /// Loads an evaluation run; none if it is unknown.
    ///
    /// # Errors
    /// Any error of reading documents.
    async fn load_evaluation(&self, id: &EvaluationId) -> Result<Option<Evaluation>>;

    /// Lists the evaluation runs by id, in pages.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list.
    async fn list_evaluations(&self, page: PageRequest) -> Result<Page<Evaluation>>;

    /// Lists the results that a run does not have yet, by case, cell and sample, in pages (TR-4).
    ///
    /// # Guarantees
    /// - A page looks at as many results as its limit, missing or not, and at no output. So a page can be shorter than
    ///   its limit, or empty, and not be the last one. A caller that continues after the cursor of a page does not
    ///   look at earlier results again.
    ///
    /// # Errors
    /// `NotFound` for an unknown run; `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list.
    async fn list_missing(&self, id: &EvaluationId, page: PageRequest) -> Result<Page<MissingResult>>;

    /// Loads a result without its output; none if it is missing.
    ///
    /// # Errors
    /// Any error of reading documents.
    async fn load_result(&self, id: &EvaluationId, key: &ResultKey) -> Result<Option<EvaluationResult>>;

    /// Loads the output of a result; none if the result is missing or has no output.
    ///
    /// # Errors
    /// Any error of reading documents.
    async fn load_output(&self, id: &EvaluationId, key: &ResultKey) -> Result<Option<crate::json::Json>>;

    /// Lists the results of a run without their outputs, by case, cell and sample, in pages. A run that is unknown has
    /// none.
    ///
    /// # Errors
    /// As [`list_evaluations`](Self::list_evaluations).
    async fn list_results(&self, query: ResultQuery) -> Result<Page<EvaluationResult>>;
}

/// Writes evaluation runs.
///
/// ```
/// use store_core::{
///     EvaluationEnd, EvaluationStore, Json, NewEvaluation, NewResult, PageRequest, Result,
/// };
///
/// /// Creates an evaluation run, or goes on where it stopped.
/// async fn evaluate(store: &dyn EvaluationStore, new: NewEvaluation) -> Result<()> {
///     let id = store.create_evaluation(new).await?.id;
///     let mut page = PageRequest::first(100);
///     loop {
///         let missing = store.list_missing(&id, page.clone()).await?;
///         for missing in missing.items {
///             let answer = ask_the_agent(&missing.key);
///             store.record_result(&id, NewResult::new(missing.key).with_output(answer)).await?;
///         }
///         let Some(next) = missing.next else { break };
///         page = page.after(next);
///     }
///     store.end_evaluation(&id, EvaluationEnd::Completed).await.map(drop)
/// }
/// # fn ask_the_agent(_: &store_core::ResultKey) -> Json { Json::null() }
/// ```
#[async_trait]
pub trait EvaluationWriter: Send + Sync {
    /// Creates an evaluation run, or returns the one with the id, if it is the same (TR-4).
    ///
    /// A request without a version takes the current one of the dataset, and is the same as a run over any version.
    ///
    /// # Errors
    /// In this order: `Invalid` and `LimitExceeded` for cells and samples; `AlreadyExists` if the id belongs to another
    /// run, or to one that a purge is removing; `NotFound` for an unknown dataset, version or publication. After an
    /// `Unknown` outcome, repeat the call.
    async fn create_evaluation(&self, new: NewEvaluation) -> Result<Evaluation>;

    /// Records a result and returns it. An identical repeat changes nothing (TR-4).
    ///
    /// # Guarantees
    /// - Of several callers with different contents, one succeeds (TR-4,
    ///   `evaluation::one_of_several_results_is_recorded`).
    ///
    /// # Errors
    /// In this order: `NotFound` for an unknown run; `Invalid` for a failed result with a score; `NotFound` for a cell
    /// or sample that the run does not have; `AlreadyExists` if the result has another content; `NotFound` for a case
    /// that the version does not have; `InvalidTransition` if the run has ended. After an `Unknown` outcome, repeat the
    /// call.
    async fn record_result(&self, id: &EvaluationId, new: NewResult) -> Result<EvaluationResult>;

    /// Ends an evaluation run, and returns it. The same end again changes nothing (TR-4).
    ///
    /// # Errors
    /// `NotFound` for an unknown run; `InvalidTransition` if it has ended otherwise, and for a completion while results
    /// are missing. After an `Unknown` outcome, repeat the call.
    async fn end_evaluation(&self, id: &EvaluationId, end: EvaluationEnd) -> Result<Evaluation>;

    /// Pins an evaluation run, so that no purge removes it, or takes the pin away. Returns the run (TR-6).
    ///
    /// # Errors
    /// `NotFound` for an unknown run. The call may be repeated.
    async fn pin_evaluation(&self, id: &EvaluationId, pinned: bool) -> Result<Evaluation>;

    /// Removes evaluation runs that have ended, with their results (TR-6). What they refer to stays: datasets,
    /// publications, threads and runs. It may be stopped between two batches.
    ///
    /// # Guarantees
    /// - A run that is pinned at the same time stays, or the pin is refused with `NotFound`.
    /// - From its first change on, a run that is being removed is not found any more. A purge that was stopped or
    ///   interrupted leaves it so, and the next one goes on with it, whatever it asks for.
    ///
    /// # Errors
    /// Any error of reading and writing. The call may be repeated.
    async fn purge_evaluations(&self, request: PurgeEvaluations, progress: &dyn Progress) -> Result<PurgedEvaluations>;
}

/// All contracts of evaluation runs.
pub trait EvaluationStore: EvaluationReader + EvaluationWriter {}

impl<S: EvaluationReader + EvaluationWriter + ?Sized> EvaluationStore for S {}

/// The evaluation runs of a tenant, kept as documents beside the datasets.
#[derive(Clone)]
pub struct EvaluationLayer {
    pub(super) store: LayerStore,
    datasets: DatasetLayer,
}

impl fmt::Debug for EvaluationLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluationLayer").finish_non_exhaustive()
    }
}

impl EvaluationLayer {
    /// Makes the evaluation runs over a store. It must be the store of the datasets and of the registry.
    #[must_use]
    pub fn new(store: LayerStore) -> Self {
        let datasets = DatasetLayer::new(store.clone());
        Self { store, datasets }
    }

    async fn require(&self, id: &EvaluationId) -> Result<Evaluation> {
        self.load_evaluation(id).await?.ok_or_else(|| Error::not_found("evaluation", id))
    }

    /// Loads the version over which a run is created.
    async fn load_version(&self, new: &NewEvaluation) -> Result<DatasetVersion> {
        let number = match new.version {
            Some(version) => version,
            None => {
                let dataset = self.datasets.load_dataset(&new.dataset).await?;
                dataset.ok_or_else(|| Error::not_found("dataset", &new.dataset))?.version
            }
        };
        let name = DatasetVersionRef::new(new.dataset.clone(), number);
        let found = self.datasets.load_dataset_version(&name).await?;
        found.ok_or_else(|| Error::not_found("dataset version", name.to_string()))
    }

    /// Checks that a publication exists. Publications are never removed.
    async fn check_manifest(&self, manifest: Option<&PublicationId>) -> Result<()> {
        let Some(id) = manifest else { return Ok(()) };
        let choice = ManifestChoice::Publication(id.clone());
        match RegistryLayer::new(self.store.clone()).load_publication(&choice).await? {
            Some(_) => Ok(()),
            None => Err(Error::not_found("publication", id)),
        }
    }

    /// Changes a run as `decide` says, which returns none if nothing changes.
    async fn change(
        &self,
        id: &EvaluationId,
        decide: impl Fn(&Evaluation) -> Result<Option<Evaluation>> + Send + Sync,
    ) -> Result<Evaluation> {
        let decide = &decide;
        let plan = || async move {
            let found = self.require(id).await?;
            let Some(changed) = decide(&found)? else { return Ok((found, None)) };
            let write = WriteDocuments::new([rules::put(&changed, DocumentExpect::Revision(found.revision))?]);
            Ok((changed, Some(write)))
        };
        let (evaluation, written) = plan_and_write(&*self.store.documents, plan).await?;
        Ok(as_written(evaluation, written.as_ref()))
    }

    /// Loads a run and one of its results together.
    async fn load_with_result(
        &self,
        id: &EvaluationId,
        key: &ResultKey,
    ) -> Result<(Evaluation, Option<EvaluationResult>)> {
        let names = [keys::evaluation(id)?, keys::of_result(RESULTS, id, key)?];
        let mut found = self.store.documents.load_documents(&names).await?;
        let result = found.pop().flatten().as_ref().map(EvaluationResult::from_document).transpose()?;
        let evaluation = found.pop().flatten().as_ref().map(Evaluation::from_document).transpose()?.flatten();
        Ok((evaluation.ok_or_else(|| Error::not_found("evaluation", id))?, result))
    }

    async fn plan_record(
        &self,
        id: &EvaluationId,
        new: &NewResult,
    ) -> Result<(EvaluationResult, Option<WriteDocuments>)> {
        let (evaluation, found) = self.load_with_result(id, &new.key).await?;
        rules::check_result(&evaluation, new)?;
        if let Some(found) = found {
            rules::check_same_result(new, &found)?;
            return Ok((found, None));
        }
        let row = self.datasets.find_row(&evaluation.dataset, &new.key.case).await?;
        let row = row.ok_or_else(|| Error::not_found("case", &new.key.case))?;
        let content = rules::content_of(new, &row.hash);
        let write = WriteDocuments::new(rules::plan_result(&evaluation, new, &content)?);
        let result = EvaluationResult { key: new.key.clone(), content, created_at: evaluation.created_at };
        Ok((result, Some(write)))
    }

    /// Returns the results of cases that a run does not have, in their order.
    async fn missing_of(
        &self,
        evaluation: &Evaluation,
        rows: &[(crate::id::CaseId, CaseRow)],
        (skip, limit): (usize, usize),
    ) -> Result<Vec<MissingResult>> {
        let of_row = |(case, row): &'_ (crate::id::CaseId, CaseRow)| {
            let named = |key| MissingResult { key, case_hash: row.hash.clone() };
            rules::results_of_case(evaluation, case).map(named).collect::<Vec<_>>()
        };
        let wanted: Vec<_> = rows.iter().flat_map(of_row).skip(skip).take(limit).collect();
        let names = wanted.iter().map(|missing| keys::of_result(RESULTS, &evaluation.id, &missing.key));
        let names: Vec<DocumentRef> = names.collect::<Result<_>>()?;
        let found = load_in_parts(&*self.store.documents, &names).await?;
        Ok(wanted.into_iter().zip(found).filter(|(_, found)| found.is_none()).map(|(missing, _)| missing).collect())
    }
}

/// Returns a run with what the store gave it when it was written.
fn as_written(evaluation: Evaluation, written: Option<&WrittenDocuments>) -> Evaluation {
    let Some(written) = written else { return evaluation };
    let is_new = evaluation.revision == 0;
    Evaluation {
        revision: written.revision.unwrap_or_default(),
        created_at: if is_new { written.time } else { evaluation.created_at },
        updated_at: written.time.max(evaluation.updated_at),
        ..evaluation
    }
}

#[async_trait]
impl EvaluationReader for EvaluationLayer {
    async fn load_evaluation(&self, id: &EvaluationId) -> Result<Option<Evaluation>> {
        let document = self.store.documents.load_document(&keys::evaluation(id)?).await?;
        Ok(document.as_ref().map(Evaluation::from_document).transpose()?.flatten())
    }

    async fn list_evaluations(&self, page: PageRequest) -> Result<Page<Evaluation>> {
        let page = self.store.documents.list_documents(keys::all()?.with_page(page)).await?;
        let items = page.items.iter().map(Evaluation::from_document).collect::<Result<Vec<_>>>()?;
        Ok(Page { items: items.into_iter().flatten().collect(), next: page.next })
    }

    async fn list_missing(&self, id: &EvaluationId, page: PageRequest) -> Result<Page<MissingResult>> {
        let limit = page.checked_limit()?;
        let evaluation = self.require(id).await?;
        let (skip, cursor) = page.cursor.as_ref().map_or(Ok((0, None)), |cursor| decode_cursor(id, cursor))?;
        let of_case = usize::try_from(evaluation.results_of_case()).unwrap_or(usize::MAX);
        // Either all results of some cases are looked at, or some results of one case.
        let cases = u32::try_from(limit / of_case).unwrap_or(MAX_PAGE).max(1);
        let request = PageRequest { limit: Some(cases), cursor: cursor.clone() };
        let rows = self.datasets.list_rows(&evaluation.dataset, request).await?;
        let items = self.missing_of(&evaluation, &rows.items, (skip, limit)).await?;
        let looked_at = skip + limit;
        let next = if of_case > looked_at && !rows.items.is_empty() {
            Some(encode_cursor(id, looked_at, cursor.as_ref()))
        } else {
            rows.next.map(|next| encode_cursor(id, 0, Some(&next)))
        };
        Ok(Page { items, next })
    }

    async fn load_result(&self, id: &EvaluationId, key: &ResultKey) -> Result<Option<EvaluationResult>> {
        let document = self.store.documents.load_document(&keys::of_result(RESULTS, id, key)?).await?;
        document.as_ref().map(EvaluationResult::from_document).transpose()
    }

    async fn load_output(&self, id: &EvaluationId, key: &ResultKey) -> Result<Option<crate::json::Json>> {
        let document = self.store.documents.load_document(&keys::of_result(OUTPUTS, id, key)?).await?;
        Ok(document.map(|document| document.value))
    }

    async fn list_results(&self, query: ResultQuery) -> Result<Page<EvaluationResult>> {
        let ResultQuery { evaluation, after, page } = query;
        let mut documents = keys::of_evaluation(RESULTS, &evaluation)?.with_page(page);
        if let Some((case, cell)) = after {
            documents = documents.after_prefix(keys::cell_segments(&evaluation, &case, &cell)?);
        }
        let page = self.store.documents.list_documents(documents).await?;
        let items = page.items.iter().map(EvaluationResult::from_document).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next })
    }
}

#[async_trait]
impl EvaluationWriter for EvaluationLayer {
    async fn create_evaluation(&self, new: NewEvaluation) -> Result<Evaluation> {
        let new = &rules::checked(new)?;
        let plan = || async move {
            let document = self.store.documents.load_document(&keys::evaluation(&new.id)?).await?;
            if let Some(document) = &document {
                let found = Evaluation::from_document(document)?;
                let found = found.ok_or_else(|| Error::already_exists("evaluation", &new.id))?;
                rules::check_same(new, &found)?;
                return Ok((found, None));
            }
            let created = rules::created(new, &self.load_version(new).await?);
            self.check_manifest(new.manifest.as_ref()).await?;
            let write = WriteDocuments::new([rules::put(&created, DocumentExpect::Absent)?]);
            Ok((created, Some(write)))
        };
        let (evaluation, written) = plan_and_write(&*self.store.documents, plan).await?;
        Ok(as_written(evaluation, written.as_ref()))
    }

    async fn record_result(&self, id: &EvaluationId, new: NewResult) -> Result<EvaluationResult> {
        let (result, written) = plan_and_write(&*self.store.documents, || self.plan_record(id, &new)).await?;
        Ok(EvaluationResult { created_at: written.map_or(result.created_at, |written| written.time), ..result })
    }

    async fn end_evaluation(&self, id: &EvaluationId, end: EvaluationEnd) -> Result<Evaluation> {
        // A result, once recorded, stays, and each belongs to a case, cell and sample of the run. So as many results as
        // there can be are all of them.
        let results = match end {
            EvaluationEnd::Completed => self.store.documents.count_documents(keys::of_evaluation(RESULTS, id)?).await?,
            EvaluationEnd::Abandoned => 0,
        };
        self.change(id, |evaluation| rules::plan_end(evaluation, end, results)).await
    }

    async fn pin_evaluation(&self, id: &EvaluationId, pinned: bool) -> Result<Evaluation> {
        let decide = |evaluation: &Evaluation| {
            Ok((evaluation.pinned != pinned).then(|| Evaluation { pinned, ..evaluation.clone() }))
        };
        self.change(id, decide).await
    }

    async fn purge_evaluations(&self, request: PurgeEvaluations, progress: &dyn Progress) -> Result<PurgedEvaluations> {
        self.purge(&request, progress).await
    }
}

/// Returns what binds a cursor to a run.
fn binding(id: &EvaluationId) -> String {
    sha256_hex(id.as_str()).chars().take(16).collect()
}

/// Returns the cursor that continues at a position in the cases, after the first results of the next one.
fn encode_cursor(id: &EvaluationId, skip: usize, position: Option<&Cursor>) -> Cursor {
    Cursor::from_text(format!("{}.{skip}.{}", binding(id), position.map_or("", Cursor::as_str)))
}

/// Reads a cursor. The position in the cases is checked when it is used.
fn decode_cursor(id: &EvaluationId, cursor: &Cursor) -> Result<(usize, Option<Cursor>)> {
    let mut parts = cursor.as_str().splitn(3, '.');
    let (Some(bound_to), Some(skip), Some(position)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Error::invalid_cursor("it is malformed"));
    };
    if bound_to != binding(id) {
        return Err(Error::invalid_cursor("it belongs to another list"));
    }
    let skip: usize = skip.parse().map_err(|_| Error::invalid_cursor("it is malformed"))?;
    if length(skip) >= super::record::MAX_RESULTS_OF_CASE {
        return Err(Error::invalid_cursor("it is malformed"));
    }
    Ok((skip, (!position.is_empty()).then(|| Cursor::from_text(position))))
}

#[cfg(test)]
mod tests {
    use super::{decode_cursor, encode_cursor};
    use crate::{Cursor, ErrorKind};

    #[test]
    fn a_cursor_names_its_run() {
        let (id, other) = ("e".parse().unwrap(), "f".parse().unwrap());
        for (skip, position) in [(0, None), (7, Some(Cursor::from_text("3.a.b")))] {
            let cursor = encode_cursor(&id, skip, position.as_ref());
            assert_eq!(decode_cursor(&id, &cursor).unwrap(), (skip, position));
            assert_eq!(decode_cursor(&other, &cursor).unwrap_err().kind(), ErrorKind::InvalidCursor);
        }
        let bound = encode_cursor(&id, 0, None).as_str().split('.').next().unwrap().to_owned();
        for text in ["", "x", &bound, &format!("{bound}.x."), &format!("{bound}.-1."), &format!("{bound}.1000.a")] {
            let error = decode_cursor(&id, &Cursor::from_text(text)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{text:?}");
        }
    }
}
