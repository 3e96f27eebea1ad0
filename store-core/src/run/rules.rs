//! Rules for runs: transitions, fixed fields, and counts that never decrease.

use super::{EntryRange, Run, RunChange, RunFilter, RunOutcome, RunPhase, RunQuery, RunStatus};
use crate::{
    codec::{Codec, Extra},
    error::{Error, Result},
    id::{RunId, ThreadId},
    limits::{Limits, check_limit, length, truncate_text},
    log::{JsonMap, TokenCounts},
    page::encode_query_parts,
    time::Timestamp,
};

/// The thread, the time and the limits of the commit that changes a run.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RunContext<'a> {
    /// The thread of the commit.
    pub thread: &'a ThreadId,
    /// The number of entries in the log of the thread after the commit.
    pub log_length: u64,
    /// Store time.
    pub now: Timestamp,
    /// The limits of the store.
    pub limits: &'a Limits,
}

impl<'a> RunContext<'a> {
    /// Creates the context for a run of this thread.
    #[must_use]
    pub const fn new(thread: &'a ThreadId, log_length: u64, now: Timestamp, limits: &'a Limits) -> Self {
        Self { thread, log_length, now, limits }
    }
}

/// Returns the run after `change`, or the error with which the change is refused (RU-3 to RU-7, RU-11, RU-12).
///
/// # Errors
/// `AlreadyExists` if a run of another thread has the id; `InvalidTransition`; `Invalid` for a fixed field that
/// changes, a count that decreases, or a range outside of the log; `LimitExceeded`.
pub fn change(stored: Option<&Run>, change: &RunChange, context: RunContext<'_>) -> Result<Run> {
    // A change that is far too large is refused before it is copied and encoded.
    let values = change.state.values().flatten().chain(&change.request);
    let min_bytes = values.map(|value| length(value.as_str().len())).sum();
    check_limit("record bytes", min_bytes, context.limits.record_bytes)?;
    let mut run = match stored {
        Some(run) => apply_change(run, change, context)?,
        None => new_run(change, context)?,
    };
    for range in change.input.iter().chain(&change.output) {
        if range.from == 0 || range.from > range.to || range.to > context.log_length {
            return Err(Error::invalid("run", "a range is not within the log"));
        }
    }
    add_ranges(&mut run.input, &change.input);
    add_ranges(&mut run.output, &change.output);
    if let Some(dispatch) = &change.dispatch
        && run.dispatches.last() != Some(dispatch)
    {
        run.dispatches.push(dispatch.clone());
    }
    for (key, value) in &change.state {
        match value {
            Some(value) => run.state.insert(key.clone(), value.clone()),
            None => run.state.remove(key),
        };
    }
    run.status = shorten_error(change.status.clone(), context.limits);
    let now = context.now;
    run.updated_at = run.updated_at.max(now);
    if run.status.phase() == RunPhase::Running {
        run.started_at = run.started_at.or(Some(run.updated_at));
    }
    if run.status.phase() == RunPhase::Done {
        run.finished_at = run.finished_at.or(Some(run.updated_at));
    }
    check_limit("record bytes", length(run.encode().len()), context.limits.record_bytes)?;
    Ok(run)
}

fn new_run(change: &RunChange, context: RunContext<'_>) -> Result<Run> {
    let agent = change.agent.clone().ok_or_else(|| Error::invalid("run", "a new run needs an `agent`"))?;
    Ok(Run {
        id: change.id.clone(),
        thread: context.thread.clone(),
        agent,
        parent_run: change.parent_run.clone(),
        dispatches: Vec::new(),
        request: change.request.clone(),
        manifest: change.manifest.clone(),
        status: RunStatus::Created,
        input: Vec::new(),
        output: Vec::new(),
        steps: change.steps.unwrap_or_default(),
        usage: change.usage.clone().unwrap_or_default(),
        spent: TokenCounts::default(),
        state: JsonMap::new(),
        created_at: context.now,
        started_at: None,
        updated_at: context.now,
        finished_at: None,
        extra: Extra::default(),
    })
}

