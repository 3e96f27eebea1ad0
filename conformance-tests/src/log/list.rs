//! Cases about reading a log: by id, by filter, along a path.

use std::{future::poll_fn, pin::pin};

use futures_core::Stream;
use store_core::{
    BodyKind, Direction, EntryQuery, ErrorKind, LogReaderExt, Message, NewEntry, PageRequest, Role, RunChange,
    RunStatus, Visibility,
};

use super::{
    entry_drafts::{
        assistant_entry, checkpoint, custom_entry, entry, label, rewind, side_entry, tool_results_entry, user_entries,
        user_entry,
    },
    writer::{ThreadWriter, joined_ids},
};
use crate::{
    check::{Failure, Verdict, expect, expect_eq, expect_kind, expect_some},
    given::{Given, id, read_all_pages},
};

/// The path of an entry is listed page by page, from the root or from the entry. The path of an unknown entry is
/// empty.
pub(crate) async fn a_path_is_listed_from_either_end(given: &Given) -> Verdict {
    let writer =
        ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c", "d", "e", "f", "g", "h", "i"])).await?;
    writer
        .expect_accepted([user_entry("x").below(id("c")), side_entry("beside"), user_entry("y"), user_entry("z")])
        .await?;
    let threads = given.threads()?;
    for (direction, path) in [(Direction::Forward, "a b c x y z"), (Direction::Backward, "z y x c b a")] {
        for limit in [1, 2, 3, 5, 6, 7] {
            let query = EntryQuery::path_of(id("z")).with_direction(direction);
            let list = |page| threads.list_entries(&writer.thread, query.clone().with_page(page));
            expect_eq(joined_ids(&read_all_pages(PageRequest::first(limit), list).await?), path)?;
        }
    }
    expect_eq(writer.path_ids("unknown").await?, "")?;
    let page_of_unknown_thread = threads.list_entries(&id("unknown"), EntryQuery::path_of(id("z"))).await?;
    expect(
        page_of_unknown_thread.items.is_empty() && page_of_unknown_thread.next.is_none(),
        "an unknown thread has a path",
    )
}

/// A long path is listed completely in one page, from either end.
pub(crate) async fn a_long_path_is_listed_in_one_page(given: &Given) -> Verdict {
    let all_names: Vec<_> = (0..200).map(|at| format!("{at}")).collect();
    let writer = ThreadWriter::with_entries(given, "t", all_names.iter().map(|name| user_entry(name))).await?;
    let query = EntryQuery::path_of(id("199")).with_page(PageRequest::first(1_000));
    let threads = given.threads()?;
    let page = threads.list_entries(&writer.thread, query.clone()).await?;
    expect_eq((joined_ids(&page.items), page.next), (all_names.join(" "), None))?;
    let page = threads.list_entries(&writer.thread, query.with_direction(Direction::Backward)).await?;
    let reversed: Vec<_> = all_names.iter().rev().map(String::as_str).collect();
    expect_eq((joined_ids(&page.items), page.next), (reversed.join(" "), None))
}

/// Whatever is committed between two pages, the list of a path continues along the same path.
pub(crate) async fn a_path_is_stable_while_it_is_listed(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c", "d"])).await?;
    for direction in [Direction::Forward, Direction::Backward] {
        let query = EntryQuery::path_of(id("d")).with_direction(direction);
        let first_request = PageRequest::first(2);
        let threads = given.threads()?;
        let first_page = threads.list_entries(&writer.thread, query.clone().with_page(first_request.clone())).await?;
        writer.expect_accepted([NewEntry::new(Message::user("new")).below(id("a")), rewind("b")]).await?;
        let next_request = first_request.after(expect_some(first_page.next, "cursor")?);
        let second_page = threads.list_entries(&writer.thread, query.with_page(next_request)).await?;
        let mut path = joined_ids(&first_page.items) + " " + &joined_ids(&second_page.items);
        if direction == Direction::Backward {
            path = path.split(' ').rev().collect::<Vec<_>>().join(" ");
        }
        expect_eq((path.as_str(), second_page.next), ("a b c d", None))?;
    }
    Ok(())
}

