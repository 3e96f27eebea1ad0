//! What an evaluation run does not have yet.

use store_core::{ErrorKind, EvaluationEnd, PageRequest};

use super::helpers::{add_cases, create, end, evaluations, expect_missing, missing, record};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    dataset::helpers::content,
    given::id,
};

/// Missing results are listed by case, cell and sample, each with the hash of its case, and at most as many in a page
/// as its limit.
pub(super) async fn missing_results_are_listed_in_order(given: &Given) -> Verdict {
    add_cases(given, &["b", "a"]).await?;
    create(given, "e", &["y", "x"], 2).await?;
    expect_missing(given, "e", "a/x/1 a/x/2 a/y/1 a/y/2 b/x/1 b/x/2 b/y/1 b/y/2").await?;
    record(given, "e", &["a/y/1=1", "b/x/2=failed"]).await?;
    expect_missing(given, "e", "a/x/1 a/x/2 a/y/2 b/x/1 b/y/1 b/y/2").await?;
    expect_eq(missing(given, "e", 10).await?[0].case_hash.clone(), content("1").hash())?;
    for limit in [1, 3] {
        let page = evaluations(given)?.list_missing(&id("e"), PageRequest::first(limit)).await?;
        expect(page.items.len() <= limit as usize, "a page is longer than its limit")?;
    }
    expect_kind(evaluations(given)?.list_missing(&id("f"), PageRequest::default()).await, ErrorKind::NotFound)?;
    expect_kind(evaluations(given)?.list_missing(&id("e"), PageRequest::first(0)).await, ErrorKind::Invalid).map(drop)
}

/// A walk goes on after pages without missing results, and finds each one that is not recorded meanwhile.
pub(super) async fn a_walk_of_missing_results_goes_on(given: &Given) -> Verdict {
    add_cases(given, &["a", "b", "c", "d", "e", "f"]).await?;
    create(given, "e", &["x"], 2).await?;
    record(given, "e", &["b/x/1=1", "b/x/2=1", "c/x/1=1", "c/x/2=1", "d/x/1=1"]).await?;
    let (mut found, mut next) = (Vec::new(), Some(PageRequest::first(2)));
    while let Some(page) = next.take() {
        let listed = evaluations(given)?.list_missing(&id("e"), page.clone()).await?;
        for missing in listed.items {
            let name = missing.key.to_string();
            record(given, "e", &[&format!("{name}=1")]).await?;
            found.push(name);
        }
        if found.len() == 2 {
            // Another process is faster.
            record(given, "e", &["e/x/2=1"]).await?;
        }
        next = listed.next.map(|cursor| page.after(cursor));
    }
    expect_eq(found.join(" "), "a/x/1 a/x/2 d/x/2 e/x/1 f/x/1 f/x/2".to_owned())?;
    expect_missing(given, "e", "").await
}

/// What was recorded before a process ended is not missing in the next one, which completes the run.
pub(super) async fn an_interrupted_evaluation_goes_on(given: &Given) -> Verdict {
    add_cases(given, &["a", "b", "c"]).await?;
    let first = create(given, "e", &["x"], 1).await?;
    record(given, "e", &["a/x/1=1", "c/x/1=failed"]).await?;
    given.reopen().await?;
    expect_eq(create(given, "e", &["x"], 1).await?, first)?;
    expect_missing(given, "e", "b/x/1").await?;
    let refused = evaluations(given)?.end_evaluation(&id("e"), EvaluationEnd::Completed).await;
    expect_kind(refused, ErrorKind::InvalidTransition)?;
    record(given, "e", &["b/x/1=0", "a/x/1=1"]).await?;
    end(given, "e", EvaluationEnd::Completed).await.map(drop)
}

/// A cursor of one run is refused by another one.
pub(super) async fn a_cursor_belongs_to_one_evaluation(given: &Given) -> Verdict {
    add_cases(given, &["a", "b", "c"]).await?;
    create(given, "e", &["x"], 1).await?;
    create(given, "f", &["x"], 1).await?;
    let first = PageRequest::first(1);
    let page = evaluations(given)?.list_missing(&id("e"), first.clone()).await?;
    let cursor = expect_some(page.next, "cursor")?;
    let refused = evaluations(given)?.list_missing(&id("f"), first.after(cursor)).await;
    expect_kind(refused, ErrorKind::InvalidCursor)?;
    for forged in ["", "x", "1.2", "..", "0.0.0"] {
        let page = first.after(store_core::Cursor::from_text(forged));
        expect_kind(evaluations(given)?.list_missing(&id("e"), page).await, ErrorKind::InvalidCursor)?;
    }
    Ok(())
}
