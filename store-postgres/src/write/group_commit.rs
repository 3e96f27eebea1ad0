//! Writes to several threads in one statement. Batches that arrive while other statements are running are written
//! together as soon as one of these has its answer. Each batch gets its own answer, and no caller learns the result of
//! another batch.

#![expect(clippy::disallowed_methods, reason = "measures how long a call has waited")]

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sqlx::postgres::PgRow;
use store_core::{Error, Result, TenantId};
use tokio::{sync::oneshot, time::timeout};

use super::{Batch, StampAndLog, Written, answer::Answer, fast_path, write};
use crate::{
    clock::Moment,
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
const LINGER: Duration = Duration::from_micros(300);

/// The waiting batches of a tenant.
#[derive(Debug, Default)]
pub(crate) struct GroupCommit(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    waiting: Vec<Waiting>,
    /// The number of batches that wait or are being written.
    active: usize,
    /// The highest number of active batches in the recent past. It decreases by at most one with each statement.
    usual: usize,
}

#[derive(Debug)]
struct Waiting {
    batch: Arc<Batch>,
    moment: Moment,
    reply: oneshot::Sender<GroupReply>,
}

/// What happens to a batch that waited.
#[derive(Debug)]
enum GroupReply {
    /// It is written now, together with others that wait.
    Lead,
    Done(StampAndLog),
    /// It is unknown whether it was written.
    Unknown,
    /// It was not written, because no connection became free in time.
    NotSent,
    /// It was not written, and is now written by itself.
    Alone,
}

impl GroupCommit {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a batch for which [`Batch::can_group`] holds.
    pub(super) async fn write(
        &self,
        connection: &mut Connection<'_>,
        tenant: &TenantId,
        batch: &Arc<Batch>,
        moment: Moment,
    ) -> Result<Written, StatementFailure> {
        let began = Instant::now();
        let _active = ActiveBatch::new(self);
        let reply = match self.enqueue_or_lead(batch, moment) {
            None => GroupReply::Lead,
            Some(mut reply) => match timeout(connection.acquire_timeout(), &mut reply).await {
                Err(_) if self.leave(batch) => GroupReply::NotSent,
                Err(_) => reply.await.unwrap_or(GroupReply::Unknown),
                Ok(reply) => reply.unwrap_or(GroupReply::Unknown),
            },
        };
        connection.set_waited(began.elapsed());
        match reply {
            GroupReply::Lead => {
                let _next = NextLeader(self);
                let others = self.group_members(batch, moment).await;
                lead(connection, tenant, batch, moment, others).await
            }
            GroupReply::Done(done) => Ok(Written::Done(vec![done])),
            GroupReply::Unknown => Err(Error::commit_unknown(None).into()),
            GroupReply::NotSent => Err(Error::server_unavailable("no connection became free in time").into()),
            GroupReply::Alone => write(connection, batch, tenant, moment).await,
        }
    }

    /// Puts the batch into the queue, unless it can be written at once.
    fn enqueue_or_lead(&self, batch: &Arc<Batch>, moment: Moment) -> Option<oneshot::Receiver<GroupReply>> {
        let mut state = self.state();
        if state.in_flight < MAX_IN_FLIGHT {
            state.in_flight += 1;
            return None;
        }
        let (reply, answer) = oneshot::channel();
        state.waiting.push(Waiting { batch: Arc::clone(batch), moment, reply });
        Some(answer)
    }

    /// Returns the waiting batches to be written together with this one. A caller that has just been answered often
    /// writes again at once. So if there usually are several batches, this function waits briefly until there are as
    /// many as one statement should take.
    async fn group_members(&self, batch: &Batch, moment: Moment) -> Vec<Waiting> {
        let began = Instant::now();
        for _ in 0..MAX_YIELDS {
            if self.is_share_waiting() || began.elapsed() > LINGER {
                break;
            }
            tokio::task::yield_now().await;
        }
        let mut state = self.state();
        state.usual = state.active.max(state.usual.saturating_sub(1));
        group_members(batch, moment, &mut state.waiting)
    }

    /// Returns whether as many batches wait as one statement should take.
    fn is_share_waiting(&self) -> bool {
        let state = self.state();
        (state.waiting.len() + 1) * MAX_IN_FLIGHT >= state.usual
    }

    /// Stops waiting. Returns whether the batch was still waiting and no statement had taken it.
    fn leave(&self, batch: &Arc<Batch>) -> bool {
        let mut state = self.state();
        let before = state.waiting.len();
        state.waiting.retain(|waiting| !Arc::ptr_eq(&waiting.batch, batch));
        state.waiting.len() < before
    }
}

/// Lets the next waiting batch lead when it is dropped: as soon as a statement has its answer, whatever the answer is.
struct NextLeader<'a>(&'a GroupCommit);

