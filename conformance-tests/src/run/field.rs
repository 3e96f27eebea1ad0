//! The fields of a run: which of them never change, which only grow, and what they may refer to.

use store_core::{
    Commit, Completion, DeleteRequest, EntryRange, ErrorKind, RunChange, RunFilter, RunOutcome, RunQuery, RunStatus,
    Ticket, TokenCounts, WaitingReason, WaitingState,
};

use super::helpers::{done_run, expect_run_refused, load_run, run_change, running_run, write_run};
use crate::{
    check::{Failure, Verdict, expect, expect_eq},
    given::{Given, id},
    log::{
        entry_drafts::{json, user_entries},
        writer::{ThreadWriter, reopen_if},
    },
};

/// A JSON value that a store might rewrite: repeated keys, the spelling of numbers, escapes.
const UNUSUAL_JSON: &str = r#"{"z":1.0,"a":12345678901234567890.10,"z":-0.0,"s":"\u0000é"}"#;

/// A run that waits, with every field set except the parent run.
fn run_with_all_fields(name: &str) -> RunChange {
    let mut waiting = WaitingState::new(WaitingReason::ToolPermission);
    for at in 0..3 {
        let mut ticket = Ticket::new(format!("ticket {at}"));
        ticket.tool_use_id = Some("call".to_owned());
        ticket.arguments = Some(json(UNUSUAL_JSON));
        ticket.resume_mode = Some("approve".to_owned());
        waiting.tickets.push(ticket);
    }
    waiting.message = Some("may it?".to_owned());
    waiting.dispatch = Some(id("d1"));
    waiting.resume_at = store_core::Timestamp::from_millis(9_999_999).ok();
    let mut run = run_change(name, RunStatus::Waiting(Box::new(waiting)));
    run.request = Some(json(UNUSUAL_JSON));
    run.manifest = Some("v1".to_owned());
    run.dispatch = Some(id("d1"));
    run.input = vec![EntryRange { from: 1, to: 1 }];
    run.output = vec![EntryRange { from: 2, to: 3 }];
    run.steps = Some(3);
    run.usage = Some(TokenCounts::new(5, 6));
    run.state = [("k".to_owned(), Some(json(UNUSUAL_JSON)))].into();
    run
}

/// A run is read back exactly as it was written, including its tickets and their arguments. For an unknown id, no run
/// is returned.
pub(crate) async fn a_run_round_trips(given: &Given) -> Verdict {
    expect_run_unchanged(given, false).await
}

/// After the store is closed and reopened, a run is read back exactly as it was written.
pub(crate) async fn a_run_survives_a_reopen(given: &Given) -> Verdict {
    expect_run_unchanged(given, true).await
}

async fn expect_run_unchanged(given: &Given, after_reopen: bool) -> Verdict {
    ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c"])).await?;
    write_run(given, "t", running_run("parent")).await?;
    let mut wanted = run_with_all_fields("r");
    wanted.parent_run = Some(id("parent"));
    write_run(given, "t", wanted.clone()).await?;
    let before = load_run(given, "r").await?;
    reopen_if(given, after_reopen).await?;
    let run = load_run(given, "r").await?;
    expect_eq(&run, &before)?;
    expect_eq((&run.status, &run.request, &run.manifest), (&wanted.status, &wanted.request, &wanted.manifest))?;
    expect_eq((&run.thread, Some(&run.agent), &run.parent_run), (&id("t"), wanted.agent.as_ref(), &wanted.parent_run))?;
    expect_eq((&run.input, &run.output, run.steps), (&wanted.input, &wanted.output, 3))?;
    expect_eq((run.dispatches, run.usage), (vec![id("d1")], TokenCounts::new(5, 6)))?;
    expect_eq(run.state.get("k"), Some(&json(UNUSUAL_JSON)))?;
    expect_eq(given.threads()?.load_run(&id("R")).await?, None)
}

/// Every outcome is read back exactly as it was written, with its output and its error.
pub(crate) async fn an_outcome_round_trips(given: &Given) -> Verdict {
    let stopped = |detail: Option<&str>| RunOutcome::Stopped { code: "limit".into(), detail: detail.map(Into::into) };
    for (at, outcome) in [
        RunOutcome::NaturalEnd,
        stopped(None),
        stopped(Some("too long")),
        RunOutcome::Cancelled,
        RunOutcome::Blocked,
        RunOutcome::Superseded,
        RunOutcome::Failed { error: "e\u{0}".to_owned() },
    ]
    .into_iter()
    .enumerate()
    {
        let mut completion = Completion::new(outcome);
        (completion.output, completion.error) = (Some(json(UNUSUAL_JSON)), Some(json("null")));
        let status = RunStatus::Done(Box::new(completion));
        let name = format!("r{at}");
        write_run(given, "t", run_change(&name, status.clone())).await?;
        expect_eq(load_run(given, &name).await?.status, status)?;
    }
    Ok(())
}

/// Sets one field of a change of a run.
type SetField = fn(&mut RunChange);

