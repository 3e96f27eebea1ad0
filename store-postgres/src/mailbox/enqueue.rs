//! Enqueueing. Concurrent calls of one process that enqueue for the same threads would wait for each other's locks, so
//! they are combined into one transaction. Each call gets its own answer.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use store_core::{
    Enqueued, Error, ErrorKind, NewDispatch, Outcome, Result, ThreadId, commit::DecisionContext, mailbox,
};
use tokio::{sync::oneshot, time::timeout};

use super::{change, change_locked};
use crate::{
    cache::{MailboxDraft, MailboxLookup},
    tenant::Tenant,
};

/// The maximum time that a call waits for other calls of its process. If half of the time for getting a connection is
/// shorter, the call waits only for that half. After that it runs in a transaction of its own, and waits for the row
/// locks of other calls and of other processes.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// The maximum number of dispatches in one transaction.
const MAX_DISPATCHES: usize = 1_000;
/// The maximum size in bytes of the payloads in one transaction.
const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

type Answers = Vec<Result<Enqueued>>;

/// Enqueues all dispatches or none of them.
pub(super) async fn enqueue(tenant: &Tenant, dispatches: Vec<NewDispatch>) -> Result<Answers> {
    mailbox::check_item_count(dispatches.len(), &tenant.shared.config.limits)?;
    let call = Arc::new(EnqueueCall::new(dispatches));
    match tenant.enqueues.wait_for_threads(&call, MAX_WAIT.min(tenant.shared.config.acquire_timeout / 2)).await {
        EnqueueReply::DecideGroup(group) => decide_group(tenant, group).await,
        EnqueueReply::Done(answers) => Ok(answers),
        EnqueueReply::Unavailable => {
            Err(Error::server_unavailable("the server did not answer in time or was unreachable"))
        }
        EnqueueReply::Unknown => Err(Error::commit_unknown(None)),
        EnqueueReply::DecideAlone => decide_alone(tenant, &call).await,
    }
}

/// Makes the decision of a group. If it fails, a single call may be the cause, so each call is then decided alone.
async fn decide_group(tenant: &Tenant, mut group: EnqueueGroup) -> Result<Answers> {
    let (call, others) = (Arc::clone(&group.call), std::mem::take(&mut group.others));
    let calls: Vec<&EnqueueCall> = std::iter::once(&*call).chain(others.iter().map(|other| &*other.call)).collect();
    let decided = decide(tenant, &calls).await;
    drop(group);
    match decided {
        Ok(mut all) => {
            let other_answers = all.split_off(call.dispatches.len());
            let mut other_answers = other_answers.into_iter();
            for other in others {
                let answers = other_answers.by_ref().take(other.call.dispatches.len()).collect();
                other.send_reply(EnqueueReply::Done(answers));
            }
            Ok(all)
        }
        Err(error) if error.outcome() == Outcome::Unknown => {
            send_replies(others, || EnqueueReply::Unknown);
            Err(error)
        }
        Err(error) if error.kind() == ErrorKind::Unavailable || others.is_empty() => {
            send_replies(others, || EnqueueReply::Unavailable);
            Err(error)
        }
        Err(_) => {
            send_replies(others, || EnqueueReply::DecideAlone);
            decide_alone(tenant, &call).await
        }
    }
}

async fn decide_alone(tenant: &Tenant, call: &EnqueueCall) -> Result<Answers> {
    decide(tenant, &[call]).await
}

async fn decide(tenant: &Tenant, calls: &[&EnqueueCall]) -> Result<Answers> {
    let dispatches: Vec<&NewDispatch> = calls.iter().flat_map(|call| &call.dispatches).collect();
    let key = |new: &&NewDispatch| Some((new.thread.clone(), new.dedupe_key.clone()?));
    let likely_records = MailboxLookup {
        threads: dispatches.iter().map(|new| new.thread.clone()).collect(),
        dispatches: dispatches.iter().filter_map(|new| new.id.clone()).collect(),
        keys: dispatches.iter().filter_map(key).collect(),
        ..MailboxLookup::default()
    };
    let is_one_call_for_one_thread = calls.len() == 1 && likely_records.threads.len() <= 1;
    let rule = |draft: &mut MailboxDraft<'_>, decision_context: DecisionContext<'_>| {
        let enqueue_one = |new: &&NewDispatch| draft.change(|view| mailbox::enqueue(view, new, decision_context));
        // The rule runs for all dispatches before the first failure is returned, so that the missing records of all are
        // loaded together.
        let all: Vec<_> = dispatches.iter().map(enqueue_one).collect();
        all.into_iter().collect::<Result<Vec<_>>>()
    };
    if is_one_call_for_one_thread {
        return change(tenant, likely_records, rule).await;
    }
    // With several threads, a concurrent write to one of them is likely, so their rows are locked.
    change_locked(tenant, likely_records, |draft, decision_context| rule(draft, decision_context).map(Some)).await
}

/// The dispatches that one call enqueues.
struct EnqueueCall {
    dispatches: Vec<NewDispatch>,
    threads: HashSet<ThreadId>,
    payload_bytes: usize,
}

impl EnqueueCall {
    fn new(dispatches: Vec<NewDispatch>) -> Self {
        let threads = dispatches.iter().map(|new| new.thread.clone()).collect();
        let payload_bytes =
            dispatches.iter().filter_map(|new| new.payload.as_ref()).map(|payload| payload.as_str().len()).sum();
        Self { dispatches, threads, payload_bytes }
    }

    fn overlaps(&self, threads: &HashSet<ThreadId>) -> bool {
        !self.threads.is_disjoint(threads)
    }
}

/// The enqueueing calls of a tenant: those that are running, and those that wait for them.
#[derive(Default)]
pub(crate) struct Enqueues(Mutex<EnqueueState>);

