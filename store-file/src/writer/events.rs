//! Events outside of commits: appends under a claim and without one, trims, and those that a deletion leaves.

use std::collections::BTreeMap;

use store_core::{
    AppendEvents, RedactEvent, Result, Scope, Timestamp, TrimRequest, Trimmed,
    commit::CommitView,
    event::{self, AppendOptions, EventView},
    length,
};

use super::{Answer, Round};
use crate::{
    codec::Rows,
    line::{CommitLine, Line, event_lines},
    names::{Part, events_log_id, topics_log_id},
    records::oldest,
};

impl Round<'_> {
    /// Appends events: to the log of events, or, under a claim, to that of the thread.
    pub(super) fn emit(&mut self, request: &AppendEvents, now: Timestamp) -> Result<Answer> {
        let mut id = self.told.id.clone();
        let view = self.view();
        let (id_of, claims) =
            if request.fence.is_some() { (Some(&mut id), view.fenced_mailbox()) } else { (None, None) };
        let how = AppendOptions { id_record: id_of, claims, ..AppendOptions::default() };
        let change = event::append(&view, request, self.setting(now), how)?;
        let answer = Answer::Emitted(Box::new(change.answer));
        let Some(plan) = change.plan else { return Ok(answer) };
        if request.fence.is_none() {
            self.put_events(event_lines(plan))?;
            return Ok(answer);
        }
        match self.told.stored.clone() {
            Some(stored) => {
                let lines = event_lines(plan);
                let texts: Vec<_> = lines.iter().map(Line::encode).collect();
                let commit = CommitLine { fence: id.fence, ..self.bare(&stored) };
                // No later than the events: it says for scopes, too, what time it was.
                let newest = newest(&lines);
                let commit = CommitLine { time: newest.map_or(commit.time, |at| at.min(commit.time)), ..commit };
                self.group(stored.thread.generation(), lines, &texts, commit)?;
            }
            None => {
                let lines = event_lines(plan);
                self.remember_fence(id.fence)?;
                let (tenant, thread, _) = self.key.clone();
                let log = events_log_id(thread.as_str());
                let put =
                    log.and_then(|id| self.enter((tenant, id, Part::Events))).and_then(|()| self.put_events(lines));
                // The claim number alone must not stay of an append that is refused.
                self.broken |= put.is_err();
                put?;
            }
        }
        Ok(answer)
    }

    /// Writes lines to the log of events.
    pub(crate) fn put_events(&mut self, lines: Vec<Line>) -> Result<()> {
        let texts: Vec<String> = lines.iter().map(Line::encode).collect();
        let newest = newest(&lines);
        let time = newest.unwrap_or_else(|| self.shared.time.now());
        self.group(0, lines, &texts, CommitLine { time, updated_at: time, ..CommitLine::default() })
    }

    /// The numbers that topics give to the new events of a group. An event that is moved to another log has its numbers
    /// already.
    pub(super) fn new_numbers(&mut self, lines: &[Line]) -> Result<BTreeMap<Scope, u64>> {
        let mut numbers = BTreeMap::new();
        for line in lines {
            let Line::Event(stored) = line else { continue };
            for (scope, seq) in stored.scope_numbers().filter(|(scope, _)| matches!(scope, Scope::Topic(_))) {
                if seq > self.staged.scope_state(&self.key.0, &scope)?.count {
                    numbers.insert(scope, seq);
                }
            }
        }
        if !numbers.is_empty() {
            self.load_ahead((self.key.0.clone(), topics_log_id()?, Part::Events))?;
        }
        Ok(numbers)
    }

    /// Writes the last numbers that topics gave in this round to a log of their own. They are not given again, even if
    /// the index is made anew when a log of events is damaged.
    pub(super) fn put_numbers(&mut self) -> Result<()> {
        for (tenant, numbers) in std::mem::take(&mut self.numbers) {
            self.enter((tenant, topics_log_id()?, Part::Events))?;
            self.put_events(numbers.into_iter().map(|(scope, count)| Line::Count(scope, count)).collect())?;
        }
        Ok(())
    }

    /// Removes the oldest events of a scope: the floor rises at once, and the events go afterwards.
    pub(super) fn trim(&mut self, request: &TrimRequest, now: Timestamp) -> Result<Answer> {
        let TrimRequest { scope, before, dry_run, .. } = request;
        let view = self.view();
        let (state, tenant_and_cursor_key) = (view.scope(scope)?, view.tenant_and_cursor_key());
        let events = oldest(self.shared, &self.key.0, scope, state.floor);
        let floor = event::last_trimmed_seq(&state, scope, before, tenant_and_cursor_key, events)?;
        let trimmed = Trimmed::new(floor - state.floor, floor);
        if floor > state.floor && !dry_run {
            let line = Line::Trim(scope.clone(), floor);
            let text = line.encode();
            self.group(0, vec![line], &[text], CommitLine { time: now, updated_at: now, ..CommitLine::default() })?;
        }
        Ok(Answer::Trimmed(trimmed))
    }
}

impl Round<'_> {
    /// Writes events again without their content. The former lines are erased when space is reclaimed.
    pub(super) fn redact(&mut self, requests: &[RedactEvent]) -> Result<Answer> {
        event::check_redactions(requests)?;
        let mut lines = BTreeMap::new();
        let view = self.view();
        for request in requests {
            let Some(stored) = view.event(&request.id)? else { continue };
            if let Some(redacted) = event::redacted(&stored, request.payload.as_ref()) {
                lines.insert(&request.id, Line::Event(Box::new(redacted)));
            }
        }
        let count = length(lines.len());
        if count > 0 {
            self.put_events(lines.into_values().collect())?;
        }
        Ok(Answer::Redacted(count))
    }
}

/// When the newest event of some lines was made.
fn newest(lines: &[Line]) -> Option<Timestamp> {
    let times = lines.iter().filter_map(|line| match line {
        Line::Event(stored) => Some(stored.event.created_at),
        _ => None,
    });
    times.max()
}
