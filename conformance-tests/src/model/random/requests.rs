//! Makes requests from the operations of a history.

use std::{iter, time::Duration};

use store_core::{
    Commit, Completion, Decision, DecisionAction, Delivery, EntryId, EntryRange, Expect, Fence, InputRef, Message,
    NewBody, NewEntry, NewInput, NewThread, ParentRef, PendingInput, RunChange, RunId, RunOutcome, RunPhase, RunStatus,
    RunTarget, StateChange, StateOp, Thread, ThreadFields, ThreadPatch, Timestamp, TokenCounts, Version, WaitingReason,
    WaitingState,
};

use super::{
    body::new_body,
    events::new_append,
    numbered_values::{agent, entry_id_at, json_value, numbered_id},
    ops::{
        CommitOp, EntryOp, GuardOp, InputOp, ParentOp, RunOp, StateChangeOp, StateKeyOp, ThreadFieldsOp, ThreadPatchOp,
    },
    outbox::new_outbox_row,
};
use crate::given::id;

/// Makes the guard of a caller that has read `thread`. `counter` returns the version or the revision of the thread that
/// the guard names.
pub(super) fn expectation(guard: GuardOp, thread: Option<&Thread>, counter: fn(&Thread) -> Version) -> Expect {
    let Some(known_version) = thread.map(counter) else { return guard_without_thread(guard) };
    let expect_version =
        |number, generation| Expect::Version(Version::new(number, generation, known_version.incarnation()));
    match guard {
        GuardOp::Any => Expect::Any,
        GuardOp::Absent => Expect::Absent,
        GuardOp::Behind(by) => {
            expect_version(known_version.number().saturating_sub(u64::from(by)), known_version.generation())
        }
        GuardOp::Ahead => expect_version(known_version.number() + 1, known_version.generation()),
        GuardOp::OtherGeneration => expect_version(known_version.number(), known_version.generation() + 1),
    }
}

/// Makes the guard of a caller that has found no thread.
const fn guard_without_thread(guard: GuardOp) -> Expect {
    match guard {
        GuardOp::Any => Expect::Any,
        GuardOp::Absent | GuardOp::Behind(0) => Expect::Absent,
        GuardOp::Behind(_) | GuardOp::Ahead | GuardOp::OtherGeneration => Expect::Version(Version::new(0, 1, 0)),
    }
}

/// Makes a fence with this claim number.
pub(super) fn fence(number: u8) -> Fence {
    let claim = store_core::ClaimNumber { incarnation: 0, counter: u64::from(number) };
    Fence::new(id("dispatch"), store_core::ClaimToken::new("token"), 0, claim)
}

/// Returns the time `millis` milliseconds before `now`. The number 255 stands for a time in the future.
pub(super) fn past_or_future(now: Timestamp, millis: u16) -> Timestamp {
    if millis == 255 { now.saturating_add(Duration::from_secs(3600)) } else { millis_before(now, millis) }
}

pub(super) fn millis_before(now: Timestamp, millis: u16) -> Timestamp {
    now.saturating_sub(Duration::from_millis(u64::from(millis)))
}

pub(super) fn thread_fields(op: &ThreadFieldsOp) -> ThreadFields {
    let mut fields = ThreadFields::default();
    fields.resource_id = op.resource.map(|resource| numbered_id("u", resource));
    fields.parent_thread_id = op.parent.map(|parent| numbered_id("t", parent));
    fields.title = op.title.map(|title| format!("title {title}"));
    fields.metadata = op.metadata.iter().map(|(key, number)| (format!("m{key}"), json_value(*number))).collect();
    fields
}

pub(super) fn new_thread(thread: u8, op: &ThreadFieldsOp, at: Option<u16>, now: Timestamp) -> NewThread {
    let mut draft = NewThread::new(numbered_id("t", thread)).with_fields(thread_fields(op));
    draft.at = at.map(|millis| past_or_future(now, millis));
    draft
}

