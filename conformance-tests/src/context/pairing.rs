//! Calls and results: the repairs that make a context acceptable to a model.

use store_core::{Block, ContextRequest, Json, Message, NewBody, NewEntry, OpenCalls, Origin, Provenance, Role};

use super::short_form::{repairs_as_text, short_form};
use crate::{
    check::{Verdict, expect, expect_eq},
    given::{Given, id},
    log::{
        entry_drafts::{assistant_entry, compaction, entry, rewind, tool_calls_entry, tool_results_entry, user_entry},
        writer::ThreadWriter,
    },
};

/// Checks the context of the head, and that loading it does not change the log. `expected` is the short form of its
/// messages, and its repairs as text.
async fn expect_repaired(writer: &ThreadWriter<'_>, open_calls: OpenCalls, expected: (&str, &str)) -> Verdict {
    let log = writer.given.read_log(&writer.thread).await?;
    let context = writer.load_context(ContextRequest::head().with_open_calls(open_calls)).await?.context;
    expect_eq((short_form(&context).as_str(), repairs_as_text(&context).as_str()), expected)?;
    for message in &context.messages {
        expect(!message.message.blocks.is_empty(), format!("message `{}` has no blocks", message.entry))?;
    }
    expect_eq(writer.given.read_log(&writer.thread).await?, log)
}

/// A result is left out if its call is not in the context. Its message is also left out if it has no other blocks.
/// These repairs are listed.
pub(crate) async fn a_result_without_its_call_is_left_out(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), tool_results_entry("b", &["x"]), tool_calls_entry("c", &["1"])],
    )
    .await?;
    writer.expect_accepted([tool_results_entry("d", &["y", "1"]), assistant_entry("e")]).await?;
    let listed_repairs = "b:empty_message_dropped b:orphan_result_dropped:x d:orphan_result_dropped:y";
    expect_repaired(&writer, OpenCalls::Answer, ("a c!1 ?1=d e", listed_repairs)).await?;
    // A compaction covers the call, but not its result.
    let other_writer = ThreadWriter::with_entries(
        given,
        "other",
        [user_entry("a"), tool_calls_entry("b", &["1"]), tool_results_entry("c", &["1"])],
    )
    .await?;
    other_writer.expect_accepted([assistant_entry("d"), compaction("s", "a", "b")]).await?;
    let listed_repairs = "c:empty_message_dropped c:orphan_result_dropped:1";
    expect_repaired(&other_writer, OpenCalls::Answer, ("[s] d", listed_repairs)).await
}

/// A result on another branch answers no call of this branch.
pub(crate) async fn a_result_on_another_branch_answers_no_call(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), tool_calls_entry("b", &["1"]), tool_results_entry("c", &["1"])],
    )
    .await?;
    writer.expect_accepted([rewind("b"), user_entry("d")]).await?;
    expect_repaired(&writer, OpenCalls::Answer, ("a b!1 ?1=none d", "b:open_call_answered:1")).await
}

/// The request says what happens to a call without a result: it gets a synthetic error as its result, stays open, or is
/// left out.
pub(crate) async fn a_call_without_a_result_is_treated_as_requested(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), tool_calls_entry("b", &["1", "2", "3"]), tool_results_entry("c", &["2"])],
    )
    .await?;
    let answered = "b:open_call_answered:1 b:open_call_answered:3";
    expect_repaired(&writer, OpenCalls::Keep, ("a b!1!2!3 ?2=c", "")).await?;
    expect_repaired(&writer, OpenCalls::Drop, ("a b!2 ?2=c", "b:open_call_dropped:1 b:open_call_dropped:3")).await?;
    writer.expect_accepted([user_entry("d")]).await?;
    let context = writer.head_context().await?.context;
    expect_eq(repairs_as_text(&context).as_str(), answered)?;
    let short_form = short_form(&context);
    expect(
        short_form.starts_with("a b!1!2!3 ?") && short_form.ends_with(" d") && short_form.split(' ').count() == 6,
        format!("not every call has its result directly after it: {short_form}"),
    )?;
    for answer in [" ?1=none", " ?2=c", " ?3=none"] {
        expect(short_form.contains(answer), format!("`{answer}` is missing in {short_form}"))?;
    }
    Ok(())
}

/// Each call has one result, directly after it, even if the results were recorded in another order or in other
/// messages.
pub(crate) async fn results_follow_their_calls(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), tool_calls_entry("b", &["1", "2"]), tool_results_entry("c", &["1"])],
    )
    .await?;
    writer.expect_accepted([user_entry("d"), tool_results_entry("e", &["2"]), assistant_entry("f")]).await?;
    expect_repaired(&writer, OpenCalls::Answer, ("a b!1!2 ?1=c ?2=e d f", "e:result_moved:2")).await?;
    // This result was recorded before its call.
    let other_writer = ThreadWriter::with_entries(
        given,
        "early",
        [user_entry("a"), tool_results_entry("b", &["1"]), tool_calls_entry("c", &["1"])],
    )
    .await?;
    other_writer.expect_accepted([assistant_entry("d")]).await?;
    expect_repaired(&other_writer, OpenCalls::Answer, ("a c!1 ?1=b d", "b:result_moved:1")).await
}

