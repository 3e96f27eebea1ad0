//! The contract of datasets, and its implementation over documents.

use std::fmt;

use async_trait::async_trait;

use super::{
    keys::{self, CASES, DATASETS, VERSIONS, decode, query},
    record::{CaseContent, CaseRow, Dataset, DatasetCase, DatasetVersion, DatasetVersionRef, hash_of},
    request::{ChangeDataset, ChangedDataset},
    rules::{self, Found},
};
use crate::{
    codec::sha256_hex,
    document::{Document, DocumentRef, KeySegment, WriteDocuments},
    error::{Error, Result},
    ext::DocumentStoreExt,
    id::{CaseId, DatasetId},
    layers::{LayerStore, load_in_parts, plan_and_write},
    log::Direction,
    page::{Cursor, Page, PageRequest},
};

/// Datasets: cases to evaluate agents with, in versions that never change.
///
/// ```
/// use store_core::{CaseChange, CaseContent, ChangeDataset, DatasetStore, Json, PageRequest, Result};
///
/// async fn add(datasets: &dyn DatasetStore) -> Result<()> {
///     let case = CaseContent::new(Json::of("What is 2 + 2?")?).expecting(Json::of("4")?);
///     let change = ChangeDataset::new("sums".parse()?, [CaseChange::Add("small".parse()?, case)]);
///     let changed = datasets.change_dataset(change).await?;
///     let cases = datasets.list_cases(&changed.version, PageRequest::default()).await?;
///     assert_eq!(cases.items.len(), 1);
///     Ok(())
/// }
/// ```
#[async_trait]
pub trait DatasetStore: Send + Sync {
    /// Makes the next version of a dataset (TR-3). If its current version already has the requested cases, nothing is
    /// written.
    ///
    /// # Guarantees
    /// - Earlier versions stay as they are (TR-3, `dataset::a_version_never_changes`).
    /// - Of several callers that expect the same version, one succeeds (TR-3,
    ///   `dataset::one_of_several_changes_of_a_version_succeeds`). Without an expectation each gets a version, except
    ///   one that 100 others have overtaken, which is refused with `Conflict`.
    /// - The call reads and writes documents for the cases that it names, and not for other cases.
    ///
    /// # Errors
    /// All or nothing, in this order: `Invalid` for no case and for a case that is named twice; `Conflict` if the
    /// current version is not the expected one; `AlreadyExists` if a case to be added is there, and `NotFound` if one
    /// to be replaced or removed is not, which name the part. `LimitExceeded` for more cases than one write of
    /// documents can hold, about 330.
    ///
    /// After an `Unknown` outcome, repeat a request that only puts cases: if it was applied, nothing is written. For
    /// others, load the dataset.
    async fn change_dataset(&self, request: ChangeDataset) -> Result<ChangedDataset>;

    /// Loads a dataset; none if it is unknown.
    ///
    /// # Errors
    /// Any error of reading documents.
    async fn load_dataset(&self, dataset: &DatasetId) -> Result<Option<Dataset>>;

    /// Lists the datasets by id, in pages.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list.
    async fn list_datasets(&self, page: PageRequest) -> Result<Page<Dataset>>;

    /// Loads a version of a dataset, without its cases; none if it is unknown.
    ///
    /// # Errors
    /// Any error of reading documents.
    async fn load_dataset_version(&self, version: &DatasetVersionRef) -> Result<Option<DatasetVersion>>;

    /// Lists the versions of a dataset, newest first, in pages.
    ///
    /// # Errors
    /// As [`list_datasets`](Self::list_datasets).
    async fn list_dataset_versions(&self, dataset: &DatasetId, page: PageRequest) -> Result<Page<DatasetVersion>>;

    /// Loads a case of a version; none if the version does not have it.
    ///
    /// # Errors
    /// `NotFound` for an unknown version; `Corrupt` if the content is missing or is not what was stored.
    async fn load_case(&self, version: &DatasetVersionRef, case: &CaseId) -> Result<Option<DatasetCase>>;

    /// Lists the cases of a version by id, in pages.
    ///
    /// # Guarantees
    /// - A page reads at most as many rows and contents as its limit, however many cases the dataset has. Rows of
    ///   contents that belong to other versions are among them, so a page may be shorter than its limit, or empty, and
    ///   not be the last one.
    /// - A walk gives the cases of the version, even if the dataset is changed meanwhile (TR-3,
    ///   `dataset::a_walk_gives_the_cases_of_its_version`).
    ///
    /// # Errors
    /// `NotFound` for an unknown version; `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another
    /// list; `Corrupt` if a content is missing or is not what was stored.
    async fn list_cases(&self, version: &DatasetVersionRef, page: PageRequest) -> Result<Page<DatasetCase>>;
}

/// The datasets of a tenant, kept as documents.
#[derive(Clone)]
pub struct DatasetLayer {
    store: LayerStore,
}

impl fmt::Debug for DatasetLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatasetLayer").finish_non_exhaustive()
    }
}

impl DatasetLayer {
    /// Makes the datasets over a store.
    #[must_use]
    pub const fn new(store: LayerStore) -> Self {
        Self { store }
    }

