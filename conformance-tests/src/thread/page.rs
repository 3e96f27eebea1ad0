//! Walks over threads and their logs, with filters, deletions and activity. A walk reads a list page by page to its
//! end.

use std::{collections::BTreeSet, time::Duration};

use store_core::{
    BodyKind, Commit, Direction, EntryQuery, ErrorKind, Expect, Message, NewBody, NewEntry, PageRequest, Role,
    RunFilter, RunQuery, Snapshot, Thread, ThreadFilter, ThreadId, ThreadOrder, ThreadPatch, ThreadQuery,
};

use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, keyed_commit_with_message, message_entry, read_all_pages},
};

fn thread_name(at: usize) -> String {
    format!("t-{at:02}")
}

async fn create_threads(given: &Given, count: usize) -> Verdict {
    for at in 0..count {
        given.create_empty_thread(&thread_name(at)).await?;
    }
    Ok(())
}

/// Returns the page that `request` asks for, or `None` instead of an empty last page. Changes `request` to ask for the
/// page after it. After the last page, `request.limit` is `None`, which tells the caller that the list has ended.
async fn next_page(
    given: &Given,
    query: &ThreadQuery,
    request: &mut PageRequest,
) -> Result<Option<Vec<Thread>>, Failure> {
    let page = given.threads()?.list_threads(query.clone().with_page(request.clone())).await?;
    if page.items.is_empty() && page.next.is_none() {
        return Ok(None);
    }
    match page.next {
        Some(cursor) => *request = request.after(cursor),
        None => request.limit = None,
    }
    Ok(Some(page.items))
}

/// If threads are deleted between two pages of a walk, no other thread is left out or repeated. This also holds if
/// the last thread of a page is deleted, for which the cursor stands.
pub(super) async fn a_walk_with_deletions_between_pages_skips_nothing(given: &Given) -> Verdict {
    for order in [ThreadOrder::Creation, ThreadOrder::LastActivity] {
        for direction in [Direction::Forward, Direction::Backward] {
            create_threads(given, 12).await?;
            let query = ThreadQuery::default().ordered(order, direction);
            let (mut found_ids, mut request) = (Vec::new(), PageRequest::first(3));
            while let Some(items) = next_page(given, &query, &mut request).await? {
                let last_id = items.last().map(|thread| thread.id.clone());
                found_ids.extend(items.into_iter().map(|thread| thread.id));
                if let Some(last_id) = last_id {
                    given.threads()?.delete_thread(&last_id, store_core::DeleteRequest::default()).await?;
                }
                if request.limit.is_none() {
                    break;
                }
            }
            let distinct_ids: BTreeSet<ThreadId> = found_ids.iter().cloned().collect();
            expect_eq((found_ids.len(), distinct_ids.len()), (12, 12))?;
            for at in 0..12 {
                let _ignored =
                    given.threads()?.delete_thread(&id(&thread_name(at)), store_core::DeleteRequest::default()).await;
            }
        }
    }
    Ok(())
}

/// A walk by last activity returns no thread twice, and returns each thread that was not written to during the walk
/// exactly once.
pub(super) async fn a_walk_by_activity_gives_each_thread_once(given: &Given) -> Verdict {
    create_threads(given, 12).await?;
    for (round, direction) in [Direction::Backward, Direction::Forward].into_iter().enumerate() {
        let query = ThreadQuery::default().ordered(ThreadOrder::LastActivity, direction);
        let written_names = [thread_name(0), thread_name(5), thread_name(11)];
        let (mut found_ids, mut request) = (Vec::new(), PageRequest::first(2));
        for pages_read in 0..40 {
            let Some(items) = next_page(given, &query, &mut request).await? else { break };
            found_ids.extend(items.into_iter().map(|thread| thread.id.to_string()));
            if request.limit.is_none() {
                break;
            }
            let key = format!("{round}-{pages_read}");
            given.expect_accepted(keyed_commit_with_message(&id(&written_names[pages_read % 3]), &key, "x")).await?;
        }
        let distinct_ids: BTreeSet<_> = found_ids.iter().cloned().collect();
        expect_eq(found_ids.len(), distinct_ids.len())
            .map_err(|failure| failure.about(format!("{direction:?} {found_ids:?}")))?;
        let all_found = (0..12)
            .map(thread_name)
            .filter(|name| !written_names.contains(name))
            .all(|name| distinct_ids.contains(&name));
        expect(all_found, format!("{direction:?}: a thread without writes is missing: {found_ids:?}"))?;
    }
    Ok(())
}

