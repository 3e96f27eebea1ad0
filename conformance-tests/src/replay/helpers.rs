//! Helpers that append records to replay streams and read them.

use std::{future::poll_fn, sync::Arc, time::Duration};

use store_core::{
    AppendReplay, AppendedReplay, Direction, ManualClock, NewReplay, PageRequest, ReplayQuery, ReplayRecord,
    ReplayStore, ReplayStreamRef, ReplaySubscription, Timestamp,
};
use tokio::time::timeout;

use crate::{
    check::{Failure, Verdict, expect_eq, expect_some},
    given::{Given, id, read_all_pages},
};

/// How long a stream is read in order to see that nothing more comes.
const SHORT_WAIT: Duration = Duration::from_millis(50);
/// How long an item of a stream may take.
const LONG_WAIT: Duration = Duration::from_secs(30);
/// The time at which the clock of a replay log starts, in milliseconds.
const CLOCK_START_MILLIS: u64 = 1_763_700_000_000;

/// The time some seconds after the start of the clock.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(CLOCK_START_MILLIS + 1_000 * seconds).expect("a valid time")
}

/// A clock for a replay log, which stands still unless the case moves it.
pub(crate) fn stopped_clock() -> ManualClock {
    ManualClock::new(at(0))
}

/// The replay log of the tenant `default`, with this clock.
pub(crate) fn replay_with_clock(given: &Given, clock: &ManualClock) -> Result<Arc<dyn ReplayStore>, Failure> {
    Ok(given.fixture().replay(&given.stores()?, Arc::new(clock.clone()))?)
}

/// The replay log of the tenant `default`, with a clock that stands still.
pub(crate) fn replay(given: &Given) -> Result<Arc<dyn ReplayStore>, Failure> {
    replay_with_clock(given, &stopped_clock())
}

/// The stream with this id in version 1 of the protocol `p`.
pub(crate) fn stream_of(name: &str) -> ReplayStreamRef {
    ReplayStreamRef::new(id(name), id("p"), id("1")).expect("a short protocol")
}

/// The stream `s`.
pub(crate) fn stream() -> ReplayStreamRef {
    stream_of("s")
}

/// A record with this wire id and these bytes.
pub(crate) fn new(wire_id: &str, bytes: impl Into<Vec<u8>>) -> NewReplay {
    NewReplay::new(id(wire_id), id("delta"), bytes)
}

/// Records whose bytes are their wire ids, which are separated by spaces.
pub(crate) fn named(wire_ids: &str) -> Vec<NewReplay> {
    wire_ids.split(' ').map(|wire_id| new(wire_id, wire_id)).collect()
}

/// Appends records to a stream in one call.
pub(crate) async fn append_to(
    given: &Given,
    stream: &ReplayStreamRef,
    records: impl IntoIterator<Item = NewReplay>,
) -> Result<AppendedReplay, Failure> {
    Ok(replay(given)?.append_replay(AppendReplay::new(stream.clone(), records)).await?)
}

/// Appends records to the stream `s` in one call.
pub(crate) async fn append(
    given: &Given,
    records: impl IntoIterator<Item = NewReplay>,
) -> Result<Vec<ReplayRecord>, Failure> {
    Ok(append_to(given, &stream(), records).await?.records)
}

/// A record as text, such as `2:b=text`.
pub(crate) fn text_of(record: &ReplayRecord) -> String {
    let bytes = record.bytes().map_or("(redacted)".into(), String::from_utf8_lossy);
    format!("{}:{}={bytes}", record.sequence, record.wire_id)
}

/// Records as text, separated by spaces.
pub(crate) fn texts_of(records: &[ReplayRecord]) -> String {
    records.iter().map(text_of).collect::<Vec<_>>().join(" ")
}

/// The records of a stream, read in small pages.
pub(crate) async fn list(
    store: &dyn ReplayStore,
    stream: &ReplayStreamRef,
    direction: Direction,
) -> Result<Vec<ReplayRecord>, Failure> {
    let query = ReplayQuery::new(stream.clone()).with_direction(direction);
    read_all_pages(PageRequest::first(2), |page| store.list_replay(query.clone().with_page(page))).await
}

/// Checks that a stream of a replay log has these records, such as `1:a=x 2:b=y`, in both directions.
pub(crate) async fn expect_records_in(store: &dyn ReplayStore, stream: &ReplayStreamRef, expected: &str) -> Verdict {
    expect_eq(texts_of(&list(store, stream, Direction::Forward).await?).as_str(), expected)?;
    let mut backward = list(store, stream, Direction::Backward).await?;
    backward.reverse();
    expect_eq(texts_of(&backward).as_str(), expected)
}

/// Checks that the stream `s` has these records.
pub(crate) async fn expect_records(given: &Given, expected: &str) -> Verdict {
    expect_records_in(&*replay(given)?, &stream(), expected).await
}

/// The next item of a subscription, or none if nothing comes in time.
async fn next_item(
    stream: &mut ReplaySubscription,
    wait: Duration,
) -> Result<Option<store_core::Result<ReplayRecord>>, Failure> {
    match timeout(wait, poll_fn(|context| stream.as_mut().poll_next(context))).await {
        Err(_) => Ok(None),
        Ok(None) => Err(Failure::new("the stream has ended")),
        Ok(item) => Ok(item),
    }
}

/// The next item of a subscription, which must come.
pub(crate) async fn next(stream: &mut ReplaySubscription) -> Result<store_core::Result<ReplayRecord>, Failure> {
    expect_some(next_item(stream, LONG_WAIT).await?, "record")
}

/// Checks that a subscription gives these records and no other, such as `1:a=x 2:b=y`.
pub(crate) async fn expect_next(stream: &mut ReplaySubscription, expected: &str) -> Verdict {
    for text in expected.split(' ').filter(|text| !text.is_empty()) {
        expect_eq(text_of(&next(stream).await??).as_str(), text)?;
    }
    let more = next_item(stream, SHORT_WAIT).await?;
    expect_eq(more.map(|record| record.map(|record| text_of(&record)).map_err(|e| e.kind())), None)
}