impl Drop for NextLeader<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        while !state.waiting.is_empty() {
            // A batch whose caller is gone cannot lead others.
            if state.waiting.remove(0).reply.send(GroupReply::Lead).is_ok() {
                return;
            }
        }
        state.in_flight -= 1;
    }
}

/// Counts a batch that waits or is being written.
struct ActiveBatch<'a>(&'a GroupCommit);

impl<'a> ActiveBatch<'a> {
    fn new(of: &'a GroupCommit) -> Self {
        let mut state = of.state();
        state.active += 1;
        state.usual = state.usual.max(state.active);
        Self(of)
    }
}

impl Drop for ActiveBatch<'_> {
    fn drop(&mut self) {
        self.0.state().active -= 1;
    }
}

/// Takes the waiting batches that can be written together with a batch.
fn group_members(batch: &Batch, moment: Moment, waiting: &mut Vec<Waiting>) -> Vec<Waiting> {
    let mut taken: Vec<Waiting> = Vec::new();
    let is_free = |other: &Waiting, taken: &[Waiting]| {
        taken.len() + 1 < MAX_BATCHES
            && moment.is_near(other.moment)
            && !batch.overlaps(&other.batch)
            && !taken.iter().any(|one| one.batch.overlaps(&other.batch))
    };
    for other in std::mem::take(waiting) {
        if is_free(&other, &taken) { taken.push(other) } else { waiting.push(other) }
    }
    taken
}

/// Writes a batch together with others. If a batch is not written, another batch may be the cause, so it is then
/// written by itself.
async fn lead(
    connection: &mut Connection<'_>,
    tenant: &TenantId,
    batch: &Arc<Batch>,
    moment: Moment,
    others: Vec<Waiting>,
) -> Result<Written, StatementFailure> {
    if others.is_empty() {
        return write(connection, batch, tenant, moment).await;
    }
    let all: Vec<&Batch> = std::iter::once(&**batch).chain(others.iter().map(|other| &*other.batch)).collect();
    match fast_path::write(connection, &all, tenant, moment).await {
        Ok(rows) => {
            let mut each = each(connection, all.len(), &rows).map_err(StatementFailure::after_answer)?.into_iter();
            let own = each.next().flatten();
            for (other, done) in others.into_iter().zip(each) {
                let _gone = other.reply.send(done.map_or(GroupReply::Alone, GroupReply::Done));
            }
            match own {
                Some(done) => Ok(Written::Done(vec![done])),
                None => write(connection, batch, tenant, moment).await,
            }
        }
        Err(failed) if failed.is_unknown() => {
            others.into_iter().for_each(|other| _ = other.reply.send(GroupReply::Unknown));
            Err(failed)
        }
        // This call has waited as long as it may, so its failure is returned and it is not tried again.
        Err(failed) if !failed.was_sent() => {
            others.into_iter().for_each(|other| _ = other.reply.send(GroupReply::Alone));
            Err(failed)
        }
        Err(_) => {
            others.into_iter().for_each(|other| _ = other.reply.send(GroupReply::Alone));
            write(connection, batch, tenant, moment).await
        }
    }
}

/// Returns the result of each batch. `None` if it was not written.
fn each(connection: &Connection<'_>, count: usize, rows: &[PgRow]) -> Result<Vec<Option<StampAndLog>>> {
    let mut each = vec![None; count];
    for row in rows {
        let answer = Answer::of(row)?;
        connection.set_server_time(answer.clock);
        let place = usize::try_from(answer.number).ok().and_then(|number| each.get_mut(number));
        *place.ok_or_else(|| corrupt("an answer of the server"))? = Some((answer.stamp, answer.log));
    }
    Ok(each)
}
