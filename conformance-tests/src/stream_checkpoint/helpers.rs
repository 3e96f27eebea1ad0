//! Helpers that put and load stream checkpoints.

use std::sync::Arc;

use store_core::{
    DocumentQuery, DocumentScope, PageRequest, PartialAnswer, PutStreamCheckpoint, StreamCheckpoint,
    StreamCheckpointOutcome, StreamCheckpointStore,
};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_some},
    given::{Given, id, read_all_pages},
    run::helpers::{running_run, write_run},
};

/// The stream checkpoints of the tenant `default`.
pub(crate) fn checkpoints(given: &Given) -> Result<Arc<dyn StreamCheckpointStore>, Failure> {
    Ok(given.fixture().stream_checkpoints(&given.stores()?)?)
}

/// An answer of which this text was received.
pub(crate) fn answer(text: &str) -> PartialAnswer {
    PartialAnswer::new(1).with_text(text)
}

/// A request to put the checkpoint of a run of the thread `t`. Its text is its sequence.
pub(crate) fn request(run: &str, sequence: u64) -> PutStreamCheckpoint {
    PutStreamCheckpoint::new(id("t"), id(run), sequence, answer(&sequence.to_string()))
}

/// Puts the checkpoint of a run of the thread `t`.
pub(crate) async fn put(given: &Given, run: &str, sequence: u64) -> Result<StreamCheckpointOutcome, Failure> {
    Ok(checkpoints(given)?.put_stream_checkpoint(request(run, sequence)).await?)
}

/// Puts a checkpoint, which must be stored.
pub(crate) async fn put_stored(given: &Given, run: &str, sequence: u64) -> Verdict {
    expect_eq(put(given, run, sequence).await?, StreamCheckpointOutcome::Stored)
}

/// Loads the checkpoint of a run of the thread `t`.
pub(crate) async fn load(given: &Given, run: &str) -> Result<Option<StreamCheckpoint>, Failure> {
    Ok(checkpoints(given)?.load_stream_checkpoint(&id("t"), &id(run)).await?)
}

/// Checks the sequence of the checkpoint of a run of the thread `t`, or that there is none.
pub(crate) async fn expect_sequence(given: &Given, run: &str, expected: Option<u64>) -> Verdict {
    let found = load(given, run).await?;
    expect_eq(found.as_ref().map(|found| found.sequence), expected)?;
    expect_eq(found.map(|found| found.answer.text), expected.map(|sequence| sequence.to_string()))
}

/// Starts runs of the thread `t`.
pub(crate) async fn start_runs(given: &Given, runs: &[&str]) -> Verdict {
    for run in runs {
        write_run(given, "t", running_run(run)).await?;
    }
    Ok(())
}

/// The number of documents that are kept for checkpoints: of the thread `t`, and of the tenant.
pub(crate) async fn document_counts(given: &Given) -> Result<(usize, usize), Failure> {
    let documents = &expect_some(given.stores()?.documents, "documents")?;
    let count = async |query: DocumentQuery| {
        let first = PageRequest::first(100);
        let all = read_all_pages(first, |page| documents.list_documents(query.clone().with_page(page))).await?;
        Ok::<_, Failure>(all.len())
    };
    let of_thread = DocumentQuery::new(id("layer.stream_checkpoints")).in_scope(DocumentScope::Thread(id("t")));
    let index = DocumentQuery::new(id("layer.stream_checkpoints.index"));
    Ok((count(of_thread).await?, count(index).await?))
}
