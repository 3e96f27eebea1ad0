//! Writes of config records: values, expectations, several records at once.

use std::sync::Arc;

use store_core::{
    Detail, DocumentExpect, ErrorKind,
    layers::config::{ConfigChange, ConfigContent, ConfigName, ConfigOp, ConfigSource, ConfigStoreExt},
};

use super::helpers::{config, expect_feed, ids_in, json, load, load_existing, name, namespaces, put, value_of, write};
use crate::{
    Given, Verdict,
    check::{Failure, expect, expect_eq, expect_exactly_one, expect_kind, expect_kinds, expect_some},
    given::{run_concurrently, run_two_concurrently},
};

/// A record has the content that was put, byte for byte, and the times of the store. An unknown record is none.
pub(super) async fn a_record_is_loaded_as_it_was_put(given: &Given) -> Verdict {
    let content = ConfigContent::new(json(r#"{"b":1.0,"a":1E2,"b":null}"#))
        .from_source(ConfigSource::Builtin)
        .hidden(true)
        .with_overrides(json(r#"{"a":2}"#));
    let written = write(given, [ConfigChange::new(name("a"), ConfigOp::Put(content.clone()))]).await?;
    let loaded = load_existing(given, "a").await?;
    expect_eq((&loaded.name, &loaded.content, loaded.created_at), (&name("a"), &content, loaded.updated_at))?;
    expect_eq(written.records, vec![Some(loaded.clone())])?;
    let replaced = config(given)?.put_config(name("a"), json("1"), DocumentExpect::Any).await?;
    expect_eq((&replaced.content, replaced.created_at), (&ConfigContent::new(json("1")), loaded.created_at))?;
    expect_eq(load(given, "a").await?, Some(replaced))?;
    expect_eq(load(given, "b").await?, None)
}

/// The list of a namespace has its records in the order of their ids, and no record of another namespace.
pub(super) async fn records_are_listed_by_id_in_pages(given: &Given) -> Verdict {
    write(given, ["c", "a", "é", "b", "A"].map(|id| put(id, "1"))).await?;
    for namespace in ["n", "nsa"] {
        write(given, [ConfigChange::put(ConfigName::new(namespace, "x")?, json("1"))]).await?;
    }
    expect_eq(ids_in(given, "ns").await?, "A a b c é")?;
    expect_eq((ids_in(given, "nsa").await?, ids_in(given, "x").await?), ("x".to_owned(), String::new()))
}

/// The list of namespaces has each namespace with records once, in the order of their bytes, and goes on after any
/// namespace. A namespace without records is not listed.
pub(super) async fn namespaces_are_listed_once_in_order(given: &Given) -> Verdict {
    expect_eq(namespaces(given, 2).await?.as_str(), "")?;
    for namespace in ["b", "a", "a/b", "é", "ab", "A"] {
        for id in ["x", "y", "z"] {
            write(given, [ConfigChange::put(ConfigName::new(namespace, id)?, json("1"))]).await?;
        }
    }
    for limit in [1, 2, 6, 1_000] {
        expect_eq(namespaces(given, limit).await?.as_str(), "A a a/b ab b é")?;
    }
    let config = config(given)?;
    let after = |text: &str| ConfigName::new(text, "x").map(|name| name.namespace);
    expect_eq(config.list_namespaces(Some(&after("aa")?), 2).await?, vec![after("ab")?, after("b")?])?;
    write(given, ["x", "y", "z"].map(|id| ConfigChange::delete(ConfigName::new("b", id).expect("a valid name"))))
        .await?;
    expect_eq(namespaces(given, 2).await?.as_str(), "A a a/b ab é")?;
    for limit in [0, 1_001] {
        expect_kind(config.list_namespaces(None, limit).await, ErrorKind::Invalid)?;
    }
    Ok(())
}

/// A deleted record cannot be loaded and is in no list. Deleting a missing record is no error.
pub(super) async fn a_deleted_record_is_gone(given: &Given) -> Verdict {
    write(given, [put("a", "1"), put("b", "1")]).await?;
    expect(delete(given).await?, "the record existed")?;
    expect_eq((load(given, "a").await?, ids_in(given, "ns").await?), (None, "b".to_owned()))?;
    expect(!delete(given).await?, "the record did not exist any more")
}

async fn delete(given: &Given) -> Result<bool, Failure> {
    Ok(config(given)?.delete_config(name("a"), DocumentExpect::Any).await?)
}

/// A seed makes a record of the source `builtin`, and later replaces its value only: overrides and whether it is hidden
/// stay, and so does a record that a user made.
pub(super) async fn a_seed_keeps_what_users_changed(given: &Given) -> Verdict {
    let seed = |id: &str, value: &str| ConfigChange::seed(name(id), json(value));
    write(given, [seed("a", "1"), put("b", "1")]).await?;
    expect_eq(
        load_existing(given, "a").await?.content,
        ConfigContent::new(json("1")).from_source(ConfigSource::Builtin),
    )?;
    write(given, [ConfigChange::new(name("a"), ConfigOp::Override(Some(json("5"))))]).await?;
    write(given, [ConfigChange::new(name("a"), ConfigOp::Hide(true))]).await?;
    write(given, [seed("a", "2"), seed("b", "2")]).await?;
    let kept = ConfigContent::new(json("2")).from_source(ConfigSource::Builtin).hidden(true).with_overrides(json("5"));
    expect_eq(load_existing(given, "a").await?.content, kept)?;
    expect_eq(load_existing(given, "b").await?.content, ConfigContent::new(json("1")))
}

/// The effective value is the value with the overrides as a merge patch. Removed overrides have no effect.
pub(super) async fn overrides_are_merged_into_the_value(given: &Given) -> Verdict {
    write(given, [ConfigChange::seed(name("a"), json(r#"{"x":1.0,"y":{"z":1,"w":2}}"#))]).await?;
    let overriding = |patch: Option<&str>| ConfigChange::new(name("a"), ConfigOp::Override(patch.map(json)));
    write(given, [overriding(Some(r#"{"y":{"z":null,"v":3}}"#))]).await?;
    let effective = async || load_existing(given, "a").await?.content.effective().map_err(Failure::from);
    expect_eq(effective().await?, json(r#"{"x":1.0,"y":{"w":2,"v":3}}"#))?;
    write(given, [overriding(None)]).await?;
    expect_eq(effective().await?, json(r#"{"x":1.0,"y":{"z":1,"w":2}}"#))
}

/// Overrides and hiding change an existing record, and make none.
pub(super) async fn only_an_existing_record_is_overridden_or_hidden(given: &Given) -> Verdict {
    for op in [ConfigOp::Override(Some(json("1"))), ConfigOp::Override(None), ConfigOp::Hide(true)] {
        let changes = vec![put("b", "1"), ConfigChange::new(name("a"), op)];
        let error = expect_kind(config(given)?.write_config(changes).await, ErrorKind::NotFound)?;
        expect_eq(error.part(), Some("config[1]"))?;
    }
    expect_eq(ids_in(given, "ns").await?, "")
}

/// Each change of a record raises its revision, also over a deletion.
pub(super) async fn revisions_grow_across_deletion_and_put(given: &Given) -> Verdict {
    let mut last = 0;
    for round in ["1", "2", "3"] {
        for value in ["1", "2"] {
            write(given, [put("a", &format!("{round}{value}"))]).await?;
            let revision = load_existing(given, "a").await?.revision;
            expect(revision > last, format!("revision {revision} does not follow {last}"))?;
            last = revision;
        }
        write(given, [ConfigChange::delete(name("a"))]).await?;
    }
    Ok(())
}

/// An expectation that does not hold refuses the whole call, and says which record was expected to be what.
pub(super) async fn an_expectation_that_does_not_hold_changes_nothing(given: &Given) -> Verdict {
    let first = write(given, [put("a", "1")]).await?;
    let revision = expect_some(first.records[0].as_ref(), "record")?.revision;
    for (id, expected, actual) in [
        ("a", DocumentExpect::Absent, Some(revision)),
        ("a", DocumentExpect::Revision(revision + 1), Some(revision)),
        ("b", DocumentExpect::Present, None),
        ("b", DocumentExpect::Revision(revision), None),
    ] {
        for change in [put(id, "2"), ConfigChange::delete(name(id))] {
            let changes = vec![put("c", "1"), change.expecting(expected)];
            let error = expect_kind(config(given)?.write_config(changes).await, ErrorKind::Conflict)?;
            expect_eq(error.part(), Some("config[1]"))?;
            let text = format!("config[1]: conflict in config record `ns/{id}`: expected ");
            expect(error.to_string().starts_with(&text), format!("the text does not name the record: {error}"))?;
            let Detail::DocumentConflict { expected: found_expected, actual: found_actual, .. } = error.detail() else {
                return expect(false, format!("another conflict: {error}"));
            };
            expect_eq((*found_expected, *found_actual), (expected, actual))?;
        }
    }
    expect_eq((value_of(given, "a").await?.as_deref(), ids_in(given, "ns").await?.as_str()), (Some("1"), "a"))?;
    write(given, [put("a", "2").expecting(DocumentExpect::Revision(revision))]).await?;
    write(given, [put("b", "2").expecting(DocumentExpect::Absent)]).await?;
    expect_feed(given, "created a 1, updated a 2, created b 3").await
}

/// Of several writers that expect one revision exactly one succeeds.
pub(super) async fn one_of_several_writers_with_one_revision_succeeds(given: &Given) -> Verdict {
    for _ in 0..5 {
        let config = config(given)?;
        let record = config.put_config(name("a"), json("0"), DocumentExpect::Any).await?;
        let results = run_concurrently(8, |number| {
            let (config, expect) = (Arc::clone(&config), DocumentExpect::Revision(record.revision));
            async move { config.put_config(name("a"), json(&format!("{}", number + 1)), expect).await }
        });
        let (winner, errors) = expect_exactly_one(results.await)?;
        expect_kinds(errors, ErrorKind::Conflict)?;
        expect_eq(load(given, "a").await?, Some(winner))?;
    }
    Ok(())
}

/// A delete and a put that expect one revision exclude each other.
pub(super) async fn a_delete_and_a_put_with_one_revision_exclude_each_other(given: &Given) -> Verdict {
    for _ in 0..10 {
        let (one, two) = (config(given)?, config(given)?);
        let expect =
            DocumentExpect::Revision(one.put_config(name("a"), json("0"), DocumentExpect::Any).await?.revision);
        let put = async move { one.put_config(name("a"), json("1"), expect).await.map(|_| true) };
        let delete = async move { two.delete_config(name("a"), expect).await.map(|_| false) };
        let (put, delete) = run_two_concurrently(put, delete).await;
        let (has_put, errors) = expect_exactly_one(vec![put, delete])?;
        expect_kinds(errors, ErrorKind::Conflict)?;
        expect_eq(value_of(given, "a").await?.is_some(), has_put)?;
    }
    Ok(())
}

/// Writers without expectations all succeed, and each change has its entry in the feed.
pub(super) async fn writers_without_expectations_all_succeed(given: &Given) -> Verdict {
    let config = config(given)?;
    let results = run_concurrently(8, |number| {
        let config = Arc::clone(&config);
        async move { config.put_config(name(&format!("{number}")), json("1"), DocumentExpect::Any).await }
    });
    let mut revisions =
        results.await.into_iter().map(|record| Ok(record?.revision)).collect::<store_core::Result<Vec<_>>>()?;
    revisions.sort_unstable();
    expect_eq(revisions, (1..=8).collect::<Vec<u64>>())?;
    expect_eq(ids_in(given, "ns").await?, "0 1 2 3 4 5 6 7")
}

/// Several records change in one step: all or none.
pub(super) async fn several_records_change_together(given: &Given) -> Verdict {
    write(given, [put("a", "1"), put("b", "1")]).await?;
    let changes = |expect| vec![put("a", "2"), ConfigChange::delete(name("b")), put("c", "2").expecting(expect)];
    expect_kind(config(given)?.write_config(changes(DocumentExpect::Present)).await, ErrorKind::Conflict)?;
    expect_eq((value_of(given, "a").await?.as_deref(), ids_in(given, "ns").await?.as_str()), (Some("1"), "a b"))?;
    let written = write(given, changes(DocumentExpect::Absent)).await?;
    expect_eq(written.records.iter().map(Option::is_some).collect::<Vec<_>>(), vec![true, false, true])?;
    expect_eq(written.entries.len(), 3)?;
    expect_eq((value_of(given, "a").await?.as_deref(), ids_in(given, "ns").await?.as_str()), (Some("2"), "a c"))
}

/// A call names a record at most once, and names at least one.
pub(super) async fn a_call_names_a_record_once(given: &Given) -> Verdict {
    let twice = config(given)?.write_config(vec![put("a", "1"), put("b", "1"), ConfigChange::delete(name("a"))]).await;
    expect_eq(expect_kind(twice, ErrorKind::Invalid)?.part(), Some("config[2]"))?;
    expect_kind(config(given)?.write_config(vec![]).await, ErrorKind::Invalid)?;
    expect_eq(ids_in(given, "ns").await?, "")
}
