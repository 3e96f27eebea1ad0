//! Compactions: a summary replaces the entries that it covers.

use store_core::{
    Block, Body, Compaction, ContextRequest, Interval, Message, NewEntry, Role, Visibility,
    context::{DEFAULT_RESERVED_TOKENS, compaction_request, is_compaction_due, split_for_compaction},
};

use super::short_form::{message_text, short_form};
use crate::{
    check::{Failure, Verdict, expect, expect_eq, expect_some},
    given::{Given, id},
    log::{
        entry_drafts::{
            assistant_entry, compaction, custom_entry, entry, tool_calls_entry, tool_results_entry, user_entries,
            user_entry,
        },
        writer::ThreadWriter,
    },
};

/// Checks that the context of the entry `at` has this short form.
async fn expect_context(writer: &ThreadWriter<'_>, at: &str, expected: &str) -> Verdict {
    let context = writer.load_context(ContextRequest::at(id(at))).await?.context;
    expect_eq(short_form(&context), expected).map_err(|failure| failure.about(at))
}

/// A compaction that covers no interval. The text of its summary is its id.
fn compaction_without_interval(name: &str) -> NewEntry {
    let mut body = Compaction::default();
    body.summary = vec![Block::text(name)];
    entry(name, body)
}

/// In the context, a summary appears where its interval began, and the covered entries are left out. The summary is a
/// user message that begins with a fixed marker.
pub(crate) async fn a_summary_replaces_its_interval(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c", "d", "e"])).await?;
    writer.expect_accepted([compaction("s1", "b", "d"), user_entry("f")]).await?;
    expect_context(&writer, "f", "a [s1] e f").await?;
    expect_context(&writer, "s1", "a [s1] e").await?;
    writer.expect_accepted([compaction("s2", "e", "f"), user_entry("g")]).await?;
    expect_context(&writer, "g", "a [s1] [s2] g").await?;
    let context = writer.head_context().await?.context;
    let mut markers = Vec::new();
    for (at, name) in [(1, "s1"), (2, "s2")] {
        let message = &context.messages[at].message;
        expect_eq((message.role, message.visibility), (Role::User, Visibility::All))?;
        let message_text = message_text(message);
        let marker = message_text
            .strip_suffix(name)
            .ok_or_else(|| Failure::new(format!("{message_text} does not end with {name}")))?;
        markers.push(marker.trim().to_owned());
    }
    expect(!markers[0].is_empty() && markers[0] == markers[1], format!("the markers differ or are empty: {markers:?}"))
}

/// If a compaction has replacement messages, they appear in the place of its summary, unchanged.
pub(crate) async fn replacement_messages_appear_instead_of_the_summary(given: &Given) -> Verdict {
    let replacement = vec![Message::user("what was asked"), Message::assistant("what was done")];
    let mut body = Compaction::default();
    body.covers = Some(Interval::new(id("b"), id("c")));
    body.summary = vec![Block::text("summary")];
    body.replacement = Some(replacement.clone());
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c", "d"])).await?;
    writer.expect_accepted([entry("s", body)]).await?;
    expect_context(&writer, "s", "a [s] [s] d").await?;
    let context = writer.head_context().await?.context;
    expect_eq(context.messages[1..3].iter().map(|message| message.message.clone()).collect::<Vec<_>>(), replacement)
}

/// The summary of a compaction without an interval comes before the first message and replaces nothing. Of several such
/// compactions only the latest one appears.
pub(crate) async fn a_compaction_without_an_interval_comes_first(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b"])).await?;
    writer.expect_accepted([compaction_without_interval("s1"), user_entry("c")]).await?;
    expect_context(&writer, "c", "[s1] a b c").await?;
    writer.expect_accepted([compaction_without_interval("s2"), user_entry("d"), compaction("s3", "b", "c")]).await?;
    expect_context(&writer, "d", "[s2] a b c d").await?;
    expect_context(&writer, "s3", "[s2] a [s3] d").await?;
    let other_writer =
        ThreadWriter::with_entries(given, "first", [compaction_without_interval("s"), user_entry("a")]).await?;
    expect_context(&other_writer, "a", "[s] a").await
}

/// Of several compactions whose intervals begin at the same entry, only the latest one appears, even if its interval is
/// shorter.
pub(crate) async fn of_compactions_with_the_same_start_the_latest_counts(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c", "d", "e"])).await?;
    writer.expect_accepted([compaction("s1", "b", "c"), user_entry("f")]).await?;
    writer.expect_accepted([compaction("s2", "b", "e"), user_entry("g")]).await?;
    expect_context(&writer, "g", "a [s2] f g").await?;
    writer.expect_accepted([compaction("s3", "b", "b"), user_entry("h")]).await?;
    expect_context(&writer, "h", "a [s3] c d e f g h").await?;
    writer.expect_accepted([compaction("s4", "b", "b")]).await?;
    expect_context(&writer, "s4", "a [s4] c d e f g h").await?;
    expect_context(&writer, "f", "a [s1] d e f").await
}

