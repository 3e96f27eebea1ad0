//! Delivers input while a run is open. A turn consumes the input, and a subscriber receives the events of the turn.

use agentstore::{
    AgentId, AppendEvents, AppendPending, Boundary, Commit, CommitKey, EntryId, ErrorKind, Event, EventStream, Message,
    NewEntry, NewEvent, NewInput, PendingUpdate, RunChange, RunId, RunOutcome, RunStatus, Scope, Subscribe,
    SubscriptionStart, ThreadId, select_inputs,
};
use serde_json::json;

use super::{
    Demo,
    report::{DemoReport, StepResult, now},
    steps::check,
};
use crate::{failure::Result, session::Session};

/// Starts a run, appends two inputs and changes one. Then one commit consumes the inputs, adds the answer, ends the run
/// and appends two events.
pub(super) async fn deliver_input(
    demo: &Demo,
    session: &Session,
    id: &ThreadId,
    report: &mut DemoReport<'_>,
) -> Result<()> {
    let started_at = now();
    let commits = session.commits()?;
    let (pending, events) = (commits.pending(), commits.events());
    let base_name = format!("{}-delivered", demo.id_prefix);
    let run = RunId::new(&base_name)?;
    let run_change =
        |status| Ok::<_, agentstore::Error>(RunChange::new(run.clone(), status).with_agent(AgentId::new("demo")?));
    let _running = commits.commit(Commit::new(id.clone()).with_run(run_change(RunStatus::Running)?)).await?;
    let ids = [EntryId::new(format!("{base_name}-1"))?, EntryId::new(format!("{base_name}-2"))?];
    let user_input = |text: &str, id: &EntryId| NewInput::message(Message::user(text)).with_id(id.clone());
    let inputs = [user_input("And in French?", &ids[0]), user_input("Quickly, please.", &ids[1])];
    let _queued = pending.append_pending(AppendPending::new(id.clone(), inputs)).await?;
    let update = PendingUpdate::new(id.clone(), ids[1].clone()).with_message(Message::user("Take your time."));
    let _changed = pending.update_pending(update).await?;
    let mut stream = events.subscribe(Subscribe::new(Scope::Thread(id.clone()), SubscriptionStart::Now)).await?.events;
    let queue = pending.load_queue(id).await?;
    let selected_inputs = select_inputs(&queue.inputs, Boundary::NewRun, &run, |_| true);
    let scopes = [Scope::Thread(id.clone()), Scope::Run(run.clone())];
    let event = |kind: &str| Ok::<_, agentstore::Error>(NewEvent::new(kind.parse()?, scopes.clone()));
    let turn_commit = Commit::new(id.clone())
        .with_key(CommitKey::new(&base_name)?)
        .consuming(selected_inputs.clone())
        .entry(NewEntry::new(Message::assistant("Sans hâte : la voici.")))
        .with_run(run_change(RunStatus::done(RunOutcome::NaturalEnd))?)
        .with_events(AppendEvents::new([event("input.taken")?, event("run.ended")?]));
    let receipt = commits.commit(turn_commit).await?;
    let received_events = [next_event(&mut stream).await?, next_event(&mut stream).await?];
    let repeated_commit =
        Commit::new(id.clone()).with_key(CommitKey::new(format!("{base_name}-again"))?).consuming(selected_inputs);
    let refusal = commits.commit(repeated_commit).await.err().map(|error| error.kind());
    let mut failed_checks = Vec::new();
    check(&mut failed_checks, receipt.consumed == ids, "the turn did not consume exactly the queued inputs");
    check(&mut failed_checks, pending.load_queue(id).await?.inputs.is_empty(), "the queue is not empty");
    check(
        &mut failed_checks,
        received_events.iter().map(|event| &event.id).eq(receipt.events.iter().map(|event| &event.id)),
        "the subscriber did not receive exactly the events of the turn",
    );
    check(&mut failed_checks, refusal == Some(ErrorKind::AlreadyConsumed), "input was consumed twice");
    let step_result = StepResult {
        did: "queued two inputs for a run, changed one, then committed a turn that consumed both and added two events"
            .to_owned(),
        proved: "each input entered the log once, in its final form, and a subscriber received the events of the turn",
        failed_checks,
        figures: json!({ "inputs": receipt.consumed.len(), "events": receipt.events.len() }),
    };
    report.add_step("deliver", started_at, step_result)
}

async fn next_event(events: &mut EventStream) -> Result<Event> {
    let event = std::future::poll_fn(|context| events.as_mut().poll_next(context)).await;
    Ok(event.unwrap_or_else(|| Err(agentstore::Error::closed()))?)
}
