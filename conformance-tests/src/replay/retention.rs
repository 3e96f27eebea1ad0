//! Records that expire, and their purge.

use store_core::{
    AppendReplay, Detail, DocumentQuery, ErrorKind, IgnoreProgress, PurgeReplay, ReplayQuery, ReplayRecord,
    ReplayStore, TopicId, TrimBefore, TrimRequest,
};

use super::helpers::{
    append, at, expect_next, expect_records_in, new, replay_with_clock, stopped_clock, stream, texts_of,
};
use crate::{
    Given, Verdict,
    check::{Failure, expect_eq, expect_kind, expect_some},
    given::{id, read_all_pages},
};

/// Appends `a` and `d`, which expire after 10 seconds, `b`, which expires after 20, and `c`, which stays.
async fn append_expiring(given: &Given) -> Result<Vec<ReplayRecord>, Failure> {
    let expiring = |wire_id: &str, seconds| new(wire_id, wire_id).expiring_at(at(seconds));
    append(given, [expiring("a", 10), expiring("b", 20), new("c", "c"), expiring("d", 10)]).await
}

async fn purge(store: &dyn ReplayStore, request: PurgeReplay) -> Result<u64, Failure> {
    Ok(store.purge_replay(request, &IgnoreProgress).await?.records)
}

/// The number of documents that the replay log keeps.
async fn document_count(given: &Given) -> Result<usize, Failure> {
    let documents = &expect_some(given.stores()?.documents, "documents")?;
    let mut count = 0;
    for collection in ["layer.replay.records", "layer.replay.expiry"] {
        let query = DocumentQuery::new(id(collection));
        let first = store_core::PageRequest::first(100);
        count += read_all_pages(first, |page| documents.list_documents(query.clone().with_page(page))).await?.len();
    }
    Ok(count)
}

/// A record is listed, and given to subscribers, until the time of its expiry.
pub(super) async fn expired_records_are_not_listed(given: &Given) -> Verdict {
    let clock = stopped_clock();
    let store = replay_with_clock(given, &clock)?;
    append_expiring(given).await?;
    clock.set(at(10).saturating_sub(std::time::Duration::from_millis(1)));
    expect_records_in(&*store, &stream(), "1:a=a 2:b=b 3:c=c 4:d=d").await?;
    clock.set(at(10));
    expect_records_in(&*store, &stream(), "2:b=b 3:c=c").await?;
    clock.set(at(20));
    expect_records_in(&*store, &stream(), "3:c=c").await?;
    let mut subscription = store.subscribe_replay(&stream(), None).await?;
    expect_next(&mut subscription, "3:c=c").await
}

/// An expired record is loaded by its id and found by its wire id until it is purged.
pub(super) async fn an_expired_record_is_loaded_until_its_purge(given: &Given) -> Verdict {
    let clock = stopped_clock();
    let store = replay_with_clock(given, &clock)?;
    let records = append_expiring(given).await?;
    clock.set(at(15));
    for record in [&records[0], &records[3]] {
        expect_eq(store.load_replay(&record.id).await?.as_ref(), Some(record))?;
        expect_eq(store.find_replay(&stream(), &record.wire_id).await?.as_ref(), Some(record))?;
    }
    purge(&*store, PurgeReplay::new()).await?;
    for record in [&records[0], &records[3]] {
        expect_eq(store.load_replay(&record.id).await?, None)?;
        expect_eq(store.find_replay(&stream(), &record.wire_id).await?, None)?;
    }
    expect_eq(store.load_replay(&records[1].id).await?.as_ref(), Some(&records[1]))
}

