//! Changing datasets: versions, expectations, refusals.

use std::{collections::BTreeSet, sync::Arc};

use store_core::{CaseContent, CollectionId, DatasetStore, Document, DocumentQuery, ErrorKind, PageRequest};

use super::helpers::{
    add, change, content, datasets, expect_cases, expect_current, put, remove, replace, request, version,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_exactly_one, expect_kind, expect_kinds, expect_some},
    given::{id, read_all_pages, run_concurrently},
    log::entry_drafts::json,
};

/// A case is loaded as it was added, with its hash, the version since which it is so, and store time of the dataset.
pub(super) async fn a_case_is_loaded_as_it_was_added(given: &Given) -> Verdict {
    let mut case = content(r#"{"b":1.50,"a":[null]}"#).expecting(json("{\"z\":1e2}"));
    case.metadata = Some(json("\"by hand\""));
    let request = request("d", [store_core::CaseChange::Add(id("a/b@c"), case.clone())]).by("user:ada");
    let changed = datasets(given)?.change_dataset(request).await?;
    expect_eq((&changed.version, changed.created), (&version("d", 1), true))?;
    let found = expect_some(datasets(given)?.load_case(&version("d", 1), &id("a/b@c")).await?, "case")?;
    expect_eq((found.id.as_str(), &found.hash, found.since), ("a/b@c", &case.hash(), 1))?;
    expect_eq(&found.content, &case)?;
    let dataset = expect_some(datasets(given)?.load_dataset(&id("d")).await?, "dataset")?;
    expect_eq((dataset.id.as_str(), dataset.current(), dataset.cases), ("d", version("d", 1), 1))?;
    expect_eq(dataset.created_at, dataset.updated_at)?;
    let stored = expect_some(datasets(given)?.load_dataset_version(&version("d", 1)).await?, "version")?;
    expect_eq((stored.content.by.as_deref(), stored.created_at), (Some("user:ada"), dataset.created_at))?;
    expect_eq(datasets(given)?.load_case(&version("d", 1), &id("b")).await?, None)?;
    expect_eq(datasets(given)?.load_dataset(&id("e")).await?, None)
}

/// Each change makes the next version, which says how many cases it has and what changed. Versions are listed newest
/// first.
pub(super) async fn each_change_makes_the_next_version(given: &Given) -> Verdict {
    change(given, "d", [add("a", "1"), add("b", "2"), add("c", "3")]).await?;
    change(given, "d", [replace("b", "20"), remove("a"), put("d", "4"), put("c", "3")]).await?;
    change(given, "d", [put("c", "30")]).await?;
    for (number, cases) in [(1, "a=1 b=2 c=3"), (2, "b=20 c=3 d=4"), (3, "b=20 c=30 d=4")] {
        expect_cases(given, "d", number, cases).await?;
    }
    expect_current(given, "d", (3, 3)).await?;
    let (store, dataset) = (&datasets(given)?, &id("d"));
    let versions = read_all_pages(PageRequest::first(2), |page| store.list_dataset_versions(dataset, page)).await?;
    let counts: Vec<_> = versions
        .iter()
        .map(|found| {
            let content = &found.content;
            (found.name.version, content.cases, content.added, content.replaced, content.removed)
        })
        .collect();
    expect_eq(counts, vec![(3, 3, 0, 1, 0), (2, 3, 1, 1, 1), (1, 3, 3, 0, 0)])
}

/// Cases that are put as they are make no version.
pub(super) async fn a_change_that_changes_nothing_makes_no_version(given: &Given) -> Verdict {
    change(given, "d", [put("a", "1"), put("b", "2")]).await?;
    let before = datasets(given)?.load_dataset(&id("d")).await?;
    for same in [vec![put("a", "1")], vec![replace("b", "2"), put("a", "1")]] {
        let changed = change(given, "d", same).await?;
        expect_eq((changed.version, changed.created), (version("d", 1), false))?;
    }
    expect_eq(datasets(given)?.load_dataset(&id("d")).await?, before)?;
    // Another spelling is another content.
    expect_eq(change(given, "d", [put("a", "1.0")]).await?.version, version("d", 2))
}

/// A change that expects another version than the current one is refused.
pub(super) async fn a_change_can_expect_the_current_version(given: &Given) -> Verdict {
    let expecting = async |number: u64, input: &str| {
        let request = request("d", [put("a", input)]).expecting_version(number);
        Ok::<_, Failure>(datasets(given)?.change_dataset(request).await)
    };
    expect_kind(expecting(1, "1").await?, ErrorKind::Conflict)?;
    expect_eq(expecting(0, "1").await??.version, version("d", 1))?;
    for stale in [0, 2] {
        expect_kind(expecting(stale, "2").await?, ErrorKind::Conflict)?;
        // It is refused even if there is nothing to change.
        expect_kind(expecting(stale, "1").await?, ErrorKind::Conflict)?;
    }
    expect_cases(given, "d", 1, "a=1").await?;
    expect_eq(expecting(1, "2").await??.version, version("d", 2))
}

/// Of several changes that expect the same version, exactly one succeeds.
pub(super) async fn one_of_several_changes_of_a_version_succeeds(given: &Given) -> Verdict {
    for round in 0..10 {
        let store = datasets(given)?;
        let results = run_concurrently(4, |number| {
            let request = request("d", [put(&format!("{round}-{number}"), "1")]).expecting_version(round);
            let store: Arc<dyn DatasetStore> = Arc::clone(&store);
            async move { store.change_dataset(request).await }
        });
        let (changed, refused) = expect_exactly_one(results.await)?;
        expect_eq(changed.version, version("d", round + 1))?;
        expect_kinds(refused, ErrorKind::Conflict)?;
        expect_current(given, "d", (round + 1, round + 1)).await?;
    }
    Ok(())
}

/// Concurrent changes without an expectation all get versions of their own, and none is lost.
pub(super) async fn concurrent_changes_all_get_versions(given: &Given) -> Verdict {
    const CALLERS: usize = 8;
    let store = datasets(given)?;
    let results = run_concurrently(CALLERS, |number| {
        let (store, request) = (Arc::clone(&store), request("d", [add(&format!("case-{number}"), "1")]));
        async move { store.change_dataset(request).await }
    });
    let changed = results.await.into_iter().collect::<store_core::Result<Vec<_>>>()?;
    let numbers: BTreeSet<_> = changed.iter().map(|changed| changed.version.version).collect();
    expect_eq(numbers, (1..=CALLERS as u64).collect::<BTreeSet<_>>())?;
    expect_current(given, "d", (CALLERS as u64, CALLERS as u64)).await?;
    for number in 1..=CALLERS as u64 {
        let cases = super::helpers::list(given, &version("d", number)).await?;
        expect_eq(cases.len() as u64, number)?;
    }
    Ok(())
}

/// A change is refused as a whole: one that adds what is there, changes what is not there, names a case twice, or
/// names none.
pub(super) async fn a_refused_change_changes_nothing(given: &Given) -> Verdict {
    change(given, "d", [put("a", "1")]).await?;
    for (changes, kind, part) in [
        (vec![put("b", "2"), add("a", "1")], ErrorKind::AlreadyExists, Some("changes[1]")),
        (vec![put("b", "2"), replace("c", "3")], ErrorKind::NotFound, Some("changes[1]")),
        (vec![put("b", "2"), remove("c")], ErrorKind::NotFound, Some("changes[1]")),
        (vec![put("b", "2"), put("b", "3")], ErrorKind::Invalid, None),
        (vec![], ErrorKind::Invalid, None),
    ] {
        let refused = datasets(given)?.change_dataset(request("d", changes.clone())).await;
        expect_eq(expect_kind(refused, kind)?.part(), part)?;
        // What is refused makes no dataset.
        if kind != ErrorKind::AlreadyExists {
            expect_kind(datasets(given)?.change_dataset(request("new", changes)).await, kind)?;
            expect_eq(datasets(given)?.load_dataset(&id("new")).await?, None)?;
        }
        expect_current(given, "d", (1, 1)).await?;
        expect_cases(given, "d", 1, "a=1").await?;
    }
    Ok(())
}

/// A removed case is not there any more, and can be added again.
pub(super) async fn a_removed_case_can_be_added_again(given: &Given) -> Verdict {
    change(given, "d", [put("a", "1"), put("b", "1")]).await?;
    change(given, "d", [remove("a")]).await?;
    expect_eq(datasets(given)?.load_case(&version("d", 2), &id("a")).await?, None)?;
    change(given, "d", [add("a", "1")]).await?;
    change(given, "d", [remove("a"), remove("b")]).await?;
    expect_current(given, "d", (4, 0)).await?;
    for (number, cases) in [(1, "a=1 b=1"), (2, "b=1"), (3, "a=1 b=1"), (4, "")] {
        expect_cases(given, "d", number, cases).await?;
    }
    let again = expect_some(datasets(given)?.load_case(&version("d", 3), &id("a")).await?, "case")?;
    expect_eq((again.since, again.content), (3, CaseContent::new(json("1"))))
}

/// A change writes documents for the cases that it names, and leaves those of other cases as they are.
pub(super) async fn only_what_changes_is_written(given: &Given) -> Verdict {
    let documents = expect_some(given.stores()?.documents, "documents")?;
    let rows = async || {
        let query = DocumentQuery::new(CollectionId::new("layer.datasets.cases")?);
        let found =
            read_all_pages(PageRequest::first(100), |page| documents.list_documents(query.clone().with_page(page)));
        found.await
    };
    let of_case =
        |rows: &[Document], case: &str| rows.iter().filter(|row| row.key.segments()[1].to_string() == case).count();
    change(given, "d", (0..20).map(|number| put(&format!("case-{number}"), "1"))).await?;
    let before = rows().await?;
    change(given, "d", [put("case-7", "2"), remove("case-8"), put("new", "3")]).await?;
    let after = rows().await?;
    expect_eq(["case-7", "case-8", "new"].map(|case| of_case(&after, case)), [2, 1, 1])?;
    for row in before.iter().filter(|row| !["case-7", "case-8"].contains(&row.key.segments()[1].to_string().as_str())) {
        expect(after.contains(row), format!("{} was written again", row.key))?;
    }
    expect_eq(after.len(), before.len() + 2)
}
