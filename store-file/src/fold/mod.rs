//! What a group changes in the index: the same function for a commit that was just made and for a log that is read
//! again.

pub(crate) mod documents;
mod entries;
pub(crate) mod events;
pub(crate) mod mailbox;
pub(crate) mod outbox;
mod pending;
mod runs;
mod threads;

use store_core::{
    Error, Result, Scope, TenantId, ThreadId, Timestamp,
    codec::Codec,
    thread::{StoredThread, ThreadIdRecord},
};

use self::entries::Appended;
pub(crate) use self::{
    documents::is_rewrite_due,
    runs::run_places,
    threads::{detach, places, put_thread, remove_thread},
};
use crate::{
    codec::LogRow,
    line::{CommitLine, Line, StateLine},
    log::{Position, Span},
    staged::Staged,
    table,
};

/// The owner of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) tenant: TenantId,
    pub(crate) thread: ThreadId,
    pub(crate) generation: u64,
    /// The number of the log in the index.
    pub(crate) log: u64,
}

impl Owner {
    /// The owner of a log that the index knows under this number.
    pub(crate) fn of(log: u64, row: &LogRow) -> Self {
        let LogRow { tenant, thread, generation, .. } = row.clone();
        Self { tenant, thread, generation, log }
    }

    /// The row of the log, covered up to `end`.
    pub(crate) fn row(&self, end: Position) -> LogRow {
        LogRow { tenant: self.tenant.clone(), thread: self.thread.clone(), generation: self.generation, end }
    }
}

/// A thread as its log tells it. The incarnation of the store is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Told {
    pub(crate) stored: Option<StoredThread>,
    pub(crate) id: ThreadIdRecord,
}

impl Told {
    /// The generation of the thread; that of a new one if there is none.
    pub(crate) fn generation(&self) -> u64 {
        self.stored.as_ref().map_or(1, |stored| stored.thread.generation())
    }
}

/// A group, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) lines: Vec<(Line, Span)>,
    pub(crate) commit: CommitLine,
    pub(crate) commit_span: Span,
    pub(crate) end: Position,
}

impl Lines {
    /// The scopes of which the group trims events.
    pub(crate) fn trimmed_scopes(&self) -> impl Iterator<Item = &Scope> {
        self.lines.iter().filter_map(|(line, _)| match line {
            Line::Trim(scope, _) => Some(scope),
            _ => None,
        })
    }
}

/// Works a group into the thread and the index, but for what [`finish`] writes. One that fails may have done so in
/// part.
pub(crate) fn fold(staged: &mut Staged<'_>, owner: &Owner, told: &mut Told, group: &Lines) -> Result<()> {
    if owner.generation == 0 {
        return events::lines(staged, owner, group);
    }
    let roots = told.stored.as_ref().map_or(0, |stored| stored.roots);
    let mut work = Work { staged, owner, appended: Appended::new(owner.log) };
    for (line, span) in &group.lines {
        work.line(told, line, *span, group.commit.time)?;
    }
    let Some(stored) = told.stored.as_mut() else {
        return Err(Error::corrupt(format!(
            "log of thread `{}`: it does not begin with a thread record",
            owner.thread
        )));
    };
    if let Some(id) = &group.commit.run {
        let named = group.lines.iter().filter_map(|(line, _)| match line {
            Line::Run(run) if run.id == *id => Some(run),
            _ => None,
        });
        named.for_each(|run| stored.record_run(run));
    }
    stored.last_time = stored.last_time.max(group.commit.time);
    stored.thread.updated_at = stored.thread.updated_at.max(group.commit.updated_at);
    told.id = ThreadIdRecord { fence: group.commit.fence, deleted_at: None, ..told.id.clone() };
    told.id.generation = owner.generation;
    if let Some((key, ..)) = &group.commit.key {
        work.staged.put(table::commit_key(owner.log, key), group.commit_span.encode());
    }
    work.appended.finish(work.staged)?;
    if roots < 2 && stored.roots > 1 {
        staged.put(table::branches(owner.log).number(0), []);
    }
    Ok(())
}

/// Writes where groups have led, once for all that show together: the thread, what is remembered of its id, and how far
/// the index covers the log.
pub(crate) fn finish(staged: &mut Staged<'_>, owner: &Owner, told: (&Told, &Told), covered: Position) {
    let (before, after) = told;
    if owner.generation == 0 {
        staged.put(table::event_log(&owner.tenant, &owner.thread), owner.log.to_be_bytes());
    }
    if after.id != before.id {
        staged.put(table::id(&owner.tenant, &owner.thread), after.id.encode());
    }
    if let Some(stored) = &after.stored {
        put_thread(staged, owner, before.stored.as_ref(), stored);
    }
    put_log(staged, owner, covered);
}

/// Writes how far the index covers a log.
pub(crate) fn put_log(staged: &mut Staged<'_>, owner: &Owner, end: Position) {
    staged.put(table::log(owner.log), owner.row(end).encode());
}

struct Work<'a, 'b> {
    staged: &'a mut Staged<'b>,
    owner: &'a Owner,
    appended: Appended,
}

impl Work<'_, '_> {
    fn line(&mut self, told: &mut Told, line: &Line, span: Span, time: Timestamp) -> Result<()> {
        match (line, told.stored.as_mut()) {
            (Line::Thread(line), None) => told.stored = Some(threads::made(self.owner, line, time)?),
            (Line::Thread(line), Some(stored)) => threads::change(stored, line),
            (Line::Entry(both), Some(stored)) => self.appended.add(self.staged, stored, both, span)?,
            (Line::Run(run), Some(_)) => runs::put(self.staged, self.owner, run, span)?,
            (Line::State(line), Some(stored)) => self.state(stored, line)?,
            (Line::Input(input), Some(_)) => pending::input(self.staged, self.owner.log, input, span),
            (Line::Queue(line), Some(stored)) => {
                pending::queue(self.staged, self.owner.log, line)?;
                stored.queue = line.state.clone();
            }
            (Line::Restored(line), Some(stored)) => threads::restore(stored, line),
            (Line::Decision(line), Some(_)) => pending::decision(self.staged, self.owner.log, line),
            (Line::Event(_) | Line::EventKey(_) | Line::Trim(..), _) => {
                events::line(self.staged, self.owner, (line, span), time)?;
            }
            (Line::Outbox(_) | Line::OutboxState(_) | Line::OutboxGone(_), _) => {
                outbox::line(self.staged, self.owner, (line, span))?;
            }
            (Line::Document(_) | Line::DocumentGone(_), _) => documents::line(self.staged, self.owner, (line, span))?,
            (Line::DispatchState(_) | Line::Mailbox(_), _) => mailbox::line(self.staged, self.owner, (line, span))?,
            // Other lines of the mailbox stand in its own log.
            _ => {}
        }
        Ok(())
    }

    fn state(&mut self, stored: &mut StoredThread, line: &StateLine) -> Result<()> {
        let log = self.owner.log;
        if line.write.clear {
            self.staged.delete_all(&table::states(log))?;
        }
        for (key, value) in &line.write.values {
            match value {
                Some(value) => self.staged.put(table::state(log, key), value.as_str()),
                None => self.staged.delete(table::state(log, key)),
            }
        }
        stored.thread.state_revision = line.revision;
        (stored.state_keys, stored.state_bytes) = (line.keys, line.bytes);
        Ok(())
    }
}
