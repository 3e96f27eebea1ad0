//! Publications: several versions at once, ids, snapshot numbers, guards, and going back.

use std::collections::BTreeMap;

use store_core::{ErrorKind, ManifestChoice, PublishAll, RegistryReader, RegistryWriter, RollbackPublication};

use super::helpers::{
    agent, expect_versions, joined_names, load_manifest, load_version, publication, publications, publish, publish_all,
    publish_values, registry,
};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_exactly_one, expect_kind, expect_kinds},
    given::{id, run_concurrently},
    log::entry_drafts::json,
};

/// New contents, unchanged contents and existing versions are published together, as one snapshot.
pub(super) async fn versions_are_published_together(given: &Given) -> Verdict {
    publish_values(given, "a", &["1"]).await?;
    publish_values(given, "b", &["1", "2"]).await?;
    let request = publication("p", &[("a", "1"), ("c", "1")]).existing(agent("b").at(1));
    let published = publish_all(given, request).await?;
    expect_eq((published.snapshot, joined_names(&published)), (1, "agent/a@1 agent/c@1 agent/b@1".to_owned()))?;
    expect_eq(publications(given).await?, vec![published])?;
    expect_versions(given, "a", "1=1").await?;
    expect_versions(given, "c", "1=1").await?;
    let second = publish_all(given, publication("q", &[("a", "2")])).await?;
    expect_eq((second.snapshot, joined_names(&second)), (2, "agent/a@2".to_owned()))
}

/// A refused publication makes no version, no snapshot and no entry of the feed.
pub(super) async fn a_refused_publication_changes_nothing(given: &Given) -> Verdict {
    let store = registry(given)?;
    publish(given, "old", "1").await?;
    store.archive(&agent("old"), None).await?;
    for (request, kind) in [
        (publication("p", &[("a", "1"), ("old", "2")]), ErrorKind::InvalidTransition),
        (publication("p", &[("a", "1")]).existing(agent("b").at(1)), ErrorKind::NotFound),
        (publication("p", &[("a", "1"), ("b", "1e400")]), ErrorKind::Invalid),
        (publication("p", &[("a", "1")]).expecting_snapshot(1), ErrorKind::Conflict),
    ] {
        expect_kind(store.publish_all(request).await, kind)?;
    }
    expect_eq(store.load_definition(&agent("a")).await?, None)?;
    expect_eq(publications(given).await?.len(), 0)?;
    super::feed::expect_facts(given, "archived agent/old").await?;
    expect_eq(publish_all(given, publication("p", &[("a", "1")])).await?.snapshot, 1)
}

/// A publication whose id is in use is refused as a whole, also if it has the same content.
pub(super) async fn the_id_of_a_publication_is_used_once(given: &Given) -> Verdict {
    publish_all(given, publication("p", &[("a", "1")])).await?;
    for request in [publication("p", &[("a", "1")]), publication("p", &[("a", "2"), ("b", "1")])] {
        expect_kind(registry(given)?.publish_all(request).await, ErrorKind::AlreadyExists)?;
    }
    expect_eq(publications(given).await?.len(), 1)?;
    expect_versions(given, "a", "1=1").await?;
    expect_versions(given, "b", "").await
}

/// A publication that names nothing, or a definition twice, is refused.
pub(super) async fn a_publication_names_each_definition_once(given: &Given) -> Verdict {
    publish_values(given, "a", &["1", "2"]).await?;
    for request in [
        PublishAll::new(id("p")),
        publication("p", &[("a", "1"), ("a", "3")]),
        publication("p", &[("a", "3")]).existing(agent("a").at(1)),
        publication("p", &[]).existing(agent("a").at(1)).existing(agent("a").at(2)),
    ] {
        expect_kind(registry(given)?.publish_all(request).await, ErrorKind::Invalid)?;
    }
    expect_eq(publications(given).await?.len(), 0)
}

/// Concurrent publications all succeed, and their snapshots are numbered from 1 without gaps.
pub(super) async fn snapshot_numbers_have_no_gaps(given: &Given) -> Verdict {
    const WRITERS: usize = 8;
    let store = registry(given)?;
    let results = run_concurrently(WRITERS, |task| {
        let store = store.clone();
        let (name, text) = (format!("p{task}"), task.to_string());
        async move { store.publish_all(publication(&name, &[("shared", &text), (&name, "1")])).await }
    });
    let mut published = results.await.into_iter().collect::<store_core::Result<Vec<_>>>()?;
    published.sort_by_key(|publication| std::cmp::Reverse(publication.snapshot));
    let snapshots: Vec<_> = published.iter().map(|publication| publication.snapshot).collect();
    expect_eq(snapshots, (1..=WRITERS as u64).rev().collect::<Vec<_>>())?;
    expect_eq(publications(given).await?, published)
}

