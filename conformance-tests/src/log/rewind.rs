//! Cases about rewinds: the head moves, and nothing is deleted.

use store_core::{CommitCoordinatorExt, ContextRequest, ErrorKind, Fork, Guard, Label, NewEntry, RewindTo};

use super::{
    entry_drafts::{checkpoint, rewind, rewind_to_start, side_entry, user_entries, user_entry},
    writer::ThreadWriter,
};
use crate::{
    check::{Verdict, expect, expect_eq, expect_kind},
    given::{Given, id},
};

/// A rewind moves the head to its target: to an earlier entry, to a later one, or to another branch. Every entry can
/// still be read.
pub(crate) async fn a_rewind_moves_the_head(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c"])).await?;
    for target in ["a", "c", "b"] {
        let receipt = writer.append([rewind(target)]).await?;
        expect_eq((receipt.head, writer.head_id().await?), (Some(id(target)), target.to_owned()))?;
    }
    writer.expect_accepted([user_entry("d")]).await?;
    writer.expect_accepted([rewind("c")]).await?;
    let receipt = writer.append([rewind_to_start()]).await?;
    expect_eq((receipt.head, writer.head_id().await?), (None, String::new()))?;
    expect_eq(receipt.version.number(), 9)?;
    for (name, path) in [("c", "a b c"), ("d", "a b d")] {
        expect_eq(writer.load_entry(name).await?.id.as_str(), name)?;
        expect_eq(writer.path_ids(name).await?, path)?;
    }
    expect_eq(given.read_log(&writer.thread).await?.len(), 9)
}

/// A rewind is refused if its target does not exist, belongs to another thread, comes later in the commit, or is a
/// side entry.
pub(crate) async fn a_rewind_needs_a_valid_target(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), side_entry("beside"), rewind("a").with_id(id("back"))],
    )
    .await?;
    ThreadWriter::with_entries(given, "other", user_entries(&["foreign"])).await?;
    for target in ["unknown", "foreign", "beside", "back", "later"] {
        let error = writer.expect_refused([rewind(target), user_entry("later")], ErrorKind::Invalid).await;
        let error = error.map_err(|failure| failure.about(target))?;
        expect_eq(error.part(), Some("entries[0]"))?;
    }
    Ok(())
}

/// A rewind and the entries after it in the same commit take effect together. The parent of the first of these entries
/// is the target of the rewind.
pub(crate) async fn a_rewind_and_the_entries_after_it_take_effect_together(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b"])).await?;
    writer
        .expect_accepted([
            user_entry("c"),
            rewind("a"),
            side_entry("beside a"),
            user_entry("d"),
            rewind_to_start(),
            user_entry("e"),
            user_entry("f"),
        ])
        .await?;
    for (name, parent) in [("c", "b"), ("beside a", "a"), ("d", "a"), ("e", ""), ("f", "e")] {
        expect_eq(writer.parent_id(name).await?, parent).map_err(|failure| failure.about(name))?;
    }
    // The target of a rewind may be in the same commit, and a rewind may be the last entry of a commit.
    writer.expect_accepted([user_entry("g"), user_entry("h"), rewind("g"), user_entry("i"), rewind("h")]).await?;
    expect_eq((writer.parent_id("i").await?, writer.head_id().await?), ("g".to_owned(), "h".to_owned()))
}

/// After a rewind and new entries, the entries of the abandoned branch keep their ids, sequence numbers, path and
/// context.
pub(crate) async fn an_abandoned_branch_stays_as_it_was(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c"])).await?;
    let (log, context) = (given.read_log(&writer.thread).await?, writer.head_context().await?.context);
    writer.expect_accepted([rewind("a")]).await?;
    writer.expect_accepted(user_entries(&["d", "e"])).await?;
    expect_eq(given.read_log(&writer.thread).await?.get(..3), Some(&log[..]))?;
    expect_eq(writer.path_ids("c").await?, "a b c")?;
    expect_eq(writer.path_ids("e").await?, "a d e")?;
    expect_eq(writer.leaf_ids().await?, "c e")?;
    expect_eq(writer.load_context(ContextRequest::at(id("c"))).await?.context, context)
}

/// A rewind is always a side entry. A draft that says otherwise is refused, or is stored as a side entry.
pub(crate) async fn a_rewind_is_always_a_side_entry(given: &Given) -> Verdict {
    let targets = [
        RewindTo::Start,
        RewindTo::Entry(id("a")),
        RewindTo::Checkpoint(0),
        RewindTo::Label("name".to_owned()),
        RewindTo::Snapshot("name".to_owned()),
    ];
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("a"), checkpoint("b", Some("name")), user_entry("c")])
            .await?;
    for (at, target) in targets.into_iter().enumerate() {
        writer.expect_accepted([rewind("c")]).await?;
        let name = format!("rewind {at}");
        let draft = NewEntry::new(target).with_id(id(&name)).with_side(false);
        let commit = writer.guarded_commit().await?.entry(draft);
        match given.commits()?.commit(commit).await {
            Ok(_) => expect(writer.load_entry(&name).await?.side, format!("`{name}` is not a side entry"))?,
            Err(error) => expect_eq(error.kind(), ErrorKind::Invalid)?,
        }
    }
    expect_eq(writer.leaf_ids().await?, "c")
}

/// After a rewind to the start of the log, before the first entry, the context is empty. The log still has every entry.
pub(crate) async fn a_rewind_to_the_start_keeps_the_log(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b"])).await?;
    writer.expect_accepted([rewind_to_start().with_id(id("cleared"))]).await?;
    let context = writer.head_context().await?;
    expect_eq((context.at, context.context.messages.len()), (None, 0))?;
    writer.expect_log_ids("a b cleared").await?;
    writer.expect_accepted(user_entries(&["c"])).await?;
    expect_eq(writer.path_ids("c").await?, "c")?;
    expect_eq(writer.head_context().await?.context.messages.len(), 1)?;
    writer.expect_accepted([rewind("b")]).await?;
    expect_eq(writer.head_context().await?.context.messages.len(), 2)
}

/// Each of the methods `fork`, `rewind`, `clear` and `label` makes exactly one commit, under the guard that the caller
/// gives.
pub(crate) async fn convenience_methods_make_single_commits(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b"])).await?;
    let (commits, thread_before) = (given.commits()?, writer.load_thread().await?);
    let fork = Fork::below(id("a")).entries(user_entries(&["c", "d"]));
    let receipt = commits.fork(Guard::from(&thread_before), fork.clone()).await?;
    expect_eq((writer.path_ids("d").await?.as_str(), writer.path_ids("b").await?.as_str()), ("a c d", "a b"))?;
    let receipt = commits.rewind(Guard::from(&receipt), RewindTo::Entry(id("c"))).await?;
    expect_eq((receipt.head.clone(), receipt.version.number()), (Some(id("c")), 5))?;
    let receipt = commits.label(Guard::from(&receipt), Label::new(id("b"), Some("x".to_owned()))).await?;
    let receipt = commits.clear(Guard::from(&receipt)).await?;
    expect_eq((receipt.head.clone(), receipt.version.number()), (None, 7))?;
    let receipt = commits.fork(Guard::from(&receipt), Fork::root().entries(user_entries(&["e", "f"]))).await?;
    expect_eq((writer.path_ids("f").await?, receipt.version.number()), ("e f".to_owned(), 9))?;
    expect_kind(commits.fork(Guard::from(&thread_before), fork).await, ErrorKind::Conflict)?;
    expect_kind(commits.clear(Guard::from(&thread_before)).await, ErrorKind::Conflict).map(drop)
}
