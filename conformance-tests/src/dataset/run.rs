//! Cases that are copies of recorded runs.

use store_core::{
    CaseChange, CaseContent, Commit, DeleteRequest, EntryId, ErrorKind, Message, RecordedRun, RewindTo, RunOutcome,
    case_of_run,
};

use super::helpers::{change, datasets, version};
use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    given::id,
    log::entry_drafts::{assistant_entry, tool_calls_entry, tool_results_entry, user_entry},
    run::helpers::{done_run, running_run},
};

/// Records a run `r` of the thread `t`: two earlier messages, a question, two calls and their results, a branch that is
/// left, and an answer.
async fn record_run(given: &Given) -> Verdict {
    let of_run = |entry: store_core::NewEntry| entry.with_run(id("r"), Some(1));
    let before = [user_entry("before"), assistant_entry("hello")];
    given.expect_accepted(Commit::new(id("t")).with_key(id("1")).entries(before)).await?;
    let commit = |key: &str| Commit::new(id("t")).with_key(id(key)).with_run(running_run("r"));
    let asked = [user_entry("question"), tool_calls_entry("calls", &["one", "two"])].map(of_run);
    given.expect_accepted(commit("2").entries(asked)).await?;
    let tried = [tool_results_entry("results", &["two", "one"]), assistant_entry("first try")].map(of_run);
    given.expect_accepted(commit("3").entries(tried)).await?;
    let back = store_core::NewEntry::new(RewindTo::Entry(id("results")));
    let answer = of_run(assistant_entry("answer"));
    given.expect_accepted(commit("4").entries([back, answer])).await?;
    Ok(())
}

/// Ends the run `r`, and makes a case from it.
async fn case_of_ended_run(given: &Given) -> Result<CaseContent, Failure> {
    given.expect_accepted(Commit::new(id("t")).with_run(done_run("r"))).await?;
    Ok(case_of_run(&RecordedRun::load(&*given.threads()?, &id("r")).await?)?)
}

/// A case has the context before the run, its tool calls with their results, its outcome, and where it comes from.
/// Branches that were left are not part of it.
pub(super) async fn a_case_is_made_from_a_run(given: &Given) -> Verdict {
    record_run(given).await?;
    expect_kind(RecordedRun::load(&*given.threads()?, &id("other")).await, ErrorKind::NotFound)?;
    let running = RecordedRun::load(&*given.threads()?, &id("r")).await?;
    expect_kind(case_of_run(&running), ErrorKind::InvalidTransition)?;
    let case = case_of_ended_run(given).await?;
    change(given, "d", [CaseChange::Add(id("r"), case)]).await?;
    let found = expect_some(datasets(given)?.load_case(&version("d", 1), &id("r")).await?, "case")?.content;
    let input: Vec<Message> = found.input.to()?;
    let expected = [Message::user("before"), Message::assistant("hello"), Message::user("question")];
    expect_eq(input, expected.to_vec())?;
    let calls: Vec<_> = found
        .tool_results
        .iter()
        .map(|call| (call.call.id.as_str(), call.result.as_ref().map(|result| result.tool_use_id.as_str())))
        .collect();
    expect_eq(calls, vec![("one", Some("one")), ("two", Some("two"))])?;
    let outcome = expect_some(found.outcome, "outcome")?;
    expect_eq(
        (outcome.completion.outcome, outcome.answer),
        (RunOutcome::NaturalEnd, Some(Message::assistant("answer"))),
    )?;
    let origin = expect_some(found.origin, "origin")?;
    expect_eq((origin.thread.as_str(), origin.run.as_str()), ("t", "r"))?;
    let entries: Vec<_> = origin.entries.iter().map(EntryId::as_str).collect();
    expect_eq(entries, vec!["question", "calls", "results", "answer"])
}

/// A case is a copy: it stays as it is when its run is deleted with its thread.
pub(super) async fn a_case_stays_when_its_run_is_deleted(given: &Given) -> Verdict {
    record_run(given).await?;
    let case = case_of_ended_run(given).await?;
    change(given, "d", [CaseChange::Put(id("r"), case.clone())]).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_eq(given.threads()?.load_run(&id("r")).await?, None)?;
    let found = datasets(given)?.load_case(&version("d", 1), &id("r")).await?;
    expect_eq(found.map(|found| found.content), Some(case))
}
