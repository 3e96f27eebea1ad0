//! Stores with smaller limits.

use store_core::{Commit, ErrorKind, Expect, Json, RunChange, RunStatus, StateChange, StateOp};

use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, message_entry},
};

const RECORD_BYTES: u64 = 2000;

/// If a store is opened with a smaller limit on records, its capabilities state this limit. Every operation that would
/// write a larger entry, run or state value is refused with `LimitExceeded`. Nothing is cut.
pub(super) async fn a_record_larger_than_declared_is_refused(given: &Given) -> Verdict {
    let given = &given.open_another_store_with_limits(|limits| limits.record_bytes = RECORD_BYTES).await?;
    expect_eq(given.store().capabilities().max_record_bytes, RECORD_BYTES)?;
    let (commits, long_text) = (given.commits()?, "x".repeat(1500));
    let text = Json::of(&long_text)?;
    let new_commit = || Commit::new(id("t"));
    let commit_that_sets = |value: Json| new_commit().with_state(StateChange::new().set("set", value));
    let commit_that_appends =
        || new_commit().with_state(StateChange::new().with("list", StateOp::Append(vec![text.clone()])));
    let commit_that_merges = |name: &str| {
        let fields = Json::parse(&format!("{{\"{name}\":{text}}}")).expect("json");
        new_commit().with_state(StateChange::new().with("map", StateOp::Merge(fields)))
    };
    let mut run = RunChange::new(id("r"), RunStatus::Running).with_agent(id("agent"));
    run.state.insert("k".to_owned(), Some(text.clone()));
    for accepted_commit in [
        new_commit().with_key(id("k")).entry(message_entry(&long_text)),
        commit_that_sets(text.clone()),
        commit_that_appends(),
        commit_that_merges("a"),
    ] {
        given.expect_accepted(accepted_commit).await?;
    }
    given.expect_accepted(new_commit().with_run(run.clone())).await?;
    run.state.insert("more".to_owned(), Some(text.clone()));
    let refused_commits = [
        new_commit().with_key(id("l")).entry(message_entry(&long_text.repeat(2))),
        commit_that_sets(Json::of(&long_text.repeat(2))?),
        commit_that_appends(),
        commit_that_merges("b"),
    ];
    for (index, commit) in refused_commits.into_iter().chain([new_commit().with_run(run)]).enumerate() {
        let refused = expect_kind(commits.commit(commit).await, ErrorKind::LimitExceeded);
        refused.map_err(|failure| failure.about(format!("record {index}")))?;
    }
    expect_eq(given.read_log(&id("t")).await?.len(), 1)
}

/// A commit that exceeds the limit on the bytes of a commit is refused with `LimitExceeded`, although each of its
/// records is small enough.
pub(super) async fn a_commit_larger_than_declared_is_refused(given: &Given) -> Verdict {
    let given = &given.open_another_store_with_limits(|limits| limits.commit_bytes = 10_000).await?;
    let commit_of_messages =
        |count: usize| Commit::new(id("t")).entries((0..count).map(|_| message_entry(&"x".repeat(1500))));
    expect_kind(
        given.commits()?.commit(commit_of_messages(7).expecting(Expect::Absent)).await,
        ErrorKind::LimitExceeded,
    )?;
    expect(given.threads()?.load_thread(&id("t")).await?.is_none(), "a refused commit created the thread")?;
    given.expect_accepted(commit_of_messages(5).expecting(Expect::Absent)).await
}
