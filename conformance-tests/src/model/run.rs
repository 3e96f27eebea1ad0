//! Runs: how a commit creates and changes them (RU-3 to RU-13).

use serde_json::json;
use store_core::{
    Commit, EntryRange, Error, Limits, Result, Run, RunChange, RunOutcome, RunPhase, RunStatus, Timestamp, TokenCounts,
    check_limit, codec::Codec,
};

use super::{
    bug::Bug,
    commit::Environment,
    model_data::{TenantData, ThreadData, record_from_json},
};

/// Returns the run that a commit creates or changes, with the changes of the commit.
pub(super) fn run_after_commit(
    tenant: &TenantData,
    thread_data: &ThreadData,
    commit: &Commit,
    env: &Environment<'_>,
) -> Result<Option<Run>> {
    let Some(change) = &commit.run else { return Ok(None) };
    let mut run_of_other_thread = tenant.find_run(&change.id).filter(|(other, _)| other.thread.id != commit.thread);
    if env.bug == Some(Bug::RunIdOfAnotherThread) {
        run_of_other_thread = None;
    }
    if run_of_other_thread.is_some() {
        return Err(Error::already_exists("run", &change.id).in_part("run"));
    }
    let stored = thread_data.runs.iter().find(|run| run.id == change.id);
    let log_length = (thread_data.entries.len() + commit.consume.len() + commit.entries.len()) as u64;
    let run = changed_run(stored, commit, change, (log_length, env)).map_err(|e| e.in_part("run"))?;
    if stored.is_none()
        && let Some(parent) = &run.parent_run
        && tenant.find_run(parent).is_none()
    {
        return Err(Error::not_found("parent run", parent).in_part("run"));
    }
    Ok(Some(run))
}

fn changed_run(
    stored: Option<&Run>,
    commit: &Commit,
    change: &RunChange,
    length_and_env: (u64, &Environment<'_>),
) -> Result<Run> {
    let (log_length, env) = length_and_env;
    let mut run = match stored {
        Some(run) => run.clone(),
        None => new_run(commit, change, env.now)?,
    };
    if let Some(stored) = stored {
        check_transition(stored, change, env.bug)?;
        check_field_changes(stored, change)?;
    }
    for range in change.input.iter().chain(&change.output) {
        if range.from < 1 || range.to < range.from || log_length < range.to {
            return Err(Error::invalid("range", "it is not within the log"));
        }
    }
    run.manifest = run.manifest.or_else(|| change.manifest.clone());
    run.steps = change.steps.unwrap_or(run.steps);
    run.usage = change.usage.clone().unwrap_or(run.usage);
    run.input = append_ranges(&run.input, &change.input);
    run.output = append_ranges(&run.output, &change.output);
    if let Some(dispatch) = change.dispatch.as_ref().filter(|dispatch| run.dispatches.last() != Some(dispatch)) {
        run.dispatches.push(dispatch.clone());
    }
    for (key, value) in &change.state {
        run.state.remove(key);
        run.state.extend(value.iter().map(|value| (key.clone(), value.clone())));
    }
    run.status = truncate_error_text(&change.status, env.limits);
    run.updated_at = run.updated_at.max(env.now);
    match run.status.phase() {
        RunPhase::Running => run.started_at = run.started_at.or(Some(run.updated_at)),
        RunPhase::Done => run.finished_at = run.finished_at.or(Some(run.updated_at)),
        RunPhase::Created | RunPhase::Waiting => {}
    }
    check_limit("record bytes", run.encode().len() as u64, env.limits.record_bytes)?;
    Ok(run)
}

fn new_run(commit: &Commit, change: &RunChange, now: Timestamp) -> Result<Run> {
    let agent = change.agent.as_ref().ok_or_else(|| Error::invalid("agent", "a new run needs an agent"))?;
    let mut run: Run = record_from_json(&json!({
        "id": change.id, "thread": commit.thread, "agent": agent, "status": {"created": {}},
        "created_at": now, "updated_at": now,
    }))?;
    run.parent_run.clone_from(&change.parent_run);
    run.request.clone_from(&change.request);
    Ok(run)
}

/// Refuses a change of status that is not in the table of the contract (RU-3).
fn check_transition(stored: &Run, change: &RunChange, bug: Option<Bug>) -> Result<()> {
    let (from, to) = (stored.status.phase(), change.status.phase());
    let allowed: &[RunPhase] = match from {
        RunPhase::Created => &[RunPhase::Running, RunPhase::Done],
        RunPhase::Running | RunPhase::Waiting => &[RunPhase::Running, RunPhase::Waiting, RunPhase::Done],
        RunPhase::Done if bug == Some(Bug::DoneRunChanges) => &[RunPhase::Done],
        RunPhase::Done => &[],
    };
    let is_allowed = allowed.contains(&to) || bug == Some(Bug::AnyTransition) && from != RunPhase::Done;
    if is_allowed { Ok(()) } else { Err(Error::invalid_transition("run", &stored.id, from.name(), to.name())) }
}

/// Refuses a change of a field that is fixed once it is set, and a decrease of the steps or the usage.
fn check_field_changes(stored: &Run, change: &RunChange) -> Result<()> {
    let refuse_if = |field: &str, differs: bool| {
        if differs { Err(Error::invalid(format!("run.{field}"), "this change is not allowed")) } else { Ok(()) }
    };
    refuse_if("agent", change.agent.as_ref().is_some_and(|agent| *agent != stored.agent))?;
    refuse_if("parent_run", change.parent_run.is_some() && change.parent_run != stored.parent_run)?;
    refuse_if("request", change.request.is_some() && change.request != stored.request)?;
    let manifest = change.manifest.as_ref().zip(stored.manifest.as_ref());
    refuse_if("manifest", manifest.is_some_and(|(new, old)| new != old))?;
    refuse_if("steps", change.steps.is_some_and(|steps| steps < stored.steps))?;
    refuse_if("usage", change.usage.as_ref().is_some_and(|usage| has_decreased(&stored.usage, usage)))
}

const fn has_decreased(old: &TokenCounts, new: &TokenCounts) -> bool {
    new.input < old.input
        || new.output < old.output
        || new.cache_read < old.cache_read
        || new.cache_write < old.cache_write
        || new.reasoning < old.reasoning
}

/// Appends new ranges to old ones. A range that begins directly after the last one extends it.
fn append_ranges(old: &[EntryRange], new: &[EntryRange]) -> Vec<EntryRange> {
    let mut ranges: Vec<EntryRange> = old.to_vec();
    for range in new {
        match ranges.last_mut() {
            Some(last) if last.to + 1 == range.from => last.to = range.to,
            _ => ranges.push(*range),
        }
    }
    ranges
}

/// Truncates the error text of a failed run to the limit of texts (ER-10).
fn truncate_error_text(status: &RunStatus, limits: &Limits) -> RunStatus {
    let mut status = status.clone();
    if let RunStatus::Done(completion) = &mut status
        && let RunOutcome::Failed { error } = &mut completion.outcome
        && error.len() as u64 > limits.text_bytes
    {
        while error.len() + '…'.len_utf8() > usize::try_from(limits.text_bytes).unwrap_or(usize::MAX) {
            error.pop();
        }
        error.push('…');
    }
    status
}
