//! The retention of evaluation runs.

use std::time::Duration;

use store_core::{
    CollectionId, DocumentChange, DocumentKey, DocumentQuery, DocumentStoreExt, ErrorKind, EvaluationEnd,
    IgnoreProgress, KeySegment, ManifestChoice, PageRequest, Progress, PurgeEvaluations, PurgeVersions,
    RegistryRetention, Timestamp, WriteDocuments,
};

use super::helpers::{add_cases, create, end, evaluations, expect_missing, expect_results, key, new, run_with};
use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    dataset::helpers::{change, datasets, put, remove, version},
    given::id,
    log::entry_drafts::json,
    registry::helpers::{load_manifest, publication, publish, publish_all, registry},
};

const DAY: Duration = Duration::from_hours(24);

/// Makes a purge, and returns the ids of the removed runs.
async fn purge(given: &Given, request: PurgeEvaluations) -> Result<String, Failure> {
    let purged = evaluations(given)?.purge_evaluations(request, &IgnoreProgress).await?;
    expect_eq(purged.stopped, false)?;
    let ids: Vec<_> = purged.evaluations.iter().map(ToString::to_string).collect();
    Ok(ids.join(" "))
}

/// Checks the ids of all runs.
async fn expect_listed(given: &Given, expected: &str) -> Verdict {
    let found = evaluations(given)?.list_evaluations(PageRequest::first(100)).await?;
    let ids: Vec<_> = found.items.iter().map(|found| found.id.to_string()).collect();
    expect_eq(ids.join(" "), expected.to_owned())
}

/// Creates runs with one result each, and completes them, one after another.
async fn completed(given: &Given, names: &[&str]) -> Verdict {
    for name in names {
        run_with(given, name, &["a/x/1=1"]).await?;
        end(given, name, EvaluationEnd::Completed).await?;
    }
    Ok(())
}

/// Runs that ended before a time are removed, and newer ones stay.
pub(super) async fn old_evaluations_are_removed(given: &Given) -> Verdict {
    add_cases(given, &["a"]).await?;
    completed(given, &["old", "older"]).await?;
    create(given, "abandoned", &["x"], 1).await?;
    create(given, "ends later", &["x"], 1).await?;
    end(given, "abandoned", EvaluationEnd::Abandoned).await?;
    given.advance(DAY).await;
    completed(given, &["new"]).await?;
    let now = end(given, "ends later", EvaluationEnd::Abandoned).await?.updated_at;
    let new = expect_some(evaluations(given)?.load_evaluation(&id("new")).await?, "evaluation")?;
    let before = new.created_at.min(now);
    let removed = purge(given, PurgeEvaluations::before(before)).await?;
    let mut removed: Vec<_> = removed.split(' ').collect();
    removed.sort_unstable();
    expect_eq(removed, vec!["abandoned", "old", "older"])?;
    expect_listed(given, "ends later new").await?;
    expect_eq(purge(given, PurgeEvaluations::before(before)).await?.as_str(), "")
}

/// The runs of each dataset that were created last stay.
pub(super) async fn the_newest_evaluations_of_a_dataset_stay(given: &Given) -> Verdict {
    add_cases(given, &["a"]).await?;
    change(given, "other", [put("a", "1")]).await?;
    completed(given, &["e1", "e2", "e3"]).await?;
    let of_other = store_core::NewEvaluation::new(id("f1"), id("other"));
    evaluations(given)?.create_evaluation(of_other).await?;
    end(given, "f1", EvaluationEnd::Abandoned).await?;
    create(given, "e4", &["x"], 1).await?;
    expect_eq(purge(given, PurgeEvaluations::keeping_newest(5)).await?.as_str(), "")?;
    let of_other = PurgeEvaluations::keeping_newest(0).of(id("other"));
    expect_eq(purge(given, of_other.dry()).await?.as_str(), "f1")?;
    // The running one is one of the three.
    expect_eq(purge(given, PurgeEvaluations::keeping_newest(3)).await?.as_str(), "e1")?;
    expect_listed(given, "e2 e3 e4 f1").await?;
    let mut both = PurgeEvaluations::before(Timestamp::MIN);
    both.keep_newest = 1;
    expect_eq(purge(given, both).await?.as_str(), "")
}

/// A pinned run stays until it is unpinned, and a running one until it has ended.
pub(super) async fn pinned_and_running_evaluations_stay(given: &Given) -> Verdict {
    add_cases(given, &["a"]).await?;
    completed(given, &["pinned", "plain"]).await?;
    create(given, "running", &["x"], 1).await?;
    let pinned = evaluations(given)?.pin_evaluation(&id("pinned"), true).await?;
    expect_eq(pinned.pinned, true)?;
    expect_eq(evaluations(given)?.pin_evaluation(&id("pinned"), true).await?, pinned)?;
    expect_eq(purge(given, PurgeEvaluations::default()).await?.as_str(), "plain")?;
    expect_listed(given, "pinned running").await?;
    expect_results(given, "pinned", "a/x/1=1").await?;
    evaluations(given)?.pin_evaluation(&id("pinned"), false).await?;
    end(given, "running", EvaluationEnd::Abandoned).await?;
    expect_eq(purge(given, PurgeEvaluations::default()).await?.as_str(), "pinned running")?;
    for name in ["pinned", "other"] {
        expect_kind(evaluations(given)?.pin_evaluation(&id(name), true).await, ErrorKind::NotFound)?;
    }
    Ok(())
}

