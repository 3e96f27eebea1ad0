//! Records that are written as they were in another store: as the lines that ordinary calls write, and as few others
//! for what does not follow from these.

use std::collections::{BTreeMap, BTreeSet};

use store_core::{
    Error, Result, Scope, ThreadId, Timestamp,
    codec::Codec as _,
    event::StoredEvent,
    mailbox::{MailboxView as _, StoredDispatch},
    records::{NumbersGiven, RecordList, StoredRecord, ThreadRecord},
    thread::StoredThread,
};

use super::{Round, documents::DocumentLines};
use crate::{
    codec::Rows as _,
    dispatch_rows::MailboxRows as _,
    line::{
        self, CommitLine, DecisionLine, DispatchLine, EventKeyLine, Fact, InterruptLine, Line, MailboxLine, Named,
        OutboxLine, RestoredLine, StateLine, ThreadLine,
    },
    names::{Part, mailbox_log_id, outbox_log_id, redactions_log_id, scope_log_id, topics_log_id},
    table,
};

impl Round<'_> {
    /// Writes records of any lists.
    pub(super) fn restore(&mut self, records: &[StoredRecord], now: Timestamp) -> Result<()> {
        let together =
            |left: &StoredRecord, right: &StoredRecord| left.list() == right.list() && left.thread() == right.thread();
        for records in records.chunk_by(together) {
            let restored = self.restore_of_list(records, now);
            // The records of a call are written together or not at all.
            self.broken |= restored.is_err();
            restored?;
        }
        Ok(())
    }

    /// Writes records of one list, and of one thread if the list has records of threads.
    fn restore_of_list(&mut self, records: &[StoredRecord], now: Timestamp) -> Result<()> {
        match records.first().map(StoredRecord::list) {
            None => Ok(()),
            Some(RecordList::Numbers | RecordList::Threads | RecordList::Scopes | RecordList::EventKeys) => {
                records.iter().try_for_each(|record| self.restore_single(record, now))
            }
            Some(RecordList::Documents) => {
                let mut lines = DocumentLines::default();
                records.iter().for_each(|record| lines.restore(record));
                self.put_documents(lines, now)
            }
            Some(RecordList::Events) => self.restore_events(records),
            Some(RecordList::Outbox) => {
                self.enter((self.key.0.clone(), outbox_log_id()?, Part::Events))?;
                let rows = records.iter().filter_map(|record| match record {
                    StoredRecord::Outbox(row) => {
                        let (stored, payload) = (**row).clone();
                        Some(Line::Outbox(Box::new(OutboxLine { stored, payload })))
                    }
                    _ => None,
                });
                self.put_restored(rows.collect())
            }
            Some(RecordList::Mailboxes | RecordList::Interrupts | RecordList::Dispatches) => {
                self.restore_mailbox(records, now)
            }
            Some(_) => {
                let thread = records.first().and_then(StoredRecord::thread).cloned();
                thread.map_or(Ok(()), |thread| self.restore_of_thread(&thread, records))
            }
        }
    }

    fn restore_single(&mut self, record: &StoredRecord, now: Timestamp) -> Result<()> {
        let tenant = self.key.0.clone();
        match record {
            StoredRecord::Numbers(numbers) => self.raise_numbers(*numbers, now),
            StoredRecord::Thread(record) => self.restore_thread(record),
            StoredRecord::Scope { scope, state } => {
                if matches!(scope, Scope::Topic(_)) {
                    self.load_ahead((tenant.clone(), topics_log_id()?, Part::Events))?;
                    self.numbers.entry(tenant.clone()).or_default().insert(scope.clone(), state.count);
                }
                self.enter((tenant, scope_log_id(scope)?, Part::Events))?;
                self.put_restored(vec![Line::Scope(Box::new((scope.clone(), state.clone())))])
            }
            StoredRecord::EventKey { writer, key, record } => {
                // A key is in the log of its events, after them.
                let mut log = redactions_log_id()?;
                for id in &record.events {
                    if let Some(row) = self.staged.event_row(&tenant, id)?
                        && let Some(of) = self.staged.log_row(row.log)?.filter(|of| of.generation == 0)
                    {
                        log = of.thread;
                    }
                }
                self.enter((tenant, log, Part::Events))?;
                let (writer, key, record) = (writer.clone(), key.clone(), (**record).clone());
                self.put_restored(vec![Line::EventKey(Box::new(EventKeyLine { writer, key, record }))])
            }
            _ => Ok(()),
        }
    }

    /// Adds lines to the log that is worked on. Their group has no time of its own: scopes have the times of their
    /// events and of their records.
    fn put_restored(&mut self, lines: Vec<Line>) -> Result<()> {
        let texts: Vec<String> = lines.iter().map(Line::encode).collect();
        self.group(0, lines, &texts, CommitLine::default())
    }

    /// Raises the numbers that are given next.
    fn raise_numbers(&mut self, numbers: NumbersGiven, now: Timestamp) -> Result<()> {
        let NumbersGiven { document_revision, claim_incarnation } = numbers;
        if document_revision > self.first_revision()? {
            self.staged.put(table::fact("documents"), document_revision.to_be_bytes());
            self.fact(&Fact::Numbers { documents: document_revision })?;
        }
        let tenant = self.key.0.clone();
        if claim_incarnation > self.staged.claims(&tenant, now)? + self.shared.meta.incarnation() {
            self.enter((tenant, mailbox_log_id()?, Part::Events))?;
            self.put_mailbox_lines(vec![Line::MailboxMade(claim_incarnation)], now)?;
        }
        Ok(())
    }

    fn restore_thread(&mut self, record: &ThreadRecord) -> Result<()> {
        self.enter((self.key.0.clone(), record.id.clone(), Part::Thread))?;
        if self.told.stored.is_some() {
            // An earlier call has restored it.
            return Ok(());
        }
        let Some(stored) = &record.thread else { return self.restore_id(record) };
        let lines =
            vec![Line::Thread(ThreadLine::of(&stored.thread)), Line::Restored(Box::new(RestoredLine::of(stored)))];
        let texts: Vec<String> = lines.iter().map(Line::encode).collect();
        let commit = CommitLine { fence: record.id_record.fence, ..self.bare(stored) };
        self.group(stored.thread.generation(), lines, &texts, commit)
    }

    /// Remembers an id without a thread.
    fn restore_id(&mut self, record: &ThreadRecord) -> Result<()> {
        let ThreadRecord { id, id_record, .. } = record;
        if self.told.id == *id_record {
            return Ok(());
        }
        let Some(at) = id_record.deleted_at else { return self.remember_fence(id_record.fence) };
        let tenant = self.key.0.clone();
        let generation = id_record.generation;
        let deleted = vec![Named { thread: id.clone(), generation, revision: 0, fence: id_record.fence }];
        self.fact(&Fact::Delete { tenant: tenant.clone(), deleted, detached: Vec::new(), at })?;
        self.staged.put(table::id(&tenant, id), id_record.encode());
        self.before.id = id_record.clone();
        self.told.id = id_record.clone();
        Ok(())
    }

    /// Writes records of one list of one thread.
    fn restore_of_thread(&mut self, thread: &ThreadId, records: &[StoredRecord]) -> Result<()> {
        self.enter((self.key.0.clone(), thread.clone(), Part::Thread))?;
        let stored = self.told.stored.clone().ok_or_else(|| Error::not_found("thread", thread))?;
        let (mut lines, mut texts) = (Vec::new(), Vec::new());
        for record in records {
            match record {
                StoredRecord::CommitKey { record, .. } => {
                    let key = (record.key.clone(), record.digest.clone(), record.receipt.clone());
                    let known = match self.log {
                        Some(log) => self.staged.commit_span(log, &record.key)?,
                        None => None,
                    };
                    if known.is_none() {
                        let commit = CommitLine { key: Some(key), ..self.bare(&stored) };
                        self.group(stored.thread.generation(), Vec::new(), &[], commit)?;
                    }
                }
                // An earlier call has restored it.
                StoredRecord::Entry { entry, .. } if entry.seq <= stored.thread.version.number() => {}
                StoredRecord::Entry { entry, node, .. } => {
                    texts.push(line::entry(&entry.encode(), node));
                    lines.push(Line::Entry(Box::new(((**entry).clone(), (**node).clone()))));
                }
                record => {
                    let line = line_of_thread(record, &stored);
                    texts.extend(line.as_ref().map(Line::encode));
                    lines.extend(line);
                }
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        let commit = self.bare(&stored);
        self.group(stored.thread.generation(), lines, &texts, commit)
    }

    /// Writes events, each to the log of events of its first scope.
    fn restore_events(&mut self, records: &[StoredRecord]) -> Result<()> {
        let mut logs: BTreeMap<ThreadId, Vec<Line>> = BTreeMap::new();
        for record in records {
            let StoredRecord::Event(stored) = record else { continue };
            if let Some(scope) = first_scope(stored) {
                logs.entry(scope_log_id(&scope)?).or_default().push(Line::Event(stored.clone()));
            }
        }
        for (log, lines) in logs {
            self.enter((self.key.0.clone(), log, Part::Events))?;
            self.put_restored(lines)?;
        }
        Ok(())
    }

    fn restore_mailbox(&mut self, records: &[StoredRecord], now: Timestamp) -> Result<()> {
        let tenant = self.key.0.clone();
        self.enter((tenant.clone(), mailbox_log_id()?, Part::Events))?;
        let mut lines = Vec::new();
        if self.staged.number(&table::mailbox_made(&tenant))?.is_none() {
            lines.push(Line::MailboxMade(self.staged.claims(&tenant, now)?));
        }
        let mut threads = BTreeSet::new();
        let (mut ended, mut live) = (Vec::new(), Vec::new());
        for record in records {
            match record {
                StoredRecord::Mailbox { thread, record } => lines.push(mailbox_line(thread, record)),
                StoredRecord::Interrupt { thread, interrupt } => {
                    let (thread, epoch) = (thread.clone(), interrupt.epoch);
                    let interrupt = Some((**interrupt).clone());
                    lines.push(Line::Interrupt(Box::new(InterruptLine { thread, epoch, interrupt })));
                }
                StoredRecord::Dispatch(stored) if stored.state.status.is_final() => ended.push((**stored).clone()),
                StoredRecord::Dispatch(stored) => live.push((**stored).clone()),
                _ => {}
            }
        }
        // The line of a dispatch takes its dedupe key. So those that may hold theirs come last.
        for stored in &ended {
            live.extend(self.other_holder_of_key(stored, now)?);
        }
        for stored in ended.iter().chain(&live) {
            threads.insert(stored.body.thread.clone());
            lines.extend(dispatch_lines(stored));
        }
        // The record of the thread comes last: it finds the thread its places among the others.
        for thread in &threads {
            if let Some(row) = self.staged.mailbox_row(&tenant, thread)? {
                lines.push(mailbox_line(thread, &row.mailbox));
            }
        }
        self.put_mailbox_lines(lines, now)?;
        self.brings((!threads.is_empty()).then_some(now));
        Ok(())
    }
}

impl Round<'_> {
    /// Returns the dispatch that holds the dedupe key of one that has ended.
    fn other_holder_of_key(&self, ended: &StoredDispatch, now: Timestamp) -> Result<Option<StoredDispatch>> {
        let Some(key) = &ended.body.dedupe_key else { return Ok(None) };
        let view = self.table(now)?.with_payloads();
        let Some(id) = view.last_dispatch_with_key(&ended.body.thread, key)? else { return Ok(None) };
        let other = view.dispatch(&id)?.filter(|other| other.id() != ended.id());
        Ok(other.filter(|other| !other.state.status.is_final()))
    }
}