/// Creates a thread with the entries `a` to `l`. Among them are all kinds, roles and visibilities that the filters of
/// these cases distinguish.
async fn create_thread_with_varied_entries(given: &Given) -> Result<ThreadWriter<'_>, Failure> {
    let writer = ThreadWriter::new(given, "t");
    let run = RunChange::new(id("r"), RunStatus::Running).with_agent(id("agent"));
    given.expect_accepted(writer.guarded_commit().await?.with_run(run)).await?;
    let internal_entry = entry("c", Message::user("c").with_visibility(Visibility::Internal));
    let aside_entry = entry("d", Message::assistant("d").with_visibility(Visibility::Aside));
    writer
        .expect_accepted([
            user_entry("a"),
            assistant_entry("b").with_run(id("r"), Some(1)),
            internal_entry,
            aside_entry,
            side_entry("e"),
        ])
        .await?;
    writer
        .expect_accepted([
            tool_results_entry("f", &["x"]).with_run(id("r"), None),
            checkpoint("g", None),
            custom_entry("h"),
        ])
        .await?;
    writer
        .expect_accepted([
            label("a", Some("x")).with_id(id("i")),
            user_entry("j").below(id("b")),
            user_entry("k").with_side(true),
        ])
        .await?;
    writer.expect_accepted([rewind("d").with_id(id("l"))]).await?;
    Ok(writer)
}

/// Returns a query for all entries, changed by `change`.
fn query_with(change: impl FnOnce(&mut EntryQuery)) -> EntryQuery {
    let mut query = EntryQuery::all();
    change(&mut query);
    query
}

/// Entries are filtered by parent, kind, role, visibility, run and side. An empty list of kinds matches nothing.
pub(crate) async fn entries_are_filtered(given: &Given) -> Verdict {
    let writer = create_thread_with_varied_entries(given).await?;
    let kinds = |kinds: &[BodyKind]| Some(kinds.to_vec());
    for (query, ids) in [
        (EntryQuery::all(), "a b c d e f g h i j k l"),
        (query_with(|query| query.role = Some(Role::User)), "a c j k"),
        (query_with(|query| query.role = Some(Role::Tool)), "f"),
        (query_with(|query| query.visibility = Some(Visibility::Aside)), "d"),
        (query_with(|query| query.visibility = Some(Visibility::All)), "a b f j k"),
        (query_with(|query| query.run = Some(id("r"))), "b f"),
        (query_with(|query| query.run = Some(id("unknown"))), ""),
        (query_with(|query| query.side = Some(true)), "e i k l"),
        (query_with(|query| query.side = Some(false)), "a b c d f g h j"),
        (query_with(|query| query.children_of = Some(id("b"))), "c j"),
        (query_with(|query| query.children_of = Some(id("unknown"))), ""),
        (query_with(|query| query.kinds = kinds(&[BodyKind::Checkpoint, BodyKind::Custom])), "e g h"),
        (query_with(|query| query.kinds = kinds(&[BodyKind::Rewind, BodyKind::Label])), "i l"),
        (query_with(|query| query.kinds = kinds(&[])), ""),
    ] {
        expect_found_in_both_directions(&writer, query, ids).await?;
    }
    Ok(())
}

/// If a query has several filters, it finds only the entries that match all of them.
pub(crate) async fn an_entry_must_match_all_filters(given: &Given) -> Verdict {
    let writer = create_thread_with_varied_entries(given).await?;
    let user_messages_on_path =
        |query: &mut EntryQuery| (query.path_of, query.role) = (Some(id("h")), Some(Role::User));
    let side_entries_below_d = |query: &mut EntryQuery| (query.children_of, query.side) = (Some(id("d")), Some(true));
    let user_messages_of_run = |query: &mut EntryQuery| (query.run, query.role) = (Some(id("r")), Some(Role::User));
    let visible_to_all_from_5 =
        |query: &mut EntryQuery| (query.from_seq, query.visibility) = (Some(5), Some(Visibility::All));
    let path_below =
        |parent: &str| query_with(|query| (query.path_of, query.children_of) = (Some(id("h")), Some(id(parent))));
    for (query, ids) in [
        (query_with(user_messages_on_path), "a c"),
        (query_with(side_entries_below_d), "e"),
        (query_with(user_messages_of_run), ""),
        (query_with(visible_to_all_from_5), "f j k"),
        (path_below("b"), "c"),
        (path_below("d"), "f"),
        (path_below("j"), ""),
    ] {
        expect_found_in_both_directions(&writer, query, ids).await?;
    }
    Ok(())
}

/// A window of sequence numbers includes both ends, whether or not the query also names a path. An empty window matches
/// nothing.
pub(crate) async fn a_window_includes_its_bounds(given: &Given) -> Verdict {
    let writer = create_thread_with_varied_entries(given).await?;
    for (from, to, ids, ids_on_path) in [
        (Some(1), Some(1), "a", "a"),
        (Some(3), Some(6), "c d e f", "c d f"),
        (Some(11), None, "k l", ""),
        (None, Some(2), "a b", "a b"),
        (Some(0), Some(u64::MAX), "a b c d e f g h i j k l", "a b c d f g h"),
        (Some(5), Some(4), "", ""),
        (Some(13), None, "", ""),
        (Some(u64::MAX), None, "", ""),
        (None, Some(0), "", ""),
        (Some(5), Some(5), "e", ""),
    ] {
        let mut query = query_with(|query| (query.from_seq, query.to_seq) = (from, to));
        expect_found_in_both_directions(&writer, query.clone(), ids).await?;
        query.path_of = Some(id("h"));
        expect_found_in_both_directions(&writer, query, ids_on_path).await?;
    }
    Ok(())
}