/// A purge removes the records that have expired, with their bytes, and no other. Numbers go on, and the wire ids can
/// be used again. What is left of a record between others is never taken for the new one.
pub(super) async fn a_purge_removes_expired_records(given: &Given) -> Verdict {
    let clock = stopped_clock();
    let store = replay_with_clock(given, &clock)?;
    let old = append_expiring(given).await?;
    expect_eq((purge(&*store, PurgeReplay::new()).await?, document_count(given).await?), (0, 7))?;
    clock.set(at(10));
    expect_eq((purge(&*store, PurgeReplay::new()).await?, document_count(given).await?), (2, 3))?;
    expect_records_in(&*store, &stream(), "2:b=b 3:c=c").await?;
    clock.set(at(20));
    expect_eq((purge(&*store, PurgeReplay::new()).await?, document_count(given).await?), (1, 1))?;
    expect_eq(purge(&*store, PurgeReplay::new()).await?, 0)?;
    append(given, [new("a", "A"), new("d", "D").expiring_at(at(30))]).await?;
    expect_records_in(&*store, &stream(), "3:c=c 5:a=A 6:d=D").await?;
    expect_eq(store.load_replay(&old[3].id).await?, None)?;
    clock.set(at(30));
    expect_eq((purge(&*store, PurgeReplay::new()).await?, document_count(given).await?), (1, 2))?;
    expect_records_in(&*store, &stream(), "3:c=c 5:a=A").await
}

/// A dry run counts the records that a purge would remove, and removes none.
pub(super) async fn a_dry_run_of_a_replay_purge_changes_nothing(given: &Given) -> Verdict {
    let clock = stopped_clock();
    let store = replay_with_clock(given, &clock)?;
    let records = append_expiring(given).await?;
    for (seconds, expected) in [(0, 0), (15, 2), (25, 3)] {
        clock.set(at(seconds));
        expect_eq(purge(&*store, PurgeReplay::new().dry()).await?, expected)?;
    }
    expect_eq(store.load_replay(&records[0].id).await?.as_ref(), Some(&records[0]))?;
    clock.set(at(0));
    expect_records_in(&*store, &stream(), "1:a=a 2:b=b 3:c=c 4:d=d").await
}

/// A list or subscription after a cursor whose next record was purged is refused, and says where the stream begins. The
/// cursor of the last purged record works.
pub(super) async fn a_cursor_before_purged_records_is_refused(given: &Given) -> Verdict {
    let clock = stopped_clock();
    let store = replay_with_clock(given, &clock)?;
    let records = append_expiring(given).await?;
    clock.set(at(20));
    purge(&*store, PurgeReplay::new()).await?;
    let after = |index: usize| ReplayQuery::new(stream()).after(records[index].cursor.clone());
    let error = expect_kind(store.list_replay(after(0)).await, ErrorKind::CursorExpired)?;
    expect_eq(error.detail(), &Detail::CursorExpired { floor: 2 })?;
    let subscribed = store.subscribe_replay(&stream(), Some(records[0].cursor.clone())).await;
    expect_kind(subscribed.map(drop), ErrorKind::CursorExpired)?;
    expect_eq(texts_of(&store.list_replay(after(1)).await?.items), "3:c=c")?;
    let mut subscription = store.subscribe_replay(&stream(), Some(records[1].cursor.clone())).await?;
    expect_next(&mut subscription, "3:c=c").await
}

/// After a purge that was interrupted between its steps, an append of a purged wire id makes a new record. A later
/// purge finishes what is left, and does not take the new record for the old one.
pub(super) async fn an_interrupted_purge_harms_no_later_record(given: &Given) -> Verdict {
    let clock = stopped_clock();
    let store = replay_with_clock(given, &clock)?;
    let records = append_expiring(given).await?;
    clock.set(at(15));
    // The event of `a` is gone, and its documents are left.
    let topic: TopicId = id("layer.replay:p/1/s");
    let trim = TrimRequest::new(store_core::Scope::Topic(topic), TrimBefore::Cursor(records[0].cursor.clone()));
    expect_some(given.stores()?.events, "events")?.trim_events(trim).await?;
    expect_eq(store.find_replay(&stream(), &id("a")).await?, None)?;
    store.append_replay(AppendReplay::new(stream(), [new("a", "A")])).await?;
    expect_records_in(&*store, &stream(), "2:b=b 3:c=c 5:a=A").await?;
    expect_eq(purge(&*store, PurgeReplay::new()).await?, 1)?;
    expect_records_in(&*store, &stream(), "2:b=b 3:c=c 5:a=A").await?;
    expect_eq(document_count(given).await?, 4)
}
