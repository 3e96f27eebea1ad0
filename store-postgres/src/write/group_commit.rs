//! Writes to several threads in one statement. Batches that arrive while other statements are running are written
//! together as soon as one of these statements has its answer. Each batch gets its own answer, and no caller learns the
//! result of another batch.

#![expect(clippy::disallowed_methods, reason = "measures how long a call has waited")]

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sqlx::postgres::PgRow;
use store_core::{Error, Result, TenantId};
use tokio::{sync::oneshot, time::timeout};

use super::{Batch, WriteResult, WrittenThread, answer::WriteAnswer, fast_path, write_alone};
use crate::{
    clock::DecisionTime,
    db::{Connection, StatementFailure},
    error::corrupt,
};

/// The maximum number of statements that run at once. Further batches wait.
const MAX_IN_FLIGHT: usize = 2;
/// The maximum number of batches in one statement.
const MAX_BATCHES: usize = 64;
/// The maximum number of times that a batch lets other tasks run before it is written, because they may bring more
/// batches.
const MAX_YIELDS: usize = 16;
/// The maximum time for which a batch lets other tasks run.
const MAX_YIELD_TIME: Duration = Duration::from_micros(300);

/// The waiting batches of a tenant.
#[derive(Debug, Default)]
pub(crate) struct GroupCommit(Mutex<GroupCommitState>);

#[derive(Debug, Default)]
struct GroupCommitState {
    in_flight: usize,
    waiting: Vec<WaitingBatch>,
    /// The number of batches that wait or are being written.
    active_count: usize,
    /// The highest number of active batches in the recent past. It decreases by at most one with each statement.
    usual_active: usize,
}

#[derive(Debug)]
struct WaitingBatch {
    batch: Arc<Batch>,
    decision_time: DecisionTime,
    reply: oneshot::Sender<GroupReply>,
}

/// How a batch that waited is written.
#[derive(Debug)]
enum GroupReply {
    /// It is written now, together with others that wait.
    WriteGroup,
    Done(WrittenThread),
    /// It is unknown whether it was written.
    Unknown,
    /// It was not written, because no connection became free in time.
    NotSent,
    /// It was not written, and is now written alone.
    WriteAlone,
}

impl GroupCommit {
    fn state(&self) -> MutexGuard<'_, GroupCommitState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a batch for which [`Batch::can_group`] holds.
    pub(super) async fn write(
        &self,
        connection: &mut Connection<'_>,
        tenant: &TenantId,
        batch: &Arc<Batch>,
        decision_time: DecisionTime,
    ) -> Result<WriteResult, StatementFailure> {
        let began = Instant::now();
        let _active = ActiveBatch::new(self);
        let reply = match self.enqueue_or_start(batch, decision_time) {
            None => GroupReply::WriteGroup,
            Some(mut reply) => match timeout(connection.acquire_timeout(), &mut reply).await {
                Err(_) if self.stop_waiting(batch) => GroupReply::NotSent,
                Err(_) => reply.await.unwrap_or(GroupReply::Unknown),
                Ok(reply) => reply.unwrap_or(GroupReply::Unknown),
            },
        };
        connection.set_waited(began.elapsed());
        match reply {
            GroupReply::WriteGroup => {
                let _start_next = StartNextOnDrop(self);
                let others = self.group_members(batch, decision_time).await;
                write_group(connection, tenant, batch, decision_time, others).await
            }
            GroupReply::Done(done) => Ok(WriteResult::Done(vec![done])),
            GroupReply::Unknown => Err(Error::commit_unknown(None).into()),
            GroupReply::NotSent => Err(Error::server_unavailable("no connection became free in time").into()),
            GroupReply::WriteAlone => write_alone(connection, batch, tenant, decision_time).await,
        }
    }

    /// Returns `None` if the batch can be written at once. Otherwise puts it into the queue, and returns the receiver
    /// of its reply.
    fn enqueue_or_start(
        &self,
        batch: &Arc<Batch>,
        decision_time: DecisionTime,
    ) -> Option<oneshot::Receiver<GroupReply>> {
        let mut state = self.state();
        if state.in_flight < MAX_IN_FLIGHT {
            state.in_flight += 1;
            return None;
        }
        let (reply, receiver) = oneshot::channel();
        state.waiting.push(WaitingBatch { batch: Arc::clone(batch), decision_time, reply });
        Some(receiver)
    }

    /// Returns the waiting batches to be written together with this one. A caller that has just been answered often
    /// writes again at once. So if there usually are several batches, this function waits briefly for more of them.
    async fn group_members(&self, batch: &Batch, decision_time: DecisionTime) -> Vec<WaitingBatch> {
        let began = Instant::now();
        for _ in 0..MAX_YIELDS {
            if self.has_enough_waiting() || began.elapsed() > MAX_YIELD_TIME {
                break;
            }
            tokio::task::yield_now().await;
        }
        let mut state = self.state();
        state.usual_active = state.active_count.max(state.usual_active.saturating_sub(1));
        take_group_members(batch, decision_time, &mut state.waiting)
    }

