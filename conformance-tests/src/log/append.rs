//! Cases about appending: the sequence numbers, parents and ids of entries, and the head.

use std::{collections::BTreeSet, sync::Arc};

use store_core::{Commit, CommitCoordinator, ErrorKind, Json, Message, NewEntry, Receipt, StateChange, ThreadPatch};

use super::{
    entry_drafts::{compaction, custom_entry, label, rewind, rewind_to_start, side_entry, user_entries, user_entry},
    writer::ThreadWriter,
};
use crate::{
    check::{Failure, Verdict, expect, expect_eq},
    given::{Given, id, keyed_commit_with_message, run_concurrently},
};

/// Entries get consecutive sequence numbers, in the order in which the commit gives them. The receipt has the first of
/// these numbers and the ids of all entries, both those that were given and those that the store generated.
pub(crate) async fn entries_are_numbered_in_the_order_given(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    let first_receipt = writer.append(user_entries(&["a", "b", "c"])).await?;
    let second_receipt = writer.append([NewEntry::new(Message::user("generated")), side_entry("d")]).await?;
    expect_eq((first_receipt.first_seq, first_receipt.version.number()), (Some(1), 3))?;
    expect_eq((second_receipt.first_seq, second_receipt.version.number()), (Some(4), 5))?;
    let log = given.read_log(&writer.thread).await?;
    expect_eq(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), vec![1, 2, 3, 4, 5])?;
    let ids: Vec<_> = log.iter().map(|entry| entry.id.clone()).collect();
    expect_eq([first_receipt.entry_ids, second_receipt.entry_ids].concat(), ids.clone())?;
    expect_eq(ids.iter().collect::<BTreeSet<_>>().len(), 5)
}

/// With concurrent writers, no sequence number is missing, none is used twice, and the entries of each commit have
/// consecutive numbers.
pub(crate) async fn concurrent_writers_leave_no_gap(given: &Given) -> Verdict {
    const TASKS: usize = 8;
    const ROUNDS: usize = 12;
    let commits = given.commits()?;
    let write = |task: usize| commit_rounds(Arc::clone(&commits), task, ROUNDS);
    let receipts: Vec<Receipt> = run_concurrently(TASKS, write)
        .await
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect();
    let log = given.read_log(&id("t")).await?;
    let seqs: Vec<_> = log.iter().map(|entry| entry.seq).collect();
    expect_eq(seqs, (1..=log.len() as u64).collect::<Vec<_>>())?;
    expect_eq(receipts.len(), TASKS * ROUNDS)?;
    let mut ids_in_receipts = 0;
    for receipt in receipts {
        let first_seq = usize::try_from(receipt.first_seq.unwrap_or_default()).unwrap_or_default();
        for (at, entry) in receipt.entry_ids.iter().enumerate() {
            expect_eq(log.get(first_seq + at - 1).map(|entry| &entry.id), Some(entry))?;
            ids_in_receipts += 1;
        }
    }
    expect_eq(ids_in_receipts, log.len())
}

/// Makes `rounds` commits to the thread `t`, with one to three entries each. Returns the receipts.
async fn commit_rounds(
    commits: Arc<dyn CommitCoordinator>,
    task: usize,
    rounds: usize,
) -> Result<Vec<Receipt>, store_core::Error> {
    let mut receipts = Vec::new();
    for round in 0..rounds {
        let commit = keyed_commit_with_message(&id("t"), &format!("{task}-{round}"), "first");
        let more = (0..round % 3).map(|_| NewEntry::new(Message::assistant("more")));
        receipts.push(commits.commit(commit.entries(more)).await?);
    }
    Ok(receipts)
}

/// The parent of an entry that names no parent is the entry before it in the commit. Side entries are not counted. The
/// parent of the first entry is the head of the thread.
pub(crate) async fn each_entry_is_the_parent_of_the_next(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), side_entry("beside a"), user_entry("b"), side_entry("beside b")],
    )
    .await?;
    writer.expect_accepted([side_entry("also beside b"), user_entry("c")]).await?;
    for (name, parent) in
        [("a", ""), ("beside a", "a"), ("b", "a"), ("beside b", "b"), ("also beside b", "b"), ("c", "b")]
    {
        expect_eq(writer.parent_id(name).await?, parent).map_err(|failure| failure.about(name))?;
    }
    // In a thread without a head neither a side entry nor the entry after it gets a parent.
    let empty = ThreadWriter::with_entries(given, "empty", [side_entry("first"), user_entry("root")]).await?;
    expect_eq((empty.parent_id("first").await?, empty.parent_id("root").await?), (String::new(), String::new()))
}

