//! Limits: a commit that is exactly at a limit is accepted, and a commit above it is refused.

use store_core::{
    AppendEvents, Commit, Custom, Detail, ErrorKind, Limits, Message, NewBody, NewEntry, NewEvent, NewOutboxRow,
    RewindTo, Scope, StateChange, StateOp, ThreadFields,
};

use super::helpers::clear_state_first;
use crate::{
    check::{Failure, Verdict, expect_eq, expect_kind},
    given::{Given, id, message_entry},
    log::{
        entry_drafts::{checkpoint, json, label, user_entry},
        writer::ThreadWriter,
    },
    run::helpers::{done_run, running_run, write_run},
};

/// Checks that a commit that exceeds a limit of `max` is refused for this reason and changes nothing.
async fn expect_over_limit(writer: &ThreadWriter<'_>, commit: Commit, max: u64) -> Verdict {
    let error = writer.expect_commit_refused(commit, ErrorKind::LimitExceeded).await?;
    match error.detail() {
        Detail::LimitExceeded { max: found, actual, .. } if *found == max && *actual > max => Ok(()),
        detail => Err(Failure::new(format!("found {detail:?}, wanted a limit of {max}"))),
    }
}

/// A commit may have 1,000 entries, and not one more.
pub(crate) async fn a_commit_has_a_thousand_entries_at_most(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("first")]).await?;
    let messages = |count| (0..count).map(|_| message_entry("text"));
    expect_over_limit(&writer, writer.guarded_commit().await?.entries(messages(1_001)), 1_000).await?;
    let receipt = given.commit(writer.guarded_commit().await?.entries(messages(1_000))).await?;
    expect_eq((receipt.version.number(), receipt.entry_ids.len()), (1_001, 1_000))?;
    expect_eq(given.read_log(&writer.thread).await?.len(), 1_001)
}

/// A commit may change 1,000 state keys, and not one more. The state of a thread may have 1,000 keys in all.
pub(crate) async fn state_has_a_thousand_keys_at_most(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("a")]).await?;
    let keys = |from: u32, to: u32| {
        (from..to).fold(StateChange::new(), |change, number| change.set(format!("k{number}"), json("1")))
    };
    let state_commit = |change: StateChange| Commit::new(id("t")).with_state(change);
    expect_over_limit(&writer, state_commit(keys(0, 1_001)), 1_000).await?;
    given.expect_accepted(state_commit(keys(0, 1_000))).await?;
    expect_over_limit(&writer, state_commit(keys(1_000, 1_001)), 1_000).await?;
    expect_over_limit(&writer, state_commit(StateChange::new().with("n", StateOp::Add(1))), 1_000).await?;
    given.expect_accepted(state_commit(keys(0, 1_000))).await?;
    given.expect_accepted(state_commit(keys(1_000, 1_001).remove("k0"))).await?;
    given.expect_accepted(state_commit(clear_state_first(keys(2_000, 3_000)))).await?;
    expect_over_limit(&writer, state_commit(keys(3_000, 3_001).remove("k0")), 1_000).await
}

/// The keys and values of a thread's state may have at most 1 MiB in all. This holds for every operation that writes
/// them.
pub(crate) async fn state_has_a_megabyte_at_most(given: &Given) -> Verdict {
    let limit = 1 << 20;
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("a")]).await?;
    let state_commit = |change: StateChange| Commit::new(id("t")).with_state(change);
    let text = |bytes: usize| json(&format!("\"{}\"", "x".repeat(bytes - 2)));
    // The key has three bytes.
    expect_over_limit(&writer, state_commit(StateChange::new().set("key", text(limit - 2))), limit as u64).await?;
    given.expect_accepted(state_commit(StateChange::new().set("key", text(limit - 3)))).await?;
    expect_over_limit(&writer, state_commit(StateChange::new().set("b", json("1"))), limit as u64).await?;
    given.expect_accepted(state_commit(StateChange::new().set("key", text(limit - 15)).set("b", text(10)))).await?;
    // One byte is left, but the key `c` and its value `1` need two.
    expect_over_limit(&writer, state_commit(StateChange::new().with("c", StateOp::Add(1))), limit as u64).await?;
    given.expect_accepted(state_commit(StateChange::new().set("key", json("[]")).remove("b"))).await?;
    let items = vec![text(limit / 2), text(limit / 2)];
    expect_over_limit(&writer, state_commit(StateChange::new().with("key", StateOp::Append(items))), limit as u64).await
}

/// A thread may have at most 64 open runs. Runs that are done do not count.
pub(crate) async fn a_thread_has_64_open_runs_at_most(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("a")]).await?;
    for number in 0..64 {
        write_run(given, "t", running_run(&format!("r{number}"))).await?;
    }
    let commit_of_one_more_run = || Commit::new(id("t")).with_run(running_run("one more"));
    expect_over_limit(&writer, commit_of_one_more_run(), 64).await?;
    write_run(given, "t", done_run("done at once")).await?;
    write_run(given, "t", running_run("r7")).await?;
    write_run(given, "other", running_run("elsewhere")).await?;
    write_run(given, "t", done_run("r0")).await?;
    given.expect_accepted(commit_of_one_more_run()).await?;
    expect_eq(writer.load_thread().await?.open_runs.len(), 64)
}

