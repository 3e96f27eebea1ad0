//! Appends: numbers, exact bytes, wire ids, repeats.

use std::{collections::BTreeSet, sync::Arc};

use store_core::{
    AppendReplay, Cursor, Direction, ErrorKind, ReplaySource, ReplayStreamId, ReplayStreamRef, WireEventId,
    WireEventType, WireProtocol, WireProtocolVersion,
};

use super::helpers::{append, append_to, at, expect_records, list, named, new, replay, stream, stream_of, texts_of};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, run_concurrently},
};

/// The records of a stream are numbered from 1 in the order of their appends. Each has an id, a cursor and store time.
pub(super) async fn records_are_numbered_and_have_a_cursor(given: &Given) -> Verdict {
    let mut appended = append(given, named("a b")).await?;
    appended.extend(append(given, named("c")).await?);
    append_to(given, &stream_of("other"), named("d")).await?;
    expect_records(given, "1:a=a 2:b=b 3:c=c").await?;
    expect_eq(list(&*replay(given)?, &stream(), Direction::Forward).await?, appended.clone())?;
    let (ids, cursors): (BTreeSet<_>, BTreeSet<_>) =
        appended.iter().map(|record| (record.id.clone(), record.cursor.as_str())).unzip();
    expect_eq((ids.len(), cursors.len()), (3, 3))?;
    expect(appended.is_sorted_by_key(|record| record.created_at), "times go back")?;
    expect_eq(replay(given)?.load_replay(&appended[1].id).await?.as_ref(), Some(&appended[1]))?;
    expect_eq(replay(given)?.load_replay(&id("unknown")).await?, None)
}

/// If one record of an append is refused, none is appended.
pub(super) async fn an_append_is_all_or_nothing(given: &Given) -> Verdict {
    append(given, named("a")).await?;
    for (last, kind) in [(new("a", "other"), ErrorKind::IdempotencyMismatch), (new("c", ""), ErrorKind::Invalid)] {
        let request = AppendReplay::new(stream(), [new("b", "b"), last]);
        expect_kind(replay(given)?.append_replay(request).await, kind)?;
    }
    let twice = AppendReplay::new(stream(), named("b c b"));
    expect_kind(replay(given)?.append_replay(twice).await, ErrorKind::Invalid)?;
    expect_kind(replay(given)?.append_replay(AppendReplay::new(stream(), [])).await, ErrorKind::Invalid)?;
    expect_records(given, "1:a=a").await
}

/// Two versions of a protocol, and two protocols, are streams with numbers and wire ids of their own.
pub(super) async fn two_versions_of_a_protocol_are_two_streams(given: &Given) -> Verdict {
    let mut streams = Vec::new();
    for (protocol, version) in [("p", "1"), ("p", "2"), ("q", "1"), ("p/1", "2"), ("p", "1/2")] {
        streams.push(ReplayStreamRef::new(id("s"), id(protocol), id(version))?);
    }
    for (number, stream) in streams.iter().enumerate() {
        append_to(given, stream, [new("a", format!("a{number}")), new("b", "b")]).await?;
    }
    for (number, stream) in streams.iter().enumerate() {
        let records = list(&*replay(given)?, stream, Direction::Forward).await?;
        expect_eq(texts_of(&records), format!("1:a=a{number} 2:b=b"))?;
        expect(records.iter().all(|record| record.stream == *stream), "a record has another stream")?;
    }
    Ok(())
}

/// Bytes come back as they were appended: every byte, text that is no UTF-8, and many bytes.
pub(super) async fn bytes_are_returned_exactly(given: &Given) -> Verdict {
    let every_byte: Vec<u8> = (0..=255).collect();
    let contents = [
        every_byte.clone(),
        b"id: 1\r\ndata: \xff\xfe\0\n\n".to_vec(),
        vec![0],
        "e\u{301}\u{feff}".as_bytes().to_vec(),
        every_byte.repeat(4_000),
    ];
    let records = contents.iter().enumerate().map(|(number, bytes)| new(&number.to_string(), bytes.clone()));
    append(given, records).await?;
    let listed = list(&*replay(given)?, &stream(), Direction::Forward).await?;
    for (record, bytes) in listed.iter().zip(&contents) {
        expect(record.bytes() == Some(bytes), format!("record {} has other bytes", record.sequence))?;
        let loaded = expect_some(replay(given)?.load_replay(&record.id).await?, "record")?;
        expect(loaded == *record, format!("record {} is loaded with other content", record.sequence))?;
    }
    expect_eq(listed.len(), contents.len())
}

/// A record without bytes is refused, and so are blank names.
pub(super) async fn empty_bytes_and_blank_names_are_refused(given: &Given) -> Verdict {
    for records in [vec![new("a", "")], vec![new("a", "a"), new("b", Vec::new())]] {
        let request = AppendReplay::new(stream(), records);
        expect_kind(replay(given)?.append_replay(request).await, ErrorKind::Invalid)?;
    }
    for blank in ["", " ", "\u{2003}"] {
        expect_kind(ReplayStreamId::new(blank), ErrorKind::Invalid)?;
        expect_kind(WireProtocol::new(blank), ErrorKind::Invalid)?;
        expect_kind(WireProtocolVersion::new(blank), ErrorKind::Invalid)?;
        expect_kind(WireEventId::new(blank), ErrorKind::Invalid)?;
        expect_kind(WireEventType::new(blank), ErrorKind::Invalid)?;
    }
    expect_records(given, "").await
}

