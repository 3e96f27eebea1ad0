//! Checks how each dispatch ended, and which entries were written under its claims.

use std::collections::{BTreeMap, BTreeSet};

use agentstore::{ClaimNumber, DispatchStatus};

use super::{Evidence, Rule, Violation, claim_name};
use crate::{
    final_state::{FinalDispatch, FinalThread},
    record::{DispatchName, LogLine, LoggedAction},
    worker::DoneBy,
};

pub(super) fn check_work(evidence: &Evidence, violations: &mut Vec<Violation>) {
    for line in &evidence.lines {
        violations.extend(check_line(evidence, line));
    }
    let (mut done_counts, mut done_in_thread) =
        (BTreeMap::<u32, usize>::new(), BTreeMap::<u32, BTreeSet<DispatchName>>::new());
    for (name, final_state) in &evidence.dispatches {
        violations.extend(check_end(evidence, *name, final_state));
        if final_state.status == DispatchStatus::Acked {
            *done_counts.entry(name.job).or_default() += 1;
            done_in_thread.entry(final_state.thread).or_default().insert(*name);
        }
    }
    for name in &evidence.reappeared_dispatches {
        violations.push(Violation::new(Rule::DoneTwice, format!("{name} was removed, but exists again")));
    }
    for job in 0..evidence.jobs {
        match done_counts.get(&job) {
            Some(1) => {}
            None | Some(0) => violations.push(Violation::new(Rule::LostWork, format!("job {job} was not done"))),
            Some(times) => {
                violations.push(Violation::new(Rule::DoneTwice, format!("job {job} was done {times} times")))
            }
        }
    }
    for (thread, final_state) in &evidence.threads {
        let written_dispatches = dispatches_with_entries(evidence, *thread, final_state, violations);
        for name in done_in_thread
            .get(thread)
            .into_iter()
            .flatten()
            .filter(|name| written_dispatches.as_ref().is_some_and(|all| !all.contains(name)))
        {
            violations
                .push(Violation::new(Rule::LostWork, format!("{name} is done, but has no entry in thread {thread}")));
        }
    }
}

/// Returns a violation if the store does not contain what the answer to a call confirmed.
fn check_line(evidence: &Evidence, line: &LogLine) -> Option<Violation> {
    match &line.did {
        LoggedAction::Enqueued { dispatch, thread, epoch } => {
            let final_state = evidence.dispatches.get(dispatch);
            let is_stored =
                final_state.is_some_and(|final_state| (final_state.thread, final_state.epoch) == (*thread, *epoch));
            let description = || format!("{dispatch} was enqueued, but the store contains {final_state:?}");
            (!is_stored).then(|| Violation::new(Rule::LostWork, description()))
        }
        LoggedAction::Claimed { claim, .. } => {
            let final_state = evidence.dispatches.get(&claim.dispatch)?;
            let is_stored = !final_state.has_all_attempts()
                || final_state.history.iter().any(|(number, _)| *number == claim.number);
            (!is_stored).then(|| {
                Violation::new(Rule::MissingFromStore, format!("{} is missing in the history", claim_name(claim)))
            })
        }
        LoggedAction::Accepted { claim, act, again, .. } => {
            let acknowledging_claim = evidence.dispatches.get(&claim.dispatch).and_then(FinalDispatch::acked_by);
            let written_by =
                evidence.threads.get(&claim.thread).and_then(|final_state| final_state.written_by.as_ref());
            let has_entry = || {
                let writer = DoneBy { dispatch: claim.dispatch, claim: claim.number };
                // If the commit was deduplicated, an earlier claim may have written the entry.
                *again || written_by.is_none_or(|written_by| written_by.contains(&writer))
            };
            let is_stored = (!act.acknowledges() || acknowledging_claim == Some(claim.number))
                && (!act.writes_entry() || has_entry());
            let description = || {
                format!(
                    "{act:?} of {} was accepted, but is lost; acknowledged by {acknowledging_claim:?}",
                    claim_name(claim)
                )
            };
            (!is_stored).then(|| Violation::new(Rule::MissingFromStore, description()))
        }
        LoggedAction::Interrupted { .. } | LoggedAction::Calling { .. } | LoggedAction::Refused { .. } => None,
    }
}

/// Returns a violation if a dispatch has not ended correctly, or if the claim that its result names is not the one that
/// acknowledged it.
fn check_end(evidence: &Evidence, name: DispatchName, final_state: &FinalDispatch) -> Option<Violation> {
    let thread_epoch = evidence.threads.get(&final_state.thread).map(|thread| thread.epoch).unwrap_or_default();
    match final_state.status {
        DispatchStatus::Acked => {
            let writer = final_state.done_by?;
            let description =
                || format!("the result of {name} is from {writer:?}, but {:?} acknowledged it", final_state.acked_by());
            (Some(writer.claim) != final_state.acked_by() || writer.dispatch != name)
                .then(|| Violation::new(Rule::StaleWrite, description()))
        }
        DispatchStatus::Superseded if final_state.epoch < thread_epoch => None,
        DispatchStatus::Superseded => Some(Violation::new(
            Rule::WrongEpoch,
            format!("{name} of epoch {} was superseded, but its thread is in epoch {thread_epoch}", final_state.epoch),
        )),
        status => Some(Violation::new(Rule::LostWork, format!("{name} is {} at the end", status.name()))),
    }
}

/// Returns the dispatches that have an entry in the log of a thread, or `None` if the store keeps no threads. Also
/// checks that the entries were written under growing claim numbers, and that each dispatch has at most one entry.
fn dispatches_with_entries(
    evidence: &Evidence,
    thread: u32,
    final_state: &FinalThread,
    violations: &mut Vec<Violation>,
) -> Option<BTreeSet<DispatchName>> {
    let written_by = final_state.written_by.as_ref()?;
    let (mut newest_claim, mut dispatches) = (None::<ClaimNumber>, BTreeSet::new());
    for writer in written_by {
        if newest_claim.is_some_and(|newest| writer.claim < newest) {
            let description =
                format!("thread {thread} was written to under claim {} after {newest_claim:?}", writer.claim);
            violations.push(Violation::new(Rule::StaleWrite, description));
        }
        newest_claim = newest_claim.max(Some(writer.claim));
        if !dispatches.insert(writer.dispatch) {
            violations.push(Violation::new(
                Rule::DoneTwice,
                format!("{} has two entries in thread {thread}", writer.dispatch),
            ));
        }
        let acknowledging_claim = evidence.dispatches.get(&writer.dispatch).and_then(FinalDispatch::acked_by);
        // In one store, one commit writes the entry and ends the dispatch. On two stores, a later claim may have
        // ended it.
        if evidence.is_fenced && acknowledging_claim != Some(writer.claim) {
            let description = format!(
                "claim {} wrote to thread {thread} that {} is done, but {acknowledging_claim:?} acknowledged it",
                writer.claim, writer.dispatch
            );
            violations.push(Violation::new(Rule::StaleWrite, description));
        }
    }
    Some(dispatches)
}