/// Every entry that is not a side entry becomes the head when it is committed, whatever its body and its parent are.
pub(crate) async fn every_entry_but_a_side_entry_becomes_the_head(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b"])).await?;
    expect_eq(writer.head_id().await?, "b")?;
    let receipt = writer.append([user_entry("c").below(id("a"))]).await?;
    expect_eq((writer.head_id().await?, receipt.head), ("c".to_owned(), Some(id("c"))))?;
    for entry in [custom_entry("d"), compaction("e", "a", "c"), label("a", Some("x")).with_id(id("f")).with_side(false)]
    {
        let name = entry.id.clone();
        writer.expect_accepted([entry]).await?;
        expect_eq(writer.load_thread().await?.head, name)?;
    }
    let receipt = writer.append([side_entry("g"), label("a", None)]).await?;
    expect_eq((writer.head_id().await?, receipt.head), ("f".to_owned(), Some(id("f"))))
}

/// No later commit or update changes an entry.
pub(crate) async fn an_entry_never_changes(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b", "c"])).await?;
    let before = given.read_log(&writer.thread).await?;
    writer.expect_accepted([label("b", Some("x")), side_entry("d"), compaction("e", "a", "b")]).await?;
    writer.expect_accepted([rewind("a"), user_entry("f")]).await?;
    writer.expect_accepted([user_entry("g").below(id("b")), rewind_to_start()]).await?;
    let state = StateChange::new().set("k", Json::null());
    given.expect_accepted(Commit::new(writer.thread.clone()).with_state(state)).await?;
    let patch = ThreadPatch::default().with_title("new");
    given.threads()?.update_thread(&writer.thread, patch, store_core::Expect::Any).await?;
    let after = given.read_log(&writer.thread).await?;
    expect_eq(after.get(..3), Some(&before[..]))?;
    for entry in before {
        expect_eq(writer.load_entry(entry.id.as_str()).await?, entry)?;
    }
    Ok(())
}

/// An entry id that the thread already has, or that occurs twice in a commit, is refused. The branches and the contents
/// of the entries do not matter. Another thread may use the same id.
pub(crate) async fn an_entry_id_is_used_once(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), user_entry("b"), side_entry("c"), rewind("a").with_id(id("d"))],
    )
    .await?;
    for name in ["a", "b", "c", "d"] {
        let error = writer.expect_refused([user_entry("new"), user_entry(name)], ErrorKind::AlreadyExists).await?;
        expect_eq(error.part(), Some("entries[1]"))?;
        expect(error.to_string().contains(name), format!("the message does not name the id: {error}"))?;
    }
    let error = writer
        .expect_refused([user_entry("new"), side_entry("x"), user_entry("new")], ErrorKind::AlreadyExists)
        .await?;
    expect_eq(error.part(), Some("entries[2]"))?;
    let other_writer = ThreadWriter::with_entries(given, "other", user_entries(&["a", "b"])).await?;
    other_writer.expect_log_ids("a b").await
}

/// Of several concurrent commits with the same entry id, exactly one succeeds.
pub(crate) async fn one_of_several_commits_with_the_same_entry_id_succeeds(given: &Given) -> Verdict {
    for round in 0..20 {
        let commits = given.commits()?;
        let results = run_concurrently(4, |task| {
            let (commits, name) = (Arc::clone(&commits), format!("e{round}"));
            let commit =
                keyed_commit_with_message(&id("t"), &format!("{round}-{task}"), "before").entry(user_entry(&name));
            async move { commits.commit(commit).await }
        })
        .await;
        let (_, errors) = crate::check::expect_exactly_one(results)?;
        crate::check::expect_kinds(errors, ErrorKind::AlreadyExists)?;
    }
    let log = given.read_log(&id("t")).await?;
    expect_eq(log.len(), 40).map_err(|failure: Failure| failure.about("the length of the log"))
}