/// The agent, parent run, request and manifest of a run never change. A commit that changes one of them is refused, and
/// the error names the field.
pub(crate) async fn fixed_fields_never_change(given: &Given) -> Verdict {
    ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c"])).await?;
    for name in ["parent", "other"] {
        write_run(given, "t", running_run(name)).await?;
    }
    let mut full_run = run_with_all_fields("r");
    full_run.parent_run = Some(id("parent"));
    write_run(given, "t", full_run).await?;
    let fields: [(&str, SetField); 5] = [
        ("agent", |run| run.agent = Some(id("other"))),
        ("parent_run", |run| run.parent_run = Some(id("other"))),
        ("request", |run| run.request = Some(json("{}"))),
        ("manifest", |run| run.manifest = Some("v2".to_owned())),
        ("request", |run| run.request = Some(json(&UNUSUAL_JSON.replace("1.0", "1.00")))),
    ];
    for (field, set) in fields {
        let mut change = running_run("r");
        set(&mut change);
        let error =
            expect_run_refused(given, "t", change, ErrorKind::Invalid).await.map_err(|failure| failure.about(field))?;
        expect(error.to_string().contains(field), format!("the message does not name `{field}`: {error}"))?;
    }
    // A commit that repeats the fields, or leaves them out, changes nothing.
    let mut repeated_run = run_with_all_fields("r");
    (repeated_run.input, repeated_run.output, repeated_run.parent_run) = (vec![], vec![], Some(id("parent")));
    write_run(given, "t", repeated_run).await?;
    write_run(given, "t", RunChange::new(id("r"), RunStatus::Running)).await
}

/// A manifest is set once, when the run is created or later. A parent run and a request can be set only when the run is
/// created.
pub(crate) async fn a_manifest_is_set_once(given: &Given) -> Verdict {
    write_run(given, "t", running_run("other")).await?;
    write_run(given, "t", running_run("r")).await?;
    let (mut with_manifest, mut with_request, mut with_parent) = (running_run("r"), running_run("r"), running_run("r"));
    with_manifest.manifest = Some("v1".to_owned());
    with_request.request = Some(json("{}"));
    with_parent.parent_run = Some(id("other"));
    write_run(given, "t", with_manifest.clone()).await?;
    expect_eq(load_run(given, "r").await?.manifest, Some("v1".to_owned()))?;
    with_manifest.manifest = Some("v2".to_owned());
    for change in [with_manifest, with_request, with_parent] {
        expect_run_refused(given, "t", change, ErrorKind::Invalid).await?;
    }
    Ok(())
}

/// Neither the steps nor any token count ever decreases. A count that a commit does not contain does not change.
pub(crate) async fn counts_never_fall(given: &Given) -> Verdict {
    let run_with_counts = |steps, input, output, reasoning| {
        let mut run = running_run("r");
        run.steps = Some(steps);
        let mut tokens = TokenCounts::new(input, output);
        (tokens.cache_read, tokens.cache_write, tokens.reasoning) = (1, 1, reasoning);
        run.usage = Some(tokens);
        run
    };
    write_run(given, "t", run_with_counts(5, 10, 10, 10)).await?;
    for (steps, input, output, reasoning) in [(4, 10, 10, 10), (5, 9, 99, 10), (5, 10, 0, 99), (9, 99, 99, 9)] {
        expect_run_refused(given, "t", run_with_counts(steps, input, output, reasoning), ErrorKind::Invalid).await?;
    }
    write_run(given, "t", run_with_counts(5, 10, 11, 10)).await?;
    write_run(given, "t", running_run("r")).await?;
    let run = load_run(given, "r").await?;
    expect_eq((run.steps, run.usage.output), (5, 11))
}

/// A run id that another thread uses is refused, and the run does not change.
pub(crate) async fn a_run_belongs_to_one_thread(given: &Given) -> Verdict {
    write_run(given, "t", running_run("r")).await?;
    ThreadWriter::with_entries(given, "other", user_entries(&["a"])).await?;
    for change in [running_run("r"), done_run("r")] {
        expect_run_refused(given, "other", change, ErrorKind::AlreadyExists).await?;
    }
    write_run(given, "t", done_run("r")).await?;
    expect_run_refused(given, "other", running_run("r"), ErrorKind::AlreadyExists).await.map(drop)
}

/// The ranges of input and output must lie within the log, which includes the entries of the same commit. Later ranges
/// are added to the earlier ones.
pub(crate) async fn ranges_lie_inside_the_log(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c"])).await?;
    let run_with_input = |from, to| {
        let mut run = running_run("r");
        run.input = vec![EntryRange { from, to }];
        run
    };
    for (from, to) in [(0, 1), (0, 0), (3, 2), (1, 5), (5, 5), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        let (mut with_input, mut with_output) = (running_run("r"), running_run("r"));
        (with_input.input, with_output.output) = (vec![EntryRange { from, to }], vec![EntryRange { from, to }]);
        for change in [with_input, with_output] {
            // The log has three entries, and the refused commit would add one.
            expect_run_refused(given, "t", change, ErrorKind::Invalid)
                .await
                .map_err(|f| f.about(format!("{from} to {to}")))?;
        }
    }
    write_run(given, "t", run_with_input(3, 3)).await?;
    given
        .expect_accepted(
            writer.guarded_commit().await?.entries(user_entries(&["d", "e"])).with_run(run_with_input(1, 5)),
        )
        .await?;
    let input_ranges = load_run(given, "r").await?.input;
    expect_eq(input_ranges, vec![EntryRange { from: 3, to: 3 }, EntryRange { from: 1, to: 5 }])
}

