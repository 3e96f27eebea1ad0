//! Removing versions, and runs that pin them.

use store_core::{
    CollectionId, Commit, DocumentChange, DocumentKey, DocumentQuery, DocumentStoreExt, ErrorKind, IgnoreProgress,
    KeySegment, Progress, PurgeVersions, RegistryReader, RegistryRetention, RunOutcome, RunStatus, VersionRef,
    WriteDocuments, pin_changes, unpin_changes,
};

use super::helpers::{agent, expect_versions, publication, publish_all, publish_values, registry};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, run_two_concurrently},
    log::entry_drafts::json,
    run::helpers::{done_run, run_change, running_run, write_run},
};

/// Purges all versions except the newest ones. Returns the names of those that were removed, separated by spaces.
async fn purge(given: &Given, request: PurgeVersions) -> Result<String, Failure> {
    let threads = given.threads()?;
    let purged = registry(given)?.purge_versions(request, &*threads, &IgnoreProgress).await?;
    Ok(purged.versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
}

/// A commit that starts a run which pins a version.
fn pinning_commit(run: &str, version: &VersionRef) -> Result<Commit, Failure> {
    let pins = pin_changes(&id(run), [version])?;
    Ok(Commit::new(id("t")).with_run(running_run(run)).with_documents(pins))
}

/// Starts a run that pins a version.
async fn pin(given: &Given, run: &str, version: &VersionRef) -> Verdict {
    given.commit(pinning_commit(run, version)?).await.map(drop)
}

/// A purge keeps the current version, published ones, protected ones and the newest ones, and removes the others.
pub(super) async fn a_purge_keeps_what_is_needed(given: &Given) -> Verdict {
    publish_values(given, "a", &["1", "2", "3", "4", "5", "6", "7"]).await?;
    publish_values(given, "b", &["1", "2"]).await?;
    publish_all(given, publication("p", &[]).existing(agent("a").at(2))).await?;
    let store = registry(given)?;
    store.protect_version(&agent("a").at(4)).await?;
    store.protect_version(&agent("a").at(5)).await?;
    store.unprotect_version(&agent("a").at(5)).await?;
    expect_kind(store.protect_version(&agent("a").at(9)).await, ErrorKind::NotFound)?;
    expect_eq(purge(given, PurgeVersions::keeping_newest(3).of(agent("a"))).await?.as_str(), "agent/a@1 agent/a@3")?;
    expect_versions(given, "a", "2=2 4=4 5=5 6=6 7=7").await?;
    expect_eq(purge(given, PurgeVersions::keeping_newest(0)).await?.as_str(), "agent/a@5 agent/a@6 agent/b@1")?;
    expect_versions(given, "a", "2=2 4=4 7=7").await?;
    expect_versions(given, "b", "2=2").await?;
    super::helpers::publish(given, "a", "8").await.map(drop)?;
    expect_versions(given, "a", "2=2 4=4 7=7 8=8").await
}

/// A dry run returns the versions that a purge would remove, and removes none. Nothing is marked: they can be pinned.
pub(super) async fn a_dry_purge_changes_nothing(given: &Given) -> Verdict {
    publish_values(given, "a", &["1", "2", "3"]).await?;
    let request = || PurgeVersions::keeping_newest(1);
    expect_eq(purge(given, request().dry()).await?.as_str(), "agent/a@1 agent/a@2")?;
    expect_versions(given, "a", "1=1 2=2 3=3").await?;
    pin(given, "r", &agent("a").at(2)).await?;
    expect_eq(purge(given, request().dry()).await?.as_str(), "agent/a@1")?;
    expect_eq(purge(given, request()).await?.as_str(), "agent/a@1")
}

/// A version that a run pins stays while the run is not done. The pin of a run that is done, or whose thread was
/// deleted, keeps nothing.
pub(super) async fn a_pinned_version_stays_until_its_run_is_done(given: &Given) -> Verdict {
    publish_values(given, "a", &["1", "2", "3", "4", "5"]).await?;
    let request = || PurgeVersions::keeping_newest(1);
    for (run, version) in [("one", 1), ("two", 2), ("three", 3), ("four", 3)] {
        pin(given, run, &agent("a").at(version)).await?;
    }
    expect_eq(purge(given, request()).await?.as_str(), "agent/a@4")?;
    // A purge was stopped after it had marked versions that stay now. The next one takes the marks back.
    for version in [2, 5] {
        put_mark(given, &agent("a").at(version)).await?;
    }
    expect_eq(purge(given, request()).await?.as_str(), "")?;
    pin(given, "five", &agent("a").at(2)).await?;
    pin(given, "six", &agent("a").at(5)).await?;
    for run in ["one", "two", "three"] {
        write_run(given, "t", done_run(run)).await?;
    }
    expect_eq(purge(given, request()).await?.as_str(), "agent/a@1")?;
    let end = run_change("four", RunStatus::done(RunOutcome::Cancelled));
    let unpin = unpin_changes(&id("four"), [&agent("a").at(3)])?;
    given.commit(Commit::new(id("t")).with_run(end).with_documents(unpin)).await.map(drop)?;
    expect_eq(purge(given, request()).await?.as_str(), "agent/a@3")?;
    expect_versions(given, "a", "2=2 5=5").await
}

/// Marks a version as a purge does that is stopped before it has decided.
async fn put_mark(given: &Given, version: &VersionRef) -> Verdict {
    let VersionRef { definition, version } = version;
    let segments = [KeySegment::id(definition.kind())?, KeySegment::id(definition.id())?, KeySegment::Number(*version)];
    let mark = DocumentKey::new(CollectionId::new("layer.registry.marks")?, segments)?;
    let documents = given.stores()?.documents.ok_or_else(|| Failure::new("the store has no documents"))?;
    documents.write_documents(WriteDocuments::new([DocumentChange::put(mark, json("{}"))])).await?;
    Ok(())
}

/// Stops an operation at once.
#[derive(Debug)]
struct StopAtOnce;

impl Progress for StopAtOnce {
    fn advance(&self, _done: u64, _total: Option<u64>) -> bool {
        false
    }
}

/// A purge that is told to stop ends after the version that it is about. What it has not decided stays, and the next
/// purge continues. It also removes the pins of runs that are done, so that no later purge has to look at them.
pub(super) async fn a_purge_can_be_stopped(given: &Given) -> Verdict {
    publish_values(given, "a", &["1", "2", "3"]).await?;
    publish_values(given, "b", &["1", "2"]).await?;
    for (run, version) in [("done", 2), ("open", 2)] {
        pin(given, run, &agent("a").at(version)).await?;
    }
    write_run(given, "t", done_run("done")).await?;
    let threads = given.threads()?;
    let request = || PurgeVersions::keeping_newest(1);
    for request in [request().dry(), request()] {
        let stopped = registry(given)?.purge_versions(request, &*threads, &StopAtOnce).await?;
        expect_eq((stopped.versions, stopped.stopped), (vec![agent("a").at(1)], true))?;
    }
    expect_versions(given, "a", "2=2 3=3").await?;
    expect_versions(given, "b", "1=1 2=2").await?;
    expect_eq(purge(given, request()).await?.as_str(), "agent/b@1")?;
    let documents = given.stores()?.documents.ok_or_else(|| Failure::new("the store has no documents"))?;
    let pins = DocumentQuery::new(CollectionId::new("layer.registry.pins")?);
    expect_eq(documents.count_documents(pins).await?, 1)
}

/// A commit cannot pin a version that was removed, or that a purge has marked. It is refused as a whole.
pub(super) async fn a_version_about_to_be_removed_cannot_be_pinned(given: &Given) -> Verdict {
    publish_values(given, "a", &["1", "2", "3"]).await?;
    put_mark(given, &agent("a").at(2)).await?;
    expect_kind(given.commits()?.commit(pinning_commit("r", &agent("a").at(2))?).await, ErrorKind::Conflict)?;
    expect_kind(registry(given)?.protect_version(&agent("a").at(2)).await, ErrorKind::Conflict)?;
    // A later purge finishes what a stopped one has begun.
    expect_eq(purge(given, PurgeVersions::keeping_newest(1)).await?.as_str(), "agent/a@1 agent/a@2")?;
    for version in [1, 2, 9] {
        let commit = pinning_commit("r", &agent("a").at(version))?;
        expect_kind(given.commits()?.commit(commit).await, ErrorKind::Conflict)?;
    }
    expect_eq(given.threads()?.load_run(&id("r")).await?, None)
}

/// While a purge and a run that pins a version race, either the version stays, or the commit of the run is refused.
pub(super) async fn no_run_loses_a_version_that_it_pins(given: &Given) -> Verdict {
    for round in 0..40_u64 {
        publish_values(given, "a", &[&format!("[{round}]"), &format!("[{round},1]")]).await?;
        let version = agent("a").at(2 * round + 1);
        let (store, threads, commits) = (registry(given)?, given.threads()?, given.commits()?);
        let commit = pinning_commit(&format!("r{round}"), &version)?;
        let request = PurgeVersions::keeping_newest(1).of(agent("a"));
        let purge = async move { store.purge_versions(request, &*threads, &IgnoreProgress).await };
        let start = async move { commits.commit(commit).await.map(drop) };
        let (purged, pinned) = run_two_concurrently(purge, start).await;
        let was_purged = purged?.versions.contains(&version);
        if pinned.is_err() {
            expect_kind(pinned, ErrorKind::Conflict)?;
        } else {
            expect(!was_purged, format!("round {round}: a pinned version was removed"))?;
            super::helpers::load_version(given, &version).await?;
        }
        let is_there = registry(given)?.load_version(&version).await?.is_some();
        expect_eq((round, is_there), (round, !was_purged))?;
    }
    Ok(())
}