/// An ascending walk by last activity leaves out the threads that were written to after its first page. It therefore
/// ends even if writes continue, and even if store time does not advance.
pub(super) async fn an_ascending_walk_by_activity_ends(given: &Given) -> Verdict {
    create_threads(given, 6).await?;
    let query = ThreadQuery::default().ordered(ThreadOrder::LastActivity, Direction::Forward);
    let (mut found_ids, mut request) = (Vec::new(), PageRequest::first(1));
    for pages_read in 0..30 {
        let Some(items) = next_page(given, &query, &mut request).await? else { break };
        found_ids.extend(items.into_iter().map(|thread| thread.id.to_string()));
        if request.limit.is_none() {
            break;
        }
        let patch = ThreadPatch::default().with_title(format!("{pages_read}"));
        given.threads()?.update_thread(&id(&thread_name(0)), patch, Expect::Any).await?;
        // If store time does not advance, this thread comes after all others in the order.
        given.create_empty_thread(&format!("u-{pages_read}")).await?;
    }
    expect_eq(found_ids, (0..6).map(thread_name).collect::<Vec<_>>())
}

/// Filters are applied before the limit: all pages of a filtered walk together have exactly the threads that match, in
/// order.
pub(super) async fn filters_apply_before_the_limit(given: &Given) -> Verdict {
    for at in 0..40 {
        let thread = given.create_empty_thread(&thread_name(at)).await?;
        if at % 13 == 0 {
            let patch = ThreadPatch::default().with_metadata("k", store_core::Json::null());
            given.threads()?.update_thread(&thread.id, patch, Expect::Any).await?;
        }
        given.advance(Duration::from_millis(1)).await;
    }
    let mut filter = ThreadFilter::default();
    filter.metadata.push(("k".to_owned(), store_core::Json::null()));
    for limit in [1, 2, 3, 1000] {
        let query = ThreadQuery::new(filter.clone()).ordered(ThreadOrder::Creation, Direction::Forward);
        let matching_threads = super::list::find_threads(given, query.with_page(PageRequest::first(limit))).await?;
        let ids: Vec<_> = matching_threads.iter().map(|thread| thread.id.as_str()).collect();
        expect_eq(ids, ["t-00", "t-13", "t-26", "t-39"])?;
    }
    Ok(())
}

/// If only a few of thousands of entries match a filter, a walk still finds exactly these. A page may be empty: only a
/// missing cursor means that the list has ended.
pub(super) async fn rare_entries_are_found_among_thousands(given: &Given) -> Verdict {
    for batch in 0..12 {
        let rare_entry = NewEntry::new(Message::assistant("rare")).with_id(id(&format!("rare-{batch}")));
        let other_entries = (0..999).map(|_| message_entry("x"));
        let commit = Commit::new(id("t")).with_key(id(&format!("{batch}"))).entries(other_entries);
        given
            .expect_accepted(if batch % 5 == 0 { commit.entry(rare_entry) } else { commit.entry(message_entry("x")) })
            .await?;
    }
    let threads = &given.threads()?;
    for direction in [Direction::Forward, Direction::Backward] {
        let mut query = EntryQuery::all().with_direction(direction);
        query.role = Some(Role::Assistant);
        let entries = read_all_pages(PageRequest::first(1), |page| {
            let query = query.clone().with_page(page);
            async move { threads.list_entries(&id("t"), query).await }
        });
        let mut ids: Vec<_> = entries.await?.iter().map(|entry| entry.id.to_string()).collect();
        if direction == Direction::Backward {
            ids.reverse();
        }
        expect_eq(ids, ["rare-0", "rare-5", "rare-10"])?;
    }
    Ok(())
}

