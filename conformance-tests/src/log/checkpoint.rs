//! Cases about checkpoints: their numbers, and rewinds to them.

use store_core::{
    Body, BodyKind, CommitCoordinatorExt, ErrorKind, Guard, Message, NewCheckpoint, NewEntry, Outcome, RewindTo,
};

use super::{
    draft::{checkpoint, clear, label, note, numbered, rewind, user, users},
    writer::Writer,
};
use crate::{
    check::{Failure, Verdict, expect, expect_eq, expect_kind},
    given::{Given, id},
};

fn to_number(number: u64) -> NewEntry {
    NewEntry::new(RewindTo::Checkpoint(number))
}

fn to_label(name: &str) -> NewEntry {
    NewEntry::new(RewindTo::Label(name.to_owned()))
}

/// Returns the number of the checkpoint with the id `name`.
async fn number(writer: &Writer<'_>, name: &str) -> Result<u64, Failure> {
    match &*writer.entry(name).await?.body {
        Body::Checkpoint(checkpoint) => Ok(checkpoint.number),
        other => Err(Failure::new(format!("`{name}` is not a checkpoint, but {other:?}"))),
    }
}

/// A checkpoint that is given no number gets the number that follows that of the nearest checkpoint above it, or 0 if
/// there is none. A number that is given is kept.
pub(crate) async fn checkpoints_are_numbered_along_their_path(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), checkpoint("zero", None), user("b")]).await?;
    writer.accept([checkpoint("one", None), user("c"), checkpoint("two", Some("named"))]).await?;
    writer.accept([checkpoint("other one", None).below(id("b"))]).await?;
    writer.accept([checkpoint("other zero", None).below(id("a")), numbered("forty", 40), user("d")]).await?;
    writer.accept([checkpoint("forty-one", None), numbered("seven", 7), checkpoint("eight", None)]).await?;
    writer.accept([clear(), checkpoint("first of a new root", None)]).await?;
    for (name, wanted) in [
        ("zero", 0),
        ("one", 1),
        ("two", 2),
        ("other one", 1),
        ("other zero", 0),
        ("forty", 40),
        ("forty-one", 41),
        ("seven", 7),
        ("eight", 8),
        ("first of a new root", 0),
    ] {
        expect_eq(number(&writer, name).await?, wanted).map_err(|failure| failure.about(name))?;
    }
    Ok(())
}

/// The context of the head, or of any other entry, has the number that the next checkpoint below this entry would get.
pub(crate) async fn a_context_has_the_next_checkpoint_number(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", users(&["a"])).await?;
    expect_eq(writer.context().await?.next_checkpoint, 0)?;
    writer.accept([checkpoint("zero", None), numbered("nine", 9), note("beside"), user("b")]).await?;
    expect_eq(writer.context().await?.next_checkpoint, 10)?;
    for (name, next) in [("a", 0), ("zero", 1), ("nine", 10)] {
        let request = store_core::ContextRequest::at(id(name));
        expect_eq(writer.context_by(request).await?.next_checkpoint, next)?;
    }
    writer.accept([clear()]).await?;
    expect_eq(writer.context().await?.next_checkpoint, 0)
}

/// A checkpoint and the message that announces it are written in one commit. The context then has that message.
pub(crate) async fn an_announcement_is_written_with_its_checkpoint(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", users(&["a"])).await?;
    let before = writer.load().await?;
    let new = NewCheckpoint::new().with_label("saved").announced_by(Message::user("checkpoint 0"));
    let receipt = given.commits()?.checkpoint(Guard::from(&before), new).await?;
    expect_eq(receipt.version.number(), 3)?;
    let kinds: Vec<_> = given.log(&writer.thread).await?.iter().map(|entry| entry.kind()).collect();
    expect_eq(kinds.iter().filter(|kind| **kind == BodyKind::Checkpoint).count(), 1)?;
    let context = writer.context().await?;
    expect_eq(context.next_checkpoint, 1)?;
    let last = context.context.messages.last().map(|message| &message.message);
    expect_eq(last, Some(&Message::user("checkpoint 0")))?;
    // Without an announcement only the checkpoint is written. A stale guard is refused.
    let receipt = given.commits()?.checkpoint(Guard::from(&receipt), NewCheckpoint::new()).await?;
    expect_eq(receipt.version.number(), 4)?;
    let stale = given.commits()?.checkpoint(Guard::from(&before), NewCheckpoint::new()).await;
    expect_kind(stale, ErrorKind::Conflict).map(drop)
}

