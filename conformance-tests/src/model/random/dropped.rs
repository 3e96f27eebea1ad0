//! Commits whose futures are dropped before they end. The call must have its whole effect or none (PR-11). Reads show
//! which of the two happened.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use store_core::{ContextRequest, EntryQuery, EventQuery, PageRequest, RunFilter, RunQuery, Scope, ThreadId};

use super::{
    comparable::Comparable,
    ops::CommitOp,
    pair::{Outcome, Pair, Side},
};
use crate::check::Failure;

impl Pair {
    /// Runs a commit whose future is polled `polls` times and then dropped.
    pub(super) async fn commit_dropped(&mut self, op: &CommitOp, polls: u8) -> Outcome {
        let (ours, theirs) = self.draft_commits(op).await?;
        let thread = ours.thread.clone();
        let mut answer = None;
        {
            let commits = Arc::clone(&self.real.commits);
            let mut call = commits.commit(ours);
            for _ in 0..polls {
                if let Poll::Ready(result) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    answer = Some(result);
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        if let Some(real) = answer {
            return self.commit_on_model(real, theirs).await;
        }
        let found = readable_data(&self.real, &thread).await?;
        let applied = self.model_store.independent_copy();
        let model = Side::of(&applied)?;
        let would = model.commits.commit(theirs).await;
        let (with, without) = (readable_data(&model, &thread).await?, readable_data(&self.model, &thread).await?);
        if found == without {
            return Ok(());
        }
        if found == with && would.is_ok() {
            return self.replace_model(applied);
        }
        Err(Failure::new(format!(
            "a dropped commit took effect in part: found {found}, with the commit {with}, without it {without}"
        )))
    }
}

/// Returns what a caller can read of a thread and of the outbox, as text.
async fn readable_data(side: &Side, thread: &ThreadId) -> Outcome<String> {
    let entries = EntryQuery::all().with_page(PageRequest::first(1_000));
    let events = EventQuery::new(Scope::Thread(thread.clone())).with_page(PageRequest::first(1_000));
    let mut filter = RunFilter::default();
    filter.thread = Some(thread.clone());
    let parts = [
        side.threads.load_thread(thread).await.comparable_text(),
        side.threads.list_entries(thread, entries).await.comparable_text(),
        side.threads.list_runs(RunQuery::new(filter)).await.comparable_text(),
        side.threads.load_context(thread, ContextRequest::head()).await.comparable_text(),
        side.pending.load_queue(thread).await.comparable_text(),
        side.events.list_events(events).await.comparable_text(),
        super::outbox::all(&*side.outbox).await.comparable_text(),
    ];
    Ok(parts.join("\n"))
}
