//! Joining deltas that are applied together, so that each thread is written once.

use std::collections::HashMap;

use super::{Delta, ReadDelta};
use crate::{
    commit::{CommitKeyRecord, Plan},
    event::{EventPlan, Scope},
    id::{TenantId, ThreadId},
};

/// The plans of one thread, as one plan.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JoinedPlan {
    /// The tenant.
    pub tenant: TenantId,
    /// All that the plans write, each record as the last of them left it. The commit key is that of the last.
    pub plan: Plan,
    /// The commit keys of the others.
    pub earlier_keys: Vec<CommitKeyRecord>,
}

/// What a store writes at once.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ApplyStep {
    /// Plans of different threads that write no record in common, so that their order does not matter. If there are
    /// several, they write nothing of queues, documents, topics, keys of events, or ordered rows of the outbox.
    Plans(Vec<JoinedPlan>),
    /// A delta that is not a plan.
    Other(ReadDelta),
}

/// Joins deltas into steps. The steps, applied in order, write what the deltas write, applied in order (NB-4).
#[must_use]
pub fn join_deltas(deltas: &[ReadDelta]) -> Vec<ApplyStep> {
    let mut steps = Vec::new();
    let mut joined = Joined::default();
    for read in deltas {
        if let Delta::Thread(plan) = &*read.delta {
            let can_join = can_join(plan);
            if !can_join {
                steps.extend(joined.take());
            }
            joined.add(&read.tenant, plan);
            if !can_join {
                steps.extend(joined.take());
            }
        } else {
            steps.extend(joined.take());
            steps.push(ApplyStep::Other(read.clone()));
        }
    }
    steps.extend(joined.take());
    steps
}

/// Returns whether a plan can be joined with others, record by record. Of its events, only those in topics can be in a
/// scope that other threads write to.
fn can_join(plan: &Plan) -> bool {
    plan.thread.is_some()
        && plan.mailbox.is_none()
        && plan.queue.put.is_empty()
        && plan.queue.removed.is_empty()
        && plan.queue.ranks.is_empty()
        && plan.documents.changes.is_empty()
        && plan.events.as_ref().is_none_or(|events| {
            events.key.is_none() && events.scopes.keys().all(|scope| !matches!(scope, Scope::Topic(_)))
        })
        && plan.outbox.rows.iter().all(|(row, _)| row.order_key.is_none())
}

/// Plans that are joined so far.
#[derive(Default)]
struct Joined {
    plans: Vec<JoinedPlan>,
    /// The place of each thread in `plans`.
    places: HashMap<(TenantId, ThreadId), usize>,
}

impl Joined {
    fn add(&mut self, tenant: &TenantId, plan: &Plan) {
        let thread = &plan.receipt.thread;
        let place = *self.places.entry((tenant.clone(), thread.clone())).or_insert(self.plans.len());
        match self.plans.get_mut(place) {
            Some(earlier) => {
                earlier.earlier_keys.extend(earlier.plan.key.take());
                join(&mut earlier.plan, plan);
            }
            None => {
                let (tenant, plan) = (tenant.clone(), plan.clone());
                self.plans.push(JoinedPlan { tenant, plan, earlier_keys: Vec::new() });
            }
        }
    }

    fn take(&mut self) -> Option<ApplyStep> {
        let Self { plans, .. } = std::mem::take(self);
        (!plans.is_empty()).then_some(ApplyStep::Plans(plans))
    }
}

/// Adds a later plan of the same thread.
fn join(plan: &mut Plan, later: &Plan) {
    plan.thread.clone_from(&later.thread);
    plan.id_record.clone_from(&later.id_record);
    plan.entries.extend_from_slice(&later.entries);
    plan.marks.extend(later.marks.iter().map(|(seq, marks)| (*seq, marks.clone())));
    plan.runs.retain(|run| later.runs.iter().all(|changed| changed.id != run.id));
    plan.runs.extend_from_slice(&later.runs);
    if later.state.clear {
        plan.state = later.state.clone();
    } else {
        plan.state.values.extend(later.state.values.clone());
    }
    match (&mut plan.events, &later.events) {
        (Some(events), Some(later)) => join_events(events, later),
        (events @ None, later) => events.clone_from(later),
        (Some(_), None) => {}
    }
    plan.outbox.rows.extend_from_slice(&later.outbox.rows);
    plan.key.clone_from(&later.key);
    plan.receipt = later.receipt.clone();
}

fn join_events(events: &mut EventPlan, later: &EventPlan) {
    events.events.extend_from_slice(&later.events);
    events.scopes.extend(later.scopes.clone());
}
