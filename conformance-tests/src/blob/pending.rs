//! Pending input that refers to blobs.

use store_core::{
    AppendPending, BlobHash, Commit, EntryQuery, ErrorKind, InputRef, Message, NewInput, PendingBody, PendingUpdate,
};

use super::helpers::{
    GRACE, advance, commit, exists, expect_collected, long_text, message_naming, object_count, pending, put,
    store_clock, threads,
};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind},
    given::id,
};

/// Input that names a blob that does not exist is refused.
pub(super) async fn input_that_names_a_missing_blob_is_refused(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let (pending, hash) = (pending(given)?, BlobHash::of(b"later"));
    let append = || AppendPending::new(id("t"), [NewInput::message(message_naming(hash.as_str()))]);
    expect_kind(pending.append_pending(append()).await, ErrorKind::NotFound)?;
    let invalid = AppendPending::new(id("t"), [NewInput::message(message_naming("x"))]);
    expect_kind(pending.append_pending(invalid).await, ErrorKind::Invalid)?;
    expect_eq(pending.load_queue(&id("t")).await?.inputs.len(), 0)?;
    put(given, b"later").await?;
    pending.append_pending(append()).await?;
    expect_eq(pending.load_queue(&id("t")).await?.inputs.len(), 1)
}

/// A large block of pending input is equal when the queue is read, when the input is changed and taken back, and in the
/// entry that it becomes.
pub(super) async fn large_input_comes_back_as_it_was(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let (pending, thread) = (pending(given)?, id("t"));
    let message = |name: &str| Message::user(long_text(name));
    let inputs = ["a", "b", "c"].map(|name| NewInput::message(message(name)));
    let appended = pending.append_pending(AppendPending::new(id("t"), inputs)).await?.inputs;
    let bodies = async || {
        let queue = pending.load_queue(&thread).await?;
        Ok::<_, store_core::Error>(queue.inputs.into_iter().map(|input| input.body).collect::<Vec<_>>())
    };
    expect_eq(bodies().await?, ["a", "b", "c"].map(|name| PendingBody::Message(message(name))))?;
    let update = PendingUpdate::new(id("t"), appended[1].id.clone()).with_message(message("B"));
    let updated = pending.update_pending(update).await?;
    expect_eq(&updated.body, &PendingBody::Message(message("B")))?;
    let retracted = pending.retract_pending(&thread, &appended[2].id).await?;
    expect_eq(&retracted.body, &PendingBody::Message(message("c")))?;
    expect_eq(object_count(given).await?, 4)?;
    let consumed = [appended[0].clone(), InputRef::new(updated.id, updated.revision)];
    commit(given, Commit::new(id("t")).with_key(id("k")).consuming(consumed)).await?;
    let read = threads(given)?.list_entries(&thread, EntryQuery::default()).await?.items;
    expect_eq(
        read.iter().map(|entry| entry.message().cloned()).collect::<Vec<_>>(),
        [Some(message("a")), Some(message("B"))],
    )
}

/// The blob of an input stays while the input is pending, and then with the entry.
pub(super) async fn a_blob_of_pending_input_stays(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let (pending, clock, blob) = (pending(given)?, store_clock(given).await?, put(given, b"image").await?);
    let inputs = [NewInput::message(message_naming(blob.hash.as_str()))];
    let appended = pending.append_pending(AppendPending::new(id("t"), inputs)).await?.inputs;
    for _ in 0..3 {
        expect_collected(given, &clock, 0, 0).await?;
        advance(given, &clock, GRACE).await?;
    }
    commit(given, Commit::new(id("t")).with_key(id("k")).consuming(appended)).await?;
    for _ in 0..3 {
        expect_collected(given, &clock, 0, 0).await?;
        advance(given, &clock, GRACE).await?;
    }
    expect_eq(exists(given, &blob.hash).await?, true)
}
