//! Arguments with the largest and smallest values of their types: a call with them succeeds or is refused, and never
//! panics.

use std::time::Duration;

use store_core::{
    Budget, ClaimNumber, ClaimToken, Commit, Compaction, ContextRequest, DeleteRequest, Direction, EntryQuery,
    EntryRange, Error, ErrorKind, Expect, Fence, Interval, Json, Message, NewBody, NewEntry, NewThread, PageRequest,
    PruneRequest, Result, RewindTo, Role, RunChange, RunFilter, RunQuery, RunStatus, StateChange, StateOp,
    ThreadFilter, ThreadId, ThreadOrder, ThreadPatch, ThreadQuery, Timestamp, TokenCounts, UsageRecord, Version,
};

use super::outcomes::tenant_as_text;
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_kind},
    given::{id, message_entry},
};

/// Checks that a call succeeded, or was refused because of its arguments.
fn expect_success_or_refusal<T: std::fmt::Debug>(result: Result<T>, call: &str) -> Verdict {
    let Err(error) = result else { return Ok(()) };
    let is_broken = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unavailable | ErrorKind::Closed);
    expect(!is_broken, format!("{call}: {error:?}"))?;
    // Every other kind is allowed, so `expect_kind` only checks that the outcome is `NotApplied`.
    let kind = error.kind();
    expect_kind::<()>(Err(error), kind).map(drop)
}

/// Filters with the earliest or the latest time in one of their fields, and one with 2,000 metadata values.
fn extreme_filters() -> Vec<ThreadFilter> {
    let times = [Timestamp::MIN, Timestamp::MAX].map(Some);
    let mut filters = vec![ThreadFilter::default(); 8];
    for (index, time) in times.into_iter().enumerate() {
        filters[index].created_before = time;
        filters[2 + index].created_after = time;
        filters[4 + index].active_before = time;
        filters[6 + index].active_after = time;
    }
    let mut filter_by_metadata = ThreadFilter::default();
    filter_by_metadata.metadata = (0..2000).map(|index| (index.to_string(), Json::null())).collect();
    filters.push(filter_by_metadata);
    filters
}

/// With every filter, order and limit, lists and counts of threads and runs succeed or are refused.
pub(super) async fn lists_handle_every_filter(given: &Given) -> Verdict {
    given.create_thread_with_messages("t", &["x"]).await?;
    let threads = given.threads()?;
    for filter in extreme_filters() {
        expect_success_or_refusal(threads.count_threads(&filter).await, "count")?;
        for order in [ThreadOrder::LastActivity, ThreadOrder::Creation] {
            for direction in [Direction::Forward, Direction::Backward] {
                let query = ThreadQuery::new(filter.clone()).ordered(order, direction);
                expect_success_or_refusal(threads.list_threads(query.clone()).await, "list")?;
                let too_large_page = query.with_page(PageRequest::first(u32::MAX));
                expect_kind(threads.list_threads(too_large_page).await, ErrorKind::Invalid)?;
            }
        }
    }
    let mut runs = RunFilter::default();
    for (before, after) in [(Timestamp::MIN, Timestamp::MAX), (Timestamp::MAX, Timestamp::MIN)] {
        (runs.created_before, runs.created_after) = (Some(before), Some(after));
        expect_success_or_refusal(threads.count_runs(&runs).await, "count_runs")?;
        expect_success_or_refusal(threads.list_runs(RunQuery::new(runs.clone())).await, "list_runs")?;
    }
    Ok(())
}

