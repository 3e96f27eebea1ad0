//! Commits whose futures are dropped early. Such a commit must have its whole effect or none (PR-11). Reads show which
//! of the two happened.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use store_core::{ContextRequest, EntryQuery, EventQuery, PageRequest, RunFilter, RunQuery, Scope, ThreadId};

use super::{
    comparable::Comparable,
    ops::CommitOp,
    pair::{StepResult, StoreHandles, StoreModelPair},
};
use crate::check::Failure;

impl StoreModelPair {
    /// Runs a commit whose future is polled `polls` times and then dropped.
    pub(super) async fn run_dropped_commit(&mut self, op: &CommitOp, polls: u8) -> StepResult {
        let (store_commit, model_commit) = self.draft_commits(op).await?;
        let thread = store_commit.thread.clone();
        let mut answer = None;
        {
            let commits = Arc::clone(&self.store.commits);
            let mut call = commits.commit(store_commit);
            for _ in 0..polls {
                if let Poll::Ready(result) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    answer = Some(result);
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        if let Some(store_answer) = answer {
            return self.commit_on_model(store_answer, model_commit).await;
        }
        let store_data = readable_data(&self.store, &thread).await?;
        let model_with_commit = self.model_store.independent_copy();
        let handles_with_commit = StoreHandles::new(&model_with_commit)?;
        let model_answer = handles_with_commit.commits.commit(model_commit).await;
        let (data_with_commit, data_without_commit) =
            (readable_data(&handles_with_commit, &thread).await?, readable_data(&self.model, &thread).await?);
        if store_data == data_without_commit {
            return Ok(());
        }
        if store_data == data_with_commit && model_answer.is_ok() {
            return self.replace_model(model_with_commit);
        }
        Err(Failure::new(format!(
            "a dropped commit took effect in part: found {store_data}, with the commit {data_with_commit}, without it {data_without_commit}"
        )))
    }
}

/// Returns the data that a caller can read of a thread and of the outbox, as text.
async fn readable_data(handles: &StoreHandles, thread: &ThreadId) -> StepResult<String> {
    let entries = EntryQuery::all().with_page(PageRequest::first(1_000));
    let events = EventQuery::new(Scope::Thread(thread.clone())).with_page(PageRequest::first(1_000));
    let mut filter = RunFilter::default();
    filter.thread = Some(thread.clone());
    let parts = [
        handles.threads.load_thread(thread).await.comparable_text(),
        handles.threads.list_entries(thread, entries).await.comparable_text(),
        handles.threads.list_runs(RunQuery::new(filter)).await.comparable_text(),
        handles.threads.load_context(thread, ContextRequest::head()).await.comparable_text(),
        handles.pending.load_queue(thread).await.comparable_text(),
        handles.events.list_events(events).await.comparable_text(),
        super::outbox::list_all_rows(&*handles.outbox).await.comparable_text(),
    ];
    Ok(parts.join("\n"))
}
