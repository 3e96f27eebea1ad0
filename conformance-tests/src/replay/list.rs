//! Lists, subscriptions, and records found by their wire ids.

use store_core::{
    CollectionId, Cursor, Direction, DocumentChange, DocumentKey, ErrorKind, KeySegment, ReplayQuery, WriteDocuments,
};

use super::helpers::{
    append, append_to, expect_next, expect_records, list, named, new, next, replay, stream, stream_of, texts_of,
};
use crate::{
    Given, Verdict,
    check::{Failure, expect_eq, expect_kind, expect_some},
    given::id,
};

/// A list continues strictly after the cursor of any record, in both directions.
pub(super) async fn a_list_starts_after_its_cursor(given: &Given) -> Verdict {
    let records = append(given, named("a b c")).await?;
    let after = async |index: usize, direction| {
        let query = ReplayQuery::new(stream()).after(records[index].cursor.clone()).with_direction(direction);
        Ok::<_, Failure>(texts_of(&replay(given)?.list_replay(query).await?.items))
    };
    expect_eq(after(0, Direction::Forward).await?, "2:b=b 3:c=c")?;
    expect_eq(after(2, Direction::Forward).await?, "")?;
    expect_eq(after(2, Direction::Backward).await?, "2:b=b 1:a=a")?;
    expect_eq(after(0, Direction::Backward).await?, "")?;
    expect_records(given, "1:a=a 2:b=b 3:c=c").await
}

/// A cursor of another stream, and one that no store made, are refused.
pub(super) async fn a_cursor_belongs_to_one_stream(given: &Given) -> Verdict {
    append(given, named("a b")).await?;
    let foreign = append_to(given, &stream_of("other"), named("c")).await?.records.remove(0).cursor;
    for cursor in [foreign, Cursor::from_text("forged"), Cursor::from_text("")] {
        let query = ReplayQuery::new(stream()).after(cursor.clone());
        expect_kind(replay(given)?.list_replay(query).await, ErrorKind::InvalidCursor)?;
        let subscribed = replay(given)?.subscribe_replay(&stream(), Some(cursor)).await;
        expect_kind(subscribed.map(drop), ErrorKind::InvalidCursor)?;
    }
    Ok(())
}

/// A subscription gives the stored records and then the new ones, each once, in order.
pub(super) async fn a_subscription_gives_stored_and_new_records_once(given: &Given) -> Verdict {
    append(given, named("a b")).await?;
    let mut subscription = replay(given)?.subscribe_replay(&stream(), None).await?;
    expect_next(&mut subscription, "1:a=a 2:b=b").await?;
    append_to(given, &stream_of("other"), named("x")).await?;
    append(given, named("c a d")).await?;
    append(given, named("e")).await?;
    expect_next(&mut subscription, "3:c=c 4:d=d 5:e=e").await?;
    let mut of_empty_stream = replay(given)?.subscribe_replay(&stream_of("empty"), None).await?;
    expect_next(&mut of_empty_stream, "").await?;
    append_to(given, &stream_of("empty"), named("f")).await?;
    expect_next(&mut of_empty_stream, "1:f=f").await
}

/// A subscription after a cursor begins with the next record, whether it is stored or comes later.
pub(super) async fn a_subscription_continues_after_a_cursor(given: &Given) -> Verdict {
    let records = append(given, named("a b")).await?;
    let mut after_first = replay(given)?.subscribe_replay(&stream(), Some(records[0].cursor.clone())).await?;
    let mut after_last = replay(given)?.subscribe_replay(&stream(), Some(records[1].cursor.clone())).await?;
    expect_next(&mut after_first, "2:b=b").await?;
    expect_next(&mut after_last, "").await?;
    append(given, named("c")).await?;
    expect_next(&mut after_first, "3:c=c").await?;
    expect_next(&mut after_last, "3:c=c").await
}

/// A record whose bytes are missing, although they were not purged, is an error and not left out. What follows can be
/// read.
pub(super) async fn a_hole_is_corrupt(given: &Given) -> Verdict {
    let records = append(given, named("a b c")).await?;
    let segments = ["p", "1", "b"].map(|text| KeySegment::Id(id(text)));
    let bytes = DocumentKey::new(CollectionId::new("layer.replay.records")?, segments)?;
    let documents = expect_some(given.stores()?.documents, "documents")?;
    documents.write_documents(WriteDocuments::new([DocumentChange::delete(bytes)])).await?;
    let store = replay(given)?;
    expect_kind(store.list_replay(ReplayQuery::new(stream())).await, ErrorKind::Corrupt)?;
    expect_kind(store.load_replay(&records[1].id).await, ErrorKind::Corrupt)?;
    let mut subscription = store.subscribe_replay(&stream(), Some(records[0].cursor.clone())).await?;
    expect_kind(next(&mut subscription).await?, ErrorKind::Corrupt)?;
    let after = ReplayQuery::new(stream()).after(records[1].cursor.clone());
    expect_eq(texts_of(&store.list_replay(after).await?.items), "3:c=c")
}

/// A record is found by its wire id, in its own stream only, wherever it stands, and a client continues after its
/// cursor.
pub(super) async fn a_record_is_found_by_its_wire_id(given: &Given) -> Verdict {
    append(given, (0..40).map(|number| new(&format!("w{number}"), "x"))).await?;
    for number in 40..44 {
        append(given, [new(&format!("w{number}"), "x")]).await?;
    }
    let store = replay(given)?;
    let listed = list(&*store, &stream(), Direction::Forward).await?;
    for record in &listed {
        expect_eq(store.find_replay(&stream(), &record.wire_id).await?.as_ref(), Some(record))?;
    }
    let found = expect_some(store.find_replay(&stream(), &id("w41")).await?, "record")?;
    let after = store.list_replay(ReplayQuery::new(stream()).after(found.cursor)).await?;
    expect_eq(texts_of(&after.items), "43:w42=x 44:w43=x")?;
    expect_eq(store.find_replay(&stream(), &id("w44")).await?, None)?;
    expect_eq(store.find_replay(&stream_of("other"), &id("w1")).await?, None)
}
