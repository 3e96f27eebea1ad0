//! Creating and ending evaluation runs.

use store_core::{ErrorKind, EvaluationEnd, EvaluationStatus, NewEvaluation, PageRequest};

use super::helpers::{
    add_cases, create, end, evaluations, expect_missing, expect_results, new, new_result, record, run_with,
};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    dataset::helpers::{change, put, remove, version},
    given::{id, read_all_pages},
    log::entry_drafts::json,
    registry::helpers::{publication, publish_all},
};

/// A run is loaded as it was created, with its cells in the order of their names, and listed by its id.
pub(super) async fn an_evaluation_is_loaded_as_it_was_created(given: &Given) -> Verdict {
    add_cases(given, &["a", "b"]).await?;
    publish_all(given, publication("p", &[("agent", "1")])).await?;
    let request = new("e/1", &["large", "Small"]).with_samples(3).testing(id("p"));
    let request = request.with_metadata(json(r#"{"by":1.0}"#));
    let created = evaluations(given)?.create_evaluation(request).await?;
    expect_eq((&created.dataset, created.cases, created.samples), (&version("d", 1), 2, 3))?;
    expect_eq((created.status, created.pinned), (EvaluationStatus::Running, false))?;
    expect_eq((created.manifest.clone(), created.metadata.clone()), (Some(id("p")), Some(json(r#"{"by":1.0}"#))))?;
    let cells: Vec<_> = created.cells.iter().map(|cell| format!("{}={}", cell.name, cell.parameters)).collect();
    expect_eq(cells, [r#"Small="Small""#, r#"large="large""#].map(str::to_owned).to_vec())?;
    expect_eq(created.expected_results(), 12)?;
    expect_eq(evaluations(given)?.load_evaluation(&id("e/1")).await?, Some(created))?;
    let plain = evaluations(given)?.create_evaluation(NewEvaluation::new(id("E"), id("d"))).await?;
    expect_eq((plain.cells.len(), plain.cells[0].name.as_str(), plain.samples), (1, "default", 1))?;
    let store = &evaluations(given)?;
    let listed = read_all_pages(PageRequest::first(1), |page| store.list_evaluations(page)).await?;
    expect_eq(
        listed.iter().map(|found| found.id.to_string()).collect::<Vec<_>>(),
        vec!["E".to_owned(), "e/1".to_owned()],
    )
}

/// The same request again returns the run as it is, also after the dataset has changed and after the run has ended.
pub(super) async fn an_evaluation_goes_on_under_its_id(given: &Given) -> Verdict {
    add_cases(given, &["a", "b"]).await?;
    let first = create(given, "e", &["x", "y"], 1).await?;
    expect_eq(create(given, "e", &["y", "x"], 1).await?, first.clone())?;
    record(given, "e", &["a/x/1=1"]).await?;
    change(given, "d", [put("c", "1")]).await?;
    expect_eq(create(given, "e", &["x", "y"], 1).await?, first)?;
    let with_version = new("e", &["x", "y"]).of_version(1);
    expect_eq(evaluations(given)?.create_evaluation(with_version).await?.dataset, version("d", 1))?;
    expect_missing(given, "e", "a/y/1 b/x/1 b/y/1").await?;
    let ended = end(given, "e", EvaluationEnd::Abandoned).await?;
    expect_eq(create(given, "e", &["x", "y"], 1).await?, ended)
}

/// Another request under the id of a run is refused and changes nothing.
pub(super) async fn an_id_belongs_to_one_evaluation(given: &Given) -> Verdict {
    add_cases(given, &["a"]).await?;
    change(given, "other", [put("a", "1")]).await?;
    add_cases(given, &["b"]).await?;
    let request = || new("e", &["x"]).of_version(1);
    let first = evaluations(given)?.create_evaluation(request()).await?;
    for other in [
        new("e", &["y"]),
        new("e", &["x", "y"]),
        request().with_samples(2),
        request().of_version(2),
        NewEvaluation::new(id("e"), id("other")).cell(id("x"), json("\"x\"")).of_version(1),
        request().with_metadata(json("1")),
        new("e", &[]).cell(id("x"), json("2")).of_version(1),
    ] {
        expect_kind(evaluations(given)?.create_evaluation(other).await, ErrorKind::AlreadyExists)?;
    }
    expect_eq(evaluations(given)?.load_evaluation(&id("e")).await?, Some(first))
}

/// Dataset, version and publication must exist, and cells and samples must be valid.
pub(super) async fn what_an_evaluation_names_must_exist(given: &Given) -> Verdict {
    let create = async |request: NewEvaluation| {
        let answer = evaluations(given)?.create_evaluation(request).await;
        expect_eq(evaluations(given)?.load_evaluation(&id("e")).await?.is_some(), answer.is_ok())?;
        Ok::<_, crate::Failure>(answer)
    };
    expect_kind(create(new("e", &["x"])).await?, ErrorKind::NotFound)?;
    add_cases(given, &["a"]).await?;
    expect_kind(create(new("e", &["x"]).of_version(2)).await?, ErrorKind::NotFound)?;
    expect_kind(create(new("e", &["x"]).of_version(0)).await?, ErrorKind::NotFound)?;
    expect_kind(create(new("e", &["x"]).testing(id("p"))).await?, ErrorKind::NotFound)?;
    expect_kind(create(new("e", &["x"]).with_samples(0)).await?, ErrorKind::Invalid)?;
    expect_kind(create(new("e", &["x", "x"])).await?, ErrorKind::Invalid)?;
    expect_kind(create(new("e", &["x", "y"]).with_samples(501)).await?, ErrorKind::LimitExceeded)?;
    expect_kind(create(new("e", &[&"x".repeat(65)])).await?, ErrorKind::LimitExceeded)?;
    expect_eq(create(new("e", &[&"x".repeat(64)])).await?.is_ok(), true)
}

/// A run is about the version that was the current one when it was created, whatever becomes of the dataset.
pub(super) async fn an_evaluation_keeps_its_dataset_version(given: &Given) -> Verdict {
    add_cases(given, &["a", "b"]).await?;
    create(given, "e", &["x"], 1).await?;
    change(given, "d", [remove("a"), put("b", "2"), put("c", "3")]).await?;
    let found = expect_some(evaluations(given)?.load_evaluation(&id("e")).await?, "evaluation")?;
    expect_eq((found.dataset, found.cases), (version("d", 1), 2))?;
    expect_missing(given, "e", "a/x/1 b/x/1").await?;
    record(given, "e", &["b/x/1=1", "a/x/1=1"]).await?;
    expect_kind(evaluations(given)?.record_result(&id("e"), new_result("c/x/1=1")).await, ErrorKind::NotFound)?;
    expect_eq(end(given, "e", EvaluationEnd::Completed).await?.status, EvaluationStatus::Completed)?;
    expect_eq(create(given, "later", &["x"], 1).await?.dataset, version("d", 2))?;
    expect_missing(given, "later", "b/x/1 c/x/1").await
}

/// A run can be completed only with all its results. Failed ones are results.
pub(super) async fn an_evaluation_is_completed_with_all_results(given: &Given) -> Verdict {
    add_cases(given, &["a", "b"]).await?;
    create(given, "e", &["x"], 2).await?;
    let complete =
        async || Ok::<_, crate::Failure>(evaluations(given)?.end_evaluation(&id("e"), EvaluationEnd::Completed).await);
    for result in ["a/x/1=1", "a/x/2=failed", "b/x/1=-", "b/x/2=0"] {
        expect_kind(complete().await?, ErrorKind::InvalidTransition)?;
        record(given, "e", &[result]).await?;
    }
    let completed = complete().await??;
    expect_eq(completed.status, EvaluationStatus::Completed)?;
    expect_eq(evaluations(given)?.load_evaluation(&id("e")).await?, Some(completed))?;
    expect_kind(evaluations(given)?.end_evaluation(&id("other"), EvaluationEnd::Completed).await, ErrorKind::NotFound)
        .map(drop)
}

/// The same end again changes nothing, and another one is refused.
pub(super) async fn an_evaluation_ends_once(given: &Given) -> Verdict {
    add_cases(given, &["a"]).await?;
    run_with(given, "completed", &["a/x/1=1"]).await?;
    run_with(given, "abandoned", &[]).await?;
    for (name, first, other) in [
        ("completed", EvaluationEnd::Completed, EvaluationEnd::Abandoned),
        ("abandoned", EvaluationEnd::Abandoned, EvaluationEnd::Completed),
    ] {
        let ended = end(given, name, first).await?;
        expect_eq(end(given, name, first).await?, ended.clone())?;
        expect_kind(evaluations(given)?.end_evaluation(&id(name), other).await, ErrorKind::InvalidTransition)?;
        expect_eq(evaluations(given)?.load_evaluation(&id(name)).await?, Some(ended))?;
    }
    Ok(())
}

/// After its end, a run takes no other results. A repeat still succeeds.
pub(super) async fn an_ended_evaluation_takes_no_results(given: &Given) -> Verdict {
    add_cases(given, &["a", "b"]).await?;
    run_with(given, "e", &["a/x/1=1"]).await?;
    end(given, "e", EvaluationEnd::Abandoned).await?;
    let late = evaluations(given)?.record_result(&id("e"), new_result("b/x/1=1")).await;
    expect_kind(late, ErrorKind::InvalidTransition)?;
    record(given, "e", &["a/x/1=1"]).await?;
    expect_results(given, "e", "a/x/1=1").await?;
    expect_missing(given, "e", "b/x/1").await
}
