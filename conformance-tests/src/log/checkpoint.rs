//! Cases about checkpoints: their numbers, and rewinds to them.

use store_core::{
    Body, BodyKind, CommitCoordinatorExt, ErrorKind, Guard, Message, NewCheckpoint, NewEntry, Outcome, RewindTo,
};

use super::{
    entry_drafts::{
        checkpoint, label, numbered_checkpoint, rewind, rewind_to_start, side_entry, user_entries, user_entry,
    },
    writer::ThreadWriter,
};
use crate::{
    check::{Failure, Verdict, expect, expect_eq, expect_kind},
    given::{Given, id},
};

/// Returns a rewind to the nearest checkpoint with this number.
fn rewind_to_number(number: u64) -> NewEntry {
    NewEntry::new(RewindTo::Checkpoint(number))
}

/// Returns a rewind to the nearest checkpoint with this label.
fn rewind_to_label(name: &str) -> NewEntry {
    NewEntry::new(RewindTo::Label(name.to_owned()))
}

/// Returns the number of the checkpoint with the id `name`.
async fn checkpoint_number(writer: &ThreadWriter<'_>, name: &str) -> Result<u64, Failure> {
    match &*writer.load_entry(name).await?.body {
        Body::Checkpoint(checkpoint) => Ok(checkpoint.number),
        other => Err(Failure::new(format!("`{name}` is not a checkpoint, but {other:?}"))),
    }
}

/// A checkpoint without a given number gets the number of the nearest earlier checkpoint on its path plus 1, or 0 if
/// its path has no earlier checkpoint. A given number is kept.
pub(crate) async fn checkpoints_are_numbered_along_their_path(given: &Given) -> Verdict {
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("a"), checkpoint("zero", None), user_entry("b")]).await?;
    writer.expect_accepted([checkpoint("one", None), user_entry("c"), checkpoint("two", Some("named"))]).await?;
    writer.expect_accepted([checkpoint("other one", None).below(id("b"))]).await?;
    writer
        .expect_accepted([
            checkpoint("other zero", None).below(id("a")),
            numbered_checkpoint("forty", 40),
            user_entry("d"),
        ])
        .await?;
    writer
        .expect_accepted([checkpoint("forty-one", None), numbered_checkpoint("seven", 7), checkpoint("eight", None)])
        .await?;
    writer.expect_accepted([rewind_to_start(), checkpoint("first of a new root", None)]).await?;
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
        expect_eq(checkpoint_number(&writer, name).await?, wanted).map_err(|failure| failure.about(name))?;
    }
    Ok(())
}

/// A context belongs to an entry: the head, or the entry that the request names. The context says which number the next
/// checkpoint below this entry would get.
pub(crate) async fn a_context_has_the_next_checkpoint_number(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a"])).await?;
    expect_eq(writer.head_context().await?.next_checkpoint, 0)?;
    writer
        .expect_accepted([
            checkpoint("zero", None),
            numbered_checkpoint("nine", 9),
            side_entry("beside"),
            user_entry("b"),
        ])
        .await?;
    expect_eq(writer.head_context().await?.next_checkpoint, 10)?;
    for (name, next) in [("a", 0), ("zero", 1), ("nine", 10)] {
        let request = store_core::ContextRequest::at(id(name));
        expect_eq(writer.load_context(request).await?.next_checkpoint, next)?;
    }
    writer.expect_accepted([rewind_to_start()]).await?;
    expect_eq(writer.head_context().await?.next_checkpoint, 0)
}

/// A checkpoint and the message that announces it are written in one commit. The context then has that message.
pub(crate) async fn a_message_that_announces_a_checkpoint_is_committed_with_it(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a"])).await?;
    let thread_before = writer.load_thread().await?;
    let new_checkpoint = NewCheckpoint::new().with_label("saved").announced_by(Message::user("checkpoint 0"));
    let receipt = given.commits()?.checkpoint(Guard::from(&thread_before), new_checkpoint).await?;
    expect_eq(receipt.version.number(), 3)?;
    let kinds: Vec<_> = given.read_log(&writer.thread).await?.iter().map(|entry| entry.kind()).collect();
    expect_eq(kinds.iter().filter(|kind| **kind == BodyKind::Checkpoint).count(), 1)?;
    let context = writer.head_context().await?;
    expect_eq(context.next_checkpoint, 1)?;
    let last_message = context.context.messages.last().map(|message| &message.message);
    expect_eq(last_message, Some(&Message::user("checkpoint 0")))?;
    // Without an announcement only the checkpoint is written. A stale guard is refused.
    let receipt = given.commits()?.checkpoint(Guard::from(&receipt), NewCheckpoint::new()).await?;
    expect_eq(receipt.version.number(), 4)?;
    let stale = given.commits()?.checkpoint(Guard::from(&thread_before), NewCheckpoint::new()).await;
    expect_kind(stale, ErrorKind::Conflict).map(drop)
}