impl DocumentLines {
    fn restore(&mut self, record: &StoredRecord) {
        if let StoredRecord::Document(document) = record {
            let collection = document.key.collection().clone();
            self.add_of_tenant(collection, Line::Document(document.clone()));
        }
    }
}

/// The line of a record of a thread that is neither an entry nor a commit key.
fn line_of_thread(record: &StoredRecord, stored: &StoredThread) -> Option<Line> {
    Some(match record {
        StoredRecord::Run(run) => Line::Run(run.clone()),
        StoredRecord::State { name, value, .. } => {
            let mut write = store_core::commit::StateWrite::default();
            write.values.insert(name.clone(), Some(value.clone()));
            Line::State(StateLine {
                write,
                revision: stored.thread.state_revision,
                keys: stored.state_keys,
                bytes: stored.state_bytes,
            })
        }
        StoredRecord::Input(input) => Line::Input(input.clone()),
        StoredRecord::Decision { run, ticket, record, .. } => {
            let (run, ticket, record) = (run.clone(), ticket.clone(), (**record).clone());
            Line::Decision(Box::new(DecisionLine { run, ticket, record }))
        }
        StoredRecord::Document(document) => Line::Document(document.clone()),
        _ => return None,
    })
}

fn mailbox_line(thread: &ThreadId, mailbox: &store_core::mailbox::StoredMailboxThread) -> Line {
    Line::Mailbox(Box::new(MailboxLine { thread: thread.clone(), mailbox: mailbox.clone() }))
}

/// A dispatch as it was enqueued, and how it stands.
fn dispatch_lines(stored: &StoredDispatch) -> impl Iterator<Item = Line> {
    let state = (!stored.is_new()).then(|| {
        let (id, number, state) = (stored.id().clone(), stored.body.number, stored.state.clone());
        Line::DispatchState(Box::new(DispatchLine { id, number, state }))
    });
    [Line::Dispatch(Box::new((*stored.body).clone()))].into_iter().chain(state)
}

fn first_scope(stored: &StoredEvent) -> Option<Scope> {
    stored.scope_numbers().map(|(scope, _)| scope).min()
}