/// A title, a label and the name of a checkpoint may each have at most 1,024 bytes, in every part of a commit.
pub(crate) async fn a_text_has_a_kibibyte_at_most(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("a"), checkpoint("c", Some("x"))]).await?;
    let (longest_text, too_long_text) = (format!("{}é", "x".repeat(1_022)), format!("{}é", "x".repeat(1_023)));
    let drafts = |text: &str| {
        let rewinds = [RewindTo::Label(text.to_owned()), RewindTo::Snapshot(text.to_owned())].map(NewEntry::new);
        let named_checkpoint = NewBody::Checkpoint { number: None, label: Some(text.to_owned()) };
        [NewEntry::new(named_checkpoint), label("a", Some(text))].into_iter().chain(rewinds)
    };
    for draft in drafts(&too_long_text) {
        expect_over_limit(&writer, writer.guarded_commit().await?.entry(draft), 1_024).await?;
    }
    for draft in drafts(&longest_text) {
        writer.expect_accepted([draft]).await?;
    }
    let commit_with_title = |thread: &str, title: String| {
        let mut fields = ThreadFields::default();
        fields.title = Some(title);
        Commit::new(id(thread)).creating(fields)
    };
    expect_over_limit(&ThreadWriter::new(given, "long"), commit_with_title("long", too_long_text), 1_024).await?;
    given.expect_accepted(commit_with_title("fits", longest_text)).await
}

/// The metadata of a new thread may have at most 64 KiB, counted as one JSON document.
pub(crate) async fn metadata_has_64_kibibytes_at_most(given: &Given) -> Verdict {
    let commit_with_metadata = |thread: &str, bytes: usize| {
        let mut fields = ThreadFields::default();
        // `{"k":"…"}` around the text adds 8 bytes.
        fields.metadata = [("k".to_owned(), json(&format!("\"{}\"", "x".repeat(bytes - 8))))].into();
        Commit::new(id(thread)).creating(fields)
    };
    let limit = 64 << 10;
    expect_over_limit(&ThreadWriter::new(given, "long"), commit_with_metadata("long", limit + 1), limit as u64).await?;
    given.expect_accepted(commit_with_metadata("fits", limit)).await
}

/// If a store is opened with a smaller limit on records, it refuses every entry, run and state value above this limit.
pub(crate) async fn a_record_has_a_limit(given: &Given) -> Verdict {
    let small_store = given.open_another_store_with_limits(|limits| limits.record_bytes = 2_000).await?;
    let writer = ThreadWriter::with_entries(&small_store, "t", [user_entry("a")]).await?;
    let text = |bytes: usize| "x".repeat(bytes);
    let mut run = running_run("r");
    run.request = Some(json(&format!("\"{}\"", text(2_001))));
    for commit in [
        writer.guarded_commit().await?.entry(NewEntry::new(Message::user(text(2_001)))),
        writer.guarded_commit().await?.entry(NewEntry::new(Custom::new("k", json(&format!("\"{}\"", text(2_001)))))),
        writer.guarded_commit().await?.with_run(run),
        writer.guarded_commit().await?.with_state(StateChange::new().set("k", json(&format!("\"{}\"", text(2_001))))),
    ] {
        expect_over_limit(&writer, commit, 2_000).await?;
    }
    let receipt = writer.append([NewEntry::new(Message::user(text(1_700)))]).await?;
    expect_eq(receipt.version.number(), 2)
}

/// If a store is opened with a smaller limit on records, it refuses every operation that would write a state value
/// above this limit.
pub(crate) async fn a_state_value_has_a_limit(given: &Given) -> Verdict {
    let small_store = given.open_another_store_with_limits(|limits| limits.record_bytes = 2_000).await?;
    let writer = ThreadWriter::with_entries(&small_store, "t", [user_entry("a")]).await?;
    let text = json(&format!("\"{}\"", "x".repeat(1_200)));
    let append = |key: &str| StateChange::new().with(key, StateOp::Append(vec![text.clone()]));
    let merge =
        |field: &str| StateChange::new().with("object", StateOp::Merge(json(&format!("{{\"{field}\":{text}}}"))));
    let state_commit = |change: StateChange| Commit::new(id("t")).with_state(change);
    for change in [append("list"), merge("a"), merge("a"), append("other list")] {
        small_store.expect_accepted(state_commit(change)).await?;
    }
    for change in [append("list"), merge("b")] {
        expect_over_limit(&writer, state_commit(change), 2_000).await?;
    }
    Ok(())
}

