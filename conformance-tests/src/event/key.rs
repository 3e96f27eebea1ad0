//! Keys that make appends safe to repeat.

use std::time::Duration;

use store_core::{AppendEvents, ErrorKind, NewEvent, TrimBefore, TrimRequest};

use super::draft::{all, append, both, events, fact, of_run, of_thread, refuse};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq},
    given::id,
    log::draft::json,
};

fn keyed(writer: &str, drafts: Vec<NewEvent>) -> AppendEvents {
    AppendEvents::new(drafts).with_key(id(writer), id("k"))
}

/// If an append is repeated with the same writer, key and drafts, it returns the first events and writes nothing, even
/// if other events were appended since, and whatever number of events it expects.
pub(super) async fn a_repeat_gives_the_first_events(given: &Given) -> Verdict {
    let store = events(given)?;
    let request = || keyed("w", vec![fact("a"), both("b")]).expecting(of_thread("t"), 0);
    let first = store.append_events(request()).await?;
    expect(!first.deduplicated, "the first append was deduplicated")?;
    append(given, &["c"]).await?;
    let before = all(given, &of_thread("t")).await?;
    let again = store.append_events(request()).await?;
    expect_eq((again.events, again.deduplicated), (first.events, true))?;
    expect_eq(all(given, &of_thread("t")).await?, before)
}

/// An append with the key of an earlier append and other drafts is refused. Everything in a draft is compared, except
/// the order of its scopes.
pub(super) async fn a_key_with_different_content_is_refused(given: &Given) -> Verdict {
    let store = events(given)?;
    store.append_events(keyed("w", vec![both("a").with_payload(json("1"))])).await?;
    let mut turned = NewEvent::new(id("a"), [of_run("r"), of_thread("t")]).with_payload(json("1"));
    expect(store.append_events(keyed("w", vec![turned.clone()])).await?.deduplicated, "the order of scopes matters")?;
    turned.origin = Some(id("other"));
    for drafts in [
        vec![both("b").with_payload(json("1"))],
        vec![both("a").with_payload(json("1.0"))],
        vec![both("a")],
        vec![fact("a").with_payload(json("1"))],
        vec![both("a").with_payload(json("1")), both("a").with_payload(json("1"))],
        vec![turned],
    ] {
        refuse(given, keyed("w", drafts), ErrorKind::IdempotencyMismatch).await?;
    }
    Ok(())
}

/// An append with a key must name a writer. Two writers can use the same key.
pub(super) async fn a_key_belongs_to_its_writer(given: &Given) -> Verdict {
    let store = events(given)?;
    let mut nobody = keyed("w", vec![fact("x")]);
    nobody.writer = None;
    refuse(given, nobody, ErrorKind::Invalid).await?;
    for (writer, kind) in [("w", "a"), ("v", "b")] {
        expect(!store.append_events(keyed(writer, vec![fact(kind)])).await?.deduplicated, "two writers share a key")?;
    }
    let mut unkeyed = AppendEvents::new([fact("c")]);
    unkeyed.writer = Some(id("w"));
    for _ in 0..2 {
        store.append_events(unkeyed.clone()).await?;
    }
    super::draft::expect_kinds(given, &of_thread("t"), "a b c c").await
}

/// A key is remembered for at least 30 days, even if its events are trimmed, and after that until they are trimmed.
pub(super) async fn a_key_is_remembered_for_thirty_days(given: &Given) -> Verdict {
    const DAY: Duration = Duration::from_hours(24);
    let store = events(given)?;
    let kept = store.append_events(keyed("kept", vec![fact("kept")])).await?;
    given.advance(29 * DAY).await;
    let gone = store.append_events(keyed("gone", vec![NewEvent::new(id("gone"), [of_run("r")])])).await?;
    let cursor = gone.events[0].cursors.run.clone();
    let cursor = cursor.ok_or_else(|| crate::Failure::new("the event has no cursor"))?;
    store.trim_events(TrimRequest::new(of_run("r"), TrimBefore::Cursor(cursor))).await?;
    given.advance(29 * DAY).await;
    let again = store.append_events(keyed("gone", vec![NewEvent::new(id("gone"), [of_run("r")])])).await?;
    expect_eq((again.deduplicated, again.events.len()), (true, 0))?;
    let again = store.append_events(keyed("kept", vec![fact("kept")])).await?;
    expect_eq((again.deduplicated, again.events), (true, kept.events))
}
