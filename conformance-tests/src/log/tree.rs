//! Cases about the tree of entries: parents, roots, side entries, leaves, branch points.

use store_core::{BranchPoint, EntryQuery, ErrorKind, Leaf, PageRequest, ParentRef, Timestamp};

use super::{
    entry_drafts::{rewind, rewind_to_start, side_entry, user_entries, user_entry},
    writer::ThreadWriter,
};
use crate::{
    check::{Verdict, expect, expect_eq},
    given::{Given, id, read_all_pages},
};

/// The parent of an entry must be an earlier entry of the thread or of the commit, and must not be a side entry. Any
/// other parent is refused with `Invalid`, and the error names the parent.
pub(crate) async fn a_parent_is_an_earlier_entry(given: &Given) -> Verdict {
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("a"), side_entry("beside"), user_entry("b")]).await?;
    ThreadWriter::with_entries(given, "other", user_entries(&["foreign"])).await?;
    for parent in ["unknown", "beside", "foreign", "x", "later"] {
        let entries = [user_entry("first"), user_entry("x").below(id(parent)), user_entry("later")];
        let error = writer.expect_refused(entries, ErrorKind::Invalid).await.map_err(|f| f.about(parent))?;
        expect_eq(error.part(), Some("entries[1]"))?;
        expect(error.to_string().contains(parent), format!("the message does not name the parent: {error}"))?;
    }
    let child_of_side_entry = [side_entry("mine"), user_entry("x").below(id("mine"))];
    writer.expect_refused(child_of_side_entry, ErrorKind::Invalid).await?;
    writer
        .expect_accepted([
            user_entry("c").below(id("a")),
            user_entry("d").below(id("c")),
            user_entry("e").below(id("c")),
        ])
        .await?;
    for (name, parent) in [("c", "a"), ("d", "c"), ("e", "c")] {
        expect_eq(writer.parent_id(name).await?, parent)?;
    }
    Ok(())
}

/// The parent `Root` makes the entry a new root, even if the log already has a root.
pub(crate) async fn a_new_root_can_be_started(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b"])).await?;
    writer.expect_accepted([user_entry("c").with_parent(ParentRef::Root), user_entry("d")]).await?;
    expect_eq(writer.load_entry("c").await?.parent.clone(), None)?;
    expect_eq(writer.path_ids("d").await?, "c d")?;
    expect_eq(writer.path_ids("b").await?, "a b")?;
    expect_eq(writer.head_id().await?, "d")
}

/// A side entry has a parent, does not move the head, and is not a leaf. No path contains it.
pub(crate) async fn a_side_entry_is_on_no_path(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b"])).await?;
    let receipt =
        writer.append([side_entry("x"), user_entry("y").with_side(true), side_entry("z").below(id("a"))]).await?;
    expect_eq(receipt.head, Some(id("b")))?;
    expect_eq(receipt.version.number(), 5)?;
    for (name, parent) in [("x", "b"), ("y", "b"), ("z", "a")] {
        expect(writer.load_entry(name).await?.side, format!("`{name}` is not a side entry"))?;
        expect_eq(writer.parent_id(name).await?, parent)?;
    }
    expect_eq(writer.leaf_ids().await?, "b")?;
    writer.expect_accepted(user_entries(&["c"])).await?;
    expect_eq(writer.path_ids("c").await?, "a b c")?;
    expect_eq(writer.leaf_ids().await?, "c")?;
    expect_eq(writer.load_thread().await?.leaves, 1)
}

/// A fork does not change the entries, sequence numbers, paths, leaves or contexts of other branches.
pub(crate) async fn a_fork_leaves_other_branches_alone(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c"])).await?;
    let log_before = given.read_log(&writer.thread).await?;
    let context = writer.load_context(store_core::ContextRequest::at(id("c"))).await?.context;
    writer.expect_accepted([user_entry("d").below(id("a")), user_entry("e"), user_entry("f").below(id("b"))]).await?;
    expect_eq(given.read_log(&writer.thread).await?.get(..3), Some(&log_before[..]))?;
    for (leaf, path) in [("c", "a b c"), ("e", "a d e"), ("f", "a b f")] {
        expect_eq(writer.path_ids(leaf).await?, path)?;
    }
    expect_eq(writer.leaf_ids().await?, "c e f")?;
    expect_eq(writer.load_context(store_core::ContextRequest::at(id("c"))).await?.context, context)
}