/// A record that repeats an earlier one is that record, also if new ones follow in the same append, and whatever it
/// states about its expiry.
pub(super) async fn an_identical_repeat_gives_the_first_record(given: &Given) -> Verdict {
    let first = append_to(given, &stream(), named("a b")).await?;
    expect(!first.deduplicated, "the first append is a repeat")?;
    let repeated = append_to(given, &stream(), [new("b", "b"), new("a", "a").expiring_at(at(9))]).await?;
    expect(repeated.deduplicated, "the second append is no repeat")?;
    expect_eq(&repeated.records, &vec![first.records[1].clone(), first.records[0].clone()])?;
    let partly = append_to(given, &stream(), named("b c")).await?;
    expect(!partly.deduplicated, "an append with a new record is a repeat")?;
    expect_eq(&partly.records[0], &first.records[1])?;
    expect_records(given, "1:a=a 2:b=b 3:c=c").await
}

/// Another content under the wire id of a record is refused: other bytes, another type, another projector, other
/// sources.
pub(super) async fn other_content_under_a_wire_id_is_refused(given: &Given) -> Verdict {
    let sourced = || new("a", "a").projected_by(id("v1")).from_source(ReplaySource::new(id("e1")));
    append(given, [sourced()]).await?;
    let (mut other_type, mut other_bytes) = (sourced(), sourced());
    other_type.wire_type = id("end");
    other_bytes.bytes = b"A".to_vec();
    let other_projector = sourced().projected_by(id("v2"));
    let other_sources = sourced().from_source(ReplaySource::new(id("e2")));
    for other in [other_type, other_bytes, other_projector, other_sources, new("a", "a")] {
        let request = AppendReplay::new(stream(), [other]);
        expect_kind(replay(given)?.append_replay(request).await, ErrorKind::IdempotencyMismatch)?;
    }
    append(given, [sourced()]).await?;
    expect_records(given, "1:a=a").await
}

/// A wire id of a protocol belongs to one stream. In another stream it is refused, even with the same content.
pub(super) async fn a_wire_id_belongs_to_one_stream(given: &Given) -> Verdict {
    append(given, named("a")).await?;
    let request = AppendReplay::new(stream_of("other"), named("b a"));
    expect_kind(replay(given)?.append_replay(request).await, ErrorKind::IdempotencyMismatch)?;
    expect_eq(list(&*replay(given)?, &stream_of("other"), Direction::Forward).await?, vec![])?;
    append_to(given, &stream_of("other"), named("b")).await?;
    expect_records(given, "1:a=a").await
}

/// Of concurrent appends of one wire id, one appends a record. All of them return it.
pub(super) async fn concurrent_repeats_append_one_record(given: &Given) -> Verdict {
    const ROUNDS: u64 = 10;
    for round in 1..=ROUNDS {
        let store = replay(given)?;
        let results = run_concurrently(6, |_| {
            let (store, record) = (Arc::clone(&store), new(&format!("w{round}"), "x"));
            async move { store.append_replay(AppendReplay::new(stream(), [record])).await }
        });
        let mut records = Vec::new();
        for appended in results.await {
            records.extend(appended?.records);
        }
        expect(records.iter().all(|record| *record == records[0]), "repeats return different records")?;
        expect_eq(records[0].sequence, round)?;
    }
    let all: Vec<_> = (1..=ROUNDS).map(|round| format!("{round}:w{round}=x")).collect();
    expect_records(given, &all.join(" ")).await
}

/// A record has the events that it was made from, with their cursors, and the version of the projector.
pub(super) async fn a_record_names_its_sources(given: &Given) -> Verdict {
    let sources = [ReplaySource::new(id("e1")), ReplaySource::new(id("e2")).at(Cursor::from_text("cursor"))];
    let record =
        sources.iter().fold(new("a", "a").projected_by(id("v1")), |record, source| record.from_source(source.clone()));
    let appended = append(given, [record]).await?.remove(0);
    let loaded = expect_some(replay(given)?.load_replay(&appended.id).await?, "record")?;
    expect_eq((loaded.projector_version.as_ref(), loaded.sources.as_slice()), (Some(&id("v1")), &sources[..]))?;
    expect_eq((loaded.wire_type.as_str(), &loaded), ("delta", &appended))
}

/// Records survive a reopen, with their bytes and cursors, and numbers go on.
pub(super) async fn records_survive_a_reopen(given: &Given) -> Verdict {
    let before = append(given, named("a b")).await?;
    given.reopen().await?;
    expect_eq(list(&*replay(given)?, &stream(), Direction::Forward).await?, before)?;
    append(given, named("a c")).await?;
    expect_records(given, "1:a=a 2:b=b 3:c=c").await
}