/// Checks that a query finds the entries with these ids, in both directions.
async fn expect_found_in_both_directions(writer: &ThreadWriter<'_>, query: EntryQuery, ids: &str) -> Verdict {
    let about = format!("{query:?}");
    expect_eq(writer.find_ids(query.clone()).await?, ids).map_err(|failure| failure.about(&about))?;
    let backward = writer.find_ids(query.with_direction(Direction::Backward)).await?;
    let reversed = ids.split(' ').rev().collect::<Vec<_>>().join(" ");
    expect_eq(backward, reversed).map_err(|failure| failure.about(format!("backward {about}")))
}

/// An entry is found by its id in its own thread. For an unknown id or an unknown thread, no entry is returned.
pub(crate) async fn an_entry_is_found_by_its_id(given: &Given) -> Verdict {
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("a"), side_entry("beside"), user_entry("b"), rewind("a")])
            .await?;
    ThreadWriter::with_entries(given, "other", user_entries(&["foreign", "a"])).await?;
    for listed in given.read_log(&writer.thread).await? {
        expect_eq(writer.load_entry(listed.id.as_str()).await?, listed)?;
    }
    let threads = given.threads()?;
    for (thread, name) in [("t", "foreign"), ("t", "A"), ("t", "unknown"), ("unknown", "a")] {
        expect_eq(threads.load_entry(&id(thread), &id(name)).await?, None)?;
    }
    expect_eq(threads.load_entry(&id("other"), &id("a")).await?.map(|entry| entry.seq), Some(2))
}

/// A stream returns every entry that a query finds, in order, whatever the page size is. It can be started again after
/// any entry.
pub(crate) async fn entries_stream_in_order(given: &Given) -> Verdict {
    let all_names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&all_names)).await?;
    let log = given.read_log(&writer.thread).await?;
    for (direction, order) in
        [(Direction::Forward, all_names), (Direction::Backward, ["h", "g", "f", "e", "d", "c", "b", "a"])]
    {
        for limit in [1, 8, 1000] {
            let query = EntryQuery::path_of(id("h")).with_direction(direction).with_page(PageRequest::first(limit));
            expect_eq(streamed_ids(&writer, query).await?, order.join(" "))?;
        }
        let query = EntryQuery::path_of(id("h")).with_direction(direction).with_page(PageRequest::first(3));
        expect_eq(streamed_ids(&writer, query.clone()).await?, order.join(" "))?;
        for (at, name) in order.iter().enumerate() {
            let entry = log.iter().find(|entry| entry.id.as_str() == *name);
            let query_after_entry = query.clone().after_entry(expect_some(entry, "entry")?);
            expect_eq(streamed_ids(&writer, query_after_entry).await?, order[at + 1..].join(" "))?;
        }
    }
    Ok(())
}

/// Returns the ids of the entries that a stream returns, separated by spaces.
async fn streamed_ids(writer: &ThreadWriter<'_>, query: EntryQuery) -> Result<String, Failure> {
    let threads = writer.given.threads()?;
    let mut entries = pin!(threads.stream_entries(&writer.thread, query));
    let mut found = Vec::new();
    while let Some(entry) = poll_fn(|cx| entries.as_mut().poll_next(cx)).await {
        found.push(entry?);
    }
    Ok(joined_ids(&found))
}

/// The cursor of one path is refused for another path, for another thread and for another list.
pub(crate) async fn a_cursor_belongs_to_its_path(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c"])).await?;
    ThreadWriter::with_entries(given, "other", user_entries(&["a", "b", "c"])).await?;
    let threads = given.threads()?;
    let first_request = PageRequest::first(1);
    let page =
        threads.list_entries(&writer.thread, EntryQuery::path_of(id("c")).with_page(first_request.clone())).await?;
    let next_request = first_request.after(expect_some(page.next, "cursor")?);
    let query_of_path = |path: &str| EntryQuery::path_of(id(path)).with_page(next_request.clone());
    expect_kind(threads.list_entries(&writer.thread, query_of_path("b")).await, ErrorKind::InvalidCursor)?;
    expect_kind(threads.list_entries(&id("other"), query_of_path("c")).await, ErrorKind::InvalidCursor)?;
    let leaves = threads.list_leaves(&writer.thread, next_request.clone()).await;
    expect_kind(leaves, ErrorKind::InvalidCursor)?;
    expect_eq(joined_ids(&threads.list_entries(&writer.thread, query_of_path("c")).await?.items), "b")
}
