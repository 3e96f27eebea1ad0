//! The state of a thread.

use std::sync::Arc;

use store_core::{Commit, ContextRequest, DeleteRequest, ErrorKind, Expect, Json, StateChange, StateOp, ThreadState};

use super::helpers::clear_state_first;
use crate::{
    check::{Failure, Verdict, expect_eq, expect_exactly_one, expect_kind, expect_kinds},
    given::{Given, commit_with_message, id, keyed_commit_with_message, run_concurrently},
    log::entry_drafts::json,
};

/// Commits a state change to the thread `t`.
async fn change_state(given: &Given, change: StateChange) -> Verdict {
    change_state_for_receipt(given, change).await.map(drop)
}

/// Commits a state change to the thread `t`, and returns the receipt.
async fn change_state_for_receipt(given: &Given, change: StateChange) -> Result<store_core::Receipt, Failure> {
    given.commit(Commit::new(id("t")).with_state(change)).await
}

/// Returns the state revision and the state of the thread `t`.
async fn load_state(given: &Given) -> Result<(u64, ThreadState), Failure> {
    let context = given.threads()?.load_context(&id("t"), ContextRequest::head()).await?;
    Ok((context.thread.state_revision, context.state))
}

fn state_with(pairs: &[(&str, &str)]) -> ThreadState {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), json(value))).collect()
}

/// A change that clears the state.
fn clearing_change() -> StateChange {
    clear_state_first(StateChange::new())
}