pub(super) fn thread_patch(op: &ThreadPatchOp) -> ThreadPatch {
    let mut patch = ThreadPatch::default();
    patch.resource_id = op.resource.map(|resource| resource.map(|resource| numbered_id("u", resource)));
    patch.parent_thread_id = op.parent.map(|parent| parent.map(|parent| numbered_id("t", parent)));
    patch.title = op.title.map(|title| title.map(|title| format!("title {title}")));
    patch.metadata = op.metadata.iter().map(|(key, number)| (format!("m{key}"), number.map(json_value))).collect();
    patch.fence = op.fence.map(fence);
    patch
}

/// The data from which requests about a thread are made.
#[derive(Debug)]
pub(super) struct RequestContext<'a> {
    /// The ids of the entries in the thread's log.
    pub(super) log: Vec<EntryId>,
    /// The ids of the entries on the path of the thread's head.
    pub(super) path: Vec<EntryId>,
    /// The pending inputs of the thread.
    pub(super) queue: Vec<PendingInput>,
    /// The ids of the thread's runs.
    pub(super) runs: Vec<RunId>,
    /// The number of entries and inputs that were made so far. New ids contain it, so that they are unique.
    pub(super) draft_count: &'a mut u64,
    /// The revision of the thread's state.
    pub(super) state_revision: u64,
    /// Store time.
    pub(super) now: Timestamp,
}

impl RequestContext<'_> {
    /// Makes a commit, without its guard.
    pub(super) fn commit(&mut self, op: &CommitOp) -> Commit {
        let mut commit = Commit::new(numbered_id("t", op.thread));
        commit.key = op.key.map(|key| numbered_id("k", key));
        commit.fence = op.fence.map(fence);
        commit.at = op.at.map(|millis| past_or_future(self.now, millis));
        commit.create = op.create.as_ref().map(thread_fields);
        commit.entries = op.entries.iter().map(|entry| self.entry(entry)).collect();
        commit.run = op.run.as_ref().map(run);
        commit.consume = op.consume.iter().map(|(index, behind)| self.pending_ref(*index, *behind)).collect();
        commit.events = (!op.events.is_empty()).then(|| new_append(&op.events, op.thread));
        commit.outbox = op.outbox.iter().map(|op| new_outbox_row(op, self.now)).collect();
        commit.state = op.state.as_ref().map(|state| state_change(state, self.state_revision));
        commit
    }

    /// Returns a reference to the pending input at an index of the queue, with its revision lowered by `behind`. If
    /// there is no such input, returns a reference with the id of an entry.
    pub(super) fn pending_ref(&self, index: u8, behind: u8) -> InputRef {
        let found = self.queue.get(usize::from(index)).map(PendingInput::to_input_ref);
        let mut found = found.unwrap_or_else(|| InputRef::new(entry_id_at(&self.log, index), 1));
        found.revision = found.revision.saturating_sub(u64::from(behind));
        found
    }

    pub(super) fn input(&mut self, op: &InputOp) -> NewInput {
        *self.draft_count += 1;
        let id: EntryId = match (op.id_of_entry, op.id_of_pending) {
            (Some(index), _) => entry_id_at(&self.log, index),
            (None, Some(index)) => self.pending_ref(index, 0).id,
            (None, None) => id(&format!("e{}", self.draft_count)),
        };
        let repeated_input =
            op.id_of_pending.and_then(|index| self.queue.get(usize::from(index))).filter(|_| op.equals_pending);
        if let Some(input) = repeated_input {
            let mut repeated_input = NewInput::message(Message::user("")).with_id(input.id.clone());
            repeated_input.body.clone_from(&input.body);
            return repeated_input.with_delivery(input.delivery.clone());
        }
        if let Some((run, cancel)) = op.decision {
            let action = if cancel { DecisionAction::Cancel } else { DecisionAction::Resume };
            let run = self.run(run).unwrap_or_else(|| numbered_id("r", run));
            return NewInput::decision(Decision::new(run, "ticket", action)).with_id(id);
        }
        let mut delivery = Delivery::at(op.boundary);
        delivery.target = op.target_run.map(|run| RunTarget::new(numbered_id("r", run)));
        NewInput::message(Message::user(format!("text {}", op.text))).with_id(id).with_delivery(delivery)
    }

    fn entry(&mut self, op: &EntryOp) -> NewEntry {
        let mut entry = NewEntry::new(self.body(op));
        *self.draft_count += 1;
        let id: EntryId = match (op.id_of_entry, op.id_of_pending) {
            (Some(index), _) => entry_id_at(&self.log, index),
            (None, Some(index)) if !self.queue.is_empty() => self.pending_ref(index, 0).id,
            (None, _) => id(&format!("e{}", self.draft_count)),
        };
        entry.parent = match op.parent {
            ParentOp::Head => ParentRef::Head,
            ParentOp::Root => ParentRef::Root,
            ParentOp::Entry(index) => ParentRef::Entry(entry_id_at(&self.log, index)),
        };
        entry.side = op.side;
        entry.timestamp = op.timestamp.map(|millis| millis_before(self.now, millis));
        entry.run = op.run.and_then(|run| self.run(run));
        entry.step = op.run.map(u32::from);
        entry.id = Some(id.clone());
        self.log.push(id);
        entry
    }

    fn body(&self, op: &EntryOp) -> NewBody {
        new_body(&op.body, &self.log, &self.path)
    }

    /// Returns a run of the thread, or `None` if the thread has no runs. The number 255 stands for a run that does not
    /// exist.
    fn run(&self, number: u8) -> Option<RunId> {
        match number {
            255 => Some(numbered_id("r", number)),
            _ => self.runs.get(usize::from(number) % self.runs.len().max(1)).cloned(),
        }
    }
}