/// If a call has several results, only the last one is in the context. The others are listed as repairs.
pub(crate) async fn of_several_results_the_last_counts(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), tool_calls_entry("b", &["1"]), tool_results_entry("c", &["1"])],
    )
    .await?;
    writer.expect_accepted([tool_results_entry("d", &["1"]), assistant_entry("e")]).await?;
    let context = writer.head_context().await?.context;
    expect_eq(short_form(&context), "a b!1 ?1=d e")?;
    let listed_repairs = repairs_as_text(&context);
    expect(
        listed_repairs.contains("c:earlier_result_dropped:1"),
        format!("the earlier result is not listed: {listed_repairs}"),
    )
}

/// If the id of a call occurs again in a later message, this is a different call, with a result of its own.
pub(crate) async fn a_call_id_may_be_reused(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), tool_calls_entry("b", &["1"]), tool_results_entry("c", &["1"])],
    )
    .await?;
    writer.expect_accepted([tool_calls_entry("d", &["1"]), tool_results_entry("e", &["1"]), user_entry("f")]).await?;
    expect_repaired(&writer, OpenCalls::Answer, ("a b!1 ?1=c d!1 ?1=e f", "")).await
}

/// A message is left out if it has no blocks, or if all its blocks were left out. These repairs are listed.
pub(crate) async fn an_empty_message_is_left_out(given: &Given) -> Verdict {
    let call = Block::tool_use("1", "tool", Json::null());
    let only_call = entry("b", Message::new(Role::Assistant, vec![call]));
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("a"), only_call]).await?;
    writer.expect_accepted([entry("c", Message::new(Role::User, vec![])), assistant_entry("d")]).await?;
    let listed_repairs = "b:empty_message_dropped b:open_call_dropped:1 c:empty_message_dropped";
    expect_repaired(&writer, OpenCalls::Drop, ("a d", listed_repairs)).await
}

/// Sets the provider of a draft, and the id that its message has at the provider.
fn with_message_id(mut draft: NewEntry, provider: &str, message_id: &str) -> NewEntry {
    let mut provenance = Provenance::default();
    provenance.origin = Some(Origin::new(provider));
    provenance.message_id = Some(message_id.to_owned());
    if let NewBody::Message(message) = &mut draft.body {
        message.provenance = Some(provenance);
    }
    draft
}

/// Assistant entries with the same message id of the same provider become one message, if there are only results
/// between them.
pub(crate) async fn parts_of_one_message_are_merged(given: &Given) -> Verdict {
    let with_message_id = |draft| with_message_id(draft, "p", "m1");
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), with_message_id(tool_calls_entry("b", &["1"])), tool_results_entry("c", &["1"])],
    )
    .await?;
    writer
        .expect_accepted([
            with_message_id(tool_calls_entry("d", &["2"])),
            tool_results_entry("e", &["2"]),
            with_message_id(assistant_entry("f")),
            user_entry("g"),
        ])
        .await?;
    let context = writer.head_context().await?.context;
    expect_eq(short_form(&context), "a b!1!2 ?1=c ?2=e g")?;
    let merged_text = super::short_form::message_text(&context.messages[1].message);
    expect_eq(merged_text.split_whitespace().collect::<Vec<_>>(), vec!["b", "d", "f"])?;
    writer.expect_accepted([with_message_id(assistant_entry("h"))]).await?;
    expect_eq(short_form(&writer.head_context().await?.context), "a b!1!2 ?1=c ?2=e g h")
}

/// Entries with different message ids, of different providers or without a message id stay separate.
pub(crate) async fn unrelated_messages_are_not_merged(given: &Given) -> Verdict {
    let drafts = vec![
        with_message_id(assistant_entry("a"), "p", "m1"),
        with_message_id(assistant_entry("b"), "p", "m2"),
        with_message_id(assistant_entry("c"), "q", "m2"),
        assistant_entry("d"),
        assistant_entry("e"),
        with_message_id(user_entry("f"), "q", "m2"),
        with_message_id(user_entry("g"), "q", "m2"),
    ];
    let writer = ThreadWriter::with_entries(given, "t", drafts).await?;
    let context = writer.load_context(ContextRequest::at(id("g"))).await?.context;
    expect_eq((short_form(&context).as_str(), repairs_as_text(&context).as_str()), ("a b c d e f g", ""))
}

/// Only assistant messages are merged. Other messages with the same message id stay separate, and so do assistant
/// messages that have such a message between them.
pub(crate) async fn only_assistant_messages_are_merged(given: &Given) -> Verdict {
    let with_message_id = |draft| with_message_id(draft, "p", "m1");
    let drafts = [user_entry("a"), assistant_entry("b"), user_entry("c"), assistant_entry("d"), assistant_entry("e")]
        .map(with_message_id);
    let writer = ThreadWriter::with_entries(given, "t", drafts).await?;
    expect_eq(short_form(&writer.head_context().await?.context), "a b c d")
}
