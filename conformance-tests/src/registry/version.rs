//! Versions of definitions: when they are made, that they never change, rollbacks, archiving.

use store_core::{DefinitionKind, DefinitionRef, ErrorKind, NewVersion, RegistryReader, RegistryWriter, content_hash};

use super::helpers::{
    agent, expect_versions, load_version, new_version, publication, publish, publish_values, registry,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, run_concurrently},
    log::entry_drafts::json,
};

/// Each content that differs from the current version becomes the next version. Versions are numbered from 1.
pub(super) async fn changed_content_gets_the_next_version(given: &Given) -> Verdict {
    for (text, version) in [("1", 1), ("2", 2), ("3", 3)] {
        let published = publish(given, "a", text).await?;
        expect_eq((published.name, published.created), (agent("a").at(version), true))?;
    }
    expect_eq(publish(given, "b", "1").await?.name, agent("b").at(1))?;
    let mut new = new_version("a", "3");
    new.schema_version = 2;
    expect_eq(registry(given)?.publish(new).await?.name, agent("a").at(4))?;
    expect_versions(given, "a", "1=1 2=2 3=3 4=3").await
}

/// Content that is equal to that of the current version gets this version, and nothing is written. The order of keys
/// and the metadata do not matter.
pub(super) async fn equal_content_gets_no_version(given: &Given) -> Verdict {
    let first = publish(given, "a", r#"{"x":1,"y":"é"}"#).await?;
    let before = registry(given)?.load_definition(&agent("a")).await?;
    let mut other = new_version("a", r#"{ "y": "\u00e9", "x": 1.0 }"#);
    other.metadata = Some(json("1"));
    let second = registry(given)?.publish(other).await?;
    expect_eq((&second.name, second.created, second.hash), (&first.name, false, first.hash))?;
    expect_eq(registry(given)?.load_definition(&agent("a")).await?, before)?;
    expect_versions(given, "a", r#"1={"x":1,"y":"é"}"#).await
}

/// Content that is equal to that of an older version, but not of the current one, becomes a new version.
pub(super) async fn content_of_an_older_version_is_new(given: &Given) -> Verdict {
    publish_values(given, "a", &["1", "2"]).await?;
    expect_eq(publish(given, "a", "1").await?.name, agent("a").at(3))?;
    expect_versions(given, "a", "1=1 2=2 3=1").await
}

/// Later versions change nothing of earlier ones.
pub(super) async fn a_version_never_changes(given: &Given) -> Verdict {
    let mut new = NewVersion::new(agent("a"), json(r#"{"b":1.50,"a":null}"#));
    new.metadata = Some(json(r#"{"why":"first"}"#));
    let published = registry(given)?.publish(new.clone()).await?;
    let before = load_version(given, &published.name).await?;
    expect_eq((&before.content.value, &before.content.metadata), (&new.value, &new.metadata))?;
    expect_eq((before.content.schema_version, &before.content.hash), (1, &published.hash))?;
    publish_values(given, "a", &["2", "3"]).await?;
    registry(given)?.rollback(&published.name, None).await?;
    expect_eq(load_version(given, &published.name).await?, before)
}

/// Versions of an archived definition are loaded and listed. An unknown version is absent.
pub(super) async fn versions_of_an_archived_definition_are_read(given: &Given) -> Verdict {
    publish_values(given, "a", &["1", "2"]).await?;
    let store = registry(given)?;
    store.archive(&agent("a"), None).await?;
    expect_eq(load_version(given, &agent("a").at(1)).await?.content.value.as_str(), "1")?;
    let current = expect_some(store.load_current(&agent("a")).await?, "current version")?;
    expect_eq(current.name, agent("a").at(2))?;
    expect_versions(given, "a", "1=1 2=2").await?;
    expect_eq(store.load_version(&agent("a").at(3)).await?, None)?;
    expect_eq(store.load_current(&agent("b")).await?, None)
}

/// Definitions, versions and publications survive a reopen.
pub(super) async fn the_registry_survives_a_reopen(given: &Given) -> Verdict {
    publish_values(given, "a", &["1", "2"]).await?;
    super::helpers::publish_all(given, publication("p", &[("a", "3"), ("b", "1")])).await?;
    let before = (registry(given)?.load_definition(&agent("a")).await?, super::helpers::publications(given).await?);
    given.reopen().await?;
    let after = (registry(given)?.load_definition(&agent("a")).await?, super::helpers::publications(given).await?);
    expect_eq(after, before)?;
    expect_versions(given, "a", "1=1 2=2 3=3").await?;
    expect_eq(publish(given, "a", "4").await?.name, agent("a").at(4))
}

/// The content hash of a value is the same on every store.
pub(super) async fn a_content_hash_is_the_same_everywhere(given: &Given) -> Verdict {
    let text = r#"{"b":[1.50,1e2,"\u0000é"],"a":{"é":null,"e":true}}"#;
    let published = publish(given, "a", text).await?;
    expect_eq(&published.hash, &content_hash(1, &json(text))?)?;
    expect(published.hash.starts_with("sha256-jcs:"), "the hash has no name in front")?;
    let stored = load_version(given, &published.name).await?;
    expect_eq(stored.content.hash, content_hash(1, &stored.content.value)?)
}

/// A value that canonical JSON cannot hold is refused, and so is schema version 0.
pub(super) async fn values_without_a_hash_are_refused(given: &Given) -> Verdict {
    for text in ["1e400", "12345678901234567890", r#"{"a":1,"a":2}"#] {
        expect_kind(registry(given)?.publish(new_version("a", text)).await, ErrorKind::Invalid)?;
    }
    let mut new = new_version("a", "1");
    new.schema_version = 0;
    expect_kind(registry(given)?.publish(new).await, ErrorKind::Invalid)?;
    expect_eq(registry(given)?.load_definition(&agent("a")).await?, None)
}

/// Concurrent contents of one definition all become versions, each with a number of its own.
pub(super) async fn concurrent_contents_get_different_versions(given: &Given) -> Verdict {
    const WRITERS: usize = 8;
    let store = registry(given)?;
    let results = run_concurrently(WRITERS, |task| {
        let store = store.clone();
        async move { store.publish(new_version("a", &task.to_string())).await }
    });
    let results = results.await.into_iter().collect::<store_core::Result<Vec<_>>>()?;
    let mut versions: Vec<_> = results.iter().map(|published| published.name.version).collect();
    versions.sort_unstable();
    expect_eq(versions, (1..=WRITERS as u64).collect::<Vec<_>>())?;
    for published in results {
        expect_eq(load_version(given, &published.name).await?.content.hash, published.hash)?;
    }
    Ok(())
}

/// A rollback makes the next version with the content of an older one, and notes which. A rollback to the current
/// content makes none.
pub(super) async fn a_rollback_copies_an_older_version(given: &Given) -> Verdict {
    publish_values(given, "a", &["1", "2", "3"]).await?;
    let copy = registry(given)?.rollback(&agent("a").at(1), None).await?;
    expect_eq((&copy.name, copy.created), (&agent("a").at(4), true))?;
    let copied = load_version(given, &copy.name).await?.content;
    expect_eq((copied.value.as_str(), copied.copied_from), ("1", Some(1)))?;
    let again = registry(given)?.rollback(&agent("a").at(1), None).await?;
    expect_eq((again.name, again.created), (copy.name, false))?;
    expect_kind(registry(given)?.rollback(&agent("a").at(9), None).await, ErrorKind::NotFound)?;
    expect_versions(given, "a", "1=1 2=2 3=3 4=1").await
}

/// Nothing of an archived definition is published: no content, no copy, no existing version.
pub(super) async fn an_archived_definition_is_not_published(given: &Given) -> Verdict {
    publish_values(given, "a", &["1", "2"]).await?;
    let (store, refused) = (registry(given)?, ErrorKind::InvalidTransition);
    store.archive(&agent("a"), None).await?;
    expect_kind(store.publish(new_version("a", "3")).await, refused)?;
    expect_kind(store.rollback(&agent("a").at(1), None).await, refused)?;
    expect_kind(store.publish_all(publication("p", &[("b", "1"), ("a", "3")])).await, refused)?;
    expect_kind(store.publish_all(publication("p", &[("b", "1")]).existing(agent("a").at(1))).await, refused)?;
    expect_versions(given, "a", "1=1 2=2").await?;
    store.unarchive(&agent("a"), None).await?;
    expect_eq(publish(given, "a", "3").await?.name, agent("a").at(3))
}

/// Archiving an archived definition has no effect, and neither has the opposite.
pub(super) async fn archiving_may_be_repeated(given: &Given) -> Verdict {
    publish(given, "a", "1").await?;
    let store = registry(given)?;
    for (archived, changed) in [(true, true), (true, false), (false, true), (false, false)] {
        let answer =
            if archived { store.archive(&agent("a"), None).await } else { store.unarchive(&agent("a"), None).await };
        expect_eq(answer?, changed)?;
        let found = expect_some(store.load_definition(&agent("a")).await?, "definition")?;
        expect_eq((found.archived, found.current), (archived, 1))?;
    }
    expect_kind(store.archive(&agent("b"), None).await, ErrorKind::NotFound).map(drop)
}

/// All kinds that have definitions, separated by spaces, listed `limit` at a time.
async fn kinds(given: &Given, limit: u32) -> Result<String, Failure> {
    let (store, mut found): (_, Vec<DefinitionKind>) = (registry(given)?, Vec::new());
    for _ in 0..20 {
        let more = store.list_kinds(found.last(), limit).await?;
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    Ok(found.iter().map(DefinitionKind::as_str).collect::<Vec<_>>().join(" "))
}

/// The list of kinds has each kind with definitions once, in the order of their bytes, and goes on after any kind.
/// Archived definitions keep their kinds.
pub(super) async fn kinds_are_listed_once_in_order(given: &Given) -> Verdict {
    expect_eq(kinds(given, 2).await?.as_str(), "")?;
    let store = registry(given)?;
    for kind in ["tool", "agent", "agent/x", "agents"] {
        for name in ["a", "b", "z"] {
            store.publish(NewVersion::new(DefinitionRef::new(id(kind), id(name))?, json("1"))).await?;
        }
    }
    for limit in [1, 2, 4, 1_000] {
        expect_eq(kinds(given, limit).await?.as_str(), "agent agent/x agents tool")?;
    }
    expect_eq(store.list_kinds(Some(&id("b")), 2).await?, vec![id("tool")])?;
    for name in ["a", "b", "z"] {
        store.archive(&agent(name), None).await?;
    }
    expect_eq(kinds(given, 3).await?.as_str(), "agent agent/x agents tool")?;
    for limit in [0, 1_001] {
        expect_kind(store.list_kinds(None, limit).await, ErrorKind::Invalid)?;
    }
    Ok(())
}
