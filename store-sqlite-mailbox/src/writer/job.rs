//! Calls on the writer thread.

use std::sync::Arc;

use store_core::{Result, Timestamp, commit::DecisionContext, in_flight::WorkGuard};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::batch::{BatchContext, Failure};
use crate::{
    rows::{Rows, TenantRow},
    tenant::Tenant,
};

/// The result of a call, on two levels. The inner result is the answer for the caller. It may be a refusal, and even a
/// refused call may have written something. The outer error says that reading or writing rows failed. In that case all
/// writes of the call are rolled back.
pub(crate) type NestedResult<T> = Result<Result<T>>;

/// One call of a batch. It may be run again if its batch could not be committed.
pub(crate) trait Job: Send {
    /// Does the work in the transaction. An error ends the whole transaction.
    fn run(&mut self, context: &BatchContext<'_>) -> std::result::Result<(), Failure>;

    /// Reports the result to the caller. Returns the earliest time at which a claim may find something.
    ///
    /// The job is dropped after all calls of the batch are answered. Callers that wait for the end of this call then
    /// continue.
    fn finish(&mut self, batch_result: std::result::Result<(), Failure>) -> Option<Timestamp>;
}

/// A call on the rows of a tenant.
pub(crate) struct TenantCall<T, F> {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) call: F,
    pub(crate) reply: Option<oneshot::Sender<Result<T>>>,
    /// When this guard is dropped, calls that wait for the end of this call continue.
    pub(crate) _work_guard: WorkGuard,
    /// Lets the call wait in the queue. `None` if the call comes before all waiting calls.
    pub(crate) _permit: Option<OwnedSemaphorePermit>,
    pub(crate) result: Option<CallResult<T>>,
}

/// What one execution of a call returned.
pub(crate) struct CallResult<T> {
    answer: Result<T>,
    tenant_row: Option<TenantRow>,
    claimable_from: Option<Timestamp>,
}

impl<T, F> TenantCall<T, F>
where
    T: Send,
    F: FnMut(&Rows<'_>, DecisionContext<'_>) -> NestedResult<T> + Send,
{
    fn work(&mut self, context: &BatchContext<'_>) -> std::result::Result<CallResult<T>, Failure> {
        let failed_result = |error| CallResult { answer: Err(error), tenant_row: None, claimable_from: None };
        // The time is read after the lock is taken, so that a later call has no earlier time (PR-22).
        let now = context.now();
        let has_written = false;
        let tenant_row = match context.tenant_row(&self.tenant) {
            Ok(tenant_row) => tenant_row,
            Err(error) => return context.classify_error(error, has_written).map(failed_result),
        };
        let rows = match Rows::for_writing(
            (context.conn, context.statements),
            &self.tenant.name,
            (tenant_row, now),
            (context.row_cache, &context.nothing_due_at),
        ) {
            Ok(rows) => rows,
            Err(error) => return context.classify_error(error, has_written).map(failed_result),
        };
        let decision_context = DecisionContext::new(now, context.limits(), context.ids());
        let nested_result = (self.call)(&rows, decision_context);
        context.row_cache.forget_last();
        match nested_result {
            Ok(answer) => {
                context.remember_tenant_row(&self.tenant, rows.tenant_row());
                Ok(CallResult { answer, tenant_row: rows.tenant_row(), claimable_from: rows.claimable_from() })
            }
            Err(error) => context.classify_error(error, rows.has_written()).map(failed_result),
        }
    }
}

impl<T, F> Job for TenantCall<T, F>
where
    T: Send,
    F: FnMut(&Rows<'_>, DecisionContext<'_>) -> NestedResult<T> + Send,
{
    fn run(&mut self, context: &BatchContext<'_>) -> std::result::Result<(), Failure> {
        self.result = None;
        // If the caller dropped the call before it began, the call never takes effect.
        if self.reply.as_ref().is_some_and(|reply| !reply.is_closed()) {
            self.result = Some(self.work(context)?);
        }
        Ok(())
    }

    fn finish(&mut self, batch_result: std::result::Result<(), Failure>) -> Option<Timestamp> {
        let (reply, result) = (self.reply.take()?, self.result.take());
        let mut from = None;
        match (batch_result, result) {
            (Ok(()), Some(result)) => {
                self.tenant.remember_row(result.tenant_row);
                from = result.claimable_from;
                if let Some(from) = from {
                    self.tenant.notifier.notify(from);
                }
                // A caller that no longer waits needs no answer.
                let _unreceived = reply.send(result.answer);
            }
            (Ok(()), None) => {}
            (Err(failure), _) => drop(reply.send(Err(failure.into()))),
        }
        from
    }
}

/// A step that is not limited to the rows of one tenant.
pub(crate) struct FileStep<T, F> {
    pub(crate) step: F,
    pub(crate) reply: Option<oneshot::Sender<Result<T>>>,
    pub(crate) result: Option<Result<T>>,
}

impl<T, F> Job for FileStep<T, F>
where
    T: Send,
    F: FnMut(&BatchContext<'_>) -> Result<T> + Send,
{
    fn run(&mut self, context: &BatchContext<'_>) -> std::result::Result<(), Failure> {
        context.forget_rows();
        // A step that fails may already have written something.
        let has_written = true;
        self.result = Some(match (self.step)(context) {
            Ok(answer) => Ok(answer),
            Err(error) => context.classify_error(error, has_written).map(Err)?,
        });
        Ok(())
    }

    fn finish(&mut self, batch_result: std::result::Result<(), Failure>) -> Option<Timestamp> {
        let answer = match (batch_result, self.result.take()) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(Failure::Closed.into()),
            (Err(failure), _) => Err(failure.into()),
        };
        let _unreceived = self.reply.take()?.send(answer);
        None
    }
}
