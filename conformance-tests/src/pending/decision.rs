//! Decisions on the tickets that waiting runs wait for.

use std::sync::Arc;

use store_core::{
    Block, Body, Boundary, Commit, ContextRequest, Decision, DecisionAction, Delivery, ErrorKind, NewBody, NewEntry,
    NewInput, PendingUpdate, Reorder, RunTarget,
};

use super::helpers::{ThreadQueue, create_waiting_run, input, resume_decision};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_exactly_one, expect_kind, expect_kinds},
    given::{id, run_concurrently},
    log::{entry_drafts::json, writer::ThreadWriter},
    run::helpers::{done_run, run_change, running_run, write_run},
};

/// A decision is pending input for a waiting run. When it is consumed, it becomes an entry. This entry is in no
/// context.
pub(super) async fn a_decision_becomes_an_entry(given: &Given) -> Verdict {
    create_waiting_run(given, "t", "r", &["k"]).await?;
    let queue = ThreadQueue::of(given, "t");
    let decision = resume_decision("r", "k").with_result(json(r#"{"n":1.0}"#)).with_reason("fine");
    queue.append([NewInput::decision(decision.clone()).with_id(id("d"))]).await?;
    expect_eq(queue.load().await?.inputs[0].delivery.boundary, Boundary::ResumeInput)?;
    given.expect_accepted(queue.commit_consuming(&["d"]).await?.with_run(running_run("r"))).await?;
    expect_eq(&*ThreadWriter::new(given, "t").load_entry("d").await?.body, &Body::Decision(decision))?;
    let context = given.threads()?.load_context(&id("t"), ContextRequest::head()).await?;
    expect_eq(context.context.messages.len(), 0)?;
    let decision_entry = NewEntry::new(NewBody::Decision(resume_decision("r", "k")));
    ThreadWriter::new(given, "t").expect_refused([decision_entry], ErrorKind::Invalid).await.map(drop)
}

/// A decision must name a waiting run of the thread and one of the tickets of that run. It cannot have another boundary
/// or another target, and cannot be a barrier.
pub(super) async fn a_decision_needs_a_waiting_run(given: &Given) -> Verdict {
    create_waiting_run(given, "t", "r", &["k", "l"]).await?;
    write_run(given, "t", run_change("running", store_core::RunStatus::Running)).await?;
    write_run(given, "t", done_run("done")).await?;
    create_waiting_run(given, "other", "foreign", &["k"]).await?;
    let queue = ThreadQueue::of(given, "t");
    for decision in [
        resume_decision("unknown", "k"),
        resume_decision("running", "k"),
        resume_decision("done", "k"),
        resume_decision("foreign", "k"),
        resume_decision("r", "m"),
    ] {
        queue.expect_refused([NewInput::decision(decision)], ErrorKind::Invalid).await?;
    }
    let decision = || NewInput::decision(resume_decision("r", "k"));
    queue.expect_refused([decision().with_delivery(Delivery::at(Boundary::NewRun))], ErrorKind::Invalid).await?;
    let barrier = Delivery::at(Boundary::ResumeInput).as_barrier();
    queue.expect_refused([decision().with_delivery(barrier)], ErrorKind::Invalid).await?;
    let delivery_for_other_run = Delivery::at(Boundary::ResumeInput).for_run(RunTarget::new(id("running")));
    queue.expect_refused([decision().with_delivery(delivery_for_other_run)], ErrorKind::Invalid).await?;
    queue.expect_refused([decision(), decision()], ErrorKind::Invalid).await?;
    queue.append([decision(), NewInput::decision(resume_decision("r", "l"))]).await.map(drop)
}

/// A ticket of a run is decided once. An append of an equal decision returns the first one. A different decision on the
/// same ticket is refused. Other tickets, and tickets of other runs, have their own decisions.
pub(super) async fn a_ticket_is_decided_once(given: &Given) -> Verdict {
    create_waiting_run(given, "t", "r", &["k", "l"]).await?;
    create_waiting_run(given, "t", "s", &["k"]).await?;
    let queue = ThreadQueue::of(given, "t");
    let first_answer = queue.append([NewInput::decision(resume_decision("r", "k"))]).await?;
    let repeated_answer = queue.append([NewInput::decision(resume_decision("r", "k")).with_id(id("other id"))]).await?;
    expect_eq((repeated_answer.inputs, repeated_answer.deduplicated), (first_answer.inputs, true))?;
    let cancel = Decision::new(id("r"), "k", DecisionAction::Cancel);
    queue.expect_refused([NewInput::decision(cancel)], ErrorKind::Conflict).await?;
    queue
        .expect_refused([NewInput::decision(resume_decision("r", "k").with_reason("why"))], ErrorKind::Conflict)
        .await?;
    queue
        .append([NewInput::decision(resume_decision("r", "l")), NewInput::decision(resume_decision("s", "k"))])
        .await?;
    expect_eq(queue.load().await?.inputs.len(), 3)
}

/// A ticket stays decided after its decision was consumed and the run continued, and even after a reopen.
pub(super) async fn a_ticket_stays_decided_after_consumption(given: &Given) -> Verdict {
    create_waiting_run(given, "t", "r", &["k"]).await?;
    let queue = ThreadQueue::of(given, "t");
    let first_answer = queue.append([NewInput::decision(resume_decision("r", "k")).with_id(id("d"))]).await?;
    given.expect_accepted(queue.commit_consuming(&["d"]).await?.with_run(running_run("r"))).await?;
    for reopened in [false, true] {
        if reopened {
            given.reopen().await?;
        }
        let repeated_answer = queue.append([NewInput::decision(resume_decision("r", "k"))]).await?;
        expect_eq((&repeated_answer.inputs, repeated_answer.deduplicated), (&first_answer.inputs, true))?;
        let cancel = Decision::new(id("r"), "k", DecisionAction::Cancel);
        queue.expect_refused([NewInput::decision(cancel)], ErrorKind::Conflict).await?;
        queue.expect_inputs("").await?;
    }
    Ok(())
}

/// While a run has not finished, a decision for it cannot be updated or retracted. A reorder of the queue can move it.
pub(super) async fn a_decision_of_an_unfinished_run_cannot_be_changed(given: &Given) -> Verdict {
    create_waiting_run(given, "t", "r", &["k"]).await?;
    let queue = ThreadQueue::of(given, "t");
    queue.append([NewInput::decision(resume_decision("r", "k")).with_id(id("d")), input("a")]).await?;
    let queue_before = queue.load().await?;
    let store = queue.store()?;
    let message = store_core::Message::new(store_core::Role::User, vec![Block::text("x")]);
    let update = PendingUpdate::new(id("t"), id("d"));
    expect_kind(store.update_pending(update.clone().with_message(message)).await, ErrorKind::Invalid)?;
    let other_delivery = Delivery::at(Boundary::NewRun);
    expect_kind(store.update_pending(update.with_delivery(other_delivery)).await, ErrorKind::Invalid)?;
    expect_kind(store.retract_pending(&id("t"), &id("d")).await, ErrorKind::Invalid)?;
    expect_eq(queue.load().await?, queue_before)?;
    store.reorder_pending(Reorder::new(id("t"), 1, vec![id("a"), id("d")])).await?;
    queue.expect_inputs("a d").await
}

/// If several different decisions on the same ticket are appended at the same time, exactly one is accepted.
pub(super) async fn one_of_several_concurrent_decisions_is_accepted(given: &Given) -> Verdict {
    create_waiting_run(given, "t", "r", &["k"]).await?;
    let store = ThreadQueue::of(given, "t").store()?;
    let results = run_concurrently(8, |task| {
        let store = Arc::clone(&store);
        let decision = resume_decision("r", "k").with_reason(format!("{task}"));
        let request = store_core::AppendPending::new(id("t"), [NewInput::decision(decision)]);
        async move { store.append_pending(request).await }
    })
    .await;
    let (accepted_append, errors) = expect_exactly_one(results)?;
    expect_kinds(errors, ErrorKind::Conflict)?;
    let queue = ThreadQueue::of(given, "t").load().await?;
    expect_eq(
        queue.inputs.iter().map(store_core::PendingInput::to_input_ref).collect::<Vec<_>>(),
        accepted_append.inputs.clone(),
    )?;
    let commit = Commit::new(id("t")).with_key(id("c")).consuming(accepted_append.inputs);
    expect_eq(given.commit(commit).await?.consumed.len(), 1)
}

/// After a run has finished, a decision for it has no effect, and can be retracted.
pub(super) async fn a_decision_of_a_finished_run_can_be_retracted(given: &Given) -> Verdict {
    create_waiting_run(given, "t", "r", &["k"]).await?;
    let queue = ThreadQueue::of(given, "t");
    queue.append([NewInput::decision(resume_decision("r", "k")).with_id(id("d"))]).await?;
    expect_kind(queue.store()?.retract_pending(&id("t"), &id("d")).await, ErrorKind::Invalid)?;
    write_run(given, "t", done_run("r")).await?;
    queue.store()?.retract_pending(&id("t"), &id("d")).await?;
    queue.expect_inputs("").await
}