/// A rewind to a number finds the nearest checkpoint of this number on the path of the head. The entry before that
/// checkpoint becomes the head.
pub(crate) async fn a_rewind_finds_the_nearest_number(given: &Given) -> Verdict {
    let first = [user("a"), numbered("far", 5), user("b"), numbered("near", 5), user("c"), numbered("six", 6)];
    let writer = Writer::having(given, "t", first).await?;
    writer.accept([numbered("elsewhere", 5).below(id("a")), rewind("six")]).await?;
    for (number, head) in [(6, "c"), (5, "b"), (5, "a")] {
        let receipt = writer.append([to_number(number)]).await?;
        expect_eq(receipt.head, Some(id(head)))?;
    }
    writer.refuse([to_number(5)], ErrorKind::NotFound).await?;
    writer.accept([rewind("six")]).await?;
    writer.refuse([to_number(7)], ErrorKind::NotFound).await?;
    // If the checkpoint is a root, no entry is before it. After the rewind the thread has no head.
    writer.accept([clear(), checkpoint("root", None), user("d")]).await?;
    expect_eq(writer.append([to_number(0)]).await?.head, None)
}

/// A rewind to a label finds the nearest checkpoint on the path of the head that currently has this name.
pub(crate) async fn a_rewind_finds_the_nearest_label(given: &Given) -> Verdict {
    let first = [user("a"), checkpoint("one", Some("x")), user("b"), checkpoint("two", Some("x")), user("c")];
    let writer = Writer::having(given, "t", first).await?;
    writer.accept([user("d").below(id("a")), checkpoint("three", Some("y")), rewind("c")]).await?;
    writer.refuse([to_label("y")], ErrorKind::NotFound).await?;
    expect_eq(writer.append([to_label("x")]).await?.head, Some(id("b")))?;
    writer.accept([rewind("c"), label("two", Some("z"))]).await?;
    expect_eq(writer.append([to_label("z")]).await?.head, Some(id("b")))?;
    writer.accept([rewind("c")]).await?;
    expect_eq(writer.append([to_label("x")]).await?.head, Some(id("a")))?;
    writer.accept([rewind("c"), label("one", None)]).await?;
    writer.refuse([to_label("x")], ErrorKind::NotFound).await?;
    // A label on an entry that is not a checkpoint does not name a checkpoint.
    writer.accept([label("c", Some("message"))]).await?;
    writer.refuse([to_label("message")], ErrorKind::NotFound).await.map(drop)
}

/// After a rewind to checkpoint n, the next checkpoint on that path gets the number n again.
pub(crate) async fn a_checkpoint_number_is_reused_after_a_rewind(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), checkpoint("zero", None), user("b")]).await?;
    writer.accept([checkpoint("one", None), user("c"), checkpoint("two", None), user("d")]).await?;
    writer.accept([to_number(1)]).await?;
    writer.accept([checkpoint("one again", None), user("e"), checkpoint("two again", None)]).await?;
    expect_eq(number(&writer, "one again").await?, 1)?;
    expect_eq(number(&writer, "two again").await?, 2)?;
    expect_eq(writer.path("two again").await?, "a zero b one again e two again")?;
    expect_eq(writer.path("two").await?, "a zero b one c two")
}

/// After a checkpoint with the largest possible number, a checkpoint that is given no number is refused. Nothing
/// panics, and the thread still accepts other entries.
pub(crate) async fn numbers_end(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), numbered("last", u64::MAX)]).await?;
    expect_eq(number(&writer, "last").await?, u64::MAX)?;
    writer.context().await?;
    let commit = writer.commit().await?.entry(checkpoint("next", None));
    match given.commits()?.commit(commit).await {
        Ok(_) => return Err(Failure::new("a checkpoint got a number after the largest one")),
        Err(error) => expect(error.outcome() == Outcome::NotApplied, format!("{error:?}"))?,
    }
    writer.accept([user("b"), to_number(u64::MAX)]).await?;
    expect_eq(writer.head().await?, "a")
}
