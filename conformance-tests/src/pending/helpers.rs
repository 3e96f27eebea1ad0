//! Helpers that make pending input, append and consume it, and check queues.

use std::sync::Arc;

use store_core::{
    AppendPending, AppendedInputs, Commit, Decision, DecisionAction, Delivery, Error, ErrorKind, Expect, InputRef,
    Message, NewInput, PendingQueue, PendingStore, RunChange, RunStatus, ThreadId, Ticket, WaitingReason, WaitingState,
};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_kind},
    given::{Given, id},
    log::writer::join,
    run::helpers::run_change,
};

/// The queue of a thread.
pub(super) struct ThreadQueue<'a> {
    pub(super) given: &'a Given,
    pub(super) thread: ThreadId,
}

impl<'a> ThreadQueue<'a> {
    /// The queue of the thread `name`.
    pub(super) fn of(given: &'a Given, name: &str) -> Self {
        Self { given, thread: id(name) }
    }

    /// The queue of the thread `name`, with these inputs appended.
    pub(super) async fn with_inputs(given: &'a Given, name: &str, inputs: &[&str]) -> Result<Self, Failure> {
        let queue = Self::of(given, name);
        queue.append(inputs.iter().map(|name| input(name))).await?;
        Ok(queue)
    }

    pub(super) fn store(&self) -> Result<Arc<dyn PendingStore>, Failure> {
        self.given.stores()?.pending.ok_or_else(|| Failure::new("the store has no pending input"))
    }

    pub(super) fn append_request(&self, inputs: impl IntoIterator<Item = NewInput>) -> AppendPending {
        AppendPending::new(self.thread.clone(), inputs)
    }

    pub(super) async fn append(&self, inputs: impl IntoIterator<Item = NewInput>) -> Result<AppendedInputs, Failure> {
        let request = self.append_request(inputs);
        Ok(self.store()?.append_pending(request).await?)
    }

    /// Checks that an append is refused and changes nothing. Returns the error.
    pub(super) async fn expect_refused(
        &self,
        inputs: impl IntoIterator<Item = NewInput>,
        kind: ErrorKind,
    ) -> Result<Error, Failure> {
        let (request, before) = (self.append_request(inputs), self.load().await?);
        let error = expect_kind(self.store()?.append_pending(request).await, kind)?;
        expect_eq(self.load().await?, before)?;
        Ok(error)
    }

    pub(super) async fn load(&self) -> Result<PendingQueue, Failure> {
        Ok(self.store()?.load_queue(&self.thread).await?)
    }

    /// Checks that the queue has these inputs, in this order and with positions from 1 on.
    pub(super) async fn expect_inputs(&self, ids: &str) -> Verdict {
        let queue = self.load().await?;
        expect_eq(join(queue.inputs.iter().map(|input| input.id.as_str())), ids)?;
        let positions = queue.inputs.iter().map(|input| input.position).collect::<Vec<_>>();
        expect_eq(positions, (1..).take(queue.inputs.len()).map(Some).collect::<Vec<_>>())
    }

    /// The id and the current revision of an input.
    pub(super) async fn input_ref(&self, name: &str) -> Result<InputRef, Failure> {
        let queue = self.load().await?;
        let found = queue.inputs.iter().find(|input| input.id.as_str() == name);
        found
            .map(store_core::PendingInput::to_input_ref)
            .ok_or_else(|| Failure::new(format!("`{name}` is not pending")))
    }

    /// A commit that consumes these inputs, with the current version of the thread as its guard.
    pub(super) async fn commit_consuming(&self, names: &[&str]) -> Result<Commit, Failure> {
        let mut inputs = Vec::new();
        for name in names {
            inputs.push(self.input_ref(name).await?);
        }
        let stored = self.given.threads()?.load_thread(&self.thread).await?;
        let expect = stored.map_or(Expect::Absent, |thread| Expect::Version(thread.version));
        Ok(Commit::new(self.thread.clone()).expecting(expect).consuming(inputs))
    }

    /// Consumes these inputs, in this order.
    pub(super) async fn consume(&self, names: &[&str]) -> Verdict {
        let commit = self.commit_consuming(names).await?;
        self.given.expect_accepted(commit).await
    }
}

/// An input. `name` is both its id and the text of its message.
pub(super) fn input(name: &str) -> NewInput {
    NewInput::message(Message::user(name)).with_id(id(name))
}

/// An input with this delivery. `name` is both its id and the text of its message.
pub(super) fn input_with_delivery(name: &str, delivery: Delivery) -> NewInput {
    input(name).with_delivery(delivery)
}

/// A decision that resumes a run at one of its tickets.
pub(super) fn resume_decision(run: &str, ticket: &str) -> Decision {
    Decision::new(id(run), ticket, DecisionAction::Resume)
}

/// A change after which the run `name` waits for these tickets.
pub(super) fn waiting_change(name: &str, tickets: &[&str]) -> RunChange {
    let mut state = WaitingState::new(WaitingReason::ToolPermission);
    state.tickets = tickets.iter().map(|ticket| Ticket::new(*ticket)).collect();
    run_change(name, RunStatus::Waiting(Box::new(state)))
}

/// Creates a run that waits for these tickets.
pub(super) async fn create_waiting_run(given: &Given, thread: &str, run: &str, tickets: &[&str]) -> Verdict {
    crate::run::helpers::write_run(given, thread, run_change(run, RunStatus::Running)).await?;
    crate::run::helpers::write_run(given, thread, waiting_change(run, tickets)).await
}
