//! Helpers that change and list datasets.

use std::sync::Arc;

use store_core::{
    CaseChange, CaseContent, ChangeDataset, ChangedDataset, DatasetCase, DatasetStore, DatasetVersionRef, PageRequest,
};

use crate::{
    Failure, Given, Verdict,
    check::expect_eq,
    given::{id, read_all_pages},
    log::entry_drafts::json,
};

/// The datasets of the tenant `default`.
pub(crate) fn datasets(given: &Given) -> Result<Arc<dyn DatasetStore>, Failure> {
    Ok(given.fixture().datasets(&given.stores()?)?)
}

/// A case with this input.
pub(crate) fn content(input: &str) -> CaseContent {
    CaseContent::new(json(input))
}

/// Puts a case with this input.
pub(crate) fn put(case: &str, input: &str) -> CaseChange {
    CaseChange::Put(id(case), content(input))
}

/// Adds a case with this input.
pub(super) fn add(case: &str, input: &str) -> CaseChange {
    CaseChange::Add(id(case), content(input))
}

/// Replaces a case by one with this input.
pub(super) fn replace(case: &str, input: &str) -> CaseChange {
    CaseChange::Replace(id(case), content(input))
}

/// Removes a case.
pub(crate) fn remove(case: &str) -> CaseChange {
    CaseChange::Remove(id(case))
}

/// A request to change a dataset.
pub(super) fn request(dataset: &str, changes: impl IntoIterator<Item = CaseChange>) -> ChangeDataset {
    ChangeDataset::new(id(dataset), changes)
}

/// Changes a dataset.
pub(crate) async fn change(
    given: &Given,
    dataset: &str,
    changes: impl IntoIterator<Item = CaseChange> + Send,
) -> Result<ChangedDataset, Failure> {
    let request = request(dataset, changes);
    Ok(datasets(given)?.change_dataset(request).await?)
}

/// Names a version of a dataset.
pub(crate) fn version(dataset: &str, version: u64) -> DatasetVersionRef {
    DatasetVersionRef::new(id(dataset), version)
}

/// All cases of a version, read in small pages.
pub(super) async fn list(given: &Given, name: &DatasetVersionRef) -> Result<Vec<DatasetCase>, Failure> {
    let store = &datasets(given)?;
    read_all_pages(PageRequest::first(2), |page| store.list_cases(name, page)).await
}

/// Ids and inputs of cases: `a=1 b=2`.
pub(super) fn text_of(cases: &[DatasetCase]) -> String {
    let text = |case: &DatasetCase| format!("{}={}", case.id, case.content.input);
    cases.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// Checks ids and inputs of all cases of a version, and that each of them is loaded as it is listed.
pub(super) async fn expect_cases(given: &Given, dataset: &str, number: u64, expected: &str) -> Verdict {
    let name = version(dataset, number);
    let listed = list(given, &name).await?;
    expect_eq((number, text_of(&listed)), (number, expected.to_owned()))?;
    for case in listed {
        expect_eq(datasets(given)?.load_case(&name, &case.id).await?, Some(case))?;
    }
    Ok(())
}

/// Checks the numbers of the current version and of its cases.
pub(super) async fn expect_current(given: &Given, dataset: &str, expected: (u64, u64)) -> Verdict {
    let found = datasets(given)?.load_dataset(&id(dataset)).await?;
    expect_eq(found.map(|found| (found.version, found.cases)), Some(expected))
}