    async fn load_as<T>(&self, document: DocumentRef, read: fn(&Document) -> Result<T>) -> Result<Option<T>> {
        self.store.documents.load_document(&document).await?.as_ref().map(read).transpose()
    }

    async fn load_found(&self, request: &ChangeDataset) -> Result<Found> {
        let documents = load_in_parts(&*self.store.documents, &rules::documents_of_change(request)?).await?;
        let mut documents = documents.into_iter();
        let state = documents.next().flatten();
        let state = state.map(|state| Ok::<_, Error>((decode(&state)?, state.revision))).transpose()?;
        let rows = documents.map(|row| row.as_ref().map(decode).transpose()).collect::<Result<_>>()?;
        Ok(Found { state, rows })
    }

    async fn check_version(&self, version: &DatasetVersionRef) -> Result<()> {
        match self.load_dataset_version(version).await? {
            Some(_) => Ok(()),
            None => Err(Error::not_found("dataset version", version.to_string())),
        }
    }

    /// Finds the row of a case in a version that exists.
    pub(in crate::layers) async fn find_row(
        &self,
        version: &DatasetVersionRef,
        case: &CaseId,
    ) -> Result<Option<CaseRow>> {
        // The live row is read first. If it moves after that, it was not that of the version, or it is found below.
        let live = keys::live_row(&version.dataset, case)?;
        let live = self.load_as::<CaseRow>(live, decode).await?.filter(|row| row.is_in(version.version));
        if live.is_some() {
            return Ok(live);
        }
        let last = keys::earlier_rows(version, case)?.with_direction(Direction::Backward);
        let page = self.store.documents.list_documents(last.with_page(PageRequest::first(1))).await?;
        let earlier = page.items.first().map(decode::<CaseRow>).transpose()?;
        Ok(earlier.filter(|row| row.is_in(version.version)))
    }

    /// Lists the rows of a version that exists, in pages that read as many rows as their limit.
    pub(in crate::layers) async fn list_rows(
        &self,
        version: &DatasetVersionRef,
        page: PageRequest,
    ) -> Result<Page<(CaseId, CaseRow)>> {
        let mut query = query(CASES, [KeySegment::id(&version.dataset)?])?;
        match page.cursor.as_ref().map(|cursor| RowPosition::decode(version, cursor)).transpose()? {
            Some(RowPosition { case, from: Some(from) }) => {
                query = query.from(keys::row_segments(&version.dataset, &case, from)?);
            }
            Some(RowPosition { case, from: None }) => {
                query = query.after_prefix([KeySegment::id(&version.dataset)?, KeySegment::id(&case)?]);
            }
            None => {}
        }
        let request = PageRequest { limit: page.limit, cursor: None };
        let found = self.store.documents.list_documents(query.with_page(request)).await?;
        let (mut items, mut position) = (Vec::new(), None);
        for document in &found.items {
            let (case, row) = (keys::case_of(document)?, decode::<CaseRow>(document)?);
            position = Some(RowPosition::after(version.version, &case, &row));
            if row.is_in(version.version) {
                items.push((case, row));
            }
        }
        let next = found.next.and(position).map(|position| position.encode(version));
        Ok(Page { items, next })
    }

    /// Loads the contents of cases.
    async fn load_contents(&self, dataset: &DatasetId, rows: Vec<(CaseId, CaseRow)>) -> Result<Vec<DatasetCase>> {
        let names = rows.iter().map(|(_, row)| keys::content(dataset, &row.hash)).collect::<Result<Vec<_>>>()?;
        let contents = load_in_parts(&*self.store.documents, &names).await?;
        let cases = rows.into_iter().zip(contents);
        cases.map(|((id, row), content)| read_case(dataset, id, row, content.as_ref())).collect()
    }
}

/// Reads a case from its row and its content.
///
/// # Errors
/// `Corrupt` if the content is missing, or if its bytes do not have the hash of the row.
fn read_case(dataset: &DatasetId, id: CaseId, row: CaseRow, content: Option<&Document>) -> Result<DatasetCase> {
    let corrupt = |what| Error::corrupt(format!("case `{id}` of dataset `{dataset}`: its content {what}"));
    let document = content.ok_or_else(|| corrupt("is missing"))?;
    if hash_of(document.value.as_str()) != row.hash {
        return Err(corrupt("is not what was stored"));
    }
    let content: CaseContent = decode(document)?;
    Ok(DatasetCase { id, hash: row.hash, since: row.from, content })
}

#[async_trait]
impl DatasetStore for DatasetLayer {
    async fn change_dataset(&self, request: ChangeDataset) -> Result<ChangedDataset> {
        let plan = || async {
            let found = self.load_found(&request).await?;
            let (changed, changes) = rules::plan_change(&request, &found)?;
            Ok((changed, (!changes.is_empty()).then(|| WriteDocuments::new(changes))))
        };
        Ok(plan_and_write(&*self.store.documents, plan).await?.0)
    }

    async fn load_dataset(&self, dataset: &DatasetId) -> Result<Option<Dataset>> {
        self.load_as(keys::dataset(dataset)?, Dataset::from_document).await
    }

