//! Effects under a claim.

use std::time::Duration;

use store_core::{ClaimRequest, ClaimedDispatch, Commit, ErrorKind, Interrupt, NewDispatch, Resolution, ResolveEffect};

use super::helpers::{
    begin_all, done, effects, end_of, expect_stored, expect_told, fence_of_claim, load, named, new_payment, told,
};
use crate::{
    Given, Verdict,
    check::{Failure, expect_eq, expect_kind, expect_some},
    given::id,
};

/// An effect is begun under the highest claim of its thread, and has its number. A lower claim begins none.
pub(super) async fn a_lower_claim_begins_no_effect(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let store = effects(given)?;
    let begun = store.begin_effect(new_payment("t/r/a").fenced(fence_of_claim(5))).await?;
    expect_eq((told(&begun), begun.effect().claim), ("fresh", Some(fence_of_claim(5).claim)))?;
    let late = store.begin_effect(new_payment("t/r/b").fenced(fence_of_claim(4))).await;
    expect_kind(late, ErrorKind::StaleEpoch)?;
    expect_eq(store.load_effect(&named("t/r/b")).await?, None)?;
    // A commit under a later claim takes the thread over.
    given.expect_accepted(Commit::new(id("t")).fenced(fence_of_claim(7))).await?;
    let late = store.begin_effect(new_payment("t/r/b").fenced(fence_of_claim(5))).await;
    expect_kind(late, ErrorKind::StaleEpoch)?;
    let later = store.begin_effect(new_payment("t/r/b").fenced(fence_of_claim(7))).await?;
    expect_eq((told(&later), load(given, "t/r/b").await?.claim), ("fresh", Some(fence_of_claim(7).claim)))?;
    // What is only read needs no claim.
    expect_told(given, "t/r/a", "in doubt").await.map(drop)
}

/// Enqueues a dispatch of the thread `t` and claims it.
async fn enqueue_and_claim(given: &Given, name: &str) -> Result<ClaimedDispatch, Failure> {
    let mailbox = expect_some(given.stores()?.mailbox, "mailbox")?;
    mailbox.enqueue(vec![NewDispatch::new(id("t"), id("r")).with_id(id(name))]).await?.remove(0)?;
    let claims = mailbox.claim(ClaimRequest::new(id("w"), Duration::from_secs(30))).await?;
    expect_some(claims.claimed.into_iter().next(), "dispatch")
}

/// In a store that checks claims, the holder of a claim begins effects. After an interrupt, and once another caller
/// has claimed the thread, it begins none, also none that is to be tried again.
pub(super) async fn only_the_holder_of_a_claim_begins_an_effect(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let (store, first) = (effects(given)?, enqueue_and_claim(given, "first").await?);
    let begun = store.begin_effect(new_payment("t/r/a").fenced(first.fence())).await?;
    expect_eq((told(&begun), begun.effect().claim), ("fresh", Some(first.number)))?;
    let mailbox = expect_some(given.stores()?.mailbox, "mailbox")?;
    mailbox.interrupt(Interrupt::new(id("t"))).await?;
    let late = || store.begin_effect(new_payment("t/r/b").fenced(first.fence()));
    expect_kind(late().await, ErrorKind::StaleEpoch)?;
    given.advance(Duration::from_secs(60)).await;
    let second = enqueue_and_claim(given, "second").await?;
    let resolution = ResolveEffect::new(named("t/r/a"), Resolution::Retry).fenced(second.fence());
    store.resolve_effect(resolution).await?;
    let again = store.begin_effect(new_payment("t/r/a").fenced(first.fence())).await;
    expect_eq(again.is_err(), true)?;
    expect_stored(given, "t/r/a", "retry").await?;
    let begun = store.begin_effect(new_payment("t/r/a").fenced(second.fence())).await?;
    expect_eq((told(&begun), begun.effect().attempt, begun.effect().claim), ("fresh", 2, Some(second.number)))
}

/// A lower claim records no outcome and ends no doubt.
pub(super) async fn a_lower_claim_ends_no_effect(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a", "t/r/b"]).await?;
    given.expect_accepted(Commit::new(id("t")).fenced(fence_of_claim(7))).await?;
    let store = effects(given)?;
    let end = |counter| end_of(&begun[0], done("1")).fenced(fence_of_claim(counter));
    let resolution = |counter| ResolveEffect::new(named("t/r/b"), Resolution::Retry).fenced(fence_of_claim(counter));
    expect_kind(store.end_effect(end(6)).await, ErrorKind::StaleEpoch)?;
    expect_kind(store.resolve_effect(resolution(6)).await, ErrorKind::StaleEpoch)?;
    expect_stored(given, "t/r/a", "intended").await?;
    expect_stored(given, "t/r/b", "intended").await?;
    store.end_effect(end(7)).await?;
    store.resolve_effect(resolution(7)).await?;
    expect_stored(given, "t/r/a", "done 1").await?;
    expect_stored(given, "t/r/b", "retry").await
}
