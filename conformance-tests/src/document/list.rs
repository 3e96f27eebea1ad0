//! Lists of documents: order, prefixes, bounds, pages.

use store_core::{Direction, DocumentChange, DocumentKey, ErrorKind, KeySegment, PageRequest};

use super::helpers::{
    all_notes, documents, expect_keys, joined_keys, key_in, list, note, note_key, notes_of_thread, put, put_at,
    segment, write, write_notes,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::id,
};

/// Writes notes with these keys, in the given order, each in a write of its own.
async fn write_keys(given: &Given, keys: Vec<Vec<KeySegment>>) -> Verdict {
    for key in keys {
        write(given, [put_at(note_key(&key).into(), "x")]).await?;
    }
    Ok(())
}

/// Keys are ordered segment by segment: numbers by value and before ids, ids by their bytes. A key comes before the
/// longer keys that begin with it.
pub(super) async fn keys_are_ordered_segment_by_segment(given: &Given) -> Verdict {
    let number = KeySegment::Number;
    let sorted = vec![
        vec![number(0)],
        vec![number(9)],
        vec![number(9), segment("a")],
        vec![number(10)],
        vec![number(u64::MAX)],
        vec![segment("10")],
        vec![segment("9")],
        vec![segment("B")],
        vec![segment("a")],
        vec![segment("a"), number(2)],
        vec![segment("a"), number(11)],
        vec![segment("a"), segment("0")],
        vec![segment("a b")],
        vec![segment("a!"), segment("x")],
        vec![segment("ab")],
        vec![segment("e\u{301}")],
        vec![segment("é")],
        vec![segment("🦀")],
    ];
    // A step that has no divisor in common with the number of keys visits each key once, in another order.
    let shuffled: Vec<_> = (0..sorted.len()).map(|at| sorted[at * 7 % sorted.len()].clone()).collect();
    write_keys(given, shuffled).await?;
    let key = |segments: &Vec<KeySegment>| segments.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
    expect_keys(given, all_notes(), &sorted.iter().map(key).collect::<Vec<_>>().join(" ")).await
}

/// A prefix selects the keys whose first segments equal it, and the key that consists of it. It never ends inside of
/// a segment.
pub(super) async fn a_prefix_ends_with_a_segment(given: &Given) -> Verdict {
    let number = KeySegment::Number;
    let keys = [
        vec![segment("a")],
        vec![segment("a"), segment("x")],
        vec![segment("a"), segment("x"), number(1)],
        vec![segment("a"), segment("xy")],
        vec![segment("ab")],
        vec![number(1), segment("x")],
        vec![number(10)],
        vec![number(11), segment("x")],
    ];
    write_keys(given, keys.to_vec()).await?;
    expect_keys(given, all_notes().starting_with([segment("a")]), "a a/x a/x/1 a/xy").await?;
    expect_keys(given, all_notes().starting_with([segment("a"), segment("x")]), "a/x a/x/1").await?;
    expect_keys(given, all_notes().starting_with([number(1)]), "1/x").await?;
    expect_keys(given, all_notes().starting_with([segment("b")]), "").await?;
    expect_keys(given, all_notes().starting_with([segment("1")]), "").await
}

/// A list begins with its lower bound and ends in front of its upper bound. Both must hold together with the prefix.
/// Bounds that contradict each other select nothing.
pub(super) async fn bounds_limit_a_list(given: &Given) -> Verdict {
    let number = KeySegment::Number;
    let key = |run: &str, at| vec![segment(run), number(at)];
    let keys = ["a", "b"].map(|run| [1, 2, 3, 20].map(|at| key(run, at)));
    write_keys(given, keys.concat()).await?;
    let query = || all_notes().starting_with([segment("a")]);
    expect_keys(given, query().from(key("a", 2)), "a/2 a/3 a/20").await?;
    expect_keys(given, query().before(key("a", 3)), "a/1 a/2").await?;
    expect_keys(given, query().from(key("a", 2)).before(key("a", 20)), "a/2 a/3").await?;
    expect_keys(given, all_notes().from(key("a", 20)).before(key("b", 2)), "a/20 b/1").await?;
    expect_keys(given, all_notes().from([segment("b")]).before(key("b", 2)), "b/1").await?;
    expect_keys(given, query().from([segment("b")]), "").await?;
    expect_keys(given, all_notes().from(key("b", 1)).before(key("a", 1)), "").await?;
    expect_keys(given, all_notes().from(key("a", 2)).before(key("a", 2)), "").await
}

