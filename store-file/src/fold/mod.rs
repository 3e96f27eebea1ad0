//! What a group changes in the index: the same function for a commit that was just made and for a log that is read
//! again.

pub(crate) mod events;
pub(crate) mod mailbox;
pub(crate) mod outbox;

use std::collections::{BTreeMap, BTreeSet};

use store_core::{
    Body, Entry, EntryId, Error, NewThread, Result, Run, RunListKey, TenantId, ThreadId, ThreadListKey, ThreadOrder,
    Timestamp,
    codec::Codec,
    log::{ChangedMarks, EntryMarks, MarkSource, Node},
    pending::StoredInput,
    thread::{StoredThread, ThreadIdRecord, create},
};

use crate::{
    codec::{InputRow, LogRow, NodeRow, Rows, RunRow, ThreadRow, damaged},
    index::Key,
    line::{CommitLine, Line, QueueLine, StateLine, ThreadLine},
    log::{Position, Span},
    staged::Staged,
    table,
};

/// Whose log it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) tenant: TenantId,
    pub(crate) thread: ThreadId,
    pub(crate) generation: u64,
    /// The number of the log in the index.
    pub(crate) log: u64,
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

/// Works a group into the thread and the index, but for what [`finish`] writes. One that fails may have done so in
/// part.
pub(crate) fn fold(staged: &mut Staged<'_>, owner: &Owner, told: &mut Told, group: &Lines) -> Result<()> {
    if owner.generation == 0 {
        return events::lines(staged, owner, group);
    }
    let roots = told.stored.as_ref().map_or(0, |stored| stored.roots);
    let mut work =
        Work { staged, owner, marks: ChangedMarks::default(), appended: Vec::new(), givers: BTreeMap::new() };
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
    work.marks()?;
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
    let Owner { tenant, thread, generation, log } = owner.clone();
    staged.put(table::log(log), LogRow { tenant, thread, generation, end }.encode());
}

/// Writes a thread, and moves its places in lists.
pub(crate) fn put_thread(staged: &mut Staged<'_>, owner: &Owner, before: Option<&StoredThread>, stored: &StoredThread) {
    staged.touch(owner.log);
    let old = before.map(|before| places(&owner.tenant, before)).unwrap_or_default();
    let new = places(&owner.tenant, stored);
    for place in old.difference(&new) {
        staged.delete(Key::from_bytes(place));
    }
    for place in new.difference(&old) {
        staged.put(Key::from_bytes(place), []);
    }
    let row = ThreadRow { log: owner.log, stored: stored.clone() };
    staged.put_row(table::thread(&owner.tenant, &owner.thread), row);
}

/// Removes a thread and its places; what its log left in the index stays for the purge.
pub(crate) fn remove_thread(staged: &mut Staged<'_>, tenant: &TenantId, stored: &StoredThread) {
    for place in places(tenant, stored) {
        staged.delete(Key::from_bytes(&place));
    }
    staged.delete(table::thread(tenant, &stored.thread.id));
}

/// The places of a thread in lists.
pub(crate) fn places(tenant: &TenantId, stored: &StoredThread) -> BTreeSet<Vec<u8>> {
    let thread = &stored.thread;
    let orders = [(ThreadOrder::LastActivity, thread.updated_at), (ThreadOrder::Creation, thread.created_at)];
    let place = |scope, order, time| table::place(table::thread_list(tenant, scope, order), time, thread.id.as_str());
    let pending =
        (stored.queue.count > 0).then(|| table::pending_threads(tenant).text(thread.id.as_str()).into_bytes());
    let listed =
        ThreadListKey::of(thread).flat_map(|scope| orders.map(|(order, time)| place(scope, order, time).into_bytes()));
    listed.chain(pending).collect()
}

/// The places of a run in lists.
pub(crate) fn run_places(tenant: &TenantId, id: &str, row: &RunRow) -> Vec<Key> {
    let parent = row.parent_run.as_ref().map(RunListKey::Parent);
    let scopes =
        [RunListKey::All, RunListKey::Thread(&row.thread), RunListKey::Status(row.status)].into_iter().chain(parent);
    scopes.map(|scope| table::place(table::run_list(tenant, scope), row.created_at, id)).collect()
}