fn apply_change(run: &Run, change: &RunChange, context: RunContext<'_>) -> Result<Run> {
    if run.thread != *context.thread {
        return Err(Error::already_exists("run", &run.id));
    }
    check_transition(&run.id, run.status.phase(), change.status.phase())?;
    let refuse_change = |field: &str| Err(Error::invalid(format!("run.{field}"), "it cannot be changed"));
    if change.agent.as_ref().is_some_and(|agent| *agent != run.agent) {
        return refuse_change("agent");
    }
    if change.parent_run.is_some() && change.parent_run != run.parent_run {
        return refuse_change("parent_run");
    }
    if change.request.is_some() && change.request != run.request {
        return refuse_change("request");
    }
    if change.manifest.is_some() && run.manifest.is_some() && change.manifest != run.manifest {
        return refuse_change("manifest");
    }
    let mut run = run.clone();
    run.manifest = run.manifest.or_else(|| change.manifest.clone());
    if let Some(steps) = change.steps {
        if steps < run.steps {
            return Err(Error::invalid("run.steps", "it cannot decrease"));
        }
        run.steps = steps;
    }
    if let Some(usage) = &change.usage {
        if !usage.is_at_least(&run.usage) {
            return Err(Error::invalid("run.usage", "none of its counts can decrease"));
        }
        run.usage = usage.clone();
    }
    Ok(run)
}

/// Checks that a run may change from one status to another, by the table of the contract.
fn check_transition(id: &RunId, from: RunPhase, to: RunPhase) -> Result<()> {
    use RunPhase::{Created, Done, Running, Waiting};
    let is_allowed = match from {
        Created => matches!(to, Running | Done),
        Running => matches!(to, Running | Waiting | Done),
        Waiting => matches!(to, Waiting | Running | Done),
        Done => false,
    };
    if is_allowed { Ok(()) } else { Err(Error::invalid_transition("run", id, from.name(), to.name())) }
}

/// Adds ranges. A range that continues the last one is merged with it.
fn add_ranges(ranges: &mut Vec<EntryRange>, new_ranges: &[EntryRange]) {
    for range in new_ranges {
        match ranges.last_mut() {
            Some(last) if last.to + 1 == range.from => last.to = range.to,
            _ => ranges.push(*range),
        }
    }
}

/// Cuts the text of an error at its limit (ER-10).
fn shorten_error(mut status: RunStatus, limits: &Limits) -> RunStatus {
    if let RunStatus::Done(completion) = &mut status
        && let RunOutcome::Failed { error } = &mut completion.outcome
    {
        truncate_text(error, limits);
    }
    status
}

impl Run {
    /// Returns whether the run is not done.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !matches!(self.status, RunStatus::Done(_))
    }
}

impl RunFilter {
    /// Returns whether `run` passes the filter (RU-10, PG-9).
    #[must_use]
    pub fn admits(&self, run: &Run) -> bool {
        self.thread.as_ref().is_none_or(|thread| run.thread == *thread)
            && self.statuses.as_ref().is_none_or(|statuses| statuses.contains(&run.status.phase()))
            && self.agent.as_ref().is_none_or(|agent| run.agent == *agent)
            && (self.parent_run.is_none() || self.parent_run == run.parent_run)
            && self.created_before.is_none_or(|time| run.created_at < time)
            && self.created_after.is_none_or(|time| run.created_at >= time)
    }
}