/// A filter with an empty list of values matches nothing.
pub(super) async fn an_empty_filter_list_matches_nothing(given: &Given) -> Verdict {
    given.create_thread_with_messages("t", &["x"]).await?;
    let run = store_core::RunChange::new(id("r"), store_core::RunStatus::Running).with_agent(id("agent"));
    given.expect_accepted(Commit::new(id("t")).with_run(run)).await?;
    let threads = given.threads()?;
    let mut entry_query = EntryQuery::all();
    for (kinds, wanted) in [(Some(vec![]), 0), (Some(vec![BodyKind::Message]), 1), (None, 1)] {
        entry_query.kinds = kinds;
        expect_eq(threads.list_entries(&id("t"), entry_query.clone()).await?.items.len(), wanted)?;
    }
    let mut run_filter = RunFilter::default();
    for (statuses, wanted) in [(Some(vec![]), 0), (None, 1)] {
        run_filter.statuses = statuses;
        expect_eq(threads.list_runs(RunQuery::new(run_filter.clone())).await?.items.len(), wanted)?;
        expect_eq(threads.count_runs(&run_filter).await?, wanted as u64)?;
    }
    Ok(())
}

/// A cursor is bound to the filters of its list: with other filters it is refused with `InvalidCursor`.
pub(super) async fn a_cursor_is_bound_to_its_filters(given: &Given) -> Verdict {
    create_threads(given, 5).await?;
    let first_page = given.threads()?.list_threads(ThreadQuery::default().with_page(PageRequest::first(2))).await?;
    let next_request =
        PageRequest::first(2).after(first_page.next.ok_or_else(|| Failure::new("the page has no cursor"))?);
    let creation_time = given.thread(&id(&thread_name(0))).await?.created_at;
    let mut filters = vec![ThreadFilter::default(); 5];
    filters[0].resource_id = Some(id("r"));
    filters[1].has_open_runs = Some(false);
    filters[2].created_after = Some(creation_time);
    filters[3].active_after = Some(creation_time);
    filters[4].metadata.push(("k".to_owned(), store_core::Json::null()));
    for filter in filters {
        let query = ThreadQuery::new(filter).with_page(next_request.clone());
        expect_kind(given.threads()?.list_threads(query).await, ErrorKind::InvalidCursor)?;
    }
    given.threads()?.list_threads(ThreadQuery::default().with_page(next_request)).await?;
    Ok(())
}

/// A walk can continue after a snapshot whose name is as long as a label may be. Even then the cursor is at most 1 KiB
/// long.
pub(super) async fn a_walk_continues_after_long_names(given: &Given) -> Verdict {
    let names: Vec<_> = (0..4).map(|at| format!("{}{at}", "é".repeat(511))).collect();
    for name in &names {
        let body = NewBody::Checkpoint { number: None, label: Some(name.clone()) };
        given.expect_accepted(Commit::new(id("t")).with_key(id(&name[1020..])).entry(NewEntry::new(body))).await?;
    }
    let threads = &given.threads()?;
    let page = threads.list_snapshots(&id("t"), PageRequest::first(1)).await?;
    let length = page.next.map_or(0, |cursor| cursor.as_str().len());
    expect((1..=1024).contains(&length), format!("the cursor has {length} bytes"))?;
    let snapshots: Vec<Snapshot> =
        read_all_pages(PageRequest::first(1), |page| async move { threads.list_snapshots(&id("t"), page).await })
            .await?;
    expect_eq(snapshots.into_iter().map(|snapshot| snapshot.name).collect::<Vec<_>>(), names)
}
