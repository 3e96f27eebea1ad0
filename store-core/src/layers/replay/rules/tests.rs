//! Tests of the rules of the replay log.

use super::{check_append, check_repeat, cut_page, next_in_order};
use crate::{
    AppendReplay, ClaimNumber, ClaimToken, Cursor, CursorKey, Direction, ErrorKind, Event, EventCursors, Fence,
    NewReplay, ReplayContent, ReplayPlan, ReplaySource, ReplayStreamRef, Scope, TenantId, Timestamp,
    codec::Extra,
    event::{StoredEvent, cursor_after, event_with_cursors},
    layers::replay::record::PlacedRecord,
    page::Position,
};

fn stream(id: &str, version: &str) -> ReplayStreamRef {
    ReplayStreamRef::new(id.parse().unwrap(), "p".parse().unwrap(), version.parse().unwrap()).unwrap()
}

fn new(wire_id: &str, bytes: &str) -> NewReplay {
    NewReplay::new(wire_id.parse().unwrap(), "delta".parse().unwrap(), bytes)
}

/// The event of a record with this number, as a store returns it.
fn event(number: u64, record: &NewReplay) -> Event {
    let mut plan = ReplayPlan::empty();
    plan.add(&stream("s", "1"), record, None, None).unwrap();
    let draft = plan.events.remove(0);
    let Scope::Topic(topic) = draft.scopes[0].clone() else { panic!("no topic") };
    let event = Event {
        id: format!("e{number}").parse().unwrap(),
        created_at: Timestamp::MIN,
        thread: None,
        run: None,
        topics: vec![topic],
        kind: draft.kind,
        payload: draft.payload,
        visibility: draft.visibility,
        origin: None,
        causation_id: None,
        correlation_id: None,
        schema_version: 1,
        cursors: EventCursors::default(),
        redacted: false,
        extra: Extra::default(),
    };
    let stored = StoredEvent::new(event, None, None).with_topic_seqs(vec![number]);
    event_with_cursors(&stored, (&TenantId::default_tenant(), &CursorKey::new([7; 32])))
}

#[test]
fn the_number_of_an_event_is_in_its_cursor() {
    let (scope, key) = (stream("s", "1").scope().unwrap(), CursorKey::new([7; 32]));
    for number in [1, 255, 256, u64::MAX] {
        assert_eq!(event(number, &new("w", "x")).number(&scope), Some(number));
        let cursor = cursor_after(&scope, number, (&TenantId::default_tenant(), &key));
        assert_eq!(Position::unchecked_rank(&cursor), Some(number));
    }
    assert_eq!(event(1, &new("w", "x")).number(&stream("s", "2").scope().unwrap()), None);
    for text in ["", "A", "!!!!"] {
        assert_eq!(Position::unchecked_rank(&Cursor::from_text(text)), None);
    }
}

