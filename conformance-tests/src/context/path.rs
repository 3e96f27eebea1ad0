//! Which entries are in a context.

use store_core::{
    Compaction, ContextRequest, Detail, ErrorKind, Interval, Message, NewEntry, Origin, Provenance, Visibility,
};

use super::sketch::sketch;
use crate::{
    check::{Failure, Verdict, expect, expect_eq, expect_kind},
    given::{Given, id},
    log::{
        draft::{
            answering, assistant, calling, checkpoint, clear, compaction, custom, entry, label, note, rewind, spent,
            user, users,
        },
        writer::Writer,
    },
};

/// The context of an entry has the messages on the path of this entry. The context of a thread has those on the path of
/// its head.
pub(crate) async fn a_context_is_made_of_the_path(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", users(&["a", "b", "c"])).await?;
    writer.accept([user("d").below(id("a")), assistant("e"), note("beside")]).await?;
    for (at, wanted) in [("a", "a"), ("c", "a b c"), ("d", "a d"), ("e", "a d e")] {
        let context = writer.context_by(ContextRequest::at(id(at))).await?;
        expect_eq((context.at, sketch(&context.context)), (Some(id(at)), wanted.to_owned()))?;
    }
    let head = writer.context().await?;
    expect_eq((head.at, sketch(&head.context)), (Some(id("e")), "a d e".to_owned()))?;
    writer.accept([rewind("b")]).await?;
    let head = writer.context().await?;
    expect_eq((head.at, sketch(&head.context)), (Some(id("b")), "a b".to_owned()))?;
    expect(head.context.messages.iter().all(|message| !message.synthetic), "a message of the log is synthetic")
}

/// Without a head the context is empty: in a thread without entries, in one with side
/// entries only, and after a `clear`.
pub(crate) async fn without_a_head_the_context_is_empty(given: &Given) -> Verdict {
    let thread = given.a_thread("empty").await?;
    let empty = given.threads()?.load_context(&thread.id, ContextRequest::head()).await?;
    expect_eq((&empty.thread, empty.at, empty.context.messages.len()), (&thread, None, 0))?;
    let side = Writer::having(given, "side", [note("beside"), user("x").with_side(true)]).await?;
    expect_eq(side.context().await?.context.messages.len(), 0)?;
    let cleared = Writer::having(given, "cleared", [user("a"), clear()]).await?;
    expect_eq(cleared.context().await?.context.messages.len(), 0)
}

/// A context has the messages with visibility `all` or `internal`, in order and unchanged. It has no messages with
/// visibility `aside`, no side entries and no entries with other bodies.
pub(crate) async fn a_context_has_only_messages_visible_to_the_model(given: &Given) -> Verdict {
    let seen = |name: &str, visibility| entry(name, Message::assistant(name).with_visibility(visibility));
    let writer = Writer::having(given, "t", [user("a"), seen("b", Visibility::Internal)]).await?;
    writer.accept([seen("c", Visibility::Aside), custom("d"), checkpoint("e", Some("x")), note("f")]).await?;
    let beside = user("g").with_side(true);
    writer.accept([beside, seen("h", Visibility::All), spent(1, 1).with_side(false), label("a", None)]).await?;
    let context = writer.context().await?.context;
    expect_eq(sketch(&context), "a b h")?;
    for message in &context.messages {
        let entry = writer.entry(message.entry.as_str()).await?;
        expect_eq(Some(&message.message), entry.message())?;
    }
    expect_eq((context.repairs.len(), context.left_out.len()), (0, 0))
}

/// An assistant message of this model. If there is no model, only the provider is known.
fn spoken(name: &str, model: Option<&str>) -> Message {
    let origin = Origin::new("provider");
    let mut provenance = Provenance::default();
    provenance.origin = Some(model.map_or_else(|| origin.clone(), |model| origin.clone().with_model(model)));
    Message::assistant(name).with_provenance(provenance)
}

fn by(name: &str, model: Option<&str>) -> NewEntry {
    entry(name, spoken(name, model))
}

/// A context names the provider and the model that were used last on its path.
pub(crate) async fn the_model_last_in_effect_is_named(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), by("b", Some("one")), user("c"), by("d", Some("two"))]).await?;
    writer.accept([user("e"), assistant("f")]).await?;
    let origin = |model: &str| Some(Origin::new("provider").with_model(model));
    for (at, wanted) in [("a", None), ("b", origin("one")), ("c", origin("one")), ("f", origin("two"))] {
        let found = writer.context_by(ContextRequest::at(id(at))).await?.context.origin;
        expect_eq(found, wanted).map_err(|failure| failure.about(at))?;
    }
    writer.accept([rewind("c")]).await?;
    expect_eq(writer.context().await?.context.origin, origin("one"))?;
    // The compaction covers the message of the model, but does not change which model was used last.
    writer.accept([compaction("g", "a", "c")]).await?;
    expect_eq(writer.context().await?.context.origin, origin("one"))?;
    // Nor does a later compaction that names no model, if an earlier one names a model.
    let other = Writer::new(given, "other");
    let mut said = Compaction::default();
    said.covers = Some(Interval::new(id("a"), id("b")));
    said.replacement = Some(vec![spoken("b", Some("one"))]);
    other.accept([user("a"), user("b"), entry("c", said), user("d"), compaction("e", "a", "d")]).await?;
    expect_eq(other.context().await?.context.origin, origin("one"))
}

/// The context of an entry never changes, whatever is committed later: results, compactions, forks, labels, rewinds.
pub(crate) async fn a_context_never_changes(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), calling("b", &["c1", "c2"]), answering("c", &["c1"])]).await?;
    writer.accept([user("d"), compaction("e", "a", "d"), user("f"), checkpoint("g", Some("x"))]).await?;
    let mut before = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        before.push((name, context_at(&writer, name).await?));
    }
    writer.accept([answering("h", &["c2"]), user("i"), compaction("j", "a", "f"), label("f", Some("y"))]).await?;
    writer.accept([user("k").below(id("b")), answering("l", &["c1", "c2"]), compaction("m", "a", "b")]).await?;
    writer.accept([rewind("f"), user("n"), clear(), user("o")]).await?;
    for (name, context) in before {
        expect_eq(context_at(&writer, name).await?, context).map_err(|failure| failure.about(name))?;
    }
    Ok(())
}

async fn context_at(writer: &Writer<'_>, name: &str) -> Result<store_core::Context, Failure> {
    Ok(writer.context_by(ContextRequest::at(id(name))).await?.context)
}

/// `load_context` is refused with `NotFound` for an unknown thread and for an unknown entry. The error names the thread
/// or the entry.
pub(crate) async fn an_unknown_thread_or_entry_is_not_found(given: &Given) -> Verdict {
    Writer::having(given, "t", users(&["a"])).await?;
    Writer::having(given, "other", users(&["foreign"])).await?;
    let threads = given.threads()?;
    for (thread, at, named) in
        [("unknown", None, "unknown"), ("unknown", Some("a"), "unknown"), ("t", Some("foreign"), "foreign")]
    {
        let request = at.map_or_else(ContextRequest::head, |at| ContextRequest::at(id(at)));
        let error = expect_kind(threads.load_context(&id(thread), request).await, ErrorKind::NotFound)?;
        let Detail::NotFound { what } = error.detail() else { return Err(Failure::new(format!("{error:?}"))) };
        expect_eq(what.id.as_str(), named)?;
    }
    Ok(())
}
