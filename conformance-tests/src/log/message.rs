//! Cases about the rules that a message must follow.

use store_core::{Block, BlockKind, Compaction, ErrorKind, Message, NewBody, NewEntry, Role};

use super::{
    draft::{answering, calling, json, user},
    writer::Writer,
};
use crate::{
    check::{Verdict, expect_eq},
    given::Given,
};

fn call(id: &str, name: &str) -> Block {
    Block::tool_use(id, name, json("{}"))
}

fn result(id: &str) -> Block {
    Block::tool_result(id, vec![Block::text("ok")])
}

/// Tool calls occur only in assistant messages. Each has an id and a name that are not blank, and no id occurs twice
/// in a message.
pub(crate) async fn tool_calls_occur_only_in_assistant_messages(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a")]).await?;
    for (role, blocks) in [
        (Role::System, vec![call("c", "n")]),
        (Role::User, vec![Block::text("x"), call("c", "n")]),
        (Role::Tool, vec![result("c"), call("c", "n")]),
        (Role::Assistant, vec![call("", "n")]),
        (Role::Assistant, vec![call(" \t", "n")]),
        (Role::Assistant, vec![call("c", "")]),
        (Role::Assistant, vec![call("c", "\u{2003}")]),
        (Role::Assistant, vec![call("c", "n"), call("d", "n"), call("c", "m")]),
    ] {
        refuse(&writer, role, blocks).await?;
    }
    let fits = Message::new(Role::Assistant, vec![call("c", "n"), Block::text("x"), call("C", "n")]);
    writer.accept([NewEntry::new(fits.clone()), NewEntry::new(fits)]).await
}

/// Tool results occur only in tool messages, and name a call by an id that is not blank. A tool message has at least
/// one result.
pub(crate) async fn tool_results_occur_only_in_tool_messages(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a")]).await?;
    for (role, blocks) in [
        (Role::System, vec![result("c")]),
        (Role::User, vec![result("c")]),
        (Role::Assistant, vec![call("c", "n"), result("c")]),
        (Role::Tool, vec![result("")]),
        (Role::Tool, vec![result("c"), result("  ")]),
        (Role::Tool, vec![]),
        (Role::Tool, vec![Block::text("x")]),
    ] {
        refuse(&writer, role, blocks).await?;
    }
    let fits = Message::new(Role::Tool, vec![Block::text("x"), result("c"), result("c")]);
    writer.accept([NewEntry::new(fits)]).await?;
    let empty = [Role::System, Role::User, Role::Assistant].map(|role| NewEntry::new(Message::new(role, vec![])));
    writer.accept(empty).await
}

async fn refuse(writer: &Writer<'_>, role: Role, blocks: Vec<Block>) -> Verdict {
    let what = format!("{role}: {blocks:?}");
    let entries = [user("before"), NewEntry::new(Message::new(role, blocks))];
    let error = writer.refuse(entries, ErrorKind::Invalid).await.map_err(|failure| failure.about(what))?;
    expect_eq(error.part(), Some("entries[1]"))
}

/// A result without its call, and a call without its result, are accepted, because a log records what really happened.
pub(crate) async fn unpaired_calls_and_results_are_accepted(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [answering("answer", &["nobody asked"]), calling("ask", &["c"])]).await?;
    writer.accept([user("b"), answering("twice", &["c", "c"]), calling("ask again", &["c"])]).await?;
    writer.expect_log("answer ask b twice ask again").await?;
    expect_eq(writer.path("ask again").await?, "answer ask b twice ask again")
}

/// A body or a block of an unknown kind is refused if that kind has the name of a known kind. Otherwise it would be
/// read back as a body or a block of the known kind.
pub(crate) async fn an_unknown_kind_with_a_known_name_is_refused(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a")]).await?;
    for kind in ["message", "compaction", "checkpoint", "usage", "label", "rewind", "custom"] {
        let body = NewBody::Unknown { kind: kind.to_owned(), data: json("1") };
        writer.refuse([NewEntry::new(body)], ErrorKind::Invalid).await.map_err(|failure| failure.about(kind))?;
    }
    for kind in ["text", "thinking", "image", "document", "audio", "video", "tool_use", "tool_result", "opaque"] {
        let block = || Block::new(BlockKind::Unknown { kind: kind.to_owned(), data: json("1") });
        let inside = Block::tool_result("c", vec![block()]);
        refuse(&writer, Role::Assistant, vec![Block::text("x"), block()]).await?;
        refuse(&writer, Role::Tool, vec![inside]).await?;
        let mut summary = Compaction::default();
        summary.summary = vec![block()];
        writer.refuse([NewEntry::new(summary)], ErrorKind::Invalid).await.map_err(|failure| failure.about(kind))?;
    }
    let unknown = BlockKind::Unknown { kind: "unknown".to_owned(), data: json("1") };
    writer.accept([NewEntry::new(Message::new(Role::User, vec![Block::new(unknown)]))]).await
}