/// A publication that expects another snapshot than the latest one is refused.
pub(super) async fn a_publication_can_expect_the_latest_snapshot(given: &Given) -> Verdict {
    let store = registry(given)?;
    let request = |name: &str, snapshot| publication(name, &[("a", &format!("{name:?}"))]).expecting_snapshot(snapshot);
    expect_kind(store.publish_all(request("p", 1)).await, ErrorKind::Conflict)?;
    expect_eq(publish_all(given, request("p", 0)).await?.snapshot, 1)?;
    for wrong in [0, 2] {
        expect_kind(store.publish_all(request("q", wrong)).await, ErrorKind::Conflict)?;
    }
    expect_eq(publish_all(given, request("q", 1)).await?.snapshot, 2)?;
    expect_versions(given, "a", r#"1="p" 2="q""#).await
}

/// Of several publications that expect the same snapshot exactly one succeeds.
pub(super) async fn one_of_several_guarded_publications_succeeds(given: &Given) -> Verdict {
    for round in 0..5 {
        let store = registry(given)?;
        let results = run_concurrently(6, |task| {
            let store = store.clone();
            let request = publication(&format!("p{round}.{task}"), &[("a", &task.to_string())]);
            async move { store.publish_all(request.expecting_snapshot(round)).await }
        });
        let (published, errors) = expect_exactly_one(results.await)?;
        expect_kinds(errors, ErrorKind::Conflict)?;
        expect_eq(published.snapshot, round + 1)?;
    }
    Ok(())
}

/// Going back to a snapshot makes new versions with the old contents where the current ones differ, and one
/// publication that notes the snapshot.
pub(super) async fn an_earlier_publication_is_published_again(given: &Given) -> Verdict {
    publish_all(given, publication("p", &[("a", "1"), ("b", "1")])).await?;
    publish_all(given, publication("q", &[("a", "2"), ("c", "1")])).await?;
    let store = registry(given)?;
    let back = |to, guard| RollbackPublication::new(to, PublishAll::new(id("r")).expecting_snapshot(guard));
    expect_kind(store.rollback_publication(back(1, 1)).await, ErrorKind::Conflict)?;
    expect_kind(store.rollback_publication(back(9, 2)).await, ErrorKind::NotFound)?;
    let published = store.rollback_publication(back(1, 2)).await?;
    expect_eq((published.snapshot, published.content.rollback_of), (3, Some(1)))?;
    expect_eq(joined_names(&published).as_str(), "agent/a@3 agent/b@1")?;
    expect_eq(load_version(given, &agent("a").at(3)).await?.content.copied_from, Some(1))?;
    expect_versions(given, "a", "1=1 2=2 3=1").await?;
    let named = RollbackPublication::new(1, publication("s", &[("a", "9")]));
    expect_kind(store.rollback_publication(named).await, ErrorKind::Invalid)?;
    let latest = load_manifest(given, ManifestChoice::Latest).await?;
    expect_eq(latest.publication, published)
}

/// Publications are listed newest first, with who published them, when, why, and from which configs.
pub(super) async fn publications_are_listed_with_what_their_publishers_say(given: &Given) -> Verdict {
    for number in 1..=5 {
        let mut request = publication(&format!("p{number}"), &[("a", &number.to_string())]);
        request.by = Some(format!("user {number}"));
        request.metadata = Some(json(&format!(r#"{{"reason":{number}}}"#)));
        request.config_revisions = BTreeMap::from([("models".to_owned(), number)]);
        publish_all(given, request).await?;
    }
    let found = publications(given).await?;
    let snapshots: Vec<_> = found.iter().map(|publication| publication.snapshot).collect();
    expect_eq(snapshots, vec![5, 4, 3, 2, 1])?;
    for publication in found {
        let (number, content) = (publication.snapshot, publication.content);
        expect_eq(content.id.as_str(), format!("p{number}"))?;
        expect_eq(content.by, Some(format!("user {number}")))?;
        expect_eq(content.metadata, Some(json(&format!(r#"{{"reason":{number}}}"#))))?;
        expect_eq(content.config_revisions.get("models"), Some(&number))?;
    }
    Ok(())
}
