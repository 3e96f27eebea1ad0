//! Functions that the tests of faults share.

use std::sync::Arc;

use store_core::{
    AgentId, AppendEvents, Commit, CommitCoordinator, CommitKey, Error, Json, Message, NewEntry, NewEvent,
    NewOutboxRow, Outcome, Result, RunChange, RunId, RunStatus, Scope, StateChange, Store, TenantId, TenantStores,
    ThreadId,
};

pub(crate) fn stores(store: &dyn Store) -> TenantStores {
    store.tenant(&TenantId::default_tenant()).unwrap()
}

pub(crate) fn commits(store: &dyn Store) -> Arc<dyn CommitCoordinator> {
    stores(store).commits.unwrap()
}

pub(crate) fn thread(name: impl std::fmt::Display) -> ThreadId {
    ThreadId::new(name.to_string()).unwrap()
}

/// Returns a commit with a key and one entry.
pub(crate) fn commit_with_message(to: &ThreadId, key: &str) -> Commit {
    Commit::new(to.clone()).with_key(CommitKey::new(key).unwrap()).entry(NewEntry::new(Message::user(key)))
}

/// Returns the commit with this number, from 1. It writes one record of each kind.
pub(crate) fn commit_with_all_parts(to: &ThreadId, number: u64) -> Commit {
    let run = RunId::new(format!("run of {to}")).unwrap();
    let change = RunChange::new(run, RunStatus::Running).with_agent(AgentId::new("a").unwrap());
    let event = NewEvent::new(format!("n-{number}").parse().unwrap(), [Scope::Thread(to.clone())]);
    let row = NewOutboxRow::new("l".parse().unwrap(), "x".parse().unwrap(), Json::parse(&number.to_string()).unwrap());
    commit_with_message(to, &number.to_string())
        .with_run(change)
        .with_state(StateChange::new().set("n", Json::parse(&number.to_string()).unwrap()))
        .with_events(AppendEvents::new([event]))
        .with_outbox([row])
}

/// Returns whether the answer says that the call had no effect.
pub(crate) fn was_not_applied(answer: &Result<impl Sized, Error>) -> bool {
    answer.as_ref().is_err_and(|error| error.outcome() == Outcome::NotApplied)
}