/// A rewind to a number finds the nearest checkpoint of this number on the path of the head. The entry before that
/// checkpoint becomes the head.
pub(crate) async fn a_rewind_by_number_finds_the_nearest_checkpoint(given: &Given) -> Verdict {
    let entries = [
        user_entry("a"),
        numbered_checkpoint("far", 5),
        user_entry("b"),
        numbered_checkpoint("near", 5),
        user_entry("c"),
        numbered_checkpoint("six", 6),
    ];
    let writer = ThreadWriter::with_entries(given, "t", entries).await?;
    writer.expect_accepted([numbered_checkpoint("elsewhere", 5).below(id("a")), rewind("six")]).await?;
    for (number, head) in [(6, "c"), (5, "b"), (5, "a")] {
        let receipt = writer.append([rewind_to_number(number)]).await?;
        expect_eq(receipt.head, Some(id(head)))?;
    }
    writer.expect_refused([rewind_to_number(5)], ErrorKind::NotFound).await?;
    writer.expect_accepted([rewind("six")]).await?;
    writer.expect_refused([rewind_to_number(7)], ErrorKind::NotFound).await?;
    // If the checkpoint is a root, no entry is before it. After the rewind the thread has no head.
    writer.expect_accepted([rewind_to_start(), checkpoint("root", None), user_entry("d")]).await?;
    expect_eq(writer.append([rewind_to_number(0)]).await?.head, None)
}

/// Of the checkpoints that currently have a name, a rewind to this name finds the nearest one on the path of the head.
pub(crate) async fn a_rewind_by_label_finds_the_nearest_checkpoint(given: &Given) -> Verdict {
    let entries =
        [user_entry("a"), checkpoint("one", Some("x")), user_entry("b"), checkpoint("two", Some("x")), user_entry("c")];
    let writer = ThreadWriter::with_entries(given, "t", entries).await?;
    writer.expect_accepted([user_entry("d").below(id("a")), checkpoint("three", Some("y")), rewind("c")]).await?;
    writer.expect_refused([rewind_to_label("y")], ErrorKind::NotFound).await?;
    expect_eq(writer.append([rewind_to_label("x")]).await?.head, Some(id("b")))?;
    writer.expect_accepted([rewind("c"), label("two", Some("z"))]).await?;
    expect_eq(writer.append([rewind_to_label("z")]).await?.head, Some(id("b")))?;
    writer.expect_accepted([rewind("c")]).await?;
    expect_eq(writer.append([rewind_to_label("x")]).await?.head, Some(id("a")))?;
    writer.expect_accepted([rewind("c"), label("one", None)]).await?;
    writer.expect_refused([rewind_to_label("x")], ErrorKind::NotFound).await?;
    // A label on an entry that is not a checkpoint does not name a checkpoint.
    writer.expect_accepted([label("c", Some("message"))]).await?;
    writer.expect_refused([rewind_to_label("message")], ErrorKind::NotFound).await.map(drop)
}

/// After a rewind to checkpoint n, the next checkpoint on that path gets the number n again.
pub(crate) async fn a_checkpoint_number_is_reused_after_a_rewind(given: &Given) -> Verdict {
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("a"), checkpoint("zero", None), user_entry("b")]).await?;
    writer
        .expect_accepted([checkpoint("one", None), user_entry("c"), checkpoint("two", None), user_entry("d")])
        .await?;
    writer.expect_accepted([rewind_to_number(1)]).await?;
    writer.expect_accepted([checkpoint("one again", None), user_entry("e"), checkpoint("two again", None)]).await?;
    expect_eq(checkpoint_number(&writer, "one again").await?, 1)?;
    expect_eq(checkpoint_number(&writer, "two again").await?, 2)?;
    expect_eq(writer.path_ids("two again").await?, "a zero b one again e two again")?;
    expect_eq(writer.path_ids("two").await?, "a zero b one c two")
}

/// After a checkpoint with the largest possible number, a checkpoint without a given number is refused. Nothing
/// panics, and the thread still accepts other entries.
pub(crate) async fn no_checkpoint_number_follows_the_largest(given: &Given) -> Verdict {
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("a"), numbered_checkpoint("last", u64::MAX)]).await?;
    expect_eq(checkpoint_number(&writer, "last").await?, u64::MAX)?;
    writer.head_context().await?;
    let commit = writer.guarded_commit().await?.entry(checkpoint("next", None));
    match given.commits()?.commit(commit).await {
        Ok(_) => return Err(Failure::new("a checkpoint got a number after the largest one")),
        Err(error) => expect(error.outcome() == Outcome::NotApplied, format!("{error:?}"))?,
    }
    writer.expect_accepted([user_entry("b"), rewind_to_number(u64::MAX)]).await?;
    expect_eq(writer.head_id().await?, "a")
}
