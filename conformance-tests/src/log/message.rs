//! Cases about the rules that a message must follow.

use store_core::{Block, BlockKind, Compaction, ErrorKind, Message, NewBody, NewEntry, Role};

use super::{
    entry_drafts::{json, tool_calls_entry, tool_results_entry, user_entry},
    writer::ThreadWriter,
};
use crate::{
    check::{Verdict, expect_eq},
    given::Given,
};

fn call_block(id: &str, name: &str) -> Block {
    Block::tool_use(id, name, json("{}"))
}

fn result_block(id: &str) -> Block {
    Block::tool_result(id, vec![Block::text("ok")])
}

/// Tool calls occur only in assistant messages. Each has an id and a name that are not blank, and no id occurs twice
/// in a message.
pub(crate) async fn tool_calls_occur_only_in_assistant_messages(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("a")]).await?;
    for (role, blocks) in [
        (Role::System, vec![call_block("c", "n")]),
        (Role::User, vec![Block::text("x"), call_block("c", "n")]),
        (Role::Tool, vec![result_block("c"), call_block("c", "n")]),
        (Role::Assistant, vec![call_block("", "n")]),
        (Role::Assistant, vec![call_block(" \t", "n")]),
        (Role::Assistant, vec![call_block("c", "")]),
        (Role::Assistant, vec![call_block("c", "\u{2003}")]),
        (Role::Assistant, vec![call_block("c", "n"), call_block("d", "n"), call_block("c", "m")]),
    ] {
        expect_message_refused(&writer, role, blocks).await?;
    }
    let valid_message =
        Message::new(Role::Assistant, vec![call_block("c", "n"), Block::text("x"), call_block("C", "n")]);
    writer.expect_accepted([NewEntry::new(valid_message.clone()), NewEntry::new(valid_message)]).await
}

/// Tool results occur only in tool messages, and name a call by an id that is not blank. A tool message has at least
/// one result.
pub(crate) async fn tool_results_occur_only_in_tool_messages(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("a")]).await?;
    for (role, blocks) in [
        (Role::System, vec![result_block("c")]),
        (Role::User, vec![result_block("c")]),
        (Role::Assistant, vec![call_block("c", "n"), result_block("c")]),
        (Role::Tool, vec![result_block("")]),
        (Role::Tool, vec![result_block("c"), result_block("  ")]),
        (Role::Tool, vec![]),
        (Role::Tool, vec![Block::text("x")]),
    ] {
        expect_message_refused(&writer, role, blocks).await?;
    }
    let valid_message = Message::new(Role::Tool, vec![Block::text("x"), result_block("c"), result_block("c")]);
    writer.expect_accepted([NewEntry::new(valid_message)]).await?;
    let messages_without_blocks =
        [Role::System, Role::User, Role::Assistant].map(|role| NewEntry::new(Message::new(role, vec![])));
    writer.expect_accepted(messages_without_blocks).await
}

async fn expect_message_refused(writer: &ThreadWriter<'_>, role: Role, blocks: Vec<Block>) -> Verdict {
    let what = format!("{role}: {blocks:?}");
    let entries = [user_entry("before"), NewEntry::new(Message::new(role, blocks))];
    let error = writer.expect_refused(entries, ErrorKind::Invalid).await.map_err(|failure| failure.about(what))?;
    expect_eq(error.part(), Some("entries[1]"))
}

/// A result without its call, and a call without its result, are accepted, because a log records what really happened.
pub(crate) async fn unpaired_calls_and_results_are_accepted(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [tool_results_entry("answer", &["no such call"]), tool_calls_entry("ask", &["c"])],
    )
    .await?;
    writer
        .expect_accepted([
            user_entry("b"),
            tool_results_entry("twice", &["c", "c"]),
            tool_calls_entry("ask again", &["c"]),
        ])
        .await?;
    writer.expect_log_ids("answer ask b twice ask again").await?;
    expect_eq(writer.path_ids("ask again").await?, "answer ask b twice ask again")
}

/// A body or a block of an unknown kind is refused if that kind has the name of a known kind. Otherwise it would be
/// read back as a body or a block of the known kind.
pub(crate) async fn an_unknown_kind_with_a_known_name_is_refused(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("a")]).await?;
    for kind in ["message", "compaction", "checkpoint", "usage", "label", "rewind", "decision", "custom"] {
        let body = NewBody::Unknown { kind: kind.to_owned(), data: json("1") };
        writer
            .expect_refused([NewEntry::new(body)], ErrorKind::Invalid)
            .await
            .map_err(|failure| failure.about(kind))?;
    }
    for kind in ["text", "thinking", "image", "document", "audio", "video", "tool_use", "tool_result", "opaque"] {
        let block = || Block::new(BlockKind::Unknown { kind: kind.to_owned(), data: json("1") });
        let result_with_block = Block::tool_result("c", vec![block()]);
        expect_message_refused(&writer, Role::Assistant, vec![Block::text("x"), block()]).await?;
        expect_message_refused(&writer, Role::Tool, vec![result_with_block]).await?;
        let mut compaction = Compaction::default();
        compaction.summary = vec![block()];
        writer
            .expect_refused([NewEntry::new(compaction)], ErrorKind::Invalid)
            .await
            .map_err(|failure| failure.about(kind))?;
    }
    let unknown_kind = BlockKind::Unknown { kind: "unknown".to_owned(), data: json("1") };
    writer.expect_accepted([NewEntry::new(Message::new(Role::User, vec![Block::new(unknown_kind)]))]).await
}
