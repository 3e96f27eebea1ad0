//! Records as a part of commits, under claims, and about threads.

use store_core::{
    AppendEvents, AppendReplay, ClaimNumber, ClaimToken, Commit, DeleteRequest, ErrorKind, Expect, Fence, NewEvent,
    Scope,
};

use super::helpers::{append, expect_records, named, replay, stream};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, keyed_commit_with_message},
};

fn claim(counter: u64) -> Fence {
    let number = ClaimNumber { incarnation: 1, counter };
    Fence::new(id("dispatch"), ClaimToken::new("token"), 1, number)
}

/// A commit writes records, its entries and its own events in one step. Its receipt has the ids of the records. The
/// commit can be repeated.
pub(super) async fn a_record_is_part_of_a_commit(given: &Given) -> Verdict {
    append(given, named("a")).await?;
    let plan = replay(given)?.plan_replay(&stream(), &named("b c")).await?;
    expect(!plan.is_repeat(), "the plan writes nothing")?;
    let own = NewEvent::new(id("fact"), [Scope::Thread(id("t"))]);
    let commit = keyed_commit_with_message(&id("t"), "k", "hello").with_events(AppendEvents::new([own]));
    let commit = plan.add_to(commit);
    let receipt = given.commit(commit.clone()).await?;
    expect_records(given, "1:a=a 2:b=b 3:c=c").await?;
    expect_eq((receipt.events.len(), given.read_log(&id("t")).await?.len()), (3, 1))?;
    let record = replay(given)?.load_replay(&receipt.events[2].id).await?;
    expect_eq(record.map(|record| record.wire_id), Some(id("c")))?;
    expect(given.commit(commit).await?.deduplicated, "the repeated commit was made again")?;
    expect_records(given, "1:a=a 2:b=b 3:c=c").await?;
    let again = replay(given)?.plan_replay(&stream(), &named("b c")).await?;
    expect_eq((again.is_repeat(), again.known_records().count()), (true, 2))?;
    let partly = replay(given)?.plan_replay(&stream(), &named("c d")).await?;
    expect_eq((partly.is_repeat(), partly.known_records().count()), (false, 1))?;
    let mismatch = replay(given)?.plan_replay(&stream(), &[super::helpers::new("b", "other")]).await;
    expect_kind(mismatch, ErrorKind::IdempotencyMismatch).map(drop)
}

/// A commit that is refused appends no record, and one whose record another writer has appended meanwhile is refused as
/// a whole.
pub(super) async fn a_refused_commit_has_no_record(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let plan = replay(given)?.plan_replay(&stream(), &named("a")).await?;
    let refused = plan.clone().add_to(Commit::new(id("t")).expecting(Expect::Absent));
    expect_kind(given.commits()?.commit(refused).await, ErrorKind::Conflict)?;
    expect_records(given, "").await?;
    append(given, named("b a")).await?;
    let late = plan.add_to(keyed_commit_with_message(&id("t"), "k", "hello"));
    expect_kind(given.commits()?.commit(late).await, ErrorKind::Conflict)?;
    expect_eq(given.read_log(&id("t")).await?.len(), 0)?;
    expect_records(given, "1:b=b 2:a=a").await
}

/// An append under a claim that is lower than the highest one that wrote to the thread is refused.
pub(super) async fn an_append_can_carry_a_claim(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let store = replay(given)?;
    let under = |counter, wire_ids| AppendReplay::new(stream(), named(wire_ids)).fenced(id("t"), claim(counter));
    store.append_replay(under(5, "a")).await?;
    expect_kind(store.append_replay(under(4, "b")).await, ErrorKind::StaleEpoch)?;
    let late_commit = Commit::new(id("t")).fenced(claim(4));
    expect_kind(given.commits()?.commit(late_commit).await, ErrorKind::StaleEpoch)?;
    given.expect_accepted(Commit::new(id("t")).fenced(claim(7))).await?;
    expect_kind(store.append_replay(under(6, "b")).await, ErrorKind::StaleEpoch)?;
    store.append_replay(under(7, "b")).await?;
    let mut without_thread = under(7, "c");
    without_thread.thread = None;
    expect_kind(store.append_replay(without_thread).await, ErrorKind::Invalid)?;
    expect_records(given, "1:a=a 2:b=b").await
}

/// An append about a thread that was deleted, or never existed, is refused. Records about it stay.
pub(super) async fn a_record_about_a_deleted_thread_is_refused(given: &Given) -> Verdict {
    let store = replay(given)?;
    let about = |wire_ids| AppendReplay::new(stream(), named(wire_ids)).about(id("t"));
    expect_kind(store.append_replay(about("a")).await, ErrorKind::NotFound)?;
    given.create_empty_thread("t").await?;
    store.append_replay(about("a")).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_kind(store.append_replay(about("b")).await, ErrorKind::NotFound)?;
    let plan = store.plan_replay(&stream(), &named("b")).await?;
    expect_kind(given.commits()?.commit(plan.add_to(Commit::new(id("t")))).await, ErrorKind::NotFound)?;
    append(given, named("c")).await?;
    expect_records(given, "1:a=a 2:c=c").await
}