#[derive(Default)]
struct EnqueueState {
    /// The threads of the running calls.
    busy_threads: HashSet<ThreadId>,
    waiting: Vec<WaitingCall>,
}

struct WaitingCall {
    call: Arc<EnqueueCall>,
    reply: oneshot::Sender<EnqueueReply>,
}

impl WaitingCall {
    fn send_reply(self, reply: EnqueueReply) {
        // A caller that no longer waits needs no reply.
        let _unreceived = self.reply.send(reply);
    }
}

fn send_replies(all: Vec<WaitingCall>, reply: impl Fn() -> EnqueueReply) {
    all.into_iter().for_each(|one| one.send_reply(reply()));
}

/// How a waiting call continues.
enum EnqueueReply {
    /// It is decided now, together with the others of the group.
    DecideGroup(EnqueueGroup),
    /// It was decided together with another call.
    Done(Answers),
    /// It was decided together with another call, but the decision failed and had no effect.
    Unavailable,
    /// It was decided together with another call, and the outcome is unknown.
    Unknown,
    /// It is decided alone.
    DecideAlone,
}

impl Enqueues {
    fn state(&self) -> MutexGuard<'_, EnqueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no running call is about the same threads.
    async fn wait_for_threads(self: &Arc<Self>, call: &Arc<EnqueueCall>, max_wait: Duration) -> EnqueueReply {
        let mut reply = match self.try_start(call) {
            Ok(group) => return EnqueueReply::DecideGroup(group),
            Err(reply) => reply,
        };
        match timeout(max_wait, &mut reply).await {
            Err(_) if self.stop_waiting(call) => EnqueueReply::DecideAlone,
            Err(_) => reply.await.unwrap_or(EnqueueReply::Unknown),
            Ok(reply) => reply.unwrap_or(EnqueueReply::Unknown),
        }
    }

    /// Starts at once if no running call is about the same threads.
    fn try_start(self: &Arc<Self>, call: &Arc<EnqueueCall>) -> Result<EnqueueGroup, oneshot::Receiver<EnqueueReply>> {
        let mut state = self.state();
        if call.overlaps(&state.busy_threads) {
            let (reply, receiver) = oneshot::channel();
            state.waiting.push(WaitingCall { call: Arc::clone(call), reply });
            return Err(receiver);
        }
        state.busy_threads.extend(call.threads.iter().cloned());
        Ok(EnqueueGroup::new(self, call))
    }

    /// Stops waiting. Returns whether the call was still waiting.
    fn stop_waiting(&self, call: &Arc<EnqueueCall>) -> bool {
        let mut state = self.state();
        let count_before = state.waiting.len();
        state.waiting.retain(|waiting| !Arc::ptr_eq(&waiting.call, call));
        state.waiting.len() < count_before
    }

    /// Starts the calls that waited for these threads, in groups.
    fn start_waiting_calls(
        self: &Arc<Self>,
        threads: &HashSet<ThreadId>,
    ) -> Vec<(oneshot::Sender<EnqueueReply>, EnqueueGroup)> {
        let mut state = self.state();
        state.busy_threads.retain(|thread| !threads.contains(thread));
        let mut groups: Vec<(oneshot::Sender<EnqueueReply>, EnqueueGroup)> = Vec::new();
        for waiting in std::mem::take(&mut state.waiting) {
            let call = &waiting.call;
            if !call.overlaps(&state.busy_threads) {
                state.busy_threads.extend(call.threads.iter().cloned());
                let group = EnqueueGroup::new(self, call);
                groups.push((waiting.reply, group));
            } else if let Some((_, group)) = groups.iter_mut().find(|(_, group)| group.can_add(call)) {
                group.add(waiting);
            } else {
                state.waiting.push(waiting);
            }
        }
        groups
    }
}

/// Calls that are decided together: the first call and others that wait for its answer. When the group is dropped, the
/// calls that wait for its threads start.
struct EnqueueGroup {
    enqueues: Arc<Enqueues>,
    call: Arc<EnqueueCall>,
    others: Vec<WaitingCall>,
    dispatch_count: usize,
    payload_bytes: usize,
}

impl EnqueueGroup {
    fn new(enqueues: &Arc<Enqueues>, call: &Arc<EnqueueCall>) -> Self {
        let (dispatch_count, payload_bytes) = (call.dispatches.len(), call.payload_bytes);
        Self {
            enqueues: Arc::clone(enqueues),
            call: Arc::clone(call),
            others: Vec::new(),
            dispatch_count,
            payload_bytes,
        }
    }

    /// Returns whether a call may join. All of its threads must be threads of the first call, so that the first call
    /// waits for no more locks than it would alone (PR-12).
    fn can_add(&self, call: &EnqueueCall) -> bool {
        call.threads.is_subset(&self.call.threads)
            && self.dispatch_count + call.dispatches.len() <= MAX_DISPATCHES
            && self.payload_bytes + call.payload_bytes <= MAX_PAYLOAD_BYTES
    }

    fn add(&mut self, other: WaitingCall) {
        self.dispatch_count += other.call.dispatches.len();
        self.payload_bytes += other.call.payload_bytes;
        self.others.push(other);
    }
}

impl Drop for EnqueueGroup {
    fn drop(&mut self) {
        // The calls that are still in the group were not decided with it.
        send_replies(std::mem::take(&mut self.others), || EnqueueReply::DecideAlone);
        for (reply, group) in self.enqueues.start_waiting_calls(&self.call.threads) {
            // If the caller no longer waits, the group is dropped here, and starts the calls that wait for it.
            let _unreceived = reply.send(EnqueueReply::DecideGroup(group));
        }
    }
}
