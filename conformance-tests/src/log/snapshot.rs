//! Cases about snapshots, which are checkpoints with a name: listing, renaming and restoring them.

use store_core::{ErrorKind, NewEntry, PageRequest, RewindTo};

use super::{
    entry_drafts::{
        checkpoint, label, numbered_checkpoint, rewind, rewind_to_start, side_entry, user_entries, user_entry,
    },
    writer::ThreadWriter,
};
use crate::{
    check::{Failure, Verdict, expect_eq},
    given::{Given, id, read_all_pages},
};

/// Returns a rewind to the newest snapshot with this name.
fn rewind_to_snapshot(name: &str) -> NewEntry {
    NewEntry::new(RewindTo::Snapshot(name.to_owned()))
}

/// Returns the names and entries of the snapshots, as `name=entry`.
async fn snapshots_as_text(writer: &ThreadWriter<'_>) -> Result<String, Failure> {
    let threads = writer.given.threads()?;
    let snapshots = read_all_pages(PageRequest::first(2), |page| threads.list_snapshots(&writer.thread, page)).await?;
    Ok(snapshots.iter().map(|snapshot| format!("{}={}", snapshot.name, snapshot.entry)).collect::<Vec<_>>().join(" "))
}

/// Checkpoints that have a name are listed by name, then by sequence number, each with its entry, number, time and
/// path length.
pub(crate) async fn snapshots_are_listed_by_name(given: &Given) -> Verdict {
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("a"), checkpoint("c1", Some("b")), checkpoint("c2", None)])
            .await?;
    writer
        .expect_accepted([
            numbered_checkpoint("c3", 9),
            checkpoint("c4", Some("a")),
            user_entry("x"),
            checkpoint("c5", Some("b")),
        ])
        .await?;
    writer.expect_accepted([rewind_to_start(), checkpoint("c6", Some("B"))]).await?;
    expect_eq(snapshots_as_text(&writer).await?, "B=c6 a=c4 b=c1 b=c5")?;
    let threads = given.threads()?;
    let snapshots = threads.list_snapshots(&writer.thread, PageRequest::default()).await?.items;
    for (snapshot, (length, number)) in snapshots.iter().zip([(1, 0), (5, 10), (2, 0), (7, 11)]) {
        let entry = writer.load_entry(snapshot.entry.as_str()).await?;
        expect_eq((snapshot.path_length, snapshot.number), (length, number))?;
        expect_eq((snapshot.seq, snapshot.timestamp), (entry.seq, entry.timestamp))?;
    }
    expect_eq(threads.list_snapshots(&id("unknown"), PageRequest::default()).await?.items, vec![])
}

/// A label on a checkpoint names or renames it, and a label without text removes the name. Of several labels the newest
/// one applies. The entries themselves do not change.
pub(crate) async fn a_label_renames_a_snapshot(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), checkpoint("c1", Some("old")), checkpoint("c2", None)],
    )
    .await?;
    let log = given.read_log(&writer.thread).await?;
    writer.expect_accepted([label("c1", Some("new")), label("c2", Some("late"))]).await?;
    expect_eq(snapshots_as_text(&writer).await?, "late=c2 new=c1")?;
    writer.expect_accepted([label("c1", Some("x")), label("c1", Some("y")), label("a", Some("no snapshot"))]).await?;
    expect_eq(snapshots_as_text(&writer).await?, "late=c2 y=c1")?;
    writer.expect_accepted([label("c1", None)]).await?;
    expect_eq(snapshots_as_text(&writer).await?, "late=c2")?;
    writer.expect_refused([rewind_to_snapshot("y")], ErrorKind::NotFound).await?;
    writer.expect_refused([rewind_to_snapshot("old")], ErrorKind::NotFound).await?;
    writer.expect_accepted([label("c1", Some("back"))]).await?;
    expect_eq(snapshots_as_text(&writer).await?, "back=c1 late=c2")?;
    expect_eq(given.read_log(&writer.thread).await?.get(..3), Some(&log[..]))
}

/// Restoring a snapshot rewinds to the newest checkpoint with its name, whatever branch the checkpoint is on. The entry
/// before the checkpoint becomes the head.
pub(crate) async fn a_snapshot_is_restored_from_any_branch(given: &Given) -> Verdict {
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("a"), checkpoint("c1", Some("x")), user_entry("b")]).await?;
    writer
        .expect_accepted([user_entry("c").below(id("a")), checkpoint("c2", Some("x")), user_entry("d"), rewind("b")])
        .await?;
    expect_eq(writer.append([rewind_to_snapshot("x")]).await?.head, Some(id("c")))?;
    writer.expect_accepted([rewind("b"), label("c2", Some("y"))]).await?;
    expect_eq(writer.append([rewind_to_snapshot("x")]).await?.head, Some(id("a")))?;
    expect_eq(writer.append([rewind_to_snapshot("y")]).await?.head, Some(id("c")))?;
    writer.expect_accepted([user_entry("e"), rewind_to_start(), checkpoint("c3", Some("x")), user_entry("f")]).await?;
    expect_eq(writer.append([rewind_to_snapshot("x")]).await?.head, None)?;
    writer.expect_refused([rewind_to_snapshot("unknown")], ErrorKind::NotFound).await.map(drop)
}

/// The target of a label must be an earlier entry of the thread or of the commit. It may be on any branch, and may be a
/// side entry.
pub(crate) async fn a_label_needs_an_existing_target(given: &Given) -> Verdict {
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("a"), side_entry("beside"), user_entry("b"), rewind("a")])
            .await?;
    ThreadWriter::with_entries(given, "other", user_entries(&["foreign"])).await?;
    for target in ["unknown", "foreign", "later"] {
        let error = writer.expect_refused([label(target, Some("x")), user_entry("later")], ErrorKind::Invalid).await;
        expect_eq(error.map_err(|failure| failure.about(target))?.part(), Some("entries[0]"))?;
    }
    let receipt = writer.append([label("beside", Some("x")), label("b", None), label("a", Some("y"))]).await?;
    expect_eq(receipt.head, Some(id("a")))?;
    writer.expect_accepted([checkpoint("c", None), label("c", Some("same commit"))]).await?;
    expect_eq(snapshots_as_text(&writer).await?, "same commit=c")
}