impl RunQuery {
    /// Returns the query without its page, as text.
    ///
    /// A cursor of the list is bound to this text (PG-6).
    #[must_use]
    pub fn cursor_binding(&self) -> String {
        let filter = &self.filter;
        let statuses =
            |statuses: &Vec<RunPhase>| statuses.iter().map(|status| status.name()).collect::<Vec<_>>().join(",");
        encode_query_parts(&[
            ("thread", filter.thread.as_ref().map(ToString::to_string)),
            ("statuses", filter.statuses.as_ref().map(statuses)),
            ("agent", filter.agent.as_ref().map(ToString::to_string)),
            ("parent_run", filter.parent_run.as_ref().map(ToString::to_string)),
            ("created_before", filter.created_before.map(|time| time.to_string())),
            ("created_after", filter.created_after.map(|time| time.to_string())),
            ("direction", self.direction.cursor_binding()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::{RunContext, change};
    use crate::{
        AgentId, EntryRange, ErrorKind, Limits, Run, RunChange, RunFilter, RunId, RunOutcome, RunStatus, ThreadId,
        Timestamp, TokenCounts, WaitingReason,
    };

    fn statuses() -> [RunStatus; 4] {
        [
            RunStatus::Created,
            RunStatus::Running,
            RunStatus::waiting(WaitingReason::UserInput),
            RunStatus::done(RunOutcome::NaturalEnd),
        ]
    }

    fn run_change(status: RunStatus) -> RunChange {
        RunChange::new(RunId::new("r").unwrap(), status).with_agent(AgentId::new("a").unwrap())
    }

    fn try_change(stored: Option<&Run>, run_change: &RunChange, thread: &str) -> Result<Run, ErrorKind> {
        let thread = ThreadId::new(thread).unwrap();
        let limits = Limits::default();
        let context = RunContext::new(&thread, 5, Timestamp::MIN, &limits);
        change(stored, run_change, context).map_err(|e| e.kind())
    }

    #[test]
    fn a_run_changes_its_status_only_as_the_table_allows() {
        // A row for each old status, with a column for each new status, both in the order of `statuses`.
        let allowed = [
            [false, true, false, true],
            [false, true, true, true],
            [false, true, true, true],
            [false, false, false, false],
        ];
        for (from, row) in statuses().into_iter().zip(allowed) {
            let run = try_change(None, &run_change(from), "t").unwrap();
            for (to, is_allowed) in statuses().into_iter().zip(row) {
                let result = try_change(Some(&run), &run_change(to.clone()), "t");
                assert_eq!(result.is_ok(), is_allowed, "{} to {to}", run.status);
                if !is_allowed {
                    assert_eq!(result.unwrap_err(), ErrorKind::InvalidTransition);
                }
            }
        }
    }

    #[test]
    fn changed_fixed_fields_and_lower_counts_are_refused() {
        let mut first_change = run_change(RunStatus::Running);
        first_change.steps = Some(3);
        first_change.usage = Some(TokenCounts::new(5, 5));
        let run = try_change(None, &first_change, "t").unwrap();
        let refusal_kind = |change: &dyn Fn(&mut RunChange)| {
            let mut next_change = run_change(RunStatus::Running);
            change(&mut next_change);
            try_change(Some(&run), &next_change, "t").unwrap_err()
        };
        assert_eq!(refusal_kind(&|change| change.agent = AgentId::new("b").ok()), ErrorKind::Invalid);
        assert_eq!(refusal_kind(&|change| change.parent_run = RunId::new("p").ok()), ErrorKind::Invalid);
        assert_eq!(refusal_kind(&|change| change.steps = Some(2)), ErrorKind::Invalid);
        assert_eq!(refusal_kind(&|change| change.usage = Some(TokenCounts::new(9, 4))), ErrorKind::Invalid);
        assert_eq!(refusal_kind(&|change| change.output = vec![EntryRange { from: 5, to: 6 }]), ErrorKind::Invalid);
        assert_eq!(refusal_kind(&|change| change.output = vec![EntryRange { from: 0, to: 1 }]), ErrorKind::Invalid);
        assert_eq!(try_change(Some(&run), &first_change, "other").unwrap_err(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn adjacent_ranges_are_merged() {
        let range = |from, to| EntryRange { from, to };
        let mut ranges = Vec::new();
        super::add_ranges(&mut ranges, &[range(1, 3), range(4, 4), range(6, 7)]);
        super::add_ranges(&mut ranges, &[range(8, 9)]);
        assert_eq!(ranges, [range(1, 4), range(6, 9)]);
    }

    #[test]
    fn a_run_filter_admits_only_matching_runs_ru_10() {
        let run = try_change(None, &run_change(RunStatus::Running), "t").unwrap();
        let admits = |change: &dyn Fn(&mut RunFilter)| {
            let mut filter = RunFilter::default();
            change(&mut filter);
            filter.admits(&run)
        };
        let later_time = Timestamp::from_millis(run.created_at.as_millis() + 1).unwrap();
        assert!(admits(&|_| {}));
        assert!(admits(&|filter| filter.created_before = Some(later_time)));
        assert!(!admits(&|filter| filter.created_before = Some(run.created_at)));
        assert!(admits(&|filter| filter.created_after = Some(run.created_at)));
        assert!(!admits(&|filter| filter.created_after = Some(later_time)));
    }
}
