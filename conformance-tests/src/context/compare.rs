//! Comparing two leaves: the common part of their paths, and the rest of each path.

use store_core::{ErrorKind, LogReaderExt, ParentRef};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_kind},
    given::{Given, id},
    log::{
        entry_drafts::{side_entry, user_entries, user_entry},
        writer::ThreadWriter,
    },
};

/// Returns the id of the last entry that both paths have, and the ids of the entries after it on either path.
async fn shared_and_separate_ids(writer: &ThreadWriter<'_>, left: &str, right: &str) -> Result<[String; 3], Failure> {
    let comparison = writer.given.threads()?.compare_leaves(&writer.thread, &id(left), &id(right)).await?;
    let shared = comparison.shared.map(|entry| entry.id.to_string()).unwrap_or_default();
    Ok([shared, writer.find_ids(comparison.left).await?, writer.find_ids(comparison.right).await?])
}

/// The paths of two leaves share their entries up to the point at which they separate. A comparison returns the last
/// shared entry, and the entries after it on either path.
pub(crate) async fn two_leaves_are_compared(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c", "d"])).await?;
    writer
        .expect_accepted([
            user_entry("e").below(id("b")),
            side_entry("beside"),
            user_entry("f"),
            user_entry("g").with_parent(ParentRef::Root),
        ])
        .await?;
    writer
        .expect_accepted([
            user_entry("h").below(id("a")),
            user_entry("i").below(id("f")),
            user_entry("j").below(id("d")),
        ])
        .await?;
    for (left, right, expected) in [
        ("j", "i", ["b", "c d j", "e f i"]),
        ("i", "j", ["b", "e f i", "c d j"]),
        ("h", "j", ["a", "h", "b c d j"]),
        ("b", "f", ["b", "", "e f"]),
        ("d", "d", ["d", "", ""]),
        ("g", "h", ["", "g", "a h"]),
    ] {
        expect_eq(shared_and_separate_ids(&writer, left, right).await?, expected.map(str::to_owned))?;
    }
    let threads = given.threads()?;
    let unknown = threads.compare_leaves(&writer.thread, &id("a"), &id("unknown")).await;
    expect_kind(unknown.map(|comparison| comparison.shared), ErrorKind::NotFound).map(drop)
}