/// A list after a prefix leaves out the key that consists of it and all longer ones that begin with it, and of what
/// follows nothing.
pub(super) async fn a_list_continues_after_a_prefix(given: &Given) -> Verdict {
    let number = KeySegment::Number;
    let keys = [
        vec![number(1), segment("x")],
        vec![number(10)],
        vec![segment("a")],
        vec![segment("a"), segment("x")],
        vec![segment("a"), segment("x"), number(1)],
        vec![segment("a"), segment("xy")],
        vec![segment("a b")],
        vec![segment("ab")],
    ];
    write_keys(given, keys.to_vec()).await?;
    let after = |prefix: &[KeySegment]| all_notes().after_prefix(prefix.to_vec());
    expect_keys(given, after(&[number(1)]), "10 a a/x a/x/1 a/xy a b ab").await?;
    expect_keys(given, after(&[segment("a")]), "a b ab").await?;
    expect_keys(given, after(&[segment("a"), segment("x")]), "a/xy a b ab").await?;
    expect_keys(given, after(&[segment("a"), segment("b")]), "a/x a/x/1 a/xy a b ab").await?;
    expect_keys(given, after(&[segment("a")]).before([segment("ab")]), "a b").await?;
    expect_keys(given, after(&[segment("a")]).from([segment("ab")]), "ab").await?;
    expect_keys(given, after(&[segment("a"), segment("x")]).starting_with([segment("a")]), "a/xy").await?;
    expect_keys(given, after(&[segment("b")]), "").await?;
    expect_keys(given, after(&[]), "").await
}

/// A prefix or a bound that no key could have is refused.
pub(super) async fn a_bound_is_not_longer_than_a_key(given: &Given) -> Verdict {
    write_notes(given, &["a"]).await?;
    let nine_segments = || vec![KeySegment::Number(1); 9];
    let long_segments = || ["x", "y", "z"].map(|text| segment(&text.repeat(256)));
    for query in [
        all_notes().starting_with(nine_segments()),
        all_notes().from(nine_segments()),
        all_notes().before(nine_segments()),
        all_notes().after_prefix(nine_segments()),
        all_notes().starting_with(long_segments()),
        all_notes().from(long_segments()),
    ] {
        expect_kind(documents(given)?.list_documents(query).await, ErrorKind::LimitExceeded)?;
    }
    Ok(())
}

/// A list is read in pages, in both directions. It has a cursor if and only if more documents follow.
pub(super) async fn a_list_is_walked_both_ways_in_pages(given: &Given) -> Verdict {
    write_notes(given, &["a", "b", "c", "d", "e"]).await?;
    let store = documents(given)?;
    for (direction, first, second) in [(Direction::Forward, "a b", "c d e"), (Direction::Backward, "e d", "c b a")] {
        let query = all_notes().with_direction(direction);
        let page = store.list_documents(query.clone().with_page(PageRequest::first(2))).await?;
        expect_eq(joined_keys(&page.items).as_str(), first)?;
        let cursor = expect_some(page.next, "cursor")?;
        let rest = store.list_documents(query.clone().with_page(PageRequest::first(3).after(cursor))).await?;
        expect_eq((joined_keys(&rest.items).as_str(), rest.next), (second, None))?;
        let whole = store.list_documents(query.with_page(PageRequest::first(5))).await?;
        expect_eq((whole.items.len(), whole.next), (5, None))?;
    }
    expect_kind(store.list_documents(all_notes().with_page(PageRequest::first(0))).await, ErrorKind::Invalid).map(drop)
}

