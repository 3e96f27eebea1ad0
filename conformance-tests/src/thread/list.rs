//! Lists and counts of threads: filters and orders.

use std::time::Duration;

use store_core::{
    Commit, Direction, Expect, Json, NewThread, RunChange, RunOutcome, RunStatus, Thread, ThreadFields, ThreadFilter,
    ThreadOrder, ThreadPatch, ThreadQuery, Timestamp,
};

use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq},
    given::{id, keyed_commit_with_message, read_all_pages},
};

/// All threads that a query finds, in the order of the query.
pub(super) async fn find_threads(given: &Given, query: ThreadQuery) -> Result<Vec<Thread>, Failure> {
    let threads = &given.threads()?;
    read_all_pages(query.page.clone(), |page| threads.list_threads(query.clone().with_page(page))).await
}

/// The sorted ids of the threads that match a filter. Also checks that `count_threads` returns their number.
pub(super) async fn matching_ids(given: &Given, filter: ThreadFilter) -> Result<Vec<String>, Failure> {
    let count = given.threads()?.count_threads(&filter).await?;
    let matching_threads = find_threads(given, ThreadQuery::new(filter)).await?;
    expect_eq(usize::try_from(count), Ok(matching_threads.len()))?;
    let mut ids: Vec<_> = matching_threads.into_iter().map(|thread| thread.id.to_string()).collect();
    ids.sort();
    Ok(ids)
}

/// Creates a thread with the metadata `{"k": value}`. `at` is the time of its creation in milliseconds. The resource is
/// `even` or `odd`, as `at` is.
async fn create_thread_at(given: &Given, name: &str, at: u64, value: &str) -> Result<Thread, Failure> {
    let mut fields = ThreadFields::default();
    fields.resource_id = Some(id(if at.is_multiple_of(2) { "even" } else { "odd" }));
    fields.metadata.insert("k".to_owned(), Json::parse(value)?);
    let mut draft = NewThread::new(id(name)).with_fields(fields);
    draft.at = Some(Timestamp::from_millis(at)?);
    Ok(given.threads()?.create_thread(draft).await?)
}

/// Creates the threads `a` to `e`. The times of their creation are given, from 1,000 to 5,001 milliseconds after the
/// epoch.
async fn create_five_threads(given: &Given) -> Result<(), Failure> {
    for (name, at, value) in
        [("c", 3001, "1"), ("a", 1000, "1.0"), ("e", 5001, "\"1\""), ("b", 2000, "[1]"), ("d", 4000, "1")]
    {
        create_thread_at(given, name, at, value).await?;
    }
    Ok(())
}

/// Returns a filter for all threads, changed by `change`.
fn filter_with(change: impl FnOnce(&mut ThreadFilter)) -> ThreadFilter {
    let mut filter = ThreadFilter::default();
    change(&mut filter);
    filter
}

fn timestamp(millis: u64) -> Option<Timestamp> {
    Timestamp::from_millis(millis).ok()
}

/// Threads are filtered by resource and by time of creation: `created_before` excludes the given time, and
/// `created_after` includes it. A thread must match all filters that are given.
pub(super) async fn threads_are_filtered_by_resource_and_creation(given: &Given) -> Verdict {
    create_five_threads(given).await?;
    for (wanted, filter) in [
        ("abcde", ThreadFilter::default()),
        ("abd", filter_with(|f| f.resource_id = Some(id("even")))),
        ("", filter_with(|f| f.resource_id = Some(id("Even")))),
        ("ab", filter_with(|f| f.created_before = timestamp(3001))),
        ("cde", filter_with(|f| f.created_after = timestamp(3001))),
        ("bc", filter_with(|f| (f.created_after, f.created_before) = (timestamp(2000), timestamp(4000)))),
        (
            "b",
            filter_with(|f| {
                (f.created_after, f.created_before, f.resource_id) =
                    (timestamp(2000), timestamp(4000), Some(id("even")))
            }),
        ),
        ("", filter_with(|f| (f.created_after, f.created_before) = (timestamp(4000), timestamp(2000)))),
        ("", filter_with(|f| (f.created_after, f.created_before) = (timestamp(3001), timestamp(3001)))),
    ] {
        expect_eq(matching_ids(given, filter.clone()).await?.concat(), wanted)
            .map_err(|f| f.about(format!("{filter:?}")))?;
    }
    Ok(())
}

/// A metadata filter compares the bytes of a value. A thread must match all filters that are given, so two different
/// values for one key match no thread.
pub(super) async fn threads_are_filtered_by_metadata(given: &Given) -> Verdict {
    create_five_threads(given).await?;
    let pair = |key: &str, value: &str| (key.to_owned(), Json::parse(value).expect("json"));
    for (wanted, metadata) in [
        ("cd", vec![pair("k", "1")]),
        ("a", vec![pair("k", "1.0")]),
        ("e", vec![pair("k", "\"1\"")]),
        ("b", vec![pair("k", "[1]")]),
        ("", vec![pair("k", "1"), pair("k", "1.0")]),
        ("", vec![pair("k", "1"), pair("other", "1")]),
        ("cd", vec![pair("k", "1"), pair("k", "1")]),
        ("", vec![pair("k'; --", "1")]),
        ("", vec![pair("%", "1")]),
    ] {
        let filter = filter_with(|f| f.metadata.clone_from(&metadata));
        expect_eq(matching_ids(given, filter).await?.concat(), wanted).map_err(|f| f.about(format!("{metadata:?}")))?;
    }
    Ok(())
}