struct Work<'a, 'b> {
    staged: &'a mut Staged<'b>,
    owner: &'a Owner,
    marks: ChangedMarks,
    appended: Vec<Node>,
    /// Which entry gave a checkpoint its name.
    givers: BTreeMap<u64, u64>,
}

/// Marks of entries that were there before the group.
struct StoredMarks<'a, 'b>(&'a Staged<'b>, u64);

impl MarkSource for StoredMarks<'_, '_> {
    fn marks(&self, seq: u64) -> Result<EntryMarks> {
        self.0.marks_of(self.1, seq)
    }
}

impl Work<'_, '_> {
    fn line(&mut self, told: &mut Told, line: &Line, span: Span, time: Timestamp) -> Result<()> {
        match (line, told.stored.as_mut()) {
            (Line::Thread(line), None) => told.stored = Some(self.made(line, time)?),
            (Line::Thread(line), Some(stored)) => change(stored, line),
            (Line::Entry(both), Some(stored)) => self.entry(stored, &both.0, &both.1, span)?,
            (Line::Run(run), Some(_)) => self.run(run, span)?,
            (Line::State(line), Some(stored)) => self.state(stored, line)?,
            (Line::Input(input), Some(_)) => self.input(input, span),
            (Line::Queue(line), Some(stored)) => self.queue(stored, line)?,
            (Line::Event(_) | Line::EventKey(_) | Line::Trim(..), _) => {
                events::line(self.staged, self.owner, (line, span), time)?;
            }
            (Line::Outbox(_) | Line::OutboxState(_) | Line::OutboxGone(_), _) => {
                outbox::line(self.staged, self.owner, (line, span))?;
            }
            (Line::DispatchState(_) | Line::Mailbox(_), _) => mailbox::line(self.staged, self.owner, (line, span))?,
            // Other lines of the mailbox stand in its own log.
            _ => {}
        }
        Ok(())
    }

    fn made(&self, line: &ThreadLine, time: Timestamp) -> Result<StoredThread> {
        let before =
            ThreadIdRecord { generation: self.owner.generation.saturating_sub(1), ..ThreadIdRecord::default() };
        let new = NewThread::new(self.owner.thread.clone());
        let mut stored = create(None, &before, &new, &store_core::Limits::default(), (line.created_at, 0))?;
        stored.last_time = time;
        change(&mut stored, line);
        Ok(stored)
    }

    fn entry(&mut self, stored: &mut StoredThread, entry: &Entry, node: &Node, span: Span) -> Result<()> {
        let log = self.owner.log;
        self.marks.apply_entry(&StoredMarks(self.staged, log), stored, entry, node)?;
        let row = NodeRow { span, id: entry.id.clone(), node: node.clone() };
        self.staged.put(table::node(log, node.seq), row.encode());
        self.staged.know_absent(table::marks(log, node.seq));
        self.staged.put(table::entry(log, &entry.id), node.seq.to_be_bytes());
        self.staged.put(table::children(log, node.parent.unwrap_or_default()).number(node.seq), []);
        self.appended.push(node.clone());
        match &*entry.body {
            Body::Label(_) => self.givers.extend(node.target.map(|target| (target, node.seq))),
            Body::Checkpoint(_) => drop(self.givers.insert(node.seq, node.seq)),
            _ => {}
        }
        Ok(())
    }