/// Entries can be listed with every window and direction, and contexts can be loaded with every budget.
pub(super) async fn logs_handle_every_window(given: &Given) -> Verdict {
    given.create_thread_with_messages("t", &["a", "b", "c"]).await?;
    let (threads, thread): (_, ThreadId) = (given.threads()?, id("t"));
    let bounds = [None, Some(0), Some(1), Some(3), Some(4), Some(u64::MAX)];
    for (from, to) in bounds.into_iter().flat_map(|from| bounds.map(|to| (from, to))) {
        for direction in [Direction::Forward, Direction::Backward] {
            let mut query = EntryQuery::all().with_direction(direction);
            (query.from_seq, query.to_seq) = (from, to);
            let found = threads.list_entries(&thread, query).await?.items.len() as u64;
            let (from, to) = (from.unwrap_or(0).max(1), to.unwrap_or(3).min(3));
            crate::check::expect_eq(found, (to + 1).saturating_sub(from))?;
        }
    }
    let largest_token_budget = Budget::Tokens { max: u64::MAX, counter: std::sync::Arc::new(|_| u64::MAX) };
    for budget in [Budget::Messages(0), Budget::Messages(u64::MAX), largest_token_budget] {
        threads.load_context(&thread, ContextRequest::head().within(budget)).await?;
    }
    Ok(())
}

/// Entries whose numbers, times and names are the largest or smallest possible, or that have no content.
fn extreme_entries() -> Vec<NewEntry> {
    let counts = TokenCounts::new(u64::MAX, u64::MAX);
    let mut usage = UsageRecord::default();
    (usage.spent, usage.context_size) = (Some(counts), Some(u64::MAX));
    let compaction_of = |from: &str, to: &str| {
        let mut compaction = Compaction::default();
        compaction.covers = Some(Interval::new(id(from), id(to)));
        NewEntry::new(compaction)
    };
    vec![
        NewEntry::new(Message::new(Role::User, vec![])),
        NewEntry::new(Message::new(Role::Tool, vec![])),
        NewEntry::new(Message::user("")).with_timestamp(Timestamp::MIN),
        NewEntry::new(Message::user("")).with_timestamp(Timestamp::MAX),
        NewEntry::new(usage.clone()),
        NewEntry::new(usage),
        NewEntry::new(Compaction::default()),
        compaction_of("no", "no"),
        NewEntry::new(RewindTo::Checkpoint(u64::MAX)),
        NewEntry::new(RewindTo::Label(String::new())),
        NewEntry::new(RewindTo::Snapshot("\u{0}".to_owned())),
        NewEntry::new(RewindTo::Start).with_side(true),
        NewEntry::new(NewBody::Checkpoint { number: Some(u64::MAX), label: Some(String::new()) }),
        message_entry("x").with_side(true),
        message_entry("x").with_id(id("self")).below(id("self")),
        message_entry("x").with_run(id("no run"), Some(u32::MAX)),
    ]
}

fn extreme_commits() -> Vec<Commit> {
    let new_commit = || Commit::new(id("t"));
    let ops = [StateOp::Add(i64::MIN), StateOp::Add(i64::MAX), StateOp::Max(i64::MIN), StateOp::Append(vec![])];
    let claims = [(0, 0), (u64::MAX, u64::MAX), (u64::MAX, 0)];
    let mut run = RunChange::new(id("r"), RunStatus::Running).with_agent(id("agent"));
    (run.steps, run.usage) = (Some(u32::MAX), Some(TokenCounts::new(u64::MAX, 0)));
    let mut run_with_wrong_ranges = run.clone();
    run_with_wrong_ranges.output = vec![EntryRange { from: 0, to: u64::MAX }, EntryRange { from: u64::MAX, to: 0 }];
    let mut commits: Vec<_> = extreme_entries()
        .into_iter()
        .enumerate()
        .map(|(index, entry)| new_commit().with_key(id(&format!("k-{index}"))).entry(entry))
        .collect();
    commits.extend(ops.map(|op| new_commit().with_state(StateChange::new().with("", op))));
    commits.extend(claims.map(|(incarnation, counter)| {
        new_commit().fenced(Fence::new(id("d"), ClaimToken::new(""), u64::MAX, ClaimNumber { incarnation, counter }))
    }));
    commits.extend([run, run_with_wrong_ranges].map(|run| new_commit().with_run(run)));
    commits.extend(
        [Timestamp::MIN, Timestamp::MAX].map(|at| new_commit().with_state(StateChange::new().remove("k")).at(at)),
    );
    commits.push(new_commit().with_state(StateChange::new().expecting(u64::MAX)));
    commits.push(
        new_commit().expecting(Expect::Version(Version::new(u64::MAX, u64::MAX, u64::MAX))).entry(message_entry("x")),
    );
    commits
}

