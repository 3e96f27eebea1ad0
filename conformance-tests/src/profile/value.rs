//! Values of profiles: putting, loading, deleting, expectations.

use store_core::{DocumentExpect, ErrorKind, ProfileStore, ProfileStoreExt};

use super::helpers::{ada, expect_profile, load, profiles, put_value};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_exactly_one, expect_kind, expect_kinds, expect_some},
    given::{id, run_concurrently},
    log::entry_drafts::json,
};

/// What was put is loaded with its key, as it was given, with a revision and store time.
pub(super) async fn a_value_is_loaded_as_it_was_put(given: &Given) -> Verdict {
    let value = json(r#"{"b":1.50,"a":[null]}"#);
    let written = profiles(given)?.put_profile(&ada(), id("theme"), value.clone(), DocumentExpect::Any).await?;
    let found = expect_some(load(given, &ada(), "theme").await?, "value")?;
    expect_eq((found.key.as_str(), &found.value), ("theme", &value))?;
    expect_eq(
        (Some(found.revision), found.created_at, found.updated_at),
        (written.revision, written.time, written.time),
    )
}

/// A value that was never put is absent, also beside others of its owner.
pub(super) async fn an_unknown_value_is_absent(given: &Given) -> Verdict {
    expect_eq(load(given, &ada(), "theme").await?, None)?;
    put_value(given, &ada(), "theme", "1").await?;
    let keys = ["other", "theme", "them"].map(id);
    let found = profiles(given)?.load_profile_values(&ada(), &keys).await?;
    let found: Vec<_> = found.iter().map(|value| value.as_ref().map(|value| value.value.as_str())).collect();
    expect_eq(found, [None, Some("1"), None])
}

/// Values survive a reopen.
pub(super) async fn values_survive_a_reopen(given: &Given) -> Verdict {
    put_value(given, &ada(), "theme", "1").await?;
    let before = load(given, &ada(), "theme").await?;
    given.reopen().await?;
    expect_eq(load(given, &ada(), "theme").await?, before)
}

/// A put that expects the revision of the value is made. One that expects another revision is refused.
pub(super) async fn a_revision_can_be_expected(given: &Given) -> Verdict {
    let store = profiles(given)?;
    let first = put_value(given, &ada(), "theme", "1").await?;
    store.put_profile(&ada(), id("theme"), json("2"), DocumentExpect::Revision(first)).await?;
    let late = store.put_profile(&ada(), id("theme"), json("3"), DocumentExpect::Revision(first)).await;
    expect_kind(late, ErrorKind::Conflict)?;
    let missing = store.put_profile(&ada(), id("other"), json("3"), DocumentExpect::Revision(first)).await;
    expect_kind(missing, ErrorKind::Conflict)?;
    expect_profile(given, &ada(), "theme=2").await
}

/// A put that expects no value is made only if there is none.
pub(super) async fn the_absence_of_a_value_can_be_expected(given: &Given) -> Verdict {
    let store = profiles(given)?;
    store.put_profile(&ada(), id("theme"), json("1"), DocumentExpect::Absent).await?;
    let second = store.put_profile(&ada(), id("theme"), json("2"), DocumentExpect::Absent).await;
    expect_kind(second, ErrorKind::Conflict)?;
    expect_profile(given, &ada(), "theme=1").await
}

/// Of several writers that expect the same revision exactly one succeeds. The others get `Conflict`.
pub(super) async fn one_of_several_writers_with_one_expectation_succeeds(given: &Given) -> Verdict {
    const WRITERS: usize = 8;
    for _ in 0..10 {
        let revision = put_value(given, &ada(), "theme", "0").await?;
        let store = profiles(given)?;
        let results = run_concurrently(WRITERS, |task| {
            let store = store.clone();
            async move {
                let expect = DocumentExpect::Revision(revision);
                store.put_profile(&ada(), id("theme"), json(&task.to_string()), expect).await
            }
        });
        let (written, errors) = expect_exactly_one(results.await)?;
        expect_kinds(errors, ErrorKind::Conflict)?;
        let found = expect_some(load(given, &ada(), "theme").await?, "value")?;
        expect_eq(Some(found.revision), written.revision)?;
    }
    Ok(())
}

/// A deletion that expects another revision is refused, and the value stays.
pub(super) async fn a_deletion_checks_its_expectation(given: &Given) -> Verdict {
    let store = profiles(given)?;
    let revision = put_value(given, &ada(), "theme", "1").await?;
    let wrong = store.delete_profile(&ada(), id("theme"), DocumentExpect::Revision(revision + 1)).await;
    expect_kind(wrong, ErrorKind::Conflict)?;
    expect_profile(given, &ada(), "theme=1").await?;
    store.delete_profile(&ada(), id("theme"), DocumentExpect::Revision(revision)).await?;
    expect_profile(given, &ada(), "").await
}

/// Deleting a value again is no error, unless a value is expected.
pub(super) async fn a_deletion_may_be_repeated(given: &Given) -> Verdict {
    let store = profiles(given)?;
    put_value(given, &ada(), "theme", "1").await?;
    for _ in 0..2 {
        store.delete_profile(&ada(), id("theme"), DocumentExpect::Any).await?;
        expect_eq(load(given, &ada(), "theme").await?, None)?;
    }
    expect_kind(store.delete_profile(&ada(), id("theme"), DocumentExpect::Present).await, ErrorKind::Conflict).map(drop)
}

/// A value that is deleted and put again has a larger revision than before.
pub(super) async fn revisions_grow_across_deletion_and_put(given: &Given) -> Verdict {
    let mut before = 0;
    for round in 0..3 {
        let revision = put_value(given, &ada(), "theme", "1").await?;
        expect(revision > before, format!("revision {revision} after {before} in round {round}"))?;
        before = put_value(given, &ada(), "theme", "2").await?;
        expect(before > revision, format!("revision {before} after {revision} in round {round}"))?;
        profiles(given)?.delete_profile(&ada(), id("theme"), DocumentExpect::Any).await?;
    }
    Ok(())
}
