//! Which entries are in a context.

use store_core::{
    Compaction, ContextRequest, Detail, ErrorKind, Interval, Message, NewEntry, Origin, Provenance, Visibility,
};

use super::short_form::short_form;
use crate::{
    check::{Failure, Verdict, expect, expect_eq, expect_kind},
    given::{Given, id},
    log::{
        entry_drafts::{
            assistant_entry, checkpoint, compaction, custom_entry, entry, label, rewind, rewind_to_start, side_entry,
            tool_calls_entry, tool_results_entry, usage_entry, user_entries, user_entry,
        },
        writer::ThreadWriter,
    },
};

/// The context of an entry has the messages on the path of this entry. The context of a thread has those on the path of
/// its head.
pub(crate) async fn a_context_is_made_of_the_path(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c"])).await?;
    writer.expect_accepted([user_entry("d").below(id("a")), assistant_entry("e"), side_entry("beside")]).await?;
    for (at, expected) in [("a", "a"), ("c", "a b c"), ("d", "a d"), ("e", "a d e")] {
        let context = writer.load_context(ContextRequest::at(id(at))).await?;
        expect_eq((context.at, short_form(&context.context)), (Some(id(at)), expected.to_owned()))?;
    }
    let head_context = writer.head_context().await?;
    expect_eq((head_context.at, short_form(&head_context.context)), (Some(id("e")), "a d e".to_owned()))?;
    writer.expect_accepted([rewind("b")]).await?;
    let head_context = writer.head_context().await?;
    expect_eq((head_context.at, short_form(&head_context.context)), (Some(id("b")), "a b".to_owned()))?;
    expect(head_context.context.messages.iter().all(|message| !message.synthetic), "a message of the log is synthetic")
}

/// Without a head the context is empty. A thread has no head if it has no entries, if it has side entries only, and
/// after a rewind to its start, which the contract calls `clear`.
pub(crate) async fn without_a_head_the_context_is_empty(given: &Given) -> Verdict {
    let thread = given.create_empty_thread("empty").await?;
    let empty = given.threads()?.load_context(&thread.id, ContextRequest::head()).await?;
    expect_eq((&empty.thread, empty.at, empty.context.messages.len()), (&thread, None, 0))?;
    let writer_of_side_entries =
        ThreadWriter::with_entries(given, "side", [side_entry("beside"), user_entry("x").with_side(true)]).await?;
    expect_eq(writer_of_side_entries.head_context().await?.context.messages.len(), 0)?;
    let writer_of_cleared_thread =
        ThreadWriter::with_entries(given, "cleared", [user_entry("a"), rewind_to_start()]).await?;
    expect_eq(writer_of_cleared_thread.head_context().await?.context.messages.len(), 0)
}

/// A context has the messages with visibility `all` or `internal`, in order and unchanged. It has no messages with
/// visibility `aside`, no side entries and no entries with other bodies.
pub(crate) async fn a_context_has_only_messages_visible_to_the_model(given: &Given) -> Verdict {
    let message_with_visibility =
        |name: &str, visibility| entry(name, Message::assistant(name).with_visibility(visibility));
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("a"), message_with_visibility("b", Visibility::Internal)])
            .await?;
    writer
        .expect_accepted([
            message_with_visibility("c", Visibility::Aside),
            custom_entry("d"),
            checkpoint("e", Some("x")),
            side_entry("f"),
        ])
        .await?;
    let beside = user_entry("g").with_side(true);
    writer
        .expect_accepted([
            beside,
            message_with_visibility("h", Visibility::All),
            usage_entry(1, 1).with_side(false),
            label("a", None),
        ])
        .await?;
    let context = writer.head_context().await?.context;
    expect_eq(short_form(&context), "a b h")?;
    for message in &context.messages {
        let entry = writer.load_entry(message.entry.as_str()).await?;
        expect_eq(Some(&message.message), entry.message())?;
    }
    expect_eq((context.repairs.len(), context.left_out.len()), (0, 0))
}

/// An assistant message of this model. If there is no model, only the provider is known.
fn message_of_model(name: &str, model: Option<&str>) -> Message {
    let origin = Origin::new("provider");
    let mut provenance = Provenance::default();
    provenance.origin = Some(model.map_or_else(|| origin.clone(), |model| origin.clone().with_model(model)));
    Message::assistant(name).with_provenance(provenance)
}