/// A state value may be nested at most 128 levels deep. This holds for every operation that writes one.
pub(crate) async fn the_depth_of_a_state_value_is_limited(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("a")]).await?;
    let nested = |depth: usize| json(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    let commit_with_op = |key: &str, op| Commit::new(id("t")).with_state(StateChange::new().with(key, op));
    let object = |depth| StateOp::Merge(json(&format!("{{\"a\":{}}}", nested(depth))));
    given.expect_accepted(commit_with_op("k", StateOp::Set(nested(128)))).await?;
    given.expect_accepted(commit_with_op("list", StateOp::Append(vec![nested(127)]))).await?;
    expect_over_limit(&writer, commit_with_op("list", StateOp::Append(vec![json("1"), nested(128)])), 128).await?;
    given.expect_accepted(commit_with_op("object", object(127))).await
}

/// A store with smaller limits enforces them on the bytes of a commit, and on entries, keys, open runs and texts.
pub(crate) async fn smaller_limits_are_enforced(given: &Given) -> Verdict {
    let change = |limits: &mut Limits| {
        (limits.commit_bytes, limits.commit_entries, limits.commit_state_keys) = (5_000, 3, 2);
        (limits.open_runs, limits.state_keys, limits.text_bytes) = (1, 3, 8);
    };
    let small_store = given.open_another_store_with_limits(change).await?;
    let writer = ThreadWriter::with_entries(&small_store, "t", [user_entry("a")]).await?;
    let large_entry = || NewEntry::new(Message::user("x".repeat(2_000)));
    let state = |keys: &[&str]| keys.iter().fold(StateChange::new(), |change, key| change.set(*key, json("1")));
    expect_over_limit(
        &writer,
        writer.guarded_commit().await?.entries([large_entry(), large_entry(), large_entry()]),
        5_000,
    )
    .await?;
    expect_over_limit(&writer, writer.guarded_commit().await?.entries((0..4).map(|_| message_entry("x"))), 3).await?;
    expect_over_limit(&writer, writer.guarded_commit().await?.with_state(state(&["a", "b", "c"])), 2).await?;
    expect_over_limit(&writer, writer.guarded_commit().await?.entry(label("a", Some("123456789"))), 8).await?;
    small_store
        .expect_accepted(
            writer.guarded_commit().await?.entries([large_entry(), large_entry()]).with_state(state(&["a", "b"])),
        )
        .await?;
    expect_over_limit(&writer, writer.guarded_commit().await?.with_state(state(&["c", "d"])), 3).await?;
    write_run(&small_store, "t", running_run("r")).await?;
    expect_over_limit(&writer, writer.guarded_commit().await?.with_run(running_run("s")), 1).await?;
    // A run that is done does not count as open.
    let done_run_at_the_limit =
        small_store.commits()?.commit(writer.guarded_commit().await?.with_run(done_run("s"))).await;
    expect_eq(done_run_at_the_limit.is_ok(), true)
}

/// The limit on the bytes of a commit applies to its entries, run, state, events and outbox rows together. In this case
/// no single part is too large.
pub(crate) async fn the_parts_of_a_commit_count_together(given: &Given) -> Verdict {
    let small_store = given.open_another_store_with_limits(|limits| limits.commit_bytes = 5_000).await?;
    let writer = ThreadWriter::with_entries(&small_store, "t", [user_entry("a")]).await?;
    let large_entry = || NewEntry::new(Message::user("x".repeat(2_000)));
    let (text, mut run) = (json(&format!("\"{}\"", "x".repeat(2_000))), running_run("r"));
    run.request = Some(text.clone());
    let event = NewEvent::new(id("kind"), [Scope::Thread(id("t"))]).with_payload(text.clone());
    let row = NewOutboxRow::new(id("lane"), id("target"), text.clone());
    let commit_of_two_entries = writer.guarded_commit().await?.entries([large_entry(), large_entry()]);
    for commit in [
        commit_of_two_entries.clone().with_run(run),
        commit_of_two_entries.clone().with_state(StateChange::new().set("a", text)),
        commit_of_two_entries.clone().with_events(AppendEvents::new([event])),
        commit_of_two_entries.clone().with_outbox([row]),
    ] {
        expect_over_limit(&writer, commit, 5_000).await?;
    }
    small_store.expect_accepted(commit_of_two_entries).await
}

/// Limits on stored totals are checked in the atomic step, so that concurrent commits together do not exceed a limit.
pub(crate) async fn totals_are_checked_in_the_atomic_step(given: &Given) -> Verdict {
    let commits = given.commits()?;
    let results = crate::given::run_concurrently(8, |task| {
        let commits = std::sync::Arc::clone(&commits);
        async move {
            let mut accepted_count = 0;
            for number in 0..16 {
                let run = running_run(&format!("{task}-{number}"));
                match commits.commit(Commit::new(id("t")).with_run(run)).await {
                    Ok(_) => accepted_count += 1,
                    refused => drop(expect_kind(refused, ErrorKind::LimitExceeded)?),
                }
            }
            Ok::<usize, Failure>(accepted_count)
        }
    })
    .await;
    let accepted_count: usize = results.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().sum();
    expect_eq((accepted_count, given.thread(&id("t")).await?.open_runs.len()), (64, 64))
}