/// The state of a run changes by key. Keys that a commit does not name keep their values, even when a waiting run
/// continues.
pub(crate) async fn run_state_changes_by_key(given: &Given) -> Verdict {
    let run_with_state = |status: RunStatus, pairs: &[(&str, Option<&str>)]| {
        let mut run = run_change("r", status);
        run.state = pairs.iter().map(|(key, value)| ((*key).to_owned(), value.map(json))).collect();
        run
    };
    write_run(
        given,
        "t",
        run_with_state(RunStatus::Running, &[("a", Some("1")), ("b", Some("2.0")), ("c", Some("null"))]),
    )
    .await?;
    let waiting = RunStatus::waiting(WaitingReason::ManualPause);
    write_run(given, "t", run_with_state(waiting, &[("a", Some("{}")), ("b", None), ("unknown", None)])).await?;
    write_run(given, "t", running_run("r")).await?;
    let state = load_run(given, "r").await?.state;
    expect_eq(state, [("a".to_owned(), json("{}")), ("c".to_owned(), json("null"))].into())?;
    // The state of a run is separate from the state of its thread.
    let context = given.threads()?.load_context(&id("t"), store_core::ContextRequest::head()).await?;
    expect_eq(context.state.len(), 0)
}

/// A parent run must exist, on this thread or on another.
pub(crate) async fn a_parent_run_must_exist(given: &Given) -> Verdict {
    let child = |name: &str, parent: &str| {
        let mut run = running_run(name);
        run.parent_run = Some(id(parent));
        run
    };
    for (name, parent) in [("r", "unknown"), ("r", "r")] {
        let error = expect_run_refused(given, "t", child(name, parent), ErrorKind::NotFound).await?;
        expect(error.to_string().contains(parent), format!("the message does not name the parent: {error}"))?;
    }
    write_run(given, "other", done_run("parent")).await?;
    write_run(given, "t", child("r", "parent")).await?;
    write_run(given, "t", child("s", "r")).await?;
    expect_eq(load_run(given, "r").await?.parent_run, Some(id("parent")))
}

/// Dispatches are only ever added to a run. The last one is the current dispatch.
pub(crate) async fn dispatches_are_only_added(given: &Given) -> Verdict {
    for dispatch in [Some("d1"), Some("d1"), None, Some("d2"), None] {
        let mut run = running_run("r");
        run.dispatch = dispatch.map(id);
        write_run(given, "t", run).await?;
    }
    expect_eq(load_run(given, "r").await?.dispatches, vec![id("d1"), id("d2")])
}

/// Deleting a thread deletes its runs: they are not loaded, listed or counted, and their ids can be used again.
pub(crate) async fn deleting_a_thread_deletes_its_runs(given: &Given) -> Verdict {
    for (thread, name) in [("t", "r1"), ("t", "r2"), ("other", "r3")] {
        write_run(given, thread, running_run(name)).await?;
    }
    let threads = given.threads()?;
    threads.delete_thread(&id("t"), DeleteRequest::default()).await?;
    for name in ["r1", "r2"] {
        expect_eq(threads.load_run(&id(name)).await?, None)?;
    }
    let remaining_runs = threads.list_runs(RunQuery::default()).await?.items;
    expect_eq(remaining_runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), vec!["r3"])?;
    expect_eq(threads.count_runs(&RunFilter::default()).await?, 1)?;
    given.expect_accepted(Commit::new(id("other")).with_run(running_run("r1"))).await?;
    expect_eq(load_run(given, "r1").await?.thread, id("other"))
}

/// An error text that is too long is cut between two characters, to at most 1 KiB, and then ends in `…`. Shorter texts
/// are kept.
pub(crate) async fn a_long_error_text_is_cut(given: &Given) -> Verdict {
    let longest_text = format!("a{}", "é".repeat(511)) + "b";
    for (name, text, is_cut) in [("fits", longest_text.clone(), false), ("too long", longest_text + "é", true)] {
        let failed = RunStatus::done(RunOutcome::Failed { error: text.clone() });
        write_run(given, "t", run_change(name, failed)).await?;
        let status = load_run(given, name).await?.status;
        let error = match &status {
            RunStatus::Done(completion) => match &completion.outcome {
                RunOutcome::Failed { error } => error.clone(),
                _ => return Err(Failure::new(format!("the run is {status:?}"))),
            },
            _ => return Err(Failure::new(format!("the run is {status:?}"))),
        };
        if !is_cut {
            expect_eq(error, text)?;
            continue;
        }
        expect(error.len() <= 1024 && error.len() > 1000 && error.ends_with('…'), format!("cut to {error:?}"))?;
        expect(text.starts_with(error.trim_end_matches('…')), format!("cut to {error:?}"))?;
    }
    Ok(())
}
