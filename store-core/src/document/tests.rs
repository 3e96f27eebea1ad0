//! Tests of the rules for documents, and of the records.

use std::{cell::Cell, collections::BTreeMap};

use super::{
    Document, DocumentChange, DocumentExpect, DocumentKey, DocumentLoad, DocumentQuery, DocumentRef, DocumentScope,
    DocumentState, DocumentView, DocumentWrite, KeySegment, StoredDocument, WriteDocuments, changes_digest,
    check_changes, check_write, is_too_large, plan_changes,
};
use crate::{
    AppendEvents, CollectionId, Cursor, CursorKey, Direction, Error, ErrorKind, Json, Limits, NewEvent, PageRequest,
    Result, Scope, TenantId, ThreadId, Timestamp, codec::Codec,
};

fn key(text: &str) -> DocumentKey {
    DocumentKey::new(CollectionId::new("c").unwrap(), [KeySegment::id(text).unwrap()]).unwrap()
}

fn document(text: &str) -> DocumentRef {
    key(text).into()
}

fn thread(text: &str) -> ThreadId {
    ThreadId::new(text).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

/// Documents with their states, and the number of revisions that were asked for.
#[derive(Default)]
struct TestView {
    states: BTreeMap<DocumentRef, DocumentState>,
    revisions: Cell<u64>,
}

impl TestView {
    fn with(states: &[(&str, u64)]) -> Self {
        let state = |revision| DocumentState { revision, created_at: at(10), updated_at: at(20) };
        let states = states.iter().map(|(name, revision)| (document(name), state(*revision))).collect();
        Self { states, revisions: Cell::new(0) }
    }
}

impl DocumentView for TestView {
    fn document(&self, document: &DocumentRef) -> Result<Option<DocumentState>> {
        Ok(self.states.get(document).copied())
    }

    fn next_document_revision(&self) -> Result<u64> {
        self.revisions.set(self.revisions.get() + 1);
        Ok(100)
    }
}

#[test]
fn an_expectation_holds_as_the_table_says_do_2() {
    let check = |expect: DocumentExpect, wanted: [bool; 3]| {
        assert_eq!([None, Some(3), Some(4)].map(|actual| expect.holds(actual)), wanted, "{expect:?}");
    };
    check(DocumentExpect::Any, [true, true, true]);
    check(DocumentExpect::Absent, [true, false, false]);
    check(DocumentExpect::Present, [false, true, true]);
    check(DocumentExpect::Revision(3), [false, true, false]);
}

#[test]
fn the_first_expectation_that_does_not_hold_refuses_everything_do_2() {
    let view = TestView::with(&[("a", 3), ("b", 4)]);
    let changes = [
        DocumentChange::put(key("a"), Json::null()).expecting(DocumentExpect::Revision(3)),
        DocumentChange::delete(key("b")).expecting(DocumentExpect::Revision(3)),
        DocumentChange::check(key("c"), DocumentExpect::Present),
    ];
    let error = plan_changes(&view, &changes, at(30)).unwrap_err();
    assert_eq!((error.kind(), error.part()), (ErrorKind::Conflict, Some("documents[1]")));
    let message = "documents[1]: conflict in document `c/b`: expected revision 3, but found revision 4";
    assert_eq!(error.to_string(), message);
    let text = serde_json::to_string(&error).unwrap();
    assert!(
        text.ends_with(r#""what":"document","document":{"collection":"c","key":["b"]},"expected":3,"actual":4}"#),
        "{text}"
    );
    assert_eq!(view.revisions.get(), 0);
}

#[test]
fn a_plan_keeps_the_creation_and_never_goes_back_in_time() {
    let view = TestView::with(&[("a", 3), ("b", 4)]);
    let changes = [
        DocumentChange::put(key("a"), json("1")),
        DocumentChange::put(key("new"), json("2")),
        DocumentChange::delete(key("b")),
        DocumentChange::delete(key("missing")),
        DocumentChange::check(key("a2"), DocumentExpect::Absent),
    ];
    let mut plan = plan_changes(&view, &changes, at(15)).unwrap();
    let stored = |value: &str, revision, created_at, updated_at| {
        let found = DocumentState { revision: 0, created_at: at(created_at), updated_at: at(updated_at) };
        DocumentWrite::Put(StoredDocument::put(json(value), revision, Some(&found), at(0)))
    };
    let writes: Vec<_> = plan.changes.iter().map(|change| (change.found, change.write.clone())).collect();
    let wanted = [
        (Some(3), stored("1", 100, 10, 20)),
        (None, stored("2", 100, 15, 15)),
        (Some(4), DocumentWrite::Delete),
        (None, DocumentWrite::Keep),
        (None, DocumentWrite::Keep),
    ];
    assert_eq!(writes, wanted);
    plan.set_revision(7);
    assert_eq!((plan.revision, &plan.changes[1].write), (Some(7), &stored("2", 7, 15, 15)));
}

#[test]
fn a_write_that_puts_nothing_takes_no_revision() {
    let view = TestView::with(&[("a", 3)]);
    let mut plan = plan_changes(&view, &[DocumentChange::delete(key("a"))], at(30)).unwrap();
    plan.set_revision(7);
    assert_eq!((plan.revision, view.revisions.get()), (None, 0));
}

#[test]
fn badly_formed_changes_are_refused_by_name() {
    let limits = Limits { record_bytes: 4, commit_bytes: 6, commit_documents: 3, ..Limits::default() };
    let (own, other) = (thread("t"), thread("u"));
    let check = |changes: &[DocumentChange], wanted: Option<(ErrorKind, Option<&str>)>| {
        let refusal = check_changes(changes, Some(&own), &limits).err();
        assert_eq!(refusal.as_ref().map(|error| (error.kind(), error.part())), wanted, "{changes:?}");
    };
    let put = |name: &str, text: &str| DocumentChange::put(key(name), json(text));
    check(&[put("a", "1234"), put("b", "12")], None);
    check(&[put("a", "1234"), put("b", "123")], Some((ErrorKind::LimitExceeded, None)));
    check(&[put("a", "1"), put("b", "12345")], Some((ErrorKind::LimitExceeded, Some("documents[1]"))));
    check(&[put("a", "1"), DocumentChange::delete(key("a"))], Some((ErrorKind::Invalid, Some("documents[1]"))));
    let in_thread = |id: &ThreadId| DocumentChange::delete(key("a").in_thread(id.clone()));
    check(&[put("a", "1"), in_thread(&own)], None);
    check(&[in_thread(&other)], Some((ErrorKind::Invalid, Some("documents[0]"))));
    check(&["a", "b", "c", "d"].map(|name| put(name, "1")), Some((ErrorKind::LimitExceeded, None)));
}

#[test]
fn a_load_is_refused_at_the_document_with_which_it_is_too_large_do_5() {
    let limits = Limits { load_bytes: 6, commit_documents: 4, ..Limits::default() };
    let check = |values: &[Option<&str>], wanted: Option<(u64, &str)>| {
        let names: Vec<_> = (0..values.len()).map(|index| document(&index.to_string())).collect();
        let mut load = DocumentLoad::begin(&names, &limits).unwrap();
        let found = values.iter().enumerate().filter_map(|(index, value)| Some((index, (*value)?)));
        let added = found.map(|(index, value)| {
            let stored = StoredDocument::put(json(value), 1, None, at(10));
            load.add(index, Document::new(names[index].clone(), stored))
        });
        let refusal = added.collect::<Result<()>>().err();
        let Some((actual, part)) = wanted else {
            assert!(refusal.is_none(), "{refusal:?}");
            let found = load.finish();
            let found: Vec<_> = found.iter().map(|found| found.as_ref().map(|found| found.value.as_str())).collect();
            return assert_eq!(found, values);
        };
        let refusal = refusal.unwrap();
        assert!(is_too_large(&refusal), "{refusal}");
        assert_eq!(
            (refusal.part(), refusal.detail()),
            (Some(part), Error::limit_exceeded("load bytes", 6, actual).detail())
        );
    };
    check(&[], None);
    check(&[None, Some("123"), None, Some("123")], None);
    check(&[Some("123"), None, Some("1234")], Some((7, "documents[2]")));
    check(&[Some("123"), Some("123"), Some("1")], Some((7, "documents[2]")));
    check(&[None, Some("1234567")], None);
    check(&[Some("1234567"), Some("1")], Some((8, "documents[1]")));
    let refusal = DocumentLoad::begin(&["a", "b", "c", "d", "e"].map(document), &limits).unwrap_err();
    assert!(refusal.kind() == ErrorKind::LimitExceeded && !is_too_large(&refusal));
}

#[test]
fn a_write_needs_content_and_belongs_to_one_thread() {
    let check = |request: &WriteDocuments, wanted: Option<ErrorKind>| {
        let refusal = check_write(request, &Limits::default()).err();
        assert_eq!(refusal.as_ref().map(Error::kind), wanted, "{request:?}");
    };
    check(&WriteDocuments::default(), Some(ErrorKind::Invalid));
    let of = |name: &str| DocumentChange::delete(key("a").in_thread(thread(name)));
    check(&WriteDocuments::new([of("t")]), None);
    check(&WriteDocuments::new([of("t"), of("u")]), Some(ErrorKind::Invalid));
    let event = NewEvent::new("e".parse().unwrap(), [Scope::Topic("x".parse().unwrap())]);
    check(&WriteDocuments::default().with_events(AppendEvents::new([event.clone()])), None);
    let topics = (0..9).map(|number| Scope::Topic(number.to_string().parse().unwrap()));
    let crowded = AppendEvents::new([NewEvent { scopes: topics.collect(), ..event.clone() }]);
    check(&WriteDocuments::default().with_events(crowded), Some(ErrorKind::LimitExceeded));
    let twice = AppendEvents::new([NewEvent { scopes: [&event.scopes[..], &event.scopes[..]].concat(), ..event }]);
    check(&WriteDocuments::default().with_events(twice), Some(ErrorKind::Invalid));
}

#[test]
fn the_digest_covers_everything_but_expectations_and_order_do_9() {
    let put = |name: &str, text: &str| DocumentChange::put(key(name), json(text));
    let digest = |changes: &[DocumentChange]| changes_digest(changes);
    let first = digest(&[put("a", "1"), put("b", "2")]);
    assert_eq!(first, digest(&[put("b", "2").expecting(DocumentExpect::Absent), put("a", "1")]));
    let others = [
        vec![put("a", "1")],
        vec![put("a", "1"), put("b", "3")],
        vec![put("a", "1"), put("c", "2")],
        vec![put("a", "1"), DocumentChange::delete(key("b"))],
        vec![put("a", "1"), DocumentChange::check(key("b"), DocumentExpect::Any)],
        vec![put("a", "1"), DocumentChange::put(key("b").in_thread(thread("t")), json("2"))],
    ];
    for other in others {
        assert_ne!(first, digest(&other), "{other:?}");
    }
}

#[test]
fn the_stored_form_does_not_change() {
    let text = r#"{"value":{"b":1.50,"a":2},"revision":7,"created_at":5,"updated_at":6,"later":true}"#;
    let stored = StoredDocument::read(text).unwrap();
    assert_eq!(stored.encode(), text);
    let of_thread = Document::new(key("a").in_thread(thread("t")), stored);
    let text = of_thread.encode();
    assert!(text.starts_with(r#"{"thread":"t","collection":"c","key":["a"],"value":{"b":1.50,"a":2},"#), "{text}");
    assert_eq!(Document::read(&text).unwrap(), of_thread);
    for bad in
        [r#"{"collection":"c","key":[]}"#, r#"{"collection":"c","key":[1.5]}"#, r#"{"collection":"c","key":"a"}"#]
    {
        assert!(DocumentRef::read(bad).is_err(), "{bad}");
    }
}

fn collection() -> CollectionId {
    CollectionId::new("c").unwrap()
}

#[test]
fn a_prefix_selects_the_keys_that_begin_with_its_segments_do_6() {
    let id = |text: &str| KeySegment::id(text).unwrap();
    let key = |segments: &[KeySegment]| DocumentKey::new(collection(), segments.iter().cloned()).unwrap();
    let keys = [
        key(&[id("a")]),
        key(&[id("a"), KeySegment::Number(u64::MAX)]),
        key(&[id("a"), id("\u{10FFFF}")]),
        key(&[id("ab")]),
        key(&[KeySegment::Number(1)]),
        key(&[KeySegment::Number(10), id("a")]),
    ];
    let check = |query: DocumentQuery, wanted: &[usize]| {
        let range = query.key_range().unwrap();
        let found: Vec<_> = (0..keys.len()).filter(|&index| range.contains(keys[index].encoded())).collect();
        assert_eq!(found, wanted, "{query:?}");
    };
    let query = || DocumentQuery::new(collection());
    check(query(), &[0, 1, 2, 3, 4, 5]);
    check(query().starting_with([id("a")]), &[0, 1, 2]);
    check(query().starting_with([KeySegment::Number(1)]), &[4]);
    check(query().from([id("a"), id("b")]), &[2, 3]);
    check(query().from([id("a")]).before([id("ab")]), &[0, 1, 2]);
    check(query().starting_with([id("a")]).before([KeySegment::Number(0)]), &[]);
    check(query().after_prefix([id("a")]), &[3]);
    check(query().after_prefix([KeySegment::Number(1)]), &[0, 1, 2, 3, 5]);
    check(query().after_prefix([id("a"), KeySegment::Number(0)]), &[1, 2, 3]);
    check(query().starting_with([id("a")]).after_prefix([id("a")]), &[]);
    check(query().after_prefix([]), &[]);
    assert!(query().from([id("b")]).before([id("a")]).key_range().unwrap().is_empty());
    let long = query().starting_with(vec![KeySegment::Number(1); 9]).key_range().unwrap_err();
    assert_eq!(long.kind(), ErrorKind::LimitExceeded);
}

#[test]
fn a_cursor_belongs_to_one_list_and_one_thread_pg_6() {
    let (tenant, cursor_key) = (TenantId::default_tenant(), CursorKey::new([7; 32]));
    let begin = |query: DocumentQuery, generation, cursor: &Cursor| {
        let page = PageRequest::first(1).after(cursor.clone());
        query.with_page(page).begin_page(generation, (&tenant, &cursor_key)).map(|(range, _)| range)
    };
    let of_thread = || DocumentQuery::new(collection()).in_scope(DocumentScope::Thread(thread("t")));
    let first_page = of_thread().with_page(PageRequest::first(1));
    let (_, mut page) = first_page.begin_page(2, (&tenant, &cursor_key)).unwrap();
    let longest = DocumentKey::new(
        collection(),
        ["x".repeat(256), "y".repeat(256), "z".repeat(182)].map(|text| KeySegment::id(text).unwrap()),
    )
    .unwrap();
    let stored = StoredDocument::put(Json::null(), 1, None, at(1));
    let offer = |key: DocumentKey| Document::new(key.in_thread(thread("t")), stored.clone());
    assert!(page.offer(offer(longest.clone())));
    assert!(!page.offer(offer(key("zz"))));
    let cursor = page.finish().next.unwrap();
    assert!(cursor.as_str().len() <= 1024, "{}", cursor.as_str().len());
    let range = begin(of_thread(), 2, &cursor).unwrap();
    assert!(!range.contains(longest.encoded()) && range.contains(key("y").encoded()));
    for (query, generation) in [
        (of_thread(), 3),
        (DocumentQuery::new(collection()), 2),
        (of_thread().with_direction(Direction::Backward), 2),
        (of_thread().starting_with([KeySegment::Number(1)]), 2),
        (of_thread().from([KeySegment::Number(1)]), 2),
        (of_thread().before([KeySegment::Number(1)]), 2),
    ] {
        assert_eq!(begin(query, generation, &cursor).unwrap_err().kind(), ErrorKind::InvalidCursor);
    }
}