    /// Returns whether this batch and the waiting ones are at least one statement's share of the batches that are
    /// usually active.
    fn has_enough_waiting(&self) -> bool {
        let state = self.state();
        (state.waiting.len() + 1) * MAX_IN_FLIGHT >= state.usual_active
    }

    /// Stops waiting. Returns whether the batch was still waiting and no statement had taken it.
    fn stop_waiting(&self, batch: &Arc<Batch>) -> bool {
        let mut state = self.state();
        let count_before = state.waiting.len();
        state.waiting.retain(|waiting| !Arc::ptr_eq(&waiting.batch, batch));
        state.waiting.len() < count_before
    }
}

/// Starts the next statement when it is dropped: tells the caller of the first waiting batch to write this batch
/// together with others. It is dropped as soon as a statement has its answer, whatever the answer is.
struct StartNextOnDrop<'a>(&'a GroupCommit);

impl Drop for StartNextOnDrop<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        while !state.waiting.is_empty() {
            // A caller that no longer waits cannot write its batch, so the caller of the next one is told.
            if state.waiting.remove(0).reply.send(GroupReply::WriteGroup).is_ok() {
                return;
            }
        }
        state.in_flight -= 1;
    }
}

/// Counts a batch that waits or is being written.
struct ActiveBatch<'a>(&'a GroupCommit);

impl<'a> ActiveBatch<'a> {
    fn new(group_commit: &'a GroupCommit) -> Self {
        let mut state = group_commit.state();
        state.active_count += 1;
        state.usual_active = state.usual_active.max(state.active_count);
        Self(group_commit)
    }
}

impl Drop for ActiveBatch<'_> {
    fn drop(&mut self) {
        self.0.state().active_count -= 1;
    }
}

/// Takes the waiting batches that can be written together with a batch.
fn take_group_members(
    batch: &Batch,
    decision_time: DecisionTime,
    waiting: &mut Vec<WaitingBatch>,
) -> Vec<WaitingBatch> {
    let mut members: Vec<WaitingBatch> = Vec::new();
    let can_join = |other: &WaitingBatch, members: &[WaitingBatch]| {
        members.len() + 1 < MAX_BATCHES
            && decision_time.is_near(other.decision_time)
            && !batch.overlaps(&other.batch)
            && !members.iter().any(|one| one.batch.overlaps(&other.batch))
    };
    for other in std::mem::take(waiting) {
        if can_join(&other, &members) { members.push(other) } else { waiting.push(other) }
    }
    members
}

/// Writes a batch together with others. If a batch is not written, another batch may be the cause, so it is then
/// written alone.
async fn write_group(
    connection: &mut Connection<'_>,
    tenant: &TenantId,
    batch: &Arc<Batch>,
    decision_time: DecisionTime,
    others: Vec<WaitingBatch>,
) -> Result<WriteResult, StatementFailure> {
    if others.is_empty() {
        return write_alone(connection, batch, tenant, decision_time).await;
    }
    let all: Vec<&Batch> = std::iter::once(&**batch).chain(others.iter().map(|other| &*other.batch)).collect();
    match fast_path::write(connection, &all, tenant, decision_time).await {
        Ok(rows) => {
            let mut results_by_batch =
                results_by_batch(connection, all.len(), &rows).map_err(StatementFailure::after_answer)?.into_iter();
            let own_result = results_by_batch.next().flatten();
            for (other, done) in others.into_iter().zip(results_by_batch) {
                // A caller that no longer waits needs no reply.
                let _unreceived = other.reply.send(done.map_or(GroupReply::WriteAlone, GroupReply::Done));
            }
            match own_result {
                Some(done) => Ok(WriteResult::Done(vec![done])),
                None => write_alone(connection, batch, tenant, decision_time).await,
            }
        }
        Err(failed) if failed.is_outcome_unknown() => {
            others.into_iter().for_each(|other| _ = other.reply.send(GroupReply::Unknown));
            Err(failed)
        }
        // This call has waited as long as it may, so its failure is returned and it is not tried again.
        Err(failed) if !failed.was_sent() => {
            others.into_iter().for_each(|other| _ = other.reply.send(GroupReply::WriteAlone));
            Err(failed)
        }
        Err(_) => {
            others.into_iter().for_each(|other| _ = other.reply.send(GroupReply::WriteAlone));
            write_alone(connection, batch, tenant, decision_time).await
        }
    }
}

/// Returns the result of each batch. `None` if it was not written.
fn results_by_batch(connection: &Connection<'_>, count: usize, rows: &[PgRow]) -> Result<Vec<Option<WrittenThread>>> {
    let mut results_by_batch = vec![None; count];
    for row in rows {
        let answer = WriteAnswer::of(row)?;
        connection.set_server_time(answer.clock);
        let result = usize::try_from(answer.number).ok().and_then(|number| results_by_batch.get_mut(number));
        *result.ok_or_else(|| corrupt("an answer of the server"))? = Some((answer.stamp, answer.log));
    }
    Ok(results_by_batch)
}