fn entry_of_model(name: &str, model: Option<&str>) -> NewEntry {
    entry(name, message_of_model(name, model))
}

/// A context names the provider and the model that were used last on its path.
pub(crate) async fn a_context_names_the_model_used_last(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), entry_of_model("b", Some("one")), user_entry("c"), entry_of_model("d", Some("two"))],
    )
    .await?;
    writer.expect_accepted([user_entry("e"), assistant_entry("f")]).await?;
    let origin = |model: &str| Some(Origin::new("provider").with_model(model));
    for (at, expected) in [("a", None), ("b", origin("one")), ("c", origin("one")), ("f", origin("two"))] {
        let found = writer.load_context(ContextRequest::at(id(at))).await?.context.origin;
        expect_eq(found, expected).map_err(|failure| failure.about(at))?;
    }
    writer.expect_accepted([rewind("c")]).await?;
    expect_eq(writer.head_context().await?.context.origin, origin("one"))?;
    // The compaction covers the message of the model, but does not change which model was used last.
    writer.expect_accepted([compaction("g", "a", "c")]).await?;
    expect_eq(writer.head_context().await?.context.origin, origin("one"))?;
    // A later compaction without a model does not change it either: a replacement message of the first compaction names
    // the model.
    let other_writer = ThreadWriter::new(given, "other");
    let mut compaction_with_replacement = Compaction::default();
    compaction_with_replacement.covers = Some(Interval::new(id("a"), id("b")));
    compaction_with_replacement.replacement = Some(vec![message_of_model("b", Some("one"))]);
    other_writer
        .expect_accepted([
            user_entry("a"),
            user_entry("b"),
            entry("c", compaction_with_replacement),
            user_entry("d"),
            compaction("e", "a", "d"),
        ])
        .await?;
    expect_eq(other_writer.head_context().await?.context.origin, origin("one"))
}

/// The context of an entry never changes, not even if results, compactions, forks, labels or rewinds are committed
/// later.
pub(crate) async fn a_context_never_changes(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), tool_calls_entry("b", &["c1", "c2"]), tool_results_entry("c", &["c1"])],
    )
    .await?;
    writer
        .expect_accepted([user_entry("d"), compaction("e", "a", "d"), user_entry("f"), checkpoint("g", Some("x"))])
        .await?;
    let mut contexts = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        contexts.push((name, context_at(&writer, name).await?));
    }
    writer
        .expect_accepted([
            tool_results_entry("h", &["c2"]),
            user_entry("i"),
            compaction("j", "a", "f"),
            label("f", Some("y")),
        ])
        .await?;
    writer
        .expect_accepted([
            user_entry("k").below(id("b")),
            tool_results_entry("l", &["c1", "c2"]),
            compaction("m", "a", "b"),
        ])
        .await?;
    writer.expect_accepted([rewind("f"), user_entry("n"), rewind_to_start(), user_entry("o")]).await?;
    for (name, context) in contexts {
        expect_eq(context_at(&writer, name).await?, context).map_err(|failure| failure.about(name))?;
    }
    Ok(())
}

/// Loads the context of the entry `name`.
async fn context_at(writer: &ThreadWriter<'_>, name: &str) -> Result<store_core::Context, Failure> {
    Ok(writer.load_context(ContextRequest::at(id(name))).await?.context)
}

/// `load_context` is refused with `NotFound` for an unknown thread and for an unknown entry. The error names the thread
/// or the entry.
pub(crate) async fn an_unknown_thread_or_entry_is_not_found(given: &Given) -> Verdict {
    ThreadWriter::with_entries(given, "t", user_entries(&["a"])).await?;
    ThreadWriter::with_entries(given, "other", user_entries(&["foreign"])).await?;
    let threads = given.threads()?;
    for (thread, at, named_id) in
        [("unknown", None, "unknown"), ("unknown", Some("a"), "unknown"), ("t", Some("foreign"), "foreign")]
    {
        let request = at.map_or_else(ContextRequest::head, |at| ContextRequest::at(id(at)));
        let error = expect_kind(threads.load_context(&id(thread), request).await, ErrorKind::NotFound)?;
        let Detail::NotFound { what } = error.detail() else { return Err(Failure::new(format!("{error:?}"))) };
        expect_eq(what.id.as_str(), named_id)?;
    }
    Ok(())
}