/// A commit changes only the state keys that it names. The other keys keep their values. The revision increases by one
/// with each commit that changes the state.
pub(crate) async fn state_changes_by_key(given: &Given) -> Verdict {
    let change = StateChange::new;
    for (index, (step, pairs)) in [
        (
            change().set("a", json("1")).set("b", json(r#"{"z":1.0,"z":-0.0}"#)),
            &[("a", "1"), ("b", r#"{"z":1.0,"z":-0.0}"#)][..],
        ),
        (change().set("a", json("null")).remove("b").set("c", json("3")), &[("a", "null"), ("c", "3")]),
        (change().remove("unknown"), &[("a", "null"), ("c", "3")]),
        (
            change().set("", json("\"\"")).set("a.b\u{0}", json("2")),
            &[("", "\"\""), ("a", "null"), ("a.b\u{0}", "2"), ("c", "3")],
        ),
        (clearing_change().set("d", json("4")).with("a", StateOp::Add(1)), &[("a", "1"), ("d", "4")]),
        (clearing_change(), &[]),
    ]
    .into_iter()
    .enumerate()
    {
        let receipt = change_state_for_receipt(given, step).await?;
        expect_eq(receipt.state_revision, index as u64 + 1)?;
        expect_eq(load_state(given).await?, (receipt.state_revision, state_with(pairs)))?;
    }
    Ok(())
}

/// A commit without state changes does not change the state. The state is deleted with its thread.
pub(crate) async fn state_is_kept_if_a_commit_does_not_change_it(given: &Given) -> Verdict {
    change_state(given, StateChange::new().set("a", json("1"))).await?;
    let receipt = given.commit(keyed_commit_with_message(&id("t"), "k", "text")).await?;
    expect_eq(receipt.state_revision, 1)?;
    // A state change that names no key does not increase the revision.
    let receipt = given
        .commit(keyed_commit_with_message(&id("t"), "l", "text").with_state(StateChange::new().expecting(1)))
        .await?;
    expect_eq(receipt.state_revision, 1)?;
    let conflicting_commit =
        keyed_commit_with_message(&id("t"), "m", "text").with_state(StateChange::new().expecting(2));
    expect_kind(given.commits()?.commit(conflicting_commit).await, ErrorKind::Conflict)?;
    expect_eq(load_state(given).await?, (1, state_with(&[("a", "1")])))?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    given.expect_accepted(commit_with_message(&id("t"), Expect::Absent, "anew")).await?;
    expect_eq(load_state(given).await?, (0, state_with(&[])))?;
    let receipt = change_state_for_receipt(given, StateChange::new().with("a", StateOp::Add(1)).expecting(0)).await?;
    expect_eq(load_state(given).await?, (receipt.state_revision, state_with(&[("a", "1")])))?;
    expect_eq(receipt.state_revision, 1)
}

/// A commit may name a state key at most once. If a key is both set and removed, or set twice, the commit is refused.
pub(crate) async fn a_commit_names_a_state_key_at_most_once(given: &Given) -> Verdict {
    change_state(given, StateChange::new().set("b", json("1"))).await?;
    let set = || StateChange::new().set("x", json("0")).set("a", json("1"));
    for change_naming_a_key_twice in
        [set().remove("a"), set().set("a", json("1")), set().with("a", StateOp::Add(1)), set().remove("x")]
    {
        let commit = Commit::new(id("t")).with_state(change_naming_a_key_twice);
        expect_kind(given.commits()?.commit(commit).await, ErrorKind::Invalid)?;
    }
    expect_eq(load_state(given).await?, (1, state_with(&[("b", "1")])))
}

/// Pairs of a stored value and an operation that is refused for this value.
fn refused_operations() -> Vec<(&'static str, StateOp)> {
    let add = || StateOp::Add(1);
    vec![
        ("1.0", add()),
        ("1e3", add()),
        ("9223372036854775807", add()),
        ("-9223372036854775808", StateOp::Add(-1)),
        ("9223372036854775808", add()),
        ("9223372036854775808", StateOp::Max(1)),
        ("\"1\"", add()),
        ("null", add()),
        ("[]", StateOp::Max(1)),
        ("0.5", StateOp::Max(1)),
        ("{}", StateOp::Append(vec![])),
        ("null", StateOp::Append(vec![Json::null()])),
        ("[]", StateOp::Merge(json("{}"))),
        ("1", StateOp::Merge(json("{}"))),
        ("{}", StateOp::Merge(json("[]"))),
        ("{}", StateOp::Merge(json("null"))),
    ]
}

/// An operation is refused if it does not fit the type of the stored value, or if the result would overflow. The other
/// keys of the commit do not change either.
pub(crate) async fn an_operation_on_a_value_of_another_type_is_refused(given: &Given) -> Verdict {
    for (stored_value, op) in refused_operations() {
        let operation_text = format!("{op:?} of {stored_value}");
        change_state(given, clearing_change().set("k", json(stored_value))).await?;
        let state_before = load_state(given).await?;
        let refused_commit =
            Commit::new(id("t")).with_state(StateChange::new().with("n", StateOp::Add(1)).with("k", op));
        let refused = expect_kind(given.commits()?.commit(refused_commit).await, ErrorKind::Invalid);
        refused.map_err(|failure| failure.about(operation_text))?;
        expect_eq(load_state(given).await?, state_before)?;
    }
    Ok(())
}

/// An operation applies to the stored value. A missing key counts as 0, as an empty list or as an empty object.
pub(crate) async fn an_operation_applies_to_the_stored_value(given: &Given) -> Verdict {
    let list = |items: &[&str]| StateOp::Append(items.iter().map(|item| json(item)).collect());
    for (stored_value, op, expected) in [
        (None, StateOp::Add(-5), "-5"),
        (None, StateOp::Add(i64::MIN), "-9223372036854775808"),
        (Some("9223372036854775806"), StateOp::Add(1), "9223372036854775807"),
        (Some("-9223372036854775808"), StateOp::Add(i64::MAX), "-1"),
        (None, StateOp::Max(-7), "-7"),
        (Some("-7"), StateOp::Max(-8), "-7"),
        (Some("-7"), StateOp::Max(0), "0"),
        (None, list(&[]), "[]"),
        (None, list(&["1.0", "[]"]), "[1.0,[]]"),
        (Some("[[1],null]"), list(&["{\"a\":1,\"a\":2}"]), "[[1],null,{\"a\":1,\"a\":2}]"),
        (None, StateOp::Merge(json("{\"a\":1.0}")), "{\"a\":1.0}"),
        (Some("{\"a\":{\"x\":1},\"b\":2}"), StateOp::Merge(json("{\"a\":{\"y\":2}}")), "{\"a\":{\"y\":2},\"b\":2}"),
        (Some("{}"), StateOp::Merge(json("{}")), "{}"),
        (Some("1.0"), StateOp::Set(json("2.50")), "2.50"),
    ] {
        let initial_change =
            stored_value.map_or_else(clearing_change, |stored_value| clearing_change().set("k", json(stored_value)));
        change_state(given, initial_change).await?;
        change_state(given, StateChange::new().with("k", op.clone())).await?;
        let (_, state) = load_state(given).await?;
        expect_eq(state, state_with(&[("k", expected)])).map_err(|failure| failure.about(format!("{op:?}")))?;
    }
    Ok(())
}

/// A state change with one operation of each kind on keys that all tasks share, and with one key that no other change
/// sets.
fn one_operation_of_each_kind(number: usize) -> StateChange {
    let item = json(&number.to_string());
    let field = json(&format!("{{\"k{number}\":{number}}}"));
    let change = StateChange::new().with("sum", StateOp::Add(1)).with("object", StateOp::Merge(field));
    let change = change.with("max", StateOp::Max(i64::try_from(number).unwrap_or_default()));
    change.with("list", StateOp::Append(vec![item.clone()])).set(format!("own {number}"), item)
}

/// Concurrent operations all take effect, whether they name the same key or different keys.
pub(crate) async fn concurrent_operations_all_take_effect(given: &Given) -> Verdict {
    const TASKS: usize = 8;
    const ROUNDS: usize = 15;
    let commits = given.commits()?;
    let results = run_concurrently(TASKS, |task| {
        let commits = Arc::clone(&commits);
        async move {
            for round in 0..ROUNDS {
                let change = one_operation_of_each_kind(task * ROUNDS + round);
                let _receipt = commits.commit(Commit::new(id("t")).with_state(change)).await?;
            }
            Ok::<(), store_core::Error>(())
        }
    })
    .await;
    results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let total = TASKS * ROUNDS;
    let (revision, state) = load_state(given).await?;
    expect_eq((revision, state.len()), (total as u64, total + 4))?;
    expect_eq((&state["sum"], &state["max"]), (&json(&total.to_string()), &json(&(total - 1).to_string())))?;
    let mut items: Vec<usize> = state["list"].to()?;
    items.sort_unstable();
    expect_eq(items, (0..total).collect::<Vec<_>>())?;
    let object: std::collections::BTreeMap<String, usize> = state["object"].to()?;
    expect_eq(object.len(), total)
}

/// A commit that expects a different state revision is refused with `Conflict`. Of several concurrent commits that
/// expect the same revision, exactly one succeeds.
pub(crate) async fn one_of_several_commits_with_the_same_state_revision_succeeds(given: &Given) -> Verdict {
    for wrong_revision in [1, u64::MAX] {
        let conflicting_commit =
            Commit::new(id("t")).with_state(StateChange::new().set("a", json("1")).expecting(wrong_revision));
        expect_kind(given.commits()?.commit(conflicting_commit).await, ErrorKind::Conflict)?;
    }
    let commits = given.commits()?;
    for round in 0..30 {
        let results = run_concurrently(6, |task| {
            let change = StateChange::new().set("succeeded", json(&task.to_string())).with("n", StateOp::Add(1));
            let (commits, commit) = (Arc::clone(&commits), Commit::new(id("t")).with_state(change.expecting(round)));
            async move { commits.commit(commit).await }
        })
        .await;
        let (receipt, errors) = expect_exactly_one(results)?;
        expect_kinds(errors, ErrorKind::Conflict)?;
        expect_eq(receipt.state_revision, round + 1)?;
    }
    let (_, state) = load_state(given).await?;
    expect_eq(state.get("n"), Some(&json("30")))
}
