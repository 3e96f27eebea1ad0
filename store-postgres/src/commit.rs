//! Commits: the only way to write entries, runs and thread state, and to consume pending input.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;
use store_core::{
    Commit, CommitCoordinator, DocumentStore, EventStore, OutboxStore, PendingStore, Receipt, Result, ThreadRunStore,
    commit::{self, CommitDecision, DecisionContext},
};

use crate::{
    cache::{Lookup, RecordCache},
    decide::{CacheUpdate, RuleResult, decide, decide_in_caller_transaction, decide_in_family},
    events::events_lookup,
    store::TenantHandle,
    tenant::{Tenant, with_commit_key},
    write::{Batch, WrittenRevision},
};

/// The commits of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct PostgresCommits {
    tenant: TenantHandle,
}

impl PostgresCommits {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }
}

#[async_trait]
impl CommitCoordinator for PostgresCommits {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let (key, thread_of_call) = (commit.key.clone(), Some(commit.thread.clone()));
        let call = |tenant: Arc<Tenant>| async move {
            commit::check(&commit, &tenant.shared.config.limits)?;
            let (likely_records, in_family) = lookup_of_commit(&commit);
            let revision = WrittenRevision::default();
            let rule = |cache: &RecordCache, decision_context: DecisionContext<'_>| {
                plan(cache, &commit, decision_context, &revision)
            };
            let receipt = if in_family {
                decide_in_family(&tenant, &commit.thread, likely_records, rule).await?
            } else {
                decide(&tenant, &commit.thread, likely_records, rule).await?
            };
            Ok(with_written_revision(receipt, &revision))
        };
        self.tenant.run_write(thread_of_call, call).await.map_err(|error| with_commit_key(error, key.as_ref()))
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        Arc::new(crate::threads::PostgresThreads::new(self.tenant.clone()))
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        Arc::new(crate::pending::PostgresPending::new(self.tenant.clone()))
    }

    fn events(&self) -> Arc<dyn EventStore> {
        Arc::new(crate::events::PostgresEvents::new(self.tenant.clone()))
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        Arc::new(crate::outbox::PostgresOutbox::new(self.tenant.clone()))
    }

    fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        Some(Arc::new(crate::documents::PostgresDocuments::new(self.tenant.clone())))
    }
}

/// Returns the records that the plan of a commit most likely needs, and whether the commit must hold the lock of the
/// family so that no other call changes parents meanwhile.
fn lookup_of_commit(commit: &Commit) -> (Lookup, bool) {
    let needs = commit::needed_keys(commit);
    let in_family = needs.parent_thread.is_some();
    let likely_records = Lookup {
        threads: needs.parent_thread.into_iter().collect(),
        runs: needs.runs,
        keys: needs.key.into_iter().collect(),
        entries: needs.entries,
        names: needs.snapshots,
        states: needs.state,
        inputs: needs.pending,
        documents: needs.documents,
        ..events_lookup(commit.events.as_ref())
    };
    (likely_records, in_family)
}

/// Commits in a transaction of the caller.
pub(crate) async fn commit_in(tenant: &Tenant, connection: &mut PgConnection, commit: &Commit) -> Result<Receipt> {
    tenant.check_open()?;
    tenant.shared.check_writable()?;
    commit::check(commit, &tenant.shared.config.limits)?;
    let (likely_records, in_family) = lookup_of_commit(commit);
    let mut connection = tenant.db().caller_connection(connection);
    if in_family {
        connection.lock_family(&tenant.constants.tenant).await?;
    }
    let revision = WrittenRevision::default();
    let rule =
        |cache: &RecordCache, decision_context: DecisionContext<'_>| plan(cache, commit, decision_context, &revision);
    // No error means an unknown outcome here. The caller ends the transaction, and so knows whether the commit was
    // written.
    let receipt =
        Box::pin(decide_in_caller_transaction(tenant, &commit.thread, connection, likely_records, rule)).await?;
    Ok(with_written_revision(receipt, &revision))
}

/// Sets the revision that the server gave to the documents of the commit, if it has just put some.
fn with_written_revision(mut receipt: Receipt, revision: &WrittenRevision) -> Receipt {
    receipt.document_revision = revision.get().or(receipt.document_revision);
    receipt
}

fn plan(
    cache: &RecordCache,
    commit: &Commit,
    decision_context: DecisionContext<'_>,
    revision: &WrittenRevision,
) -> Result<RuleResult<Receipt>> {
    cache.expect_documents(&commit.documents);
    let plan = match commit::plan(cache, commit, decision_context)? {
        CommitDecision::Repeat(receipt) => return Ok(RuleResult::Answer(*receipt)),
        CommitDecision::Write(plan) => plan,
    };
    let mut batch = Batch::default();
    if commit.fence.is_some() && commit.settle.is_none() {
        batch.require_unchanged_claims(cache, &commit.thread)?;
    }
    batch.add_commit(&commit.thread, cache, &plan)?;
    batch.add_documents(&commit.documents, &plan.documents, revision);
    let answer = plan.receipt.clone();
    Ok(RuleResult::Write { batch, cache_update: CacheUpdate::Commit(plan), answer })
}
