//! Logs, runs, keys and state. Each tenant has a run and an entry with the id `own_id` in the thread `same`, which all
//! tenants have.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Commit, CommitCoordinator, ContextRequest, DeleteRequest, EntryQuery, ErrorKind, Expect, Json, NewBody, NewEntry,
    PageRequest, RunChange, RunFilter, RunOutcome, RunQuery, RunStatus, StateChange, ThreadId, ThreadRunStore,
};

use super::{TenantActions, TenantUnderTest, require_store};
use crate::{
    Failure, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    given::{id, keyed_commit_with_message, message_entry},
};

pub(super) struct LogActions;

fn commits(tenant: &TenantUnderTest) -> Result<&dyn CommitCoordinator, Failure> {
    require_store(tenant.stores.commits.as_ref())
}

fn threads(tenant: &TenantUnderTest) -> Result<Arc<dyn ThreadRunStore>, Failure> {
    commits(tenant).map(CommitCoordinator::threads)
}

#[async_trait]
impl TenantActions for LogActions {
    async fn write_records(&self, tenant: &TenantUnderTest) -> Verdict {
        let run = RunChange::new(id(&tenant.own_id), RunStatus::Running).with_agent(id("agent"));
        let snapshot = NewEntry::new(NewBody::Checkpoint { number: None, label: Some(tenant.own_id.clone()) });
        let commit = Commit::new(id("same")).expecting(Expect::Absent).with_key(id("key")).with_run(run);
        let commit = commit.entry(message_entry("x").with_id(id(&tenant.own_id))).entry(snapshot);
        let commit = commit.with_state(StateChange::new().set("own", Json::of(&tenant.own_id)?));
        let receipt = commits(tenant)?.commit(commit).await?;
        expect_eq((receipt.version.number(), receipt.deduplicated), (2, false))
    }

    async fn expect_own_records(&self, tenant: &TenantUnderTest) -> Verdict {
        let (threads, thread): (_, ThreadId) = (threads(tenant)?, id("same"));
        let log = threads.list_entries(&thread, EntryQuery::all()).await?.items;
        expect_eq((log.len(), log[0].id.as_str()), (2, tenant.own_id.as_str()))?;
        let snapshots = threads.list_snapshots(&thread, PageRequest::default()).await?.items;
        expect_eq(snapshots.iter().map(|snapshot| snapshot.name.as_str()).collect::<Vec<_>>(), [&tenant.own_id])?;
        expect_eq(threads.list_leaves(&thread, PageRequest::default()).await?.items.len(), 1)?;
        let (mut by_agent, all) = (RunFilter::default(), RunFilter::default());
        by_agent.agent = Some(id("agent"));
        for filter in [all, by_agent] {
            expect_eq(threads.count_runs(&filter).await?, 1)?;
            let runs = threads.list_runs(RunQuery::new(filter)).await?.items;
            expect_eq(runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), [&tenant.own_id])?;
        }
        let context = threads.load_context(&thread, ContextRequest::head()).await?;
        expect_eq(context.state.get("own"), Some(&Json::of(&tenant.own_id)?))
    }

    async fn expect_other_records_unreachable(
        &self,
        tenant: &TenantUnderTest,
        other_tenant: &TenantUnderTest,
    ) -> Verdict {
        let threads = threads(tenant)?;
        expect_eq(threads.load_run(&id(&other_tenant.own_id)).await?, None)?;
        expect_eq(threads.load_entry(&id("same"), &id(&other_tenant.own_id)).await?, None)?;
        let change = RunChange::new(id(&other_tenant.own_id), RunStatus::done(RunOutcome::NaturalEnd));
        let commit = Commit::new(id("same")).with_key(id("reach")).with_run(change);
        // The change names no agent, so it cannot create a run. It would only be valid for a run that exists.
        expect_kind(commits(tenant)?.commit(commit).await, ErrorKind::Invalid)?;
        let commit_below_entry_of_other_tenant =
            Commit::new(id("same")).with_key(id("reach")).entry(message_entry("x").below(id(&other_tenant.own_id)));
        expect_kind(commits(tenant)?.commit(commit_below_entry_of_other_tenant).await, ErrorKind::Invalid).map(drop)
    }

    async fn change_and_remove(&self, tenant: &TenantUnderTest) -> Verdict {
        let change = RunChange::new(id(&tenant.own_id), RunStatus::done(RunOutcome::NaturalEnd));
        let later_commit = keyed_commit_with_message(&id("same"), "more", "x").with_run(change);
        let receipt = commits(tenant)?.commit(later_commit).await?;
        expect_eq((receipt.version.number(), receipt.deduplicated), (3, false))?;
        let run = expect_some(threads(tenant)?.load_run(&id(&tenant.own_id)).await?, "run")?;
        expect_eq(run.status, RunStatus::done(RunOutcome::NaturalEnd))?;
        threads(tenant)?.delete_thread(&id("same"), DeleteRequest::default()).await?;
        expect_eq(threads(tenant)?.load_run(&id(&tenant.own_id)).await?, None)
    }
}
