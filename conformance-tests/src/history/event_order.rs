//! Checks that all answers about a scope of events agree with one order of its events. The check of an answer takes
//! time proportional to the number of events in the answer.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::record::Operation;

/// An operation on events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventOp {
    /// The scopes that the operation is about.
    pub scopes: Vec<String>,
    /// What the operation does.
    pub act: EventAct,
}

/// What an operation does with events. Each event has a unique name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventAct {
    /// Appends these events together.
    Append(Vec<u64>),
    /// Lists the events after this one, or all events from the beginning.
    #[serde(rename = "ReadOn")]
    ReadAfter(Option<u64>),
    /// Lists the newest events, backwards.
    #[serde(rename = "ReadBack")]
    ReadBackward,
    /// Subscribes from now on, from an event on, or from the beginning.
    Follow {
        /// Whether the subscription starts now.
        is_now: bool,
        /// The event after which the subscription starts; `None` if it starts at the beginning.
        after: Option<u64>,
    },
}

/// What an operation on events returns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventAnswer {
    /// The events were appended.
    Appended,
    /// A list returned events.
    Read {
        /// The names of the events, in the order of the answer.
        names: Vec<u64>,
        /// Whether this was the last page of the list.
        is_end: bool,
    },
    /// A subscription started after this event, or at the beginning.
    Began(Option<u64>),
}

/// The order of a scope's events, and when they were appended.
struct ScopeOrder<'a> {
    names: &'a [u64],
    positions: HashMap<u64, usize>,
    /// The times at which appends returned, in ascending order. Each is stored with the minimum number of events that
    /// the scope had at that time.
    append_returns: Vec<(u64, usize)>,
    /// The time at which the append of each event was invoked.
    append_invocations: Vec<u64>,
}

/// Checks that every read of `scope` in `history` agrees with the order `names`, which the scope has at the end.
///
/// # Errors
/// Describes an event that is missing, is listed twice or is in the wrong position.
pub fn check_order(scope: &str, names: &[u64], history: &[Operation<EventOp, EventAnswer>]) -> Result<(), String> {
    let operations_of_scope =
        || history.iter().filter(|operation| operation.op.scopes.iter().any(|name| name == scope));
    let order = ScopeOrder::new(names, operations_of_scope())?;
    for Operation { op, invoked, returned } in operations_of_scope() {
        let Some((returned, answer)) = returned else { continue };
        let result = match (&op.act, answer) {
            (EventAct::ReadAfter(after), EventAnswer::Read { names, is_end }) => {
                order.check_read(*after, names, is_end.then_some(*invoked))
            }
            (EventAct::ReadBackward, EventAnswer::Read { names, is_end }) => {
                order.check_backward_read(names, *is_end, *invoked)
            }
            (EventAct::Follow { is_now, .. }, EventAnswer::Began(after)) => {
                order.check_start(*is_now, *after, (*invoked, *returned))
            }
            _ => Ok(()),
        };
        result.map_err(|why| format!("{scope}, {invoked}..{returned} {:?}: {why}", op.act))?;
    }
    Ok(())
}

