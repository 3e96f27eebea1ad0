//! Writes of documents under a claim.

use std::time::Duration;

use store_core::{
    AppendEvents, ClaimNumber, ClaimRequest, ClaimToken, ClaimedDispatch, Commit, ErrorKind, Fence, Interrupt,
    NewDispatch, NewEvent, Scope, Settlement, WriteDocuments,
};

use super::helpers::{documents, expect_write_refused, note_of_thread, put, put_at, text_of, topic_event};
use crate::{
    Given, Verdict,
    check::{Failure, expect_eq, expect_kind, expect_some},
    given::id,
};

fn fence_of_claim(counter: u64) -> Fence {
    let number = ClaimNumber { incarnation: 1, counter };
    Fence::new(id("dispatch"), ClaimToken::new("token"), 1, number)
}

/// A write of the note `a` under a claim of the thread `t`.
fn fenced_write(fence: Fence, text: &str) -> WriteDocuments {
    WriteDocuments::new([put("a", text)]).fenced(id("t"), fence)
}

/// Enqueues a dispatch of the thread `t` and claims it.
async fn enqueue_and_claim(given: &Given, name: &str) -> Result<ClaimedDispatch, Failure> {
    let mailbox = expect_some(given.stores()?.mailbox, "mailbox")?;
    mailbox.enqueue(vec![NewDispatch::new(id("t"), id("r")).with_id(id(name))]).await?.remove(0)?;
    let claims = mailbox.claim(ClaimRequest::new(id("w"), Duration::from_secs(30))).await?;
    expect_some(claims.claimed.into_iter().next(), "dispatch")
}

/// A write under a claim number that is lower than the highest one that wrote to the thread is refused. The highest one
/// may come from a write of documents or from a commit. The thread need not exist, unless a document belongs to it.
pub(super) async fn a_lower_claim_writes_no_document(given: &Given) -> Verdict {
    let store = documents(given)?;
    let _written = store.write_documents(fenced_write(fence_of_claim(5), "5")).await?;
    expect_write_refused(given, fenced_write(fence_of_claim(4), "4"), ErrorKind::StaleEpoch).await?;
    let late_commit = Commit::new(id("t")).fenced(fence_of_claim(4));
    expect_kind(given.commits()?.commit(late_commit).await, ErrorKind::StaleEpoch)?;
    given.expect_accepted(Commit::new(id("t")).fenced(fence_of_claim(7))).await?;
    expect_write_refused(given, fenced_write(fence_of_claim(6), "6"), ErrorKind::StaleEpoch).await?;
    let of_thread = WriteDocuments::new([put_at(note_of_thread("t", "a"), "x")]).fenced(id("t"), fence_of_claim(7));
    expect_write_refused(given, of_thread, ErrorKind::NotFound).await?;
    let _written = store.write_documents(fenced_write(fence_of_claim(7), "7")).await?;
    expect_eq(text_of(given, "a").await?.as_deref(), Some("7"))
}

/// A refused write does not raise the highest claim number.
pub(super) async fn a_refused_write_takes_no_thread_over(given: &Given) -> Verdict {
    let mut refused = fenced_write(fence_of_claim(9), "9");
    refused.changes[0].expect = store_core::DocumentExpect::Present;
    expect_write_refused(given, refused, ErrorKind::Conflict).await?;
    let _written = documents(given)?.write_documents(fenced_write(fence_of_claim(5), "5")).await?;
    expect_eq(text_of(given, "a").await?.as_deref(), Some("5"))
}

/// In a store that checks claims, the holder of a claim can write. After an interrupt, and after the claim has ended,
/// the holder cannot.
pub(super) async fn a_lost_claim_writes_no_document(given: &Given) -> Verdict {
    let mailbox = expect_some(given.stores()?.mailbox, "mailbox")?;
    let claimed = enqueue_and_claim(given, "a").await?;
    let _written = documents(given)?.write_documents(fenced_write(claimed.fence(), "held")).await?;
    mailbox.interrupt(Interrupt::new(id("t"))).await?;
    expect_write_refused(given, fenced_write(claimed.fence(), "late"), ErrorKind::StaleEpoch).await?;
    given.advance(Duration::from_secs(60)).await;
    let other = enqueue_and_claim(given, "b").await?;
    let _written = documents(given)?.write_documents(fenced_write(other.fence(), "other")).await?;
    mailbox.settle(vec![((&other.fence()).into(), Settlement::Ack { result: None })]).await?.remove(0)?;
    expect_write_refused(given, fenced_write(other.fence(), "late"), ErrorKind::ClaimLost).await?;
    expect_eq(text_of(given, "a").await?.as_deref(), Some("other"))
}

/// Under a claim, documents and events may belong to the thread of the claim, and to no other thread. The events have
/// no fence of their own.
pub(super) async fn a_claim_covers_its_own_thread_only(given: &Given) -> Verdict {
    for name in ["t", "u"] {
        given.create_empty_thread(name).await?;
    }
    let event_of = |thread: &str| AppendEvents::new([NewEvent::new(id("fact"), [Scope::Thread(id(thread))])]);
    let foreign = WriteDocuments::new([put_at(note_of_thread("u", "a"), "x")]).fenced(id("t"), fence_of_claim(1));
    expect_write_refused(given, foreign, ErrorKind::Invalid).await?;
    let write = || fenced_write(fence_of_claim(1), "x");
    expect_write_refused(given, write().with_events(event_of("u")), ErrorKind::Invalid).await?;
    let mut own_fence = AppendEvents::new([topic_event("fact", &["facts"])]);
    own_fence.fence = Some(fence_of_claim(1));
    expect_write_refused(given, write().with_events(own_fence), ErrorKind::Invalid).await?;
    let _written = documents(given)?.write_documents(write().with_events(event_of("t"))).await?;
    let _unfenced = documents(given)?.write_documents(WriteDocuments::default().with_events(event_of("u"))).await?;
    Ok(())
}