/// Commits with any number, time or name succeed or are refused, and everything that they wrote can be read.
pub(super) async fn commits_handle_every_argument(given: &Given) -> Verdict {
    given.create_thread_with_messages("t", &["x"]).await?;
    // The second time, the commits meet what the first ones wrote: those with a key are repeats.
    for commit in extreme_commits().into_iter().chain(extreme_commits()) {
        let call = format!("{commit:?}");
        expect_success_or_refusal(given.commits()?.commit(commit).await, &call)?;
    }
    tenant_as_text(&given.stores()?).await.map(drop)
}

/// Changes of threads with any guard, time or name succeed or are refused.
pub(super) async fn thread_changes_handle_every_argument(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let (threads, thread): (_, ThreadId) = (given.threads()?, id("t"));
    let largest_guard = Expect::Version(Version::new(u64::MAX, u64::MAX, u64::MAX));
    let patch = ThreadPatch::default().with_title("\u{0}").with_metadata("", Json::null());
    expect_success_or_refusal(threads.update_thread(&thread, patch, largest_guard).await, "update")?;
    expect_success_or_refusal(
        threads.delete_thread(&thread, DeleteRequest { expect: largest_guard, ..DeleteRequest::default() }).await,
        "delete",
    )?;
    for idle in [Duration::ZERO, Duration::MAX] {
        let request = PruneRequest { idle, limit: 1000, dry_run: true };
        expect_success_or_refusal(threads.prune_threads(request).await, "prune")?;
    }
    let mut draft = NewThread::new(id("first"));
    draft.at = Some(Timestamp::MIN);
    threads.create_thread(draft).await?;
    expect_success_or_refusal(threads.reset_fence(&id("unknown")).await, "reset_fence")?;
    tenant_as_text(&given.stores()?).await.map(drop)
}

/// A title of a mebibyte, a million keys, 10,000 entries and JSON of a million levels are each refused with
/// `LimitExceeded`, and no thread is created.
pub(super) async fn huge_arguments_are_refused(given: &Given) -> Verdict {
    let (threads, commits) = (given.threads()?, given.commits()?);
    let key_count = 1_000_000;
    let mebibyte_text = "x".repeat(1 << 20);
    let mut draft = NewThread::new(id("new"));
    draft.fields.title = Some(mebibyte_text.clone());
    expect_kind(threads.create_thread(draft).await, ErrorKind::LimitExceeded)?;
    let mut draft = NewThread::new(id("new"));
    draft.fields.metadata = (0..key_count).map(|number| (number.to_string(), Json::null())).collect();
    expect_kind(threads.create_thread(draft).await, ErrorKind::LimitExceeded)?;
    let state_change =
        (0..key_count).fold(StateChange::new(), |change, number| change.set(number.to_string(), Json::null()));
    expect_kind(commits.commit(Commit::new(id("new")).with_state(state_change)).await, ErrorKind::LimitExceeded)?;
    let commit_of_many_entries =
        Commit::new(id("new")).expecting(Expect::Absent).entries((0..10_000).map(|_| message_entry("x")));
    expect_kind(commits.commit(commit_of_many_entries).await, ErrorKind::LimitExceeded)?;
    let deeply_nested = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    expect_kind(Json::parse(&deeply_nested), ErrorKind::LimitExceeded)?;
    let loaded = threads.load_thread(&id("new")).await.map_err(|error: Error| Failure::from(error))?;
    expect(loaded.is_none(), "a refused call created the thread")
}
