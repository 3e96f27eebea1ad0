//! The rules of datasets: what the next version is, and what it writes.

use std::collections::BTreeSet;

use super::{
    keys,
    record::{CaseRow, DatasetState, DatasetVersionContent, DatasetVersionRef, hash_of},
    request::{CaseChange, ChangeDataset, ChangedDataset},
};
use crate::{
    codec::{Codec, Extra},
    document::{DocumentChange, DocumentExpect, DocumentRef},
    error::{Error, Result},
    id::{CaseId, DatasetId},
    json::Json,
    layers::encoded,
    version::Version,
};

/// What is stored of a dataset that is to be changed.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The state, and the revision of its document.
    pub(super) state: Option<(DatasetState, u64)>,
    /// The rows of the contents that the named cases have now, in the order of the changes.
    pub(super) rows: Vec<Option<CaseRow>>,
}

/// Returns the documents from which a change is planned: the state first, and then a row for each change. Every change
/// of a row also changes the state, so an expectation of the state covers all of them.
pub(super) fn documents_of_change(request: &ChangeDataset) -> Result<Vec<DocumentRef>> {
    let rows = request.changes.iter().map(|change| keys::live_row(&request.dataset, change.case()));
    [keys::dataset(&request.dataset)].into_iter().chain(rows).collect()
}

/// Refuses a request that names no case, or a case twice.
fn check_cases(request: &ChangeDataset) -> Result<()> {
    let mut cases = BTreeSet::new();
    for change in &request.changes {
        if !cases.insert(change.case()) {
            return Err(Error::invalid("change of a dataset", format!("it names case `{}` twice", change.case())));
        }
    }
    if cases.is_empty() { Err(Error::invalid("change of a dataset", "it names no case")) } else { Ok(()) }
}

/// Plans the next version of a dataset (TR-3). Without any change there is nothing to write.
///
/// # Errors
/// In this order: `Invalid` for no case and for a case that is named twice; `Conflict` if the current version is not
/// the expected one; for each change `AlreadyExists` if it adds a case that the dataset has, and `NotFound` if it
/// replaces or removes one that it does not have.
pub(super) fn plan_change(request: &ChangeDataset, found: &Found) -> Result<(ChangedDataset, Vec<DocumentChange>)> {
    check_cases(request)?;
    let expect =
        found.state.as_ref().map_or(DocumentExpect::Absent, |(_, revision)| DocumentExpect::Revision(*revision));
    let state = found.state.as_ref().map(|(state, _)| state.clone()).unwrap_or_default();
    check_version(request.expect_version, state.version)?;
    let name = DatasetVersionRef::new(request.dataset.clone(), state.version + 1);
    let mut changed = ChangedDataset { version: name.clone(), created: true, added: 0, replaced: 0, removed: 0 };
    let mut changes: Vec<DocumentChange> = Vec::new();
    for (index, (change, row)) in request.changes.iter().zip(&found.rows).enumerate() {
        let planned = plan_case(&name, change, row.as_ref(), &mut changed);
        changes.extend(planned.map_err(|error| error.in_part(format!("changes[{index}]")))?);
    }
    // Cases with the same content have it in common, and a write names each document once.
    let mut named = BTreeSet::new();
    changes.retain(|change| named.insert(change.document.clone()));
    if changes.is_empty() {
        let version = DatasetVersionRef { version: state.version, ..name };
        return Ok((ChangedDataset { version, created: false, ..changed }, changes));
    }
    let ChangedDataset { added, replaced, removed, .. } = changed;
    let cases = (state.cases + added).saturating_sub(removed);
    let (by, metadata) = (request.by.clone(), request.metadata.clone());
    let content = DatasetVersionContent { cases, added, replaced, removed, by, metadata, extra: Extra::default() };
    let state = DatasetState { version: name.version, cases, ..state };
    changes.extend([
        DocumentChange::put(keys::dataset(&request.dataset)?, encoded(&state)?).expecting(expect),
        DocumentChange::put(keys::version(&name)?, encoded(&content)?).expecting(DocumentExpect::Absent),
    ]);
    Ok((changed, changes))
}

/// Refuses a change of another version than the caller has seen.
fn check_version(expected: Option<u64>, actual: u64) -> Result<()> {
    let version = |number: u64| (number > 0).then(|| Version::new(number, 1, 0));
    match expected {
        Some(expected) if expected != actual => {
            Err(Error::conflict("the dataset's version", version(expected), version(actual)))
        }
        _ => Ok(()),
    }
}

/// Plans the change of one case in the version `name`, over the row of the content that it has now. Counts it in
/// `changed`.
fn plan_case(
    name: &DatasetVersionRef,
    change: &CaseChange,
    row: Option<&CaseRow>,
    changed: &mut ChangedDataset,
) -> Result<Vec<DocumentChange>> {
    let (dataset, case) = (&name.dataset, change.case());
    match (change, row) {
        (CaseChange::Add(..), Some(_)) => return Err(Error::already_exists("case", case)),
        (CaseChange::Replace(..) | CaseChange::Remove(_), None) => return Err(Error::not_found("case", case)),
        _ => {}
    }
    let live = keys::live_row(dataset, case)?;
    let Some(content) = change.content() else {
        changed.removed += 1;
        return Ok([DocumentChange::delete(live)].into_iter().chain(row_moved(name, case, row)?).collect());
    };
    let text = content.encode();
    let hash = hash_of(&text);
    if row.is_some_and(|row| row.hash == hash) {
        return Ok(Vec::new());
    }
    match row {
        Some(_) => changed.replaced += 1,
        None => changed.added += 1,
    }
    let new_row = CaseRow { from: name.version, until: None, hash: hash.clone(), extra: Extra::default() };
    let changes = [
        DocumentChange::put(keys::content(dataset, &hash)?, Json::parse(&text)?),
        DocumentChange::put(live, encoded(&new_row)?),
    ];
    Ok(changes.into_iter().chain(row_moved(name, case, row)?).collect())
}

/// Returns the change that keeps the row of a case whose content ends in the version `name`.
fn row_moved(name: &DatasetVersionRef, case: &CaseId, row: Option<&CaseRow>) -> Result<Option<DocumentChange>> {
    let Some(row) = row else { return Ok(None) };
    let ended = CaseRow { until: Some(name.version), ..row.clone() };
    put_row(&name.dataset, case, &ended).map(Some)
}

fn put_row(dataset: &DatasetId, case: &CaseId, row: &CaseRow) -> Result<DocumentChange> {
    Ok(DocumentChange::put(keys::earlier_row(dataset, case, row.from)?, encoded(row)?))
}

#[cfg(test)]
mod tests;
