//! Commits whose futures are dropped before they end. The call must have its whole effect or none (PR-11). Reads show
//! which of the two happened.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use store_core::{ContextRequest, EntryQuery, EventQuery, PageRequest, RunFilter, RunQuery, Scope, ThreadId};

use super::{
    ops::CommitOp,
    pair::{Outcome, Pair, Side},
    seen::Seen,
};
use crate::check::Failure;

impl Pair {
    /// Runs a commit whose future is polled `polls` times and then dropped.
    pub(super) async fn dropped(&mut self, op: &CommitOp, polls: u8) -> Outcome {
        let (ours, theirs) = self.drafted(op).await?;
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
            return self.commit_twin(real, theirs).await;
        }
        let found = everything(&self.real, &thread).await?;
        let applied = self.model.forked();
        let twin = Side::of(&applied)?;
        let would = twin.commits.commit(theirs).await;
        let (with, without) = (everything(&twin, &thread).await?, everything(&self.twin, &thread).await?);
        if found == without {
            return Ok(());
        }
        if found == with && would.is_ok() {
            return self.take_model(applied);
        }
        Err(Failure::new(format!(
            "a dropped commit took effect in part: found {found}, with the commit {with}, without it {without}"
        )))
    }
}

/// Returns what a caller can read of a thread and of the outbox, as text.
async fn everything(side: &Side, thread: &ThreadId) -> Outcome<String> {
    let entries = EntryQuery::all().with_page(PageRequest::first(1_000));
    let events = EventQuery::new(Scope::Thread(thread.clone())).with_page(PageRequest::first(1_000));
    let mut filter = RunFilter::default();
    filter.thread = Some(thread.clone());
    let parts = [
        side.threads.load_thread(thread).await.seen(),
        side.threads.list_entries(thread, entries).await.seen(),
        side.threads.list_runs(RunQuery::new(filter)).await.seen(),
        side.threads.load_context(thread, ContextRequest::head()).await.seen(),
        side.pending.load_queue(thread).await.seen(),
        side.events.list_events(events).await.seen(),
        super::outbox::all(&*side.outbox).await.seen(),
    ];
    Ok(parts.join("\n"))
}
