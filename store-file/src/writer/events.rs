//! Events outside of commits: appends under a claim and without one, trims, and those that a deletion leaves.

use store_core::{
    AppendEvents, Detail, Error, EventId, Result, Timestamp, TrimRequest, Trimmed,
    commit::CommitView,
    event::{self, AppendOptions, EventView, StoredEvent},
    length,
};

use super::{Answer, How, Round};
use crate::{
    events::oldest,
    held::Resource,
    line::{CommitLine, Line, event_lines},
    shared::{LogKey, Part, Shared, guard},
};

/// What an append decides about: its scopes, and its key.
pub(super) fn resources(request: &AppendEvents) -> impl Iterator<Item = Resource> {
    let scopes = request.drafts.iter().flat_map(|draft| &draft.scopes).cloned().map(Resource::Scope);
    let key = request.writer.clone().zip(request.key.clone());
    scopes.chain(key.map(|(writer, key)| Resource::EventKey(writer, key)))
}

/// The events of lines that are about to be written.
pub(super) fn emitted(lines: &[Line]) -> Vec<(EventId, StoredEvent)> {
    let events = lines.iter().filter_map(|line| match line {
        Line::Event(stored) => Some((stored.event.id.clone(), StoredEvent::clone(stored))),
        _ => None,
    });
    events.collect()
}

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
                let (texts, emitted): (Vec<_>, _) = (lines.iter().map(Line::encode).collect(), emitted(&lines));
                let commit = CommitLine { fence: id.fence, ..self.bare(&stored) };
                // No later than the events: it says for scopes, too, what time it was.
                let newest = emitted.iter().map(|(_, stored)| stored.event.created_at).max();
                let commit = CommitLine { time: newest.map_or(commit.time, |at| at.min(commit.time)), ..commit };
                self.group(stored.thread.generation(), lines, &texts, commit)?;
                self.unwritten.events.extend(emitted);
            }
            None => {
                let lines = event_lines(plan);
                let bytes: usize = lines.iter().map(|line| line.encode().len()).sum();
                // Once the claim is remembered the append must not be refused.
                self.shared.check_space(length(bytes)).map_err(full)?;
                crate::deletion::remember_fence(self.shared, self.key, id.fence, &mut self.told)?;
                self.outside(lines)?;
            }
        }
        Ok(answer)
    }

    /// Writes lines to the log of events.
    fn put_events(&mut self, lines: Vec<Line>) -> Result<()> {
        let texts: Vec<String> = lines.iter().map(Line::encode).collect();
        let emitted = emitted(&lines);
        let newest = emitted.iter().map(|(_, stored)| stored.event.created_at).max();
        let time = newest.unwrap_or_else(|| self.shared.time.now());
        self.group(0, lines, &texts, CommitLine { time, updated_at: time, ..CommitLine::default() })?;
        self.unwritten.events.extend(emitted);
        Ok(())
    }

    /// Writes to the log of events of an id that has no thread, while nobody can make one.
    fn outside(&self, lines: Vec<Line>) -> Result<()> {
        let key = (self.key.0.clone(), self.key.1.clone(), Part::Events);
        append_to(self.shared, &key, lines, false)?;
        self.staged.forget_found();
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
            // An index that outlives a power cut may know the floor, and nothing else of the events below it.
            self.how = How::Durable;
            let line = Line::Trim(scope.clone(), floor);
            let text = line.encode();
            self.group(0, vec![line], &[text], CommitLine { time: now, updated_at: now, ..CommitLine::default() })?;
        }
        Ok(Answer::Trimmed(trimmed))
    }
}

pub(super) fn full(source: std::io::Error) -> Error {
    Error::new(Detail::StorageFull).with_source(source)
}

/// Writes lines to a log of events whose scopes and keys are held. `moves` says that what they take the place of goes
/// next.
pub(crate) fn append_to(shared: &Shared, key: &LogKey, lines: Vec<Line>, moves: bool) -> Result<()> {
    if moves {
        shared.make_room(0).map_err(full)?;
    }
    let slot = shared.slot(key);
    let mut loaded = guard(&slot);
    let mut round = Round::new(shared, key);
    round.how = if moves { How::Moves } else { How::AsAsked };
    round.load(&mut loaded)?;
    round.put_events(lines)?;
    round.write(&mut loaded).map_err(super::Failed::into_error)
}
