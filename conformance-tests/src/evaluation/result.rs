//! Recording results, each once.

use std::sync::Arc;

use store_core::{ErrorKind, NewResult};

use super::helpers::{add_cases, create, evaluations, expect_results, key, new_result, record, results};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_exactly_one, expect_kind, expect_kinds, expect_some},
    dataset::helpers::content,
    given::{id, run_concurrently},
    log::entry_drafts::json,
};

/// A result is loaded as it was recorded, and its output beside it.
pub(super) async fn a_result_is_loaded_as_it_was_recorded(given: &Given) -> Verdict {
    add_cases(given, &["a"]).await?;
    create(given, "e", &["x"], 2).await?;
    let output = json(r#"{"b":1.50,"a":[null]}"#);
    let new = NewResult::new(key("a/x/1")).with_output(output.clone()).scored("0.50".parse()?);
    let new = new.of_run(id("t"), id("r")).with_metadata(json("[1e2]"));
    let recorded = evaluations(given)?.record_result(&id("e"), new).await?;
    let found = expect_some(evaluations(given)?.load_result(&id("e"), &key("a/x/1")).await?, "result")?;
    expect_eq(&found, &recorded)?;
    expect_eq((&found.key, &found.content.case_hash), (&key("a/x/1"), &content("1").hash()))?;
    expect_eq(
        (found.is_failed(), found.content.score.map(|score| score.to_string())),
        (false, Some("0.50".to_owned())),
    )?;
    expect_eq((found.content.thread, found.content.run), (Some(id("t")), Some(id("r"))))?;
    expect_eq(found.content.metadata, Some(json("[1e2]")))?;
    expect_eq(evaluations(given)?.load_output(&id("e"), &key("a/x/1")).await?, Some(output))?;
    let failed = NewResult::failed(key("a/x/2"), "exit code 1");
    let failed = evaluations(given)?.record_result(&id("e"), failed).await?;
    expect_eq((failed.is_failed(), failed.content.error.as_deref()), (true, Some("exit code 1")))?;
    expect_eq(evaluations(given)?.load_output(&id("e"), &key("a/x/2")).await?, None)?;
    expect_eq(evaluations(given)?.load_result(&id("other"), &key("a/x/1")).await?, None)
}

/// The same result again changes nothing.
pub(super) async fn an_identical_repeat_changes_nothing(given: &Given) -> Verdict {
    add_cases(given, &["a", "b"]).await?;
    create(given, "e", &["x"], 1).await?;
    record(given, "e", &["a/x/1=0.5", "b/x/1=failed"]).await?;
    let before = results(given, "e").await?;
    for text in ["a/x/1=0.5", "b/x/1=failed"] {
        let again = evaluations(given)?.record_result(&id("e"), new_result(text)).await?;
        expect_eq(before.contains(&again), true)?;
    }
    expect_eq(results(given, "e").await?, before)
}

/// Another content under the name of a result is refused and changes nothing.
pub(super) async fn another_result_is_refused(given: &Given) -> Verdict {
    add_cases(given, &["a"]).await?;
    create(given, "e", &["x"], 1).await?;
    record(given, "e", &["a/x/1=0.5"]).await?;
    let before = results(given, "e").await?;
    for other in [
        new_result("a/x/1=0.50"),
        new_result("a/x/1=-"),
        new_result("a/x/1=failed"),
        new_result("a/x/1=0.5").with_output(json("1")),
        new_result("a/x/1=0.5").of_run(id("t"), id("r")),
    ] {
        expect_kind(evaluations(given)?.record_result(&id("e"), other).await, ErrorKind::AlreadyExists)?;
    }
    expect_eq(evaluations(given)?.load_output(&id("e"), &key("a/x/1")).await?, Some(json("0.5")))?;
    expect_eq(results(given, "e").await?, before)
}

/// Of several callers that record different results under one name, exactly one succeeds.
pub(super) async fn one_of_several_results_is_recorded(given: &Given) -> Verdict {
    let cases: Vec<_> = (0..10).map(|number| format!("case-{number}")).collect();
    add_cases(given, &cases.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    create(given, "e", &["x"], 1).await?;
    for case in &cases {
        let store = evaluations(given)?;
        let recorded = run_concurrently(4, |number| {
            let (store, new) = (Arc::clone(&store), new_result(&format!("{case}/x/1={number}")));
            async move { store.record_result(&id("e"), new).await }
        });
        let (recorded, refused) = expect_exactly_one(recorded.await)?;
        expect_kinds(refused, ErrorKind::AlreadyExists)?;
        expect_eq(evaluations(given)?.load_result(&id("e"), &recorded.key).await?, Some(recorded.clone()))?;
        let output = expect_some(evaluations(given)?.load_output(&id("e"), &recorded.key).await?, "output")?;
        expect_eq(recorded.content.score.map(|score| score.to_string()), Some(output.to_string()))?;
    }
    Ok(())
}

/// A result of a case, cell or sample that the run does not have is refused, and so is a failed one with a score.
pub(super) async fn a_result_belongs_to_a_case_cell_and_sample(given: &Given) -> Verdict {
    add_cases(given, &["a", "b"]).await?;
    create(given, "e", &["x", "y"], 2).await?;
    for other in ["c/x/1", "a/z/1", "a/x/0", "a/x/3", "a/X/1"] {
        let refused = evaluations(given)?.record_result(&id("e"), new_result(other)).await;
        expect_kind(refused, ErrorKind::NotFound)?;
    }
    expect_kind(evaluations(given)?.record_result(&id("f"), new_result("a/x/1")).await, ErrorKind::NotFound)?;
    let scored = NewResult::failed(key("a/x/1"), "timeout").scored("1".parse()?);
    expect_kind(evaluations(given)?.record_result(&id("e"), scored).await, ErrorKind::Invalid)?;
    expect_results(given, "e", "").await?;
    record(given, "e", &["b/y/2=1", "a/x/2=0", "b/x/1=1", "a/y/1=failed"]).await?;
    expect_results(given, "e", "a/x/2=0 a/y/1=failed b/x/1=1 b/y/2=1").await
}
