//! Cases about usage: the tokens that were spent, and the size of the context.

use std::sync::Arc;

use store_core::{
    ContextRequest, Message, NewEntry, Run, RunChange, RunId, RunOutcome, RunStatus, TokenCounts, Usage, UsageRecord,
};

use super::{
    entry_drafts::{
        compaction, entry, rewind, rewind_to_start, usage_entry, usage_with_context_size, user_entries, user_entry,
    },
    writer::ThreadWriter,
};
use crate::{
    check::{Failure, Verdict, expect_eq, expect_some},
    given::{Given, id, run_concurrently},
};

fn assistant_with_usage(name: &str, tokens: TokenCounts) -> NewEntry {
    entry(name, Message::assistant(name).with_usage(Usage::from(tokens)))
}

async fn load_run(given: &Given, name: &str) -> Result<Run, Failure> {
    expect_some(given.threads()?.load_run(&id(name)).await?, "run")
}

async fn start_run(writer: &ThreadWriter<'_>, name: &str) -> Verdict {
    let run = RunChange::new(id(name), RunStatus::Running).with_agent(id("agent"));
    writer.given.expect_accepted(writer.guarded_commit().await?.with_run(run)).await
}

/// The tokens that messages and usage records report are added up for the thread and for each run. Entries of every
/// branch count.
pub(crate) async fn token_usage_is_summed(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    start_run(&writer, "one").await?;
    start_run(&writer, "two").await?;
    let mut tokens = TokenCounts::new(1, 2);
    (tokens.cache_read, tokens.cache_write, tokens.reasoning) = (4, 8, 16);
    let in_run_one = |entry: NewEntry| entry.with_run(id::<RunId>("one"), Some(1));
    writer
        .expect_accepted([
            user_entry("a"),
            in_run_one(assistant_with_usage("b", tokens.clone())),
            in_run_one(usage_entry(100, 200)),
        ])
        .await?;
    writer.expect_accepted([rewind("a"), usage_entry(1_000, 0).with_run(id("two"), None), usage_entry(0, 5)]).await?;
    let done_run = RunChange::new(id("one"), RunStatus::done(RunOutcome::NaturalEnd));
    let last_commit = writer
        .guarded_commit()
        .await?
        .with_run(done_run)
        .entry(in_run_one(assistant_with_usage("c", TokenCounts::new(7, 7))));
    given.expect_accepted(last_commit).await?;
    writer.expect_accepted([rewind_to_start()]).await?;
    let mut sum = tokens.plus(&TokenCounts::new(107, 207));
    expect_eq(&load_run(given, "one").await?.spent, &sum)?;
    expect_eq(load_run(given, "two").await?.spent, TokenCounts::new(1_000, 0))?;
    sum = sum.plus(&TokenCounts::new(1_000, 5));
    expect_eq(writer.load_thread().await?.usage, sum)?;
    expect_eq(load_run(given, "one").await?.usage, TokenCounts::default())
}

/// The sums of tokens are exact while several tasks commit at the same time.
pub(crate) async fn sums_are_exact_under_concurrent_writers(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    start_run(&writer, "one").await?;
    let commits = given.commits()?;
    let results = run_concurrently(8, |task| {
        let (commits, thread) = (Arc::clone(&commits), writer.thread.clone());
        async move {
            for round in 0..10 {
                let entry = usage_entry(1, task as u64).with_run(id("one"), None);
                let commit = store_core::Commit::new(thread.clone()).entry(entry);
                let _receipt = commits.commit(commit.with_key(id(&format!("{task}-{round}")))).await?;
            }
            Ok::<(), store_core::Error>(())
        }
    })
    .await;
    results.into_iter().collect::<Result<Vec<_>, _>>()?;
    expect_eq(writer.load_thread().await?.usage, TokenCounts::new(80, 280))?;
    expect_eq(load_run(given, "one").await?.spent, TokenCounts::new(80, 280))
}

/// A context reports the newest context size on its path. The size comes from the usage of a message, or from a usage
/// record whose parent is on the path.
pub(crate) async fn a_context_has_the_newest_context_size(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a"])).await?;
    expect_eq(writer.head_context().await?.context_size, None)?;
    for (entry, size) in [
        (usage_with_context_size("s1", 100), 100),
        (user_entry("b"), 100),
        (usage_with_context_size("s2", 50), 50),
        (usage_with_context_size("s3", 70), 70),
    ] {
        writer.expect_accepted([entry]).await?;
        expect_eq(writer.head_context().await?.context_size, Some(size))?;
    }
    let mut usage = UsageRecord::default();
    usage.spent = Some(TokenCounts::new(9, 9));
    writer.expect_accepted([NewEntry::new(usage)]).await?;
    expect_eq(writer.head_context().await?.context_size, Some(70))?;
    let mut tokens = TokenCounts::new(10, 3);
    (tokens.cache_read, tokens.cache_write, tokens.reasoning) = (20, 30, 1);
    writer.expect_accepted([assistant_with_usage("m", tokens)]).await?;
    let size = expect_some(writer.head_context().await?.context_size, "context size")?;
    // The size contains all input tokens, which are 60. The contract does not say whether it also contains the 3
    // output tokens.
    expect_eq((60..=63).contains(&size), true)?;
    // A context size is never added to the sums of tokens.
    expect_eq(writer.load_thread().await?.usage.input, 19)
}

/// After a compaction the context size is unknown. After a rewind it is again the size that was known at the target of
/// the rewind.
pub(crate) async fn a_context_size_belongs_to_its_path(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [user_entry("a"), usage_with_context_size("s1", 10), user_entry("b"), usage_with_context_size("s2", 20)],
    )
    .await?;
    let context_at = |name: &str| writer.load_context(ContextRequest::at(id(name)));
    writer.expect_accepted([user_entry("c"), compaction("d", "a", "b"), user_entry("e")]).await?;
    expect_eq(writer.head_context().await?.context_size, None)?;
    writer.expect_accepted([usage_with_context_size("s3", 5)]).await?;
    expect_eq(writer.head_context().await?.context_size, Some(5))?;
    expect_eq(context_at("c").await?.context_size, Some(20))?;
    writer.expect_accepted([rewind("c")]).await?;
    expect_eq(writer.head_context().await?.context_size, Some(20))?;
    writer.expect_accepted([rewind("a")]).await?;
    expect_eq(writer.head_context().await?.context_size, Some(10))?;
    writer.expect_accepted([user_entry("f")]).await?;
    expect_eq(writer.head_context().await?.context_size, Some(10))?;
    writer.expect_accepted([rewind_to_start()]).await?;
    expect_eq(writer.head_context().await?.context_size, None)?;
    // A usage record that is itself on the path says nothing about the size of the context at its parent.
    let other_writer = ThreadWriter::with_entries(
        given,
        "other",
        [user_entry("a"), usage_with_context_size("s", 10).with_side(false), user_entry("b")],
    )
    .await?;
    let context_at = |name: &str| other_writer.load_context(ContextRequest::at(id(name)));
    expect_eq((context_at("a").await?.context_size, context_at("b").await?.context_size), (None, Some(10)))
}
