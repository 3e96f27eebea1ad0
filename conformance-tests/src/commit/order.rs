//! The order of checks: the first check that fails determines the error.

use store_core::{
    ClaimNumber, ClaimToken, Commit, DeleteRequest, Detail, Error, ErrorKind, Expect, Fence, StateChange, ThreadFields,
    Version,
};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_kind},
    given::{Given, id, keyed_commit_with_message},
    log::{
        entry_drafts::{json, tool_results_entry, user_entries, user_entry},
        writer::ThreadWriter,
    },
    run::helpers::{done_run, running_run},
};

fn fence_of_claim(counter: u64) -> Fence {
    Fence::new(id("dispatch"), ClaimToken::new("token"), 1, ClaimNumber { incarnation: 1, counter })
}

/// One of the checks of a commit: how to make it fail, and how to recognise its error.
struct Check {
    name: &'static str,
    make_commit_fail: fn(&mut Commit),
    is_its_error: fn(&Error) -> bool,
}

/// Returns whether `error` is a conflict whose actual value is `number`. This shows which expectation failed, because
/// the version of the thread is 3 and its state revision is 1.
fn is_conflict_with(error: &Error, number: u64) -> bool {
    matches!(error.detail(), Detail::Conflict { actual: Some(found), .. } if found.number() == number)
}

/// The checks of a commit to an existing thread, in their order.
static CHECKS: &[Check] = &[
    Check {
        name: "shape",
        make_commit_fail: |commit| commit.entries.push(tool_results_entry("no result", &[])),
        is_its_error: |error| error.kind() == ErrorKind::Invalid,
    },
    Check {
        name: "key",
        make_commit_fail: |commit| commit.key = Some(id("used")),
        is_its_error: |error| error.kind() == ErrorKind::IdempotencyMismatch,
    },
    Check {
        name: "fence",
        make_commit_fail: |commit| commit.fence = Some(fence_of_claim(4)),
        is_its_error: |error| error.kind() == ErrorKind::StaleEpoch,
    },
    Check {
        name: "expect",
        make_commit_fail: |commit| commit.expect = Expect::Version(Version::new(2, 1, 0)),
        is_its_error: |error| is_conflict_with(error, 3),
    },
    Check {
        name: "state revision",
        make_commit_fail: |commit| commit.state.get_or_insert_default().expect_revision = Some(7),
        is_its_error: |error| is_conflict_with(error, 1),
    },
    Check {
        name: "run",
        make_commit_fail: |commit| commit.run = Some(running_run("done")),
        is_its_error: |error| error.kind() == ErrorKind::InvalidTransition,
    },
    Check {
        name: "entries",
        make_commit_fail: |commit| commit.entries.push(user_entry("a")),
        is_its_error: |error| error.kind() == ErrorKind::AlreadyExists,
    },
    Check {
        name: "totals",
        make_commit_fail: |commit| {
            let change = commit.state.take().unwrap_or_default();
            commit.state = Some(change.set("one more", json("1")));
        },
        is_its_error: |error| error.kind() == ErrorKind::LimitExceeded,
    },
];

/// Creates a thread of version 3 and state revision 1, with the maximum number of state keys, a used commit key, a
/// claim number and a run that is done.
async fn create_thread_at_its_limits(given: &Given) -> Verdict {
    let state = (0..1_000).fold(StateChange::new(), |change, number| change.set(format!("k{number}"), json("1")));
    let first = Commit::new(id("t")).expecting(Expect::Absent).entries(user_entries(&["a", "b", "c"]));
    given
        .expect_accepted(
            first.with_run(done_run("done")).with_state(state).with_key(id("used")).fenced(fence_of_claim(5)),
        )
        .await
}

/// A commit that passes all checks.
fn valid_commit(number: usize) -> Commit {
    let name = format!("new {number}");
    Commit::new(id("t")).with_key(id(&name)).entry(user_entry(&name))
}

/// Returns the error of a commit that must be refused.
async fn expect_error(given: &Given, commit: Commit) -> Result<Error, Failure> {
    match given.commits()?.commit(commit).await {
        Ok(receipt) => Err(Failure::new(format!("the commit was accepted: {receipt:?}"))),
        Err(error) => Ok(error),
    }
}

/// If two checks fail, the first of them determines the error. The order is: shape and limits, key, fence, guard, state
/// revision, run, entries, limits on totals.
pub(crate) async fn the_first_failing_check_determines_the_error(given: &Given) -> Verdict {
    create_thread_at_its_limits(given).await?;
    let writer = ThreadWriter::new(given, "t");
    let (thread_before, log_before) = (writer.load_thread().await?, given.read_log(&writer.thread).await?);
    for (first_index, first) in CHECKS.iter().enumerate() {
        // A check is also paired with itself, which shows that its failure alone gives its error.
        for (second_index, second) in CHECKS.iter().enumerate().skip(first_index) {
            let mut commit = valid_commit(first_index * CHECKS.len() + second_index);
            (second.make_commit_fail)(&mut commit);
            if second_index > first_index {
                (first.make_commit_fail)(&mut commit);
            }
            let pair = format!("{} before {}", first.name, second.name);
            let error = expect_error(given, commit).await.map_err(|failure| failure.about(&pair))?;
            if !(first.is_its_error)(&error) {
                return Err(Failure::new(format!("{pair}: {error:?}")));
            }
        }
    }
    expect_eq((writer.load_thread().await?, given.read_log(&writer.thread).await?), (thread_before, log_before))
}

/// For a deleted thread the error is `NotFound`, unless the check of shape and limits fails. That check comes first.
pub(crate) async fn a_deleted_thread_is_reported_before_other_errors(given: &Given) -> Verdict {
    create_thread_at_its_limits(given).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    for (index, check) in CHECKS.iter().enumerate() {
        let mut commit = valid_commit(index);
        (check.make_commit_fail)(&mut commit);
        let error = expect_error(given, commit).await?;
        let kind = if check.name == "shape" { ErrorKind::Invalid } else { ErrorKind::NotFound };
        expect_eq(error.kind(), kind).map_err(|failure| failure.about(check.name))?;
    }
    let repeat =
        Commit::new(id("t")).expecting(Expect::Any).entries(user_entries(&["a", "b", "c"])).with_key(id("used"));
    expect_kind(given.commits()?.commit(repeat).await, ErrorKind::NotFound).map(drop)
}

/// The limits on the commit itself are checked together with its shape, before all checks against stored data.
pub(crate) async fn limits_of_the_commit_are_checked_first(given: &Given) -> Verdict {
    create_thread_at_its_limits(given).await?;
    let stale_commit = || valid_commit(0).expecting(Expect::Absent).fenced(fence_of_claim(1));
    let commit_of_many_entries = stale_commit().entries((0..1_001).map(|number| user_entry(&number.to_string())));
    let change_of_many_keys =
        (0..1_001).fold(StateChange::new(), |change, number| change.set(format!("k{number}"), json("1")));
    let mut fields_with_long_title = ThreadFields::default();
    fields_with_long_title.title = Some("x".repeat(1_025));
    for commit in [
        commit_of_many_entries,
        stale_commit().with_state(change_of_many_keys),
        stale_commit().creating(fields_with_long_title),
    ] {
        expect_kind(given.commits()?.commit(commit.with_key(id("used"))).await, ErrorKind::LimitExceeded)?;
    }
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    let commit_of_many_entries =
        keyed_commit_with_message(&id("t"), "k", "x").entries((0..1_001).map(|number| user_entry(&number.to_string())));
    expect_kind(given.commits()?.commit(commit_of_many_entries).await, ErrorKind::LimitExceeded).map(drop)
}