    fn run(&mut self, run: &Run, span: Span) -> Result<()> {
        let Owner { tenant, log, .. } = self.owner;
        let row = RunRow::of(*log, span, run);
        if let Some(old) = self.staged.run_row(tenant, &run.id)? {
            for place in run_places(tenant, run.id.as_str(), &old) {
                self.staged.delete(place);
            }
        }
        for place in run_places(tenant, run.id.as_str(), &row) {
            self.staged.put(place, []);
        }
        self.staged.put(table::run(tenant, &run.id), row.encode());
        self.staged.put(table::log_run(*log, &run.id), []);
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

    fn input(&mut self, stored: &StoredInput, span: Span) {
        let log = self.owner.log;
        let StoredInput { input, rank, .. } = stored;
        let row = InputRow { span, id: input.id.clone() };
        self.staged.put(table::inputs(log).number(*rank), row.encode());
        self.staged.put(table::input_rank(log, &input.id), rank.to_be_bytes());
        if let Some((decision, record)) = input.decision() {
            self.staged.put(table::decision(log, &decision.run, &decision.ticket), record.encode());
        }
    }

    fn queue(&mut self, stored: &mut StoredThread, line: &QueueLine) -> Result<()> {
        let log = self.owner.log;
        for id in &line.removed {
            self.take_input(id)?;
            self.staged.delete(table::input_rank(log, id));
        }
        for (id, rank) in &line.ranks {
            let row = self.take_input(id)?;
            self.staged.put(table::inputs(log).number(*rank), row.encode());
            self.staged.put(table::input_rank(log, id), rank.to_be_bytes());
        }
        stored.queue = line.state.clone();
        Ok(())
    }

    /// Takes an input from its place.
    fn take_input(&mut self, id: &EntryId) -> Result<InputRow> {
        let log = self.owner.log;
        let rank = self.staged.input_rank(log, id)?.ok_or_else(|| damaged("pending input"))?;
        let row = self.staged.expect_input(log, rank)?;
        self.staged.delete(table::inputs(log).number(rank));
        Ok(row)
    }

    /// Writes marks, and keeps the lists of leaves, branch points and snapshots with them.
    fn marks(self) -> Result<()> {
        let Self { staged, owner, marks, appended, givers } = self;
        let log = owner.log;
        for node in appended.iter().filter(|node| !node.side) {
            if marks.load(&StoredMarks(staged, log), node.seq)?.children == 0 {
                staged.put_new(table::leaves(log).number(node.seq), []);
            }
        }
        for (seq, new) in marks.into_map() {
            let old = staged.marks_of(log, seq)?;
            if new.children > 0 {
                staged.delete(table::leaves(log).number(seq));
            }
            if new.children > 1 {
                staged.put(table::branches(log).number(seq), []);
            }
            let node = staged.expect_node(log, seq)?.node;
            if (new.label != old.label || givers.contains_key(&seq)) && !node.side && node.checkpoint == Some(seq) {
                if let Some(name) = &old.label {
                    staged.delete(table::snapshots(log).text(name).number(seq));
                }
                if let Some(name) = &new.label {
                    let giver = givers.get(&seq).copied().unwrap_or(seq);
                    staged.put(table::snapshots(log).text(name).number(seq), giver.to_be_bytes());
                }
            }
            staged.put_row(table::marks(log, seq), new);
        }
        Ok(())
    }
}

/// The parent comes from the change of the highest revision: one that detaches a thread stands in the root log.
fn change(stored: &mut StoredThread, line: &ThreadLine) {
    let thread = &mut stored.thread;
    thread.resource_id.clone_from(&line.resource_id);
    thread.title.clone_from(&line.title);
    thread.metadata.clone_from(&line.metadata);
    thread.created_at = line.created_at;
    thread.extra.clone_from(&line.extra);
    if line.revision >= thread.revision.number() {
        let steps = line.revision - thread.revision.number();
        thread.revision = thread.revision.plus(steps);
        thread.parent_thread_id.clone_from(&line.parent_thread_id);
    }
}

/// A thread that lost its parent by a fact of the root log, if nothing newer is known.
pub(crate) fn detach(stored: &mut StoredThread, revision: u64, at: Timestamp) -> bool {
    let thread = &mut stored.thread;
    if revision <= thread.revision.number() {
        return false;
    }
    thread.parent_thread_id = None;
    thread.revision = thread.revision.plus(revision - thread.revision.number());
    thread.updated_at = thread.updated_at.max(at);
    stored.last_time = stored.last_time.max(at);
    true
}
