//! Calls and results: the repairs that make a context acceptable to a model.

use store_core::{Block, ContextRequest, Json, Message, NewBody, NewEntry, OpenCalls, Origin, Provenance, Role};

use super::sketch::{repairs, sketch};
use crate::{
    check::{Verdict, expect, expect_eq},
    given::{Given, id},
    log::{
        draft::{answering, assistant, calling, compaction, entry, rewind, user},
        writer::Writer,
    },
};

/// Checks the messages and the repairs of the context of the head, and that loading it does not change the log.
async fn expect_repaired(writer: &Writer<'_>, open_calls: OpenCalls, wanted: (&str, &str)) -> Verdict {
    let log = writer.given.log(&writer.thread).await?;
    let context = writer.context_by(ContextRequest::head().with_open_calls(open_calls)).await?.context;
    expect_eq((sketch(&context).as_str(), repairs(&context).as_str()), wanted)?;
    for message in &context.messages {
        expect(!message.message.blocks.is_empty(), format!("message `{}` has no blocks", message.entry))?;
    }
    expect_eq(writer.given.log(&writer.thread).await?, log)
}

/// A result is left out if its call is not in the context. Its message is left out, too, if it has no other blocks.
/// These repairs are listed.
pub(crate) async fn a_result_without_its_call_is_left_out(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), answering("b", &["x"]), calling("c", &["1"])]).await?;
    writer.accept([answering("d", &["y", "1"]), assistant("e")]).await?;
    let listed = "b:empty_message_dropped b:orphan_result_dropped:x d:orphan_result_dropped:y";
    expect_repaired(&writer, OpenCalls::Answer, ("a c!1 ?1=d e", listed)).await?;
    // A compaction covers the call, but not its result.
    let other = Writer::having(given, "other", [user("a"), calling("b", &["1"]), answering("c", &["1"])]).await?;
    other.accept([assistant("d"), compaction("s", "a", "b")]).await?;
    let listed = "c:empty_message_dropped c:orphan_result_dropped:1";
    expect_repaired(&other, OpenCalls::Answer, ("[s] d", listed)).await
}

/// A result on another branch answers no call of this branch.
pub(crate) async fn a_result_on_another_branch_answers_no_call(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), calling("b", &["1"]), answering("c", &["1"])]).await?;
    writer.accept([rewind("b"), user("d")]).await?;
    expect_repaired(&writer, OpenCalls::Answer, ("a b!1 ?1=none d", "b:open_call_answered:1")).await
}

/// A call without a result gets a synthetic error as its result, stays open or is left out, as the request says.
pub(crate) async fn a_call_without_a_result_is_treated_as_asked(given: &Given) -> Verdict {
    let writer =
        Writer::having(given, "t", [user("a"), calling("b", &["1", "2", "3"]), answering("c", &["2"])]).await?;
    let answered = "b:open_call_answered:1 b:open_call_answered:3";
    expect_repaired(&writer, OpenCalls::Keep, ("a b!1!2!3 ?2=c", "")).await?;
    expect_repaired(&writer, OpenCalls::Drop, ("a b!2 ?2=c", "b:open_call_dropped:1 b:open_call_dropped:3")).await?;
    writer.accept([user("d")]).await?;
    let context = writer.context().await?.context;
    expect_eq(repairs(&context).as_str(), answered)?;
    let sketch = sketch(&context);
    expect(
        sketch.starts_with("a b!1!2!3 ?") && sketch.ends_with(" d") && sketch.split(' ').count() == 6,
        format!("not every call has its result directly after it: {sketch}"),
    )?;
    for answer in [" ?1=none", " ?2=c", " ?3=none"] {
        expect(sketch.contains(answer), format!("`{answer}` is missing in {sketch}"))?;
    }
    Ok(())
}

/// Each call has one result, directly after it, whatever the order and the messages in which the results were recorded.
pub(crate) async fn results_follow_their_calls(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), calling("b", &["1", "2"]), answering("c", &["1"])]).await?;
    writer.accept([user("d"), answering("e", &["2"]), assistant("f")]).await?;
    expect_repaired(&writer, OpenCalls::Answer, ("a b!1!2 ?1=c ?2=e d f", "e:result_moved:2")).await?;
    // This result was recorded before its call.
    let early = Writer::having(given, "early", [user("a"), answering("b", &["1"]), calling("c", &["1"])]).await?;
    early.accept([assistant("d")]).await?;
    expect_repaired(&early, OpenCalls::Answer, ("a c!1 ?1=b d", "b:result_moved:1")).await
}

