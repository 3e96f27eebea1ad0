//! Ids of threads and commits: thread, parent, resource, entry, run, agent, dispatch of a run, commit key, state key.

use store_core::{
    AgentId, ClaimNumber, ClaimToken, Commit, CommitCoordinator, ContextRequest, EntryId, EntryQuery, Expect, Fence,
    Json, NewThread, ParentFilter, RunChange, RunFilter, RunId, RunQuery, RunStatus, StateChange, ThreadFields,
    ThreadFilter, ThreadId, ThreadPatch, ThreadQuery,
};

use crate::{
    Failure, Verdict,
    check::{expect, expect_eq},
    given::{id, message_entry},
};

/// A commit that uses `text` wherever it takes an id.
fn commit_with_id_everywhere(text: &str) -> Commit {
    let mut fields = ThreadFields::default();
    fields.resource_id = Some(id(text));
    let mut run = RunChange::new(id(text), RunStatus::Running).with_agent(id(text));
    run.dispatch = Some(id(text));
    let fence = Fence::new(id(text), ClaimToken::new(text), 1, ClaimNumber { incarnation: 0, counter: 1 });
    let first_entry = message_entry("a").with_id(id(text)).with_run(id(text), None);
    Commit::new(id(text))
        .expecting(Expect::Absent)
        .with_key(id(text))
        .creating(fields)
        .fenced(fence)
        .entry(first_entry)
        .entry(message_entry("b").below(id(text)))
        .with_run(run)
        .with_state(StateChange::new().set(text, Json::null()))
}

/// Writes records with `text` as each of their ids.
pub(super) async fn write_records(commits: &dyn CommitCoordinator, text: &str) -> Verdict {
    let receipt = commits.commit(commit_with_id_everywhere(text)).await?;
    expect_eq((receipt.deduplicated, receipt.version.number()), (false, 2))
}

/// Checks that the thread, entries and run of `text` are found by each id.
pub(super) async fn expect_found_by_each_id(commits: &dyn CommitCoordinator, text: &str) -> Verdict {
    let (threads, thread, entry): (_, ThreadId, EntryId) = (commits.threads(), id(text), id(text));
    let (run, agent): (RunId, AgentId) = (id(text), id(text));
    let loaded = threads.load_thread(&thread).await?.ok_or_else(|| Failure::new("the thread does not exist"))?;
    expect_eq((loaded.resource_id, loaded.latest_run), (Some(id(text)), Some(run.clone())))?;
    let mut filter = ThreadFilter::default();
    filter.resource_id = Some(id(text));
    expect_eq(threads.list_threads(ThreadQuery::new(filter)).await?.items.len(), 1)?;
    expect(threads.load_entry(&thread, &entry).await?.is_some(), "the entry does not exist")?;
    let mut children_query = EntryQuery::all();
    (children_query.children_of, children_query.run) = (Some(entry.clone()), None);
    expect_eq(threads.list_entries(&thread, children_query).await?.items.len(), 1)?;
    expect_eq(threads.list_entries(&thread, EntryQuery::path_of(entry.clone())).await?.items.len(), 1)?;
    expect_eq(threads.load_run(&run).await?.map(|run| run.dispatches), Some(vec![id(text)]))?;
    let mut run_filter = RunFilter::default();
    (run_filter.thread, run_filter.agent) = (Some(thread.clone()), Some(agent));
    expect_eq(threads.list_runs(RunQuery::new(run_filter)).await?.items.len(), 1)?;
    let context = threads.load_context(&thread, ContextRequest::at(entry)).await?;
    expect(context.state.contains_key(text), "the state lacks the key")?;
    expect(commits.commit(commit_with_id_everywhere(text)).await?.deduplicated, "the repeat was not deduplicated")
}

/// Checks that each text works as the parent of one thread, and that all texts together work as commit keys, entry ids
/// and state keys of one thread.
pub(super) async fn expect_texts_work_together(commits: &dyn CommitCoordinator, texts: &[String]) -> Verdict {
    let threads = commits.threads();
    threads.create_thread(NewThread::new(id("child"))).await?;
    for text in texts {
        let patch = ThreadPatch::default().with_parent(Some(id(text)));
        threads.update_thread(&id("child"), patch, Expect::Any).await?;
        let mut filter = ThreadFilter::default();
        filter.parent = Some(ParentFilter::Of(id(text)));
        let children = threads.list_threads(ThreadQuery::new(filter)).await?.items;
        let children: Vec<_> = children.iter().map(|thread| thread.id.as_str()).collect();
        expect_eq(children, ["child"]).map_err(|failure| failure.about(text))?;
        let commit = Commit::new(id("one log")).with_key(id(text)).entry(message_entry(text).with_id(id(text)));
        let receipt = commits.commit(commit.with_state(StateChange::new().set(text, Json::of(text)?))).await?;
        expect(!receipt.deduplicated, format!("the first commit with the key {text:?} was deduplicated"))?;
    }
    let context = threads.load_context(&id("one log"), ContextRequest::head()).await?;
    expect_eq(context.state.len(), texts.len())?;
    // Besides the threads of the texts there are `child` and `one log`.
    expect_eq(threads.count_threads(&ThreadFilter::default()).await?, texts.len() as u64 + 2)
}
