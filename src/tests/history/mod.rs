//! Tests of compactions, cached contexts and copies of threads, on stores in memory and in files.

mod compactor;
mod context_cache;
mod thread_copy;

use std::sync::Arc;

use store_core::{
    Block, Commit, CommitCoordinator, CommitKey, ContextRequest, EntryId, IdSource, Json, Message, NewEntry, Role,
    TenantId, ThreadId, UuidSource,
};

use crate::Stores;

async fn memory() -> (Stores, Arc<dyn CommitCoordinator>) {
    let stores = crate::open("memory:").await.unwrap();
    let commits = stores.commits(&TenantId::default_tenant()).unwrap();
    (stores, commits)
}

fn thread() -> ThreadId {
    ThreadId::new("t").unwrap()
}

/// Returns an empty commit to the thread, whatever its version.
fn new_commit() -> Commit {
    Commit::new(thread()).with_key(CommitKey::new(UuidSource.next_id()).unwrap())
}

fn id(text: &str) -> EntryId {
    EntryId::new(text).unwrap()
}

/// A call of a tool.
fn call(call_id: &str) -> Message {
    Message::new(Role::Assistant, vec![Block::tool_use(call_id, "tool", Json::null())])
}

/// The result of a call.
fn result(call_id: &str, text: &str) -> Message {
    Message::new(Role::Tool, vec![Block::tool_result(call_id, vec![Block::text(text)])])
}

/// Commits messages whose entries have these ids.
async fn commit(commits: &dyn CommitCoordinator, entries: Vec<(&str, Message)>) {
    let entries = entries.into_iter().map(|(name, message)| NewEntry::new(message).with_id(id(name)));
    let _receipt = commits.commit(new_commit().entries(entries)).await.unwrap();
}

/// Returns the messages of the context of the head, each as the id of its entry. If a message is not in the log, `~`
/// precedes the id.
async fn context_ids(commits: &dyn CommitCoordinator) -> Vec<String> {
    let found = commits.threads().load_context(&thread(), ContextRequest::head()).await.unwrap();
    let name = |message: &store_core::ContextMessage| {
        if message.synthetic { format!("~{}", message.entry) } else { message.entry.to_string() }
    };
    found.context.messages.iter().map(name).collect()
}