fn run(op: &RunOp) -> RunChange {
    let mut change = RunChange::new(numbered_id("r", op.run), status(op));
    change.agent = op.agent.map(agent);
    change.parent_run = op.parent.map(|parent| numbered_id("r", parent));
    change.manifest = op.manifest.map(|other| if other { "m2" } else { "m1" }.to_owned());
    change.dispatch = op.dispatch.map(|other| if other { id("d2") } else { id("d1") });
    change.steps = op.steps.map(u32::from);
    change.usage = op.tokens.map(|tokens| TokenCounts::new(u64::from(tokens), 1));
    change.output = op.output.iter().map(|(from, more)| entry_range(*from, *more)).collect();
    change.state = op.state.iter().map(|(key, number)| (format!("s{key}"), number.map(json_value))).collect();
    change
}

fn entry_range(from: u8, more: u8) -> EntryRange {
    EntryRange { from: u64::from(from), to: u64::from(from) + u64::from(more) }
}

fn status(op: &RunOp) -> RunStatus {
    match op.status {
        RunPhase::Created => RunStatus::Created,
        RunPhase::Running => RunStatus::Running,
        RunPhase::Waiting => {
            let mut waiting = WaitingState::new(WaitingReason::ToolPermission);
            let mut ticket = store_core::Ticket::new("ticket");
            ticket.arguments = op.steps.map(json_value);
            waiting.tickets.push(ticket);
            RunStatus::Waiting(Box::new(waiting))
        }
        RunPhase::Done => {
            let mut completion = Completion::new(RunOutcome::NaturalEnd);
            completion.output = op.steps.map(json_value);
            RunStatus::Done(Box::new(completion))
        }
    }
}

fn state_change(op: &StateChangeOp, revision: u64) -> StateChange {
    let mut change = StateChange::new();
    change.expect_revision = op.behind.map(|by| revision.saturating_sub(u64::from(by)));
    change.clear = op.clear;
    let key_op = |op: &StateKeyOp| match op {
        StateKeyOp::Set(number) => StateOp::Set(json_value(*number)),
        StateKeyOp::Remove => StateOp::Remove,
        StateKeyOp::Add(by) => StateOp::Add(*by),
        StateKeyOp::Max(other) => StateOp::Max(*other),
        StateKeyOp::Append(number) => StateOp::Append(iter::once(json_value(*number)).collect()),
        StateKeyOp::Merge(number) if *number > 200 => StateOp::Merge(json_value(*number)),
        StateKeyOp::Merge(number) => StateOp::Merge(super::numbered_values::json_object(*number)),
    };
    change.changes = op.changes.iter().map(|(key, op)| (format!("s{key}"), key_op(op))).collect();
    change
}