/// If a call has several results, only the last one is in the context. The others are listed as repairs.
pub(crate) async fn of_several_results_the_last_counts(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), calling("b", &["1"]), answering("c", &["1"])]).await?;
    writer.accept([answering("d", &["1"]), assistant("e")]).await?;
    let context = writer.context().await?.context;
    expect_eq(sketch(&context), "a b!1 ?1=d e")?;
    let listed = repairs(&context);
    expect(listed.contains("c:earlier_result_dropped:1"), format!("the earlier result is not listed: {listed}"))
}

/// If the id of a call occurs again in a later message, this is a different call, with a result of its own.
pub(crate) async fn a_call_id_may_be_reused(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), calling("b", &["1"]), answering("c", &["1"])]).await?;
    writer.accept([calling("d", &["1"]), answering("e", &["1"]), user("f")]).await?;
    expect_repaired(&writer, OpenCalls::Answer, ("a b!1 ?1=c d!1 ?1=e f", "")).await
}

/// A message without blocks, or whose blocks were all left out, is left out itself. These repairs are listed.
pub(crate) async fn an_empty_message_is_left_out(given: &Given) -> Verdict {
    let call = Block::tool_use("1", "tool", Json::null());
    let only_call = entry("b", Message::new(Role::Assistant, vec![call]));
    let writer = Writer::having(given, "t", [user("a"), only_call]).await?;
    writer.accept([entry("c", Message::new(Role::User, vec![])), assistant("d")]).await?;
    let listed = "b:empty_message_dropped b:open_call_dropped:1 c:empty_message_dropped";
    expect_repaired(&writer, OpenCalls::Drop, ("a d", listed)).await
}

/// Gives a draft this provider and this id of a message at the provider.
fn part(mut draft: NewEntry, provider: &str, message_id: &str) -> NewEntry {
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
    let part = |draft| part(draft, "p", "m1");
    let writer = Writer::having(given, "t", [user("a"), part(calling("b", &["1"])), answering("c", &["1"])]).await?;
    writer.accept([part(calling("d", &["2"])), answering("e", &["2"]), part(assistant("f")), user("g")]).await?;
    let context = writer.context().await?.context;
    expect_eq(sketch(&context), "a b!1!2 ?1=c ?2=e g")?;
    let said = super::sketch::words(&context.messages[1].message);
    expect_eq(said.split_whitespace().collect::<Vec<_>>(), vec!["b", "d", "f"])?;
    writer.accept([part(assistant("h"))]).await?;
    expect_eq(sketch(&writer.context().await?.context), "a b!1!2 ?1=c ?2=e g h")
}

/// Entries with different message ids, of different providers or without a message id stay separate.
pub(crate) async fn unrelated_messages_are_not_merged(given: &Given) -> Verdict {
    let drafts = vec![
        part(assistant("a"), "p", "m1"),
        part(assistant("b"), "p", "m2"),
        part(assistant("c"), "q", "m2"),
        assistant("d"),
        assistant("e"),
        part(user("f"), "q", "m2"),
        part(user("g"), "q", "m2"),
    ];
    let writer = Writer::having(given, "t", drafts).await?;
    let context = writer.context_by(ContextRequest::at(id("g"))).await?.context;
    expect_eq((sketch(&context).as_str(), repairs(&context).as_str()), ("a b c d e f g", ""))
}

/// Only assistant messages are merged. Other messages with the same message id stay separate, and so do assistant
/// messages that have such a message between them.
pub(crate) async fn only_assistant_messages_are_merged(given: &Given) -> Verdict {
    let part = |draft| part(draft, "p", "m1");
    let drafts = [user("a"), assistant("b"), user("c"), assistant("d"), assistant("e")].map(part);
    let writer = Writer::having(given, "t", drafts).await?;
    expect_eq(sketch(&writer.context().await?.context), "a b c d")
}