/// A compaction whose interval lies inside the interval of another compaction does not appear. It does not matter which
/// of the two came first. Compactions whose intervals have no entry in common all appear.
pub(crate) async fn a_compaction_inside_another_is_hidden(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c", "d", "e", "f", "g"])).await?;
    writer.expect_accepted([compaction("s1", "c", "d")]).await?;
    expect_context(&writer, "s1", "a b [s1] e f g").await?;
    writer.expect_accepted([compaction("s2", "b", "e")]).await?;
    expect_context(&writer, "s2", "a [s2] f g").await?;
    writer.expect_accepted([compaction("s3", "d", "d"), compaction("s", "e", "e"), compaction("s4", "f", "f")]).await?;
    expect_context(&writer, "s4", "a [s2] [s4] g").await?;
    // The interval of `s5` also contains the earlier compactions.
    writer.expect_accepted([user_entry("h"), compaction("s5", "a", "h"), user_entry("i")]).await?;
    expect_context(&writer, "i", "[s5] i").await?;
    // The intervals of `s5` and `s6` begin at the same entry, so only the later compaction `s6` appears. Its interval
    // ends before those of `s2` and `s4` begin, so these two appear again.
    writer.expect_accepted([compaction("s6", "a", "a")]).await?;
    expect_context(&writer, "s6", "[s6] [s2] [s4] g h i").await
}

/// A compaction of another branch has no effect, even if it covers entries of both branches.
pub(crate) async fn a_compaction_of_another_branch_has_no_effect(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c", "d"])).await?;
    writer.expect_accepted([compaction("s1", "a", "c"), user_entry("e"), user_entry("f").below(id("d"))]).await?;
    expect_context(&writer, "e", "[s1] d e").await?;
    expect_context(&writer, "f", "a b c d f").await?;
    writer
        .expect_accepted([compaction("s2", "b", "d"), user_entry("g"), compaction("s3", "a", "f").with_side(true)])
        .await?;
    expect_context(&writer, "g", "a [s2] f g").await?;
    expect_context(&writer, "e", "[s1] d e").await
}

/// A log may be compacted many times. The context of an entry then has the summary of the latest compaction on its
/// path, followed by the messages after the interval of this compaction.
pub(crate) async fn repeated_compaction_keeps_the_entries_after_the_interval(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["0"])).await?;
    for round in 1..=40 {
        let (name, previous) = (round.to_string(), (round - 1).to_string());
        let summary = format!("s{round}");
        writer
            .expect_accepted([
                user_entry(&name),
                custom_entry(&format!("x{round}")),
                compaction(&summary, "0", &previous),
            ])
            .await?;
        expect_context(&writer, &summary, &format!("[{summary}] {round}")).await?;
    }
    expect_context(&writer, "17", "[s16] 16 17").await
}

/// A compaction is due if the used tokens and the reserved tokens together fill the window of the model.
pub(crate) async fn a_compaction_is_due_when_the_window_fills(_given: &Given) -> Verdict {
    expect_eq(DEFAULT_RESERVED_TOKENS, 50_000)?;
    for (usage, reserved, window, is_due) in [
        (0, 0, 1, false),
        (99, 0, 100, false),
        (100, 0, 100, true),
        (49, 50, 100, false),
        (50, 50, 100, true),
        (u64::MAX, u64::MAX, u64::MAX, true),
        (u64::MAX - 1, 0, u64::MAX, false),
        (0, 0, 0, true),
    ] {
        expect_eq(is_compaction_due(usage, reserved, window), is_due)?;
    }
    Ok(())
}

/// A split keeps the last `keep` user or assistant messages, and never separates a call from its result.
pub(crate) async fn a_split_keeps_calls_with_their_results(given: &Given) -> Verdict {
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("a"), assistant_entry("b"), user_entry("c")]).await?;
    writer
        .expect_accepted([
            tool_calls_entry("d", &["1", "2"]),
            tool_results_entry("e", &["1"]),
            tool_results_entry("f", &["2"]),
            assistant_entry("g"),
        ])
        .await?;
    let context = writer.head_context().await?.context;
    for (keep, first_kept, older_count) in
        [(1, "g", 6), (2, "d", 3), (3, "c", 2), (4, "b", 1), (5, "a", 0), (9, "a", 0)]
    {
        let split = split_for_compaction(&context, keep);
        let kept = expect_some(split.kept.first(), "kept message")?;
        expect_eq(kept.entry.as_str(), first_kept).map_err(|failure| failure.about(keep))?;
        expect_eq(split.older.len(), older_count).map_err(|failure| failure.about(keep))?;
    }
    Ok(())
}

/// The request for a summary has the older messages without their thinking. There is no request if `keep` is 0, or if
/// fewer than `keep` messages could be kept.
pub(crate) async fn a_compaction_request_contains_the_older_messages(given: &Given) -> Verdict {
    let thought = Block::new(store_core::BlockKind::Thinking(store_core::Thinking::new("secret thought")));
    let thinking = Message::new(Role::Assistant, vec![thought, Block::text("spoken")]);
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("first words"), entry("b", thinking)]).await?;
    writer
        .expect_accepted([
            tool_calls_entry("asking", &["1"]),
            tool_results_entry("answer", &["1"]),
            user_entry("y"),
            assistant_entry("z"),
        ])
        .await?;
    let context = writer.head_context().await?.context;
    for keep in [0, 6] {
        expect_eq(compaction_request(&split_for_compaction(&context, keep)), None)?;
    }
    let request = expect_some(compaction_request(&split_for_compaction(&context, 2)), "request")?;
    let message_text = message_text(&request);
    for expected_text in ["first words", "spoken", "asking", "answer"] {
        expect(message_text.contains(expected_text), format!("{message_text:?} does not contain {expected_text:?}"))?;
    }
    expect(!format!("{request:?}").contains("secret thought"), "the request contains thinking")?;
    // The log still has the thinking.
    let still_has_thinking =
        matches!(&*writer.load_entry("b").await?.body, Body::Message(message) if message.blocks.len() == 2);
    expect(still_has_thinking, "the log no longer has the thinking")
}
