//! Reading datasets: versions that never change, walks, lists.

use store_core::{ErrorKind, PageRequest};

use super::helpers::{change, content, datasets, expect_cases, put, remove, text_of, version};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    given::{id, read_all_pages},
};

/// A version has the same cases after every later change. A version that does not exist yet is not found.
pub(super) async fn a_version_never_changes(given: &Given) -> Verdict {
    let versions = ["a=1 b=1 c=1", "a=2 b=1 c=1", "a=2 c=1", "a=1 b=3 c=1", "a=2 b=3 c=1 d=4"];
    for (index, changes) in [
        vec![put("a", "1"), put("b", "1"), put("c", "1")],
        vec![put("a", "2")],
        vec![remove("b")],
        vec![put("a", "1"), put("b", "3")],
        vec![put("a", "2"), put("d", "4")],
    ]
    .into_iter()
    .enumerate()
    {
        let next = version("d", index as u64 + 1);
        expect_kind(datasets(given)?.list_cases(&next, PageRequest::default()).await, ErrorKind::NotFound)?;
        expect_kind(datasets(given)?.load_case(&next, &id("a")).await, ErrorKind::NotFound)?;
        change(given, "d", changes).await?;
        for (cases, number) in versions.iter().zip(1..).take(index + 1) {
            expect_cases(given, "d", number, cases).await?;
        }
    }
    let [first, fourth] = [1, 4].map(|number| version("d", number));
    for (name, since) in [(first, 1), (fourth, 4)] {
        let found = expect_some(datasets(given)?.load_case(&name, &id("a")).await?, "case")?;
        expect_eq((found.since, found.content), (since, content("1")))?;
    }
    Ok(())
}

/// A walk gives each case of its version once, even if the dataset is changed between its pages.
pub(super) async fn a_walk_gives_the_cases_of_its_version(given: &Given) -> Verdict {
    let names = ["a", "b", "c", "d", "e", "f"];
    change(given, "d", names.map(|name| put(name, "1"))).await?;
    change(given, "d", [put("b", "2"), put("e", "2")]).await?;
    for (number, expected) in [(1, "a=1 b=1 c=1 d=1 e=1 f=1"), (2, "a=1 b=2 c=1 d=1 e=2 f=1")] {
        for limit in 1..4 {
            let (name, first) = (version("d", number), PageRequest::first(limit));
            let (mut found, mut next, mut round) = (Vec::new(), Some(first.clone()), 10 * u64::from(limit));
            while let Some(page) = next.take() {
                let listed = datasets(given)?.list_cases(&name, page).await?;
                found.extend(listed.items);
                next = listed.next.map(|cursor| first.after(cursor));
                // Every case changes between two pages.
                round += 1;
                let text = |input: &str| format!("[{number},{round},\"{input}\"]");
                change(given, "d", names.map(|name| put(name, &text(name)))).await?;
            }
            expect_eq((number, limit, text_of(&found)), (number, limit, expected.to_owned()))?;
        }
    }
    Ok(())
}

/// Datasets are listed by the bytes of their ids, in pages.
pub(super) async fn datasets_are_listed_by_id_in_pages(given: &Given) -> Verdict {
    let names = ["b", "a", "Z", "a/b", "é"];
    for name in names {
        change(given, name, [put("x", "1")]).await?;
    }
    change(given, "a", [put("y", "1")]).await?;
    let store = &datasets(given)?;
    for limit in [1, 2, 100] {
        let found = read_all_pages(PageRequest::first(limit), |page| store.list_datasets(page)).await?;
        let found: Vec<_> =
            found.iter().map(|found| format!("{} {} {}", found.id, found.version, found.cases)).collect();
        expect_eq(found, ["Z 1 1", "a 2 2", "a/b 1 1", "b 1 1", "é 1 1"].map(str::to_owned).to_vec())?;
    }
    Ok(())
}

/// Cases with one id belong to different datasets and tenants.
pub(super) async fn cases_of_datasets_are_apart(given: &Given) -> Verdict {
    change(given, "d", [put("a", "1"), put("a/b", "2")]).await?;
    change(given, "d/a", [put("b", "3")]).await?;
    change(given, "d2", [put("a", "4")]).await?;
    let other = given.fixture().datasets(&given.tenant("other")?)?;
    expect_eq(other.load_dataset(&id("d")).await?, None)?;
    for (dataset, cases) in [("d", "a=1 a/b=2"), ("d/a", "b=3"), ("d2", "a=4")] {
        expect_cases(given, dataset, 1, cases).await?;
    }
    change(given, "d2", [remove("a")]).await?;
    expect_cases(given, "d", 1, "a=1 a/b=2").await
}

/// A cursor of the cases of one version is refused by lists of other versions and datasets.
pub(super) async fn a_cursor_belongs_to_one_list_of_cases(given: &Given) -> Verdict {
    for (dataset, value) in [("d", "1"), ("d", "2"), ("e", "1")] {
        change(given, dataset, ["a", "b", "c"].map(|case| put(case, value))).await?;
    }
    let first = PageRequest::first(1);
    let page = datasets(given)?.list_cases(&version("d", 1), first.clone()).await?;
    let cursor = expect_some(page.next, "cursor")?;
    for other in [version("d", 2), version("e", 1)] {
        let refused = datasets(given)?.list_cases(&other, first.after(cursor.clone())).await;
        expect_kind(refused, ErrorKind::InvalidCursor)?;
    }
    for forged in ["", "1", "1.", "1.x", "x"] {
        let page = first.after(store_core::Cursor::from_text(forged));
        expect_kind(datasets(given)?.list_cases(&version("d", 1), page).await, ErrorKind::InvalidCursor)?;
    }
    expect_kind(datasets(given)?.list_cases(&version("d", 1), PageRequest::first(0)).await, ErrorKind::Invalid)?;
    Ok(())
}

/// Datasets with all their versions survive a reopen.
pub(super) async fn datasets_survive_a_reopen(given: &Given) -> Verdict {
    change(given, "d", [put("a", "1"), put("b", "2")]).await?;
    change(given, "d", [put("a", "3"), remove("b")]).await?;
    given.reopen().await?;
    expect_cases(given, "d", 1, "a=1 b=2").await?;
    expect_cases(given, "d", 2, "a=3").await?;
    expect_eq(change(given, "d", [put("b", "4")]).await?.version, version("d", 3))
}