/// A dry run names the runs that a purge would remove, and removes none.
pub(super) async fn a_dry_purge_removes_no_evaluation(given: &Given) -> Verdict {
    add_cases(given, &["a"]).await?;
    completed(given, &["e1", "e2"]).await?;
    for _ in 0..2 {
        expect_eq(purge(given, PurgeEvaluations::keeping_newest(1).dry()).await?.as_str(), "e1")?;
    }
    expect_listed(given, "e1 e2").await?;
    expect_results(given, "e1", "a/x/1=1").await
}

/// Stops after a number of runs.
#[derive(Debug)]
struct StopAfter(u64);

impl Progress for StopAfter {
    fn advance(&self, done: u64, _total: Option<u64>) -> bool {
        done < self.0
    }
}

/// A purge can be stopped between two runs, and inside of one. A run that it has begun to remove is not there any
/// more, and the next purge removes the rest of it, whatever it asks for.
pub(super) async fn a_purge_of_evaluations_goes_on_where_it_stopped(given: &Given) -> Verdict {
    add_cases(given, &["a"]).await?;
    create(given, "large", &["x"], 1).await?;
    end(given, "large", EvaluationEnd::Abandoned).await?;
    let documents = expect_some(given.stores()?.documents, "documents")?;
    // As many results as need two batches.
    for numbers in [0..600, 600..1_200] {
        let put = |number: u64| {
            let segments = [KeySegment::id("large")?, KeySegment::id("a")?, KeySegment::id("x")?, number.into()];
            let key = DocumentKey::new(CollectionId::new("layer.evaluations.results")?, segments)?;
            Ok::<_, Failure>(DocumentChange::put(key, json("{}")))
        };
        let changes = numbers.map(put).collect::<Result<Vec<_>, _>>()?;
        documents.write_documents(WriteDocuments::new(changes)).await?;
    }
    for name in ["later", "last"] {
        create(given, name, &["x"], 1).await?;
        end(given, name, EvaluationEnd::Abandoned).await?;
    }
    let stopped = evaluations(given)?.purge_evaluations(PurgeEvaluations::default(), &StopAfter(0)).await?;
    expect_eq((stopped.evaluations, stopped.stopped), (vec![], true))?;
    expect_listed(given, "last later").await?;
    expect_eq(evaluations(given)?.load_evaluation(&id("large")).await?, None)?;
    expect_kind(evaluations(given)?.create_evaluation(new("large", &["x"])).await, ErrorKind::AlreadyExists)?;
    let keep_all = PurgeEvaluations::keeping_newest(10);
    expect_eq(purge(given, keep_all).await?.as_str(), "large")?;
    let rest = DocumentQuery::new(CollectionId::new("layer.evaluations.results")?);
    expect_eq(documents.count_documents(rest).await?, 0)?;
    let stopped = evaluations(given)?.purge_evaluations(PurgeEvaluations::default(), &StopAfter(1)).await?;
    expect_eq((stopped.evaluations.len(), stopped.stopped), (1, true))?;
    expect_eq(evaluations(given)?.list_evaluations(PageRequest::default()).await?.items.len(), 1)
}

/// Nothing is left of a removed run. Its id can be used again, and the new run has no results.
pub(super) async fn a_removed_evaluation_leaves_nothing(given: &Given) -> Verdict {
    add_cases(given, &["a"]).await?;
    completed(given, &["e", "other"]).await?;
    evaluations(given)?.pin_evaluation(&id("other"), true).await?;
    expect_eq(purge(given, PurgeEvaluations::default()).await?.as_str(), "e")?;
    let documents = expect_some(given.stores()?.documents, "documents")?;
    for collection in ["layer.evaluations", "layer.evaluations.results", "layer.evaluations.outputs"] {
        let all = DocumentQuery::new(CollectionId::new(collection)?);
        expect_eq((collection, documents.count_documents(all).await?), (collection, 1))?;
    }
    expect_eq(evaluations(given)?.load_output(&id("e"), &key("a/x/1")).await?, None)?;
    create(given, "e", &["x"], 1).await?;
    expect_results(given, "e", "").await?;
    expect_missing(given, "e", "a/x/1").await?;
    expect_results(given, "other", "a/x/1=1").await
}

/// What a run refers to stays while the run exists and after it: the version of the dataset with its cases, and the
/// publication, which no purge of the registry removes.
pub(super) async fn what_an_evaluation_refers_to_stays(given: &Given) -> Verdict {
    add_cases(given, &["a", "b"]).await?;
    publish_all(given, publication("p", &[("agent", "1")])).await?;
    for text in ["2", "3"] {
        publish(given, "agent", text).await?;
    }
    evaluations(given)?.create_evaluation(new("e", &["x"]).testing(id("p"))).await?;
    change(given, "d", [remove("a"), put("b", "2")]).await?;
    let expect_there = async || {
        let manifest = load_manifest(given, ManifestChoice::Publication(id("p"))).await?;
        expect_eq(manifest.versions.len(), 1)?;
        let cases = datasets(given)?.list_cases(&version("d", 1), PageRequest::default()).await?.items;
        expect_eq(cases.len(), 2)
    };
    for _ in 0..2 {
        let versions = PurgeVersions::keeping_newest(1);
        registry(given)?.purge_versions(versions, &*given.threads()?, &IgnoreProgress).await?;
        expect_there().await?;
        end(given, "e", EvaluationEnd::Abandoned).await.map(drop).or(Ok::<_, Failure>(()))?;
        purge(given, PurgeEvaluations::default()).await?;
        expect_there().await?;
    }
    expect_listed(given, "").await
}
