//! Cases about compactions: which intervals they may cover.

use store_core::ErrorKind;

use super::{
    entry_drafts::{compaction, side_entry, user_entries, user_entry},
    writer::ThreadWriter,
};
use crate::{
    check::{Verdict, expect_eq},
    given::{Given, id},
};

/// Both ends of the covered interval must be on the path of the compaction, before the compaction itself. The interval
/// must not begin after its end.
pub(crate) async fn an_interval_lies_on_the_path(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), user_entry("b"), side_entry("beside"), user_entry("c"), user_entry("d")],
    )
    .await?;
    writer.expect_accepted([user_entry("other").below(id("a"))]).await?;
    writer.expect_accepted([user_entry("e").below(id("d"))]).await?;
    for (from, to) in [
        ("unknown", "c"),
        ("a", "unknown"),
        ("other", "c"),
        ("a", "other"),
        ("beside", "c"),
        ("a", "beside"),
        ("c", "b"),
        ("a", "x"),
        ("x", "x"),
        ("a", "later"),
    ] {
        let entries = [compaction("x", from, to), user_entry("later")];
        let error = writer.expect_refused(entries, ErrorKind::Invalid).await;
        let error = error.map_err(|failure| failure.about(format!("{from} to {to}")))?;
        expect_eq(error.part(), Some("entries[0]"))?;
    }
    // The path of a compaction below `b` does not contain `c`. The path of a compaction below `c` does.
    writer.expect_refused([compaction("x", "a", "c").below(id("b"))], ErrorKind::Invalid).await?;
    writer.expect_accepted([compaction("x", "a", "c").below(id("c")), user_entry("f"), compaction("y", "f", "f")]).await
}

/// Two intervals on one path must have no entry in common, or one of them must contain all of the other. A compaction
/// whose interval breaks this rule is refused.
pub(crate) async fn intervals_do_not_partially_overlap(given: &Given) -> Verdict {
    let writer =
        ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c", "d", "e", "f", "g", "h"])).await?;
    writer.expect_accepted([compaction("first", "c", "e"), user_entry("i")]).await?;
    for (from, to) in [("a", "c"), ("b", "d"), ("d", "f"), ("e", "i"), ("d", "first"), ("a", "d")] {
        let error = writer.expect_refused([compaction("x", from, to)], ErrorKind::Invalid).await;
        error.map_err(|failure| failure.about(format!("{from} to {to}")))?;
    }
    for (at, (from, to)) in
        [("c", "e"), ("d", "d"), ("c", "d"), ("a", "b"), ("f", "i"), ("a", "i"), ("b", "first")].into_iter().enumerate()
    {
        // Each of these compactions is a child of `i`. The only other compaction on its path is therefore `first`.
        let entry = compaction(&format!("fits {at}"), from, to).below(id("i"));
        writer.expect_accepted([entry]).await.map_err(|failure| failure.about(format!("{from} to {to}")))?;
    }
    Ok(())
}

/// The interval of a compaction on another branch does not matter. The interval of an earlier compaction in the same
/// commit matters if both compactions are on one path.
pub(crate) async fn intervals_of_other_branches_do_not_matter(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c", "d", "e"])).await?;
    writer.expect_accepted([compaction("first", "a", "c")]).await?;
    writer.expect_accepted([compaction("other", "b", "d").below(id("e"))]).await?;
    let entries_of_both = [compaction("x", "a", "c").below(id("e")), compaction("y", "b", "d")];
    let error = writer.expect_refused(entries_of_both, ErrorKind::Invalid).await?;
    expect_eq(error.part(), Some("entries[1]"))
}
