//! Cases about snapshots, which are checkpoints with a name: listing, renaming and restoring them.

use store_core::{ErrorKind, NewEntry, PageRequest, RewindTo};

use super::{
    draft::{checkpoint, clear, label, note, numbered, rewind, user, users},
    writer::Writer,
};
use crate::{
    check::{Failure, Verdict, expect_eq},
    given::{Given, id, walk},
};

/// Returns a rewind to the newest snapshot with this name.
fn restore(name: &str) -> NewEntry {
    NewEntry::new(RewindTo::Snapshot(name.to_owned()))
}

/// Returns the names and entries of the snapshots, as `name=entry`.
async fn snapshots(writer: &Writer<'_>) -> Result<String, Failure> {
    let threads = writer.given.threads()?;
    let all = walk(PageRequest::first(2), |page| threads.list_snapshots(&writer.thread, page)).await?;
    Ok(all.iter().map(|snapshot| format!("{}={}", snapshot.name, snapshot.entry)).collect::<Vec<_>>().join(" "))
}

/// Checkpoints that have a name are listed by name, then by sequence number, each with its entry, number, time and
/// path length.
pub(crate) async fn snapshots_are_listed_by_name(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), checkpoint("c1", Some("b")), checkpoint("c2", None)]).await?;
    writer.accept([numbered("c3", 9), checkpoint("c4", Some("a")), user("x"), checkpoint("c5", Some("b"))]).await?;
    writer.accept([clear(), checkpoint("c6", Some("B"))]).await?;
    expect_eq(snapshots(&writer).await?, "B=c6 a=c4 b=c1 b=c5")?;
    let threads = given.threads()?;
    let all = threads.list_snapshots(&writer.thread, PageRequest::default()).await?.items;
    for (snapshot, (length, number)) in all.iter().zip([(1, 0), (5, 10), (2, 0), (7, 11)]) {
        let entry = writer.entry(snapshot.entry.as_str()).await?;
        expect_eq((snapshot.path_length, snapshot.number), (length, number))?;
        expect_eq((snapshot.seq, snapshot.timestamp), (entry.seq, entry.timestamp))?;
    }
    expect_eq(threads.list_snapshots(&id("unknown"), PageRequest::default()).await?.items, vec![])
}

/// A label on a checkpoint names or renames it, and a label without text removes the name. Of several labels the newest
/// one applies. The entries themselves do not change.
pub(crate) async fn a_label_renames_a_snapshot(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), checkpoint("c1", Some("old")), checkpoint("c2", None)]).await?;
    let log = given.log(&writer.thread).await?;
    writer.accept([label("c1", Some("new")), label("c2", Some("late"))]).await?;
    expect_eq(snapshots(&writer).await?, "late=c2 new=c1")?;
    writer.accept([label("c1", Some("x")), label("c1", Some("y")), label("a", Some("no snapshot"))]).await?;
    expect_eq(snapshots(&writer).await?, "late=c2 y=c1")?;
    writer.accept([label("c1", None)]).await?;
    expect_eq(snapshots(&writer).await?, "late=c2")?;
    writer.refuse([restore("y")], ErrorKind::NotFound).await?;
    writer.refuse([restore("old")], ErrorKind::NotFound).await?;
    writer.accept([label("c1", Some("back"))]).await?;
    expect_eq(snapshots(&writer).await?, "back=c1 late=c2")?;
    expect_eq(given.log(&writer.thread).await?.get(..3), Some(&log[..]))
}

/// Restoring a name rewinds to the newest checkpoint with that name, whatever branch the checkpoint is on. The entry
/// before the checkpoint becomes the head.
pub(crate) async fn a_name_is_restored_from_any_branch(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), checkpoint("c1", Some("x")), user("b")]).await?;
    writer.accept([user("c").below(id("a")), checkpoint("c2", Some("x")), user("d"), rewind("b")]).await?;
    expect_eq(writer.append([restore("x")]).await?.head, Some(id("c")))?;
    writer.accept([rewind("b"), label("c2", Some("y"))]).await?;
    expect_eq(writer.append([restore("x")]).await?.head, Some(id("a")))?;
    expect_eq(writer.append([restore("y")]).await?.head, Some(id("c")))?;
    writer.accept([user("e"), clear(), checkpoint("c3", Some("x")), user("f")]).await?;
    expect_eq(writer.append([restore("x")]).await?.head, None)?;
    writer.refuse([restore("unknown")], ErrorKind::NotFound).await.map(drop)
}

/// The target of a label must be an earlier entry of the thread or of the commit. It may be on any branch, and may be a
/// side entry.
pub(crate) async fn a_label_needs_an_existing_target(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [user("a"), note("beside"), user("b"), rewind("a")]).await?;
    Writer::having(given, "other", users(&["foreign"])).await?;
    for target in ["unknown", "foreign", "later"] {
        let error = writer.refuse([label(target, Some("x")), user("later")], ErrorKind::Invalid).await;
        expect_eq(error.map_err(|failure| failure.about(target))?.part(), Some("entries[0]"))?;
    }
    let receipt = writer.append([label("beside", Some("x")), label("b", None), label("a", Some("y"))]).await?;
    expect_eq(receipt.head, Some(id("a")))?;
    writer.accept([checkpoint("c", None), label("c", Some("same commit"))]).await?;
    expect_eq(snapshots(&writer).await?, "same commit=c")
}