/// A leaf is an entry that is not a side entry and has no children except side entries. Leaves are listed by sequence
/// number, each with its time and the length of its path.
pub(crate) async fn leaves_are_listed_by_sequence(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c"])).await?;
    let time = Timestamp::from_millis(1_234)?;
    writer
        .expect_accepted([
            user_entry("d").below(id("b")).with_timestamp(time),
            side_entry("beside"),
            user_entry("e").below(id("a")),
        ])
        .await?;
    writer
        .expect_accepted([
            user_entry("f").with_parent(ParentRef::Root),
            rewind("e"),
            user_entry("g"),
            rewind_to_start(),
        ])
        .await?;
    let threads = given.threads()?;
    let leaves = read_all_pages(PageRequest::first(2), |page| threads.list_leaves(&writer.thread, page)).await?;
    let mut wanted = Vec::new();
    for (name, length) in [("c", 3), ("d", 3), ("f", 1), ("g", 3)] {
        let entry = writer.load_entry(name).await?;
        wanted.push(Leaf::new(id(name), entry.seq, length, entry.timestamp));
    }
    expect_eq(leaves.get(1).map(|leaf| leaf.timestamp), Some(time))?;
    expect_eq(leaves, wanted)?;
    expect_eq(writer.load_thread().await?.leaves, 4)?;
    expect_eq(threads.list_leaves(&id("unknown"), PageRequest::default()).await?.items, vec![])
}

/// Branch points are the entries with at least two children that are not side entries. They are listed by sequence
/// number. If the log has several roots, the list begins with a branch point that names no entry.
pub(crate) async fn branch_points_are_listed_by_sequence(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), user_entry("b"), user_entry("c"), side_entry("beside b").below(id("b"))],
    )
    .await?;
    let threads = given.threads()?;
    let list = || read_all_pages(PageRequest::first(1), |page| threads.list_branch_points(&writer.thread, page));
    expect_eq(list().await?, vec![])?;
    writer
        .expect_accepted([
            user_entry("d").below(id("b")),
            user_entry("e").below(id("a")),
            user_entry("f").below(id("b")),
        ])
        .await?;
    let point = |name: &str, children| BranchPoint::new(Some(id(name)), children);
    expect_eq(list().await?, vec![point("a", 2), point("b", 3)])?;
    writer
        .expect_accepted([
            user_entry("g").with_parent(ParentRef::Root),
            side_entry("root beside").with_parent(ParentRef::Root),
        ])
        .await?;
    writer.expect_accepted([rewind_to_start(), user_entry("h")]).await?;
    expect_eq(list().await?, vec![BranchPoint::new(None, 3), point("a", 2), point("b", 3)])?;
    expect_eq(threads.list_branch_points(&id("unknown"), PageRequest::default()).await?.items, vec![])
}

/// In a large tree, the list of a path follows the parents, in either direction, no matter in which order the tree
/// grew.
pub(crate) async fn paths_of_a_large_tree_follow_the_parents(given: &Given) -> Verdict {
    const SIZE: usize = 400;
    let writer = ThreadWriter::new(given, "t");
    let mut parents = vec![None];
    let mut entries = vec![user_entry("0")];
    for at in 1..SIZE {
        // The parent of most entries is the previous entry. Every 17th entry begins a branch below an older entry.
        let parent = if at % 17 == 0 { at * 7 / 17 } else { at - 1 };
        parents.push(Some(parent));
        entries.push(user_entry(&at.to_string()).below(id(&parent.to_string())));
    }
    while !entries.is_empty() {
        let later_entries = entries.split_off(entries.len().min(90));
        writer.expect_accepted(std::mem::replace(&mut entries, later_entries)).await?;
    }
    for leaf in (0..SIZE).step_by(29) {
        let mut path: Vec<_> = std::iter::successors(Some(leaf), |&at| parents[at]).map(|at| at.to_string()).collect();
        let query = EntryQuery::path_of(id(&leaf.to_string()));
        let backward = writer.find_ids(query.with_direction(store_core::Direction::Backward)).await?;
        expect_eq(backward, path.join(" "))?;
        path.reverse();
        expect_eq(writer.path_ids(&leaf.to_string()).await?, path.join(" "))?;
    }
    Ok(())
}