#[test]
fn streams_have_topics_of_their_own_rp_1() {
    let topics = [
        ReplayStreamRef::new("c".parse().unwrap(), "a/b".parse().unwrap(), "1".parse().unwrap()),
        ReplayStreamRef::new("c".parse().unwrap(), "a".parse().unwrap(), "b/1".parse().unwrap()),
        ReplayStreamRef::new("1/c".parse().unwrap(), "a".parse().unwrap(), "b".parse().unwrap()),
        ReplayStreamRef::new("c".parse().unwrap(), "a%2Fb".parse().unwrap(), "1".parse().unwrap()),
        ReplayStreamRef::new("x".repeat(256).parse().unwrap(), "p".parse().unwrap(), "1".parse().unwrap()),
        ReplayStreamRef::new("x".repeat(255).parse().unwrap(), "p".parse().unwrap(), "1".parse().unwrap()),
    ];
    let topics: Vec<_> = topics.into_iter().map(|stream| stream.unwrap().scope().unwrap()).collect();
    for (at, topic) in topics.iter().enumerate() {
        assert!(!topics[..at].contains(topic), "{topic}");
    }
    let long = "x".repeat(65);
    let refused = ReplayStreamRef::new("s".parse().unwrap(), long.parse().unwrap(), "1".parse().unwrap());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::LimitExceeded);
    let refused = ReplayStreamRef::new("s".parse().unwrap(), "p".parse().unwrap(), long.parse().unwrap());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn an_append_needs_records_with_bytes_under_different_ids_rp_2() {
    let append = |records: Vec<NewReplay>| check_append(&AppendReplay::new(stream("s", "1"), records));
    assert!(append(vec![new("a", "x"), new("b", "x")]).is_ok());
    for (records, part) in [
        (vec![], None),
        (vec![new("a", "x"), new("b", "")], Some("records[1]")),
        (vec![new("a", "x"), new("b", "x"), new("a", "y")], Some("records[2]")),
    ] {
        let error = append(records).unwrap_err();
        assert_eq!((error.kind(), error.part()), (ErrorKind::Invalid, part));
    }
    let number = ClaimNumber { incarnation: 1, counter: 1 };
    let fence = Fence::new("d".parse().unwrap(), ClaimToken::new("t"), 1, number);
    let mut request = AppendReplay::new(stream("s", "1"), [new("a", "x")]).fenced("t".parse().unwrap(), fence);
    assert!(check_append(&request).is_ok());
    request.thread = None;
    assert_eq!(check_append(&request).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_repeat_has_equal_content_rp_3() {
    let source = |id: &str| ReplaySource::new(id.parse().unwrap());
    let first = || new("w", "x").projected_by("v1".parse().unwrap()).from_source(source("e1"));
    let placed = PlacedRecord::from_event(&event(1, &first())).unwrap();
    let known = placed.clone().with_content(ReplayContent::Bytes(b"x".to_vec()));
    let redacted = placed.with_content(ReplayContent::Redacted { at: Timestamp::MIN });
    let other_type = NewReplay { wire_type: "end".parse().unwrap(), ..first() };
    let check = |repeat: &NewReplay, of_known: bool, of_redacted: bool| {
        for (record, equal) in [(&known, of_known), (&redacted, of_redacted)] {
            let kind = check_repeat(record, repeat).map_err(|e| e.kind());
            assert_eq!(kind, if equal { Ok(()) } else { Err(ErrorKind::IdempotencyMismatch) }, "{repeat:?}");
        }
    };
    check(&first(), true, true);
    check(&first().expiring_at(Timestamp::MAX), true, true);
    let moved = NewReplay { sources: vec![source("e1").at(Cursor::from_text("c"))], ..first() };
    check(&moved, true, true);
    check(&NewReplay { bytes: b"y".to_vec(), ..first() }, false, true);
    check(&other_type, false, false);
    check(&first().projected_by("v2".parse().unwrap()), false, false);
    check(&first().from_source(source("e2")), false, false);
    check(&NewReplay { sources: vec![], ..first() }, false, false);
}

#[test]
fn a_walk_refuses_a_hole_rp_9() {
    let check = |direction, first: Option<u64>, numbers: &[u64], wanted: bool| {
        let mut previous = first;
        let walk =
            numbers.iter().map(|number| next_in_order(&event(*number, &new("w", "x")), &mut previous, direction));
        let kind = walk.collect::<Result<Vec<_>, _>>().map(drop).map_err(|e| e.kind());
        assert_eq!(kind, if wanted { Ok(()) } else { Err(ErrorKind::Corrupt) }, "{first:?} {numbers:?}");
    };
    check(Direction::Forward, None, &[5, 6, 7], true);
    check(Direction::Forward, Some(4), &[5, 6], true);
    check(Direction::Forward, Some(3), &[5], false);
    check(Direction::Forward, Some(5), &[5], false);
    check(Direction::Forward, None, &[5, 7], false);
    check(Direction::Backward, None, &[7, 6, 5], true);
    check(Direction::Backward, Some(8), &[7, 6], true);
    check(Direction::Backward, Some(8), &[6], false);
    check(Direction::Backward, None, &[7, 5], false);
}

#[test]
fn a_page_is_cut_by_bytes_but_has_one_record() {
    let records = |sizes: &[u64]| -> Vec<PlacedRecord> {
        let record = |(at, size): (usize, &u64)| {
            let mut placed = PlacedRecord::from_event(&event(at as u64 + 1, &new("w", "x"))).unwrap();
            placed.payload.size = *size;
            placed
        };
        sizes.iter().enumerate().map(record).collect()
    };
    let check = |sizes: &[u64], wanted: usize| {
        let mut page = records(sizes);
        let next = cut_page(&mut page);
        assert_eq!((page.len(), next.is_some()), (wanted, wanted < sizes.len()), "{sizes:?}");
        assert!(next.is_none_or(|next| Some(next) == page.last().map(|last| last.cursor.clone())));
    };
    check(&[], 0);
    check(&[1, 2, 3], 3);
    check(&[super::MAX_BYTES_READ, 1, 1], 1);
    check(&[super::MAX_BYTES_READ + 1, 1], 1);
    check(&[super::MAX_BYTES_READ + 1], 1);
    check(&[1, super::MAX_BYTES_READ - 1, 1], 2);
    check(&[1, u64::MAX, u64::MAX], 1);
}