    async fn list_datasets(&self, page: PageRequest) -> Result<Page<Dataset>> {
        let page = self.store.documents.list_documents(query(DATASETS, [])?.with_page(page)).await?;
        Ok(Page { items: page.items.iter().map(Dataset::from_document).collect::<Result<_>>()?, next: page.next })
    }

    async fn load_dataset_version(&self, version: &DatasetVersionRef) -> Result<Option<DatasetVersion>> {
        self.load_as(keys::version(version)?, DatasetVersion::from_document).await
    }

    async fn list_dataset_versions(&self, dataset: &DatasetId, page: PageRequest) -> Result<Page<DatasetVersion>> {
        let query = query(VERSIONS, [KeySegment::id(dataset)?])?.with_direction(Direction::Backward);
        let page = self.store.documents.list_documents(query.with_page(page)).await?;
        let items = page.items.iter().map(DatasetVersion::from_document).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next })
    }

    async fn load_case(&self, version: &DatasetVersionRef, case: &CaseId) -> Result<Option<DatasetCase>> {
        self.check_version(version).await?;
        let Some(row) = self.find_row(version, case).await? else { return Ok(None) };
        Ok(self.load_contents(&version.dataset, vec![(case.clone(), row)]).await?.pop())
    }

    async fn list_cases(&self, version: &DatasetVersionRef, page: PageRequest) -> Result<Page<DatasetCase>> {
        page.checked_limit()?;
        self.check_version(version).await?;
        let rows = self.list_rows(version, page).await?;
        Ok(Page { items: self.load_contents(&version.dataset, rows.items).await?, next: rows.next })
    }
}

/// Where a list of the cases of a version continues: with the rows of a case from a number on, or after the case.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RowPosition {
    case: CaseId,
    from: Option<u64>,
}

impl RowPosition {
    /// Returns the position after a row. A case has one content in a version, so the rows after that of the version are
    /// left out. Otherwise changes of the case could hold up a walk.
    fn after(version: u64, case: &CaseId, row: &CaseRow) -> Self {
        let has_ended_before = row.until.is_some_and(|until| until <= version);
        Self { case: case.clone(), from: has_ended_before.then(|| row.from.saturating_add(1)) }
    }

    /// Returns what binds a cursor to a version.
    fn binding(version: &DatasetVersionRef) -> String {
        sha256_hex(&version.to_string()).chars().take(16).collect()
    }

    fn encode(&self, version: &DatasetVersionRef) -> Cursor {
        let from = self.from.map(|from| from.to_string()).unwrap_or_default();
        Cursor::from_text(format!("{}.{from}.{}", Self::binding(version), self.case))
    }

    fn decode(version: &DatasetVersionRef, cursor: &Cursor) -> Result<Self> {
        let malformed = || Error::invalid_cursor("it is malformed");
        let mut parts = cursor.as_str().splitn(3, '.');
        let (bound_to, from) = (parts.next(), parts.next().ok_or_else(malformed)?);
        let case = parts.next().and_then(|case| case.parse().ok()).ok_or_else(malformed)?;
        if bound_to != Some(Self::binding(version).as_str()) {
            return Err(Error::invalid_cursor("it belongs to another list"));
        }
        let number = (!from.is_empty()).then(|| from.parse().map_err(|_| malformed())).transpose()?;
        Ok(Self { case, from: number })
    }
}

#[cfg(test)]
mod tests {
    use super::RowPosition;
    use crate::{Cursor, DatasetVersionRef, ErrorKind, codec::Codec, layers::dataset::record::CaseRow};

    #[test]
    fn a_list_continues_after_the_row_of_its_version() {
        let case = "a".parse().unwrap();
        let check = |row: &str, from: Option<u64>| {
            let position = RowPosition::after(3, &case, &CaseRow::read(row).unwrap());
            assert_eq!((position.case.as_str(), position.from), ("a", from), "{row}");
        };
        check(r#"{"from":1,"until":2,"hash":"h"}"#, Some(2));
        check(r#"{"from":1,"until":3,"hash":"h"}"#, Some(2));
        check(r#"{"from":1,"until":4,"hash":"h"}"#, None);
        check(r#"{"from":3,"hash":"h"}"#, None);
        check(r#"{"from":4,"until":5,"hash":"h"}"#, None);
    }

    #[test]
    fn a_cursor_names_its_version() {
        let version = |text: &str| text.parse::<DatasetVersionRef>().unwrap();
        for (case, from) in [("a", None), ("a.b..é", Some(12))] {
            let position = RowPosition { case: case.parse().unwrap(), from };
            let cursor = position.encode(&version("d@12"));
            assert_eq!(RowPosition::decode(&version("d@12"), &cursor).unwrap(), position);
            for other in ["d@1", "e@12"] {
                let error = RowPosition::decode(&version(other), &cursor).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidCursor);
            }
        }
        let bound = RowPosition::binding(&version("d@1"));
        for text in ["", "x", &bound, &format!("{bound}."), &format!("{bound}.."), &format!("{bound}.x.a"), "..a"] {
            let error = RowPosition::decode(&version("d@1"), &Cursor::from_text(text)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{text:?}");
        }
    }
}
