//! Many concurrent tasks on one store.

use std::sync::Arc;

use store_core::{
    AgentId, ChildStrategy, Commit, CommitCoordinator, CommitKey, DeleteRequest, EntryQuery, ErrorKind, Expect,
    IgnoreProgress, Message, NewEntry, NewThread, PageRequest, RunChange, RunId, RunStatus, Store, TenantId, ThreadId,
    ThreadQuery,
};
use store_memory::{MemoryConfig, MemoryStore};

const TASKS: usize = 64;
const THREADS: usize = 8;
const COMMITS: usize = 50;
const CHILDREN: usize = 20;

fn commits_of_new_store() -> Arc<dyn CommitCoordinator> {
    let store = MemoryStore::open(MemoryConfig::default()).unwrap();
    store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap()
}

fn thread_id(index: usize) -> ThreadId {
    ThreadId::new(format!("t-{}", index % THREADS)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn logs_have_no_gaps_after_concurrent_commits() {
    let commits = commits_of_new_store();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let commits = Arc::clone(&commits);
            tokio::spawn(async move {
                for number in 0..COMMITS {
                    let key = CommitKey::new(format!("{task}-{number}")).unwrap();
                    let commit = Commit::new(thread_id(task + number)).with_key(key);
                    let commit = commit.entry(NewEntry::new(Message::user("a")));
                    let _ = commits.commit(commit.entry(NewEntry::new(Message::assistant("b")))).await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let threads = commits.threads();
    let mut total = 0;
    for index in 0..THREADS {
        let stored = threads.load_thread(&thread_id(index)).await.unwrap().unwrap();
        let mut query = EntryQuery::all().with_page(PageRequest::first(1000));
        let mut next = 1;
        loop {
            let page = threads.list_entries(&thread_id(index), query.clone()).await.unwrap();
            for entry in &page.items {
                assert_eq!(entry.seq, next);
                next += 1;
            }
            let Some(cursor) = page.next else { break };
            query.page = query.page.after(cursor);
        }
        assert_eq!(stored.version.number(), next - 1);
        total += stored.version.number();
    }
    assert_eq!(total, (TASKS * COMMITS * 2) as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_one_of_several_threads_can_create_a_run_with_a_given_id() {
    let commits = commits_of_new_store();
    for round in 0..200 {
        let run = RunId::new(format!("r-{round}")).unwrap();
        let tasks: Vec<_> = (0..THREADS)
            .map(|index| {
                let commits = Arc::clone(&commits);
                let change = RunChange::new(run.clone(), RunStatus::Running).with_agent(AgentId::new("a").unwrap());
                tokio::spawn(async move { commits.commit(Commit::new(thread_id(index)).with_run(change)).await })
            })
            .collect();
        let mut success_count = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => success_count += 1,
                Err(error) => assert!(matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::LimitExceeded)),
            }
        }
        assert_eq!(success_count, 1);
        let threads = commits.threads();
        let owner = threads.load_run(&run).await.unwrap().unwrap().thread;
        let completion = RunChange::new(run, RunStatus::done(store_core::RunOutcome::NaturalEnd));
        let _ = commits.commit(Commit::new(owner).expecting(Expect::Any).with_run(completion)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_list_shows_all_threads_of_a_family_or_none() {
    let threads = commits_of_new_store().threads();
    let id = |name: String| ThreadId::new(name).unwrap();
    for round in 0..50 {
        let parent = id(format!("p-{round}"));
        let _ = threads.create_thread(NewThread::new(parent.clone())).await.unwrap();
        for child in 0..CHILDREN {
            let mut draft = NewThread::new(id(format!("c-{round}-{child}")));
            draft.fields.parent_thread_id = Some(parent.clone());
            let _ = threads.create_thread(draft).await.unwrap();
        }
        let deletion = {
            let threads = Arc::clone(&threads);
            tokio::spawn(async move {
                let cascade = DeleteRequest { children: ChildStrategy::Cascade, expect: Expect::Any };
                threads.delete_thread(&parent, cascade).await
            })
        };
        loop {
            let query = ThreadQuery::default().with_page(PageRequest::first(1000));
            let listed_count = threads.list_threads(query).await.unwrap().items.len();
            assert!(listed_count == 0 || listed_count == CHILDREN + 1, "{listed_count} threads");
            if listed_count == 0 {
                break;
            }
        }
        assert_eq!(deletion.await.unwrap().unwrap().deleted.len(), CHILDREN + 1);
    }
    assert_eq!(threads.purge_deleted(&IgnoreProgress).await.unwrap(), 50 * (CHILDREN as u64 + 1));
    assert_eq!(threads.purge_deleted(&IgnoreProgress).await.unwrap(), 0);
}