impl<'a> ScopeOrder<'a> {
    fn new<'b>(
        names: &'a [u64],
        history: impl Iterator<Item = &'b Operation<EventOp, EventAnswer>>,
    ) -> Result<Self, String> {
        let positions: HashMap<_, _> = names.iter().copied().zip(0..).collect();
        if positions.len() != names.len() {
            return Err(format!("{} events are listed twice", names.len() - positions.len()));
        }
        let mut order = Self { names, positions, append_returns: Vec::new(), append_invocations: vec![0; names.len()] };
        let (mut appended, mut return_times) = (HashSet::<u64>::new(), vec![u64::MAX; names.len()]);
        for Operation { op, invoked, returned } in history {
            let EventAct::Append(appended_names) = &op.act else { continue };
            let Some((returned, _)) = returned else { continue };
            let first = order.position(appended_names[0])?;
            if names.get(first..first + appended_names.len()) != Some(appended_names) {
                return Err(format!("the events {appended_names:?} of one append are not next to each other"));
            }
            order.append_invocations[first..first + appended_names.len()].fill(*invoked);
            return_times[first..first + appended_names.len()].fill(*returned);
            order.append_returns.push((*returned, first + appended_names.len()));
            appended.extend(appended_names);
        }
        if appended.len() != names.len() {
            return Err(format!("{} events are listed that were never appended", names.len() - appended.len()));
        }
        order.check_append_times(&return_times)?;
        order.append_returns.sort_unstable();
        // The counter of a scope never decreases. So from each time on, the scope has at least as many events as after
        // any append that returned before.
        let mut max_count = 0;
        for (_, min_count) in &mut order.append_returns {
            max_count = max_count.max(*min_count);
            *min_count = max_count;
        }
        Ok(order)
    }

    /// Checks that if one append returned before a second one was invoked, the events of the first come before those of
    /// the second.
    fn check_append_times(&self, return_times: &[u64]) -> Result<(), String> {
        // Of the events after `position`: the earliest return of an append, and the position of its event.
        let mut earliest = (u64::MAX, 0);
        for (position, return_time) in return_times.iter().enumerate().rev() {
            let (earliest_return, earliest_position) = earliest;
            if earliest_return < self.append_invocations[position] {
                let [early, late] = [self.names[earliest_position], self.names[position]];
                return Err(format!("event {early} was acknowledged before {late} was appended, but comes after it"));
            }
            earliest = earliest.min((*return_time, position));
        }
        Ok(())
    }

    fn position(&self, name: u64) -> Result<usize, String> {
        self.positions.get(&name).copied().ok_or_else(|| format!("event {name} is missing at the end"))
    }

    fn position_after(&self, after: Option<u64>) -> Result<usize, String> {
        after.map_or(Ok(0), |name| Ok(self.position(name)? + 1))
    }

    /// Returns the number of events that were acknowledged before `time`.
    fn acknowledged_before(&self, time: u64) -> usize {
        let earlier_returns = self.append_returns.partition_point(|(returned, _)| *returned < time);
        self.append_returns[..earlier_returns].last().map_or(0, |(_, min_count)| *min_count)
    }

    /// Checks that `names` are the events after `after`, without a gap. For the last page of a list, `last_page_time`
    /// is the time of the call. No event that was acknowledged before this time may then be missing.
    fn check_read(&self, after: Option<u64>, names: &[u64], last_page_time: Option<u64>) -> Result<(), String> {
        let first = self.position_after(after)?;
        let wanted = self.names.get(first..first + names.len()).unwrap_or_default();
        if let Some((got, wanted)) = names.iter().zip(wanted).find(|(got, wanted)| got != wanted) {
            return Err(format!("event {got} was read instead of {wanted}"));
        }
        let min_count = last_page_time.map_or(0, |time| self.acknowledged_before(time));
        if names.len() != wanted.len() || first + names.len() < min_count {
            return Err(format!("the read ended after event {} of {min_count}", first + names.len()));
        }
        Ok(())
    }

    /// Checks that `names` are the newest events, the newest first. No event that was acknowledged before the call may
    /// be missing, and the last page of a list must end with the first event of the scope.
    fn check_backward_read(&self, names: &[u64], is_end: bool, invoked: u64) -> Result<(), String> {
        let count = names.first().map_or(Ok(0), |name| Ok::<_, String>(self.position(*name)? + 1))?;
        let min_count = self.acknowledged_before(invoked);
        if count < min_count || (is_end && names.len() != count) {
            return Err(format!("{} events were read backward from event {count} of {min_count}", names.len()));
        }
        let wanted = self.names[count.saturating_sub(names.len())..count].iter().rev();
        if names.iter().eq(wanted) { Ok(()) } else { Err(format!("these are not the newest events: {names:?}")) }
    }

    /// Checks the start of a subscription from now on. It must come after all events that were acknowledged before the
    /// call, and before all events whose append was invoked after the call had returned.
    fn check_start(&self, is_now: bool, after: Option<u64>, (invoked, returned): (u64, u64)) -> Result<(), String> {
        let first = self.position_after(after)?;
        let acknowledged = self.acknowledged_before(invoked);
        if is_now && first < acknowledged {
            return Err(format!(
                "the subscription began after {first} events, but {acknowledged} were acknowledged before it"
            ));
        }
        let skips_later_event = self.append_invocations[..first].iter().any(|time| *time > returned);
        if is_now && skips_later_event {
            return Err(format!(
                "the subscription began after {first} events, but one of them was appended only after the call returned"
            ));
        }
        Ok(())
    }
}