/// The filter by open runs considers the current status of the runs.
pub(super) async fn threads_are_filtered_by_open_runs(given: &Given) -> Verdict {
    let filter_by_open_runs = |value| filter_with(|f| f.has_open_runs = Some(value));
    given.create_empty_thread("idle").await?;
    let commit_with_run_status =
        |status| Commit::new(id("busy")).with_run(RunChange::new(id("r"), status).with_agent(id("agent")));
    given.expect_accepted(commit_with_run_status(RunStatus::Created)).await?;
    expect_eq(matching_ids(given, filter_by_open_runs(true)).await?, ["busy"])?;
    expect_eq(matching_ids(given, filter_by_open_runs(false)).await?, ["idle"])?;
    given.expect_accepted(commit_with_run_status(RunStatus::done(RunOutcome::NaturalEnd))).await?;
    expect_eq(matching_ids(given, filter_by_open_runs(true)).await?, [""; 0])?;
    expect_eq(matching_ids(given, filter_by_open_runs(false)).await?, ["busy", "idle"])
}

/// The filters by last activity consider updates and commits: `active_before` excludes the given time, and
/// `active_after` includes it.
pub(super) async fn threads_are_filtered_by_activity(given: &Given) -> Verdict {
    create_five_threads(given).await?;
    let now = given.create_thread_with_messages("now", &["x"]).await?.updated_at;
    given.threads()?.update_thread(&id("b"), ThreadPatch::default().with_title("x"), Expect::Any).await?;
    given.expect_accepted(keyed_commit_with_message(&id("d"), "k", "x")).await?;
    let filter_by_activity = |after: Option<Timestamp>, before: Option<Timestamp>| {
        filter_with(|f| (f.active_after, f.active_before) = (after, before))
    };
    let split_names = |names: &str| names.split(' ').map(str::to_owned).collect::<Vec<_>>();
    expect_eq(matching_ids(given, filter_by_activity(Some(now), None)).await?, split_names("b d now"))?;
    expect_eq(matching_ids(given, filter_by_activity(None, Some(now))).await?, split_names("a c e"))?;
    expect_eq(matching_ids(given, filter_by_activity(timestamp(1000), timestamp(5001))).await?, split_names("a c"))?;
    expect_eq(matching_ids(given, filter_by_activity(Some(now), Some(now))).await?, [""; 0])
}

/// Threads are listed by last activity or by creation, each in both directions. The default begins with the thread that
/// was active last. The order by creation uses the creation time that the caller gave.
pub(super) async fn threads_are_ordered_by_activity_or_creation(given: &Given) -> Verdict {
    create_five_threads(given).await?;
    given.threads()?.update_thread(&id("b"), ThreadPatch::default().with_title("x"), Expect::Any).await?;
    let default_query = ThreadQuery::default;
    for (wanted, query) in [
        ("bedca", default_query()),
        ("bedca", default_query().ordered(ThreadOrder::LastActivity, Direction::Backward)),
        ("acdeb", default_query().ordered(ThreadOrder::LastActivity, Direction::Forward)),
        ("abcde", default_query().ordered(ThreadOrder::Creation, Direction::Forward)),
        ("edcba", default_query().ordered(ThreadOrder::Creation, Direction::Backward)),
    ] {
        let ids: String = find_threads(given, query.clone()).await?.iter().map(|thread| thread.id.as_str()).collect();
        expect_eq(ids, wanted).map_err(|failure| failure.about(format!("{query:?}")))?;
    }
    Ok(())
}

/// After a commit, its thread is the first one in the order by last activity.
pub(super) async fn a_commit_moves_its_thread_to_the_front(given: &Given) -> Verdict {
    for name in ["a", "b", "c"] {
        given.create_empty_thread(name).await?;
        given.advance(Duration::from_millis(10)).await;
    }
    let first_thread_id =
        async || Ok::<_, Failure>(find_threads(given, ThreadQuery::default()).await?.swap_remove(0).id.to_string());
    for name in ["a", "c", "b", "a"] {
        let receipt =
            given.commit(keyed_commit_with_message(&id(name), &format!("k-{}", first_thread_id().await?), "x")).await?;
        expect_eq(first_thread_id().await?, name)?;
        expect_eq(given.thread(&id(name)).await?.updated_at, receipt.time)?;
        given.advance(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// A commit sets `updated_at` to its own time, unless the old value is later. `updated_at` never decreases, even if a
/// commit states an earlier time or store time was set back.
pub(super) async fn activity_never_goes_back(given: &Given) -> Verdict {
    let created_thread = given.create_thread_with_messages("t", &["x"]).await?;
    let before = given.thread(&id("t")).await?.updated_at;
    given
        .expect_accepted(
            keyed_commit_with_message(&id("t"), "old", "x")
                .at(created_thread.updated_at.saturating_sub(Duration::from_secs(60))),
        )
        .await?;
    expect_eq(given.thread(&id("t")).await?.updated_at, before)?;
    given.set_back(Duration::from_secs(3600)).await;
    let last_receipt = given.commit(keyed_commit_with_message(&id("t"), "back", "x")).await?;
    let after = given.thread(&id("t")).await?;
    expect(last_receipt.time >= created_thread.updated_at, "the receipt's time went back")?;
    expect(after.updated_at >= before && after.created_at <= after.updated_at, "the thread's time went back")?;
    let updated_thread =
        given.threads()?.update_thread(&id("t"), ThreadPatch::default().with_title("x"), Expect::Any).await?;
    expect(updated_thread.updated_at >= after.updated_at, "an update set the time back")
}
