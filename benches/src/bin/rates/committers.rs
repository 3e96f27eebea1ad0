//! Measures committers: tasks that commit and wait for each answer. Each committer writes to its own thread.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use store_core::{
    AgentId, AppendEvents, Commit, CommitCoordinator, CommitKey, Expect, Json, Message, NewEntry, NewEvent,
    NewOutboxRow, RunChange, RunId, RunStatus, Scope, Store, TenantId, ThreadId,
};
use store_postgres::PostgresStore;

use crate::BODY_BYTES;

/// What a commit contains.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CommitShape {
    /// One entry.
    Entry,
    /// An entry, a commit key and a run.
    Run,
    /// An entry, a commit key, a run, an event and an outbox row.
    AllParts,
}

impl CommitShape {
    pub(crate) const ALL: [Self; 3] = [Self::Entry, Self::Run, Self::AllParts];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Run => "entry, key, run",
            Self::AllParts => "entry, key, run, event, outbox",
        }
    }

    fn new_commit(self, thread: &ThreadId, number: u64) -> Result<Commit> {
        let entry = NewEntry::new(Message::user("x".repeat(BODY_BYTES)));
        let commit = Commit::new(thread.clone()).entry(entry);
        if matches!(self, Self::Entry) {
            return Ok(commit);
        }
        let run = RunChange::new(RunId::new(format!("run of {thread}"))?, RunStatus::Running);
        let commit =
            commit.with_key(CommitKey::new(number.to_string())?).with_run(run.with_agent(AgentId::new("bench")?));
        if matches!(self, Self::Run) {
            return Ok(commit);
        }
        let event = NewEvent::new("bench.done".parse()?, [Scope::Thread(thread.clone())]);
        let row = NewOutboxRow::new("bench".parse()?, "nowhere".parse()?, Json::parse("{}")?);
        Ok(commit.with_events(AppendEvents::new([event])).with_outbox([row]))
    }
}

/// Returns the commits per second that `count` committers reach together. The names of their threads begin with
/// `thread_prefix`.
pub(crate) async fn rate(
    store: &PostgresStore,
    shape: CommitShape,
    (count, thread_prefix): (usize, &str),
    duration: Duration,
) -> Result<f64> {
    let commits = store.tenant(&TenantId::default_tenant())?.commits.context("the store has no threads")?;
    let mut committer_tasks = Vec::new();
    for number in 0..count {
        let thread = ThreadId::new(format!("{thread_prefix}-{number}"))?;
        committer_tasks.push(tokio::spawn(run_committer(Arc::clone(&commits), shape, thread, duration)));
    }
    let mut total = 0;
    for task in committer_tasks {
        total += task.await??;
    }
    Ok(f64::from(u32::try_from(total)?) / duration.as_secs_f64())
}

async fn run_committer(
    commits: Arc<dyn CommitCoordinator>,
    shape: CommitShape,
    thread: ThreadId,
    duration: Duration,
) -> Result<u64> {
    let (start, mut commit_count, mut expect) = (Instant::now(), 0, Expect::Absent);
    while start.elapsed() < duration {
        let receipt = commits.commit(shape.new_commit(&thread, commit_count)?.expecting(expect)).await?;
        expect = Expect::Version(receipt.version);
        commit_count += 1;
    }
    Ok(commit_count)
}