/// While documents are put and deleted between two pages, a walk returns each document that stays exactly once.
pub(super) async fn a_walk_with_writes_misses_and_repeats_nothing(given: &Given) -> Verdict {
    let names = ["b", "d", "f", "h", "j"];
    let store = documents(given)?;
    for direction in [Direction::Forward, Direction::Backward] {
        write(given, ["a", "e", "i"].map(|name| DocumentChange::delete(note(name)))).await?;
        write_notes(given, &names).await?;
        let query = all_notes().with_direction(direction);
        let page = store.list_documents(query.clone().with_page(PageRequest::first(2))).await?;
        let mut found = joined_keys(&page.items);
        let read = found.split(' ').next_back().unwrap_or_default().to_owned();
        // What was read last is deleted, and documents appear in front of the cursor and after it.
        write(given, [DocumentChange::delete(note(&read)), put("a", "new"), put("i", "new")]).await?;
        let next = PageRequest::first(10).after(expect_some(page.next, "cursor")?);
        let rest = store.list_documents(query.with_page(next)).await?;
        found = format!("{found} {}", joined_keys(&rest.items));
        for name in names {
            expect_eq(found.split(' ').filter(|other| *other == name).count(), 1)
                .map_err(|failure| failure.about(format!("{direction:?} {name}")))?;
        }
    }
    Ok(())
}

/// A page that ends because it has read 64 MiB has a cursor, with which the list goes on.
pub(super) async fn a_list_that_ends_early_goes_on(given: &Given) -> Verdict {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let text = "x".repeat(10 << 20);
    for name in names {
        write(given, [put(name, &text)]).await?;
    }
    for (direction, expected) in [(Direction::Forward, "a b c d e f g"), (Direction::Backward, "g f e d c b a")] {
        let found = list(given, all_notes().with_direction(direction)).await?;
        expect_eq(joined_keys(&found).as_str(), expected)?;
    }
    Ok(())
}

/// A list shows the documents of its collection and its scope, and no others.
pub(super) async fn a_list_has_one_collection_and_one_scope(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let of_thread = |name: &str| note_key(&[segment(name)]).in_thread(id("t"));
    let elsewhere = |collection: &str| put_at(key_in(collection, &[segment("other")]).into(), "x");
    write(given, [put("tenant", "x"), put_at(of_thread("thread"), "x")]).await?;
    write(given, ["note", "notes2", "Notes", "notes "].map(elsewhere)).await?;
    expect_keys(given, all_notes(), "tenant").await?;
    expect_keys(given, notes_of_thread("t"), "thread").await?;
    expect_keys(given, notes_of_thread("unknown"), "").await?;
    let found = list(given, notes_of_thread("t")).await?;
    expect_eq(found.iter().map(store_core::Document::to_ref).collect::<Vec<_>>(), vec![of_thread("thread")])
}

/// A cursor works after the longest key, and belongs to one prefix, bound, scope and direction.
pub(super) async fn a_cursor_belongs_to_one_list_of_documents(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let longest = [segment(&"é".repeat(128)), segment(&"y".repeat(256)), segment(&"z".repeat(182))];
    let last = note_key(&[segment("🦀")]);
    write(given, [put_at(note_key(&longest).into(), "x"), put_at(last.clone().into(), "x")]).await?;
    let store = documents(given)?;
    let page = store.list_documents(all_notes().with_page(PageRequest::first(1))).await?;
    let cursor = expect_some(page.next, "cursor")?;
    expect(cursor.as_str().len() <= 1_024, "the cursor is too long")?;
    let next = || PageRequest::first(1).after(cursor.clone());
    let rest = store.list_documents(all_notes().with_page(next())).await?.items;
    expect_eq(rest.into_iter().map(|found| found.key).collect::<Vec<DocumentKey>>(), vec![last])?;
    for other in [
        all_notes().with_direction(Direction::Backward),
        all_notes().starting_with([segment("🦀")]),
        all_notes().from([segment("🦀")]),
        all_notes().before([segment("🦀")]),
        all_notes().after_prefix([segment("A")]),
        notes_of_thread("t"),
        store_core::DocumentQuery::new(id("others")),
    ] {
        expect_kind(store.list_documents(other.with_page(next())).await, ErrorKind::InvalidCursor)?;
    }
    Ok(())
}
