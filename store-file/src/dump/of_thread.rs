//! Threads, and lists of what belongs to threads.

use std::collections::BTreeMap;

use store_core::{
    Error, Json, Result, RunId, ThreadId,
    commit::CommitKeyRecord,
    log::EntryMarks,
    pending::{DecisionRecord, StoredInput},
    records::{RecordList, StoredRecord, ThreadRecord},
};

use super::{Dump, Page};
use crate::{
    codec::{InputRow, NodeRow, Rows as _, ThreadRow, damaged, read},
    error,
    index::{Direction, after_prefix},
    line::{self, CommitLine, Line},
    log::{Header, Scanner, Span, decode_line, read_header},
    records, table,
};

impl Dump<'_> {
    /// The ids of threads: those that exist, and those of which something is remembered.
    pub(super) fn threads(&self, page: &mut Page<'_>) -> Result<()> {
        let mut ids = BTreeMap::new();
        for list in [table::threads(self.tenant), table::ids(self.tenant)] {
            let after = self.after().map(|after| list.clone().text(after.text(0)));
            for pair in self.rows(&list, after).take(self.query.limit) {
                let (key, value) = pair?;
                let id = table::read_thread(&key).or_else(|| table::read_id(&key)).ok_or_else(|| damaged("thread"))?;
                *ids.entry(ThreadId::new(id.1)?).or_default() += value.len();
            }
        }
        for (id, bytes) in ids {
            if page.is_full() {
                break;
            }
            let row = self.shared.thread_row(self.snapshot, self.tenant, &id)?;
            let thread = row.map(|row| row.stored);
            let id_record = self.snapshot.id_record(self.tenant, &id, thread.as_ref())?;
            page.put(StoredRecord::Thread(Box::new(ThreadRecord { id, id_record, thread })), bytes);
        }
        Ok(())
    }

    /// A list whose keys begin with a thread.
    pub(super) fn of_threads(&self, page: &mut Page<'_>) -> Result<()> {
        let list = table::threads(self.tenant);
        let first = self.after().map(|after| after.text(0));
        let from = first.map_or_else(|| list.clone(), |first| list.clone().text(first));
        let end = after_prefix(list.as_bytes());
        for pair in self.snapshot.range(from.as_bytes(), &end, Direction::Forward) {
            if page.is_full() {
                break;
            }
            let (key, value) = pair?;
            let (_, id) = table::read_thread(&key).ok_or_else(|| damaged("thread"))?;
            let is_first = first == Some(id.as_str());
            let row: ThreadRow = read("thread", &value)?;
            self.of_thread(page, &ThreadId::new(id)?, (&row, is_first))?;
        }
        Ok(())
    }

    fn of_thread(&self, page: &mut Page<'_>, id: &ThreadId, (row, is_first): (&ThreadRow, bool)) -> Result<()> {
        let (log, after) = (row.log, self.after().filter(|_| is_first));
        match self.query.list {
            RecordList::Entries => self.entries(page, id, (log, after.map_or(0, |after| after.number(1)))),
            RecordList::State => {
                let list = table::states(log);
                for pair in self.rows(&list, after.map(|after| list.clone().text(after.text(1)))) {
                    if page.is_full() {
                        break;
                    }
                    let (key, value) = pair?;
                    let name = table::read_state(&key).ok_or_else(|| damaged("state"))?;
                    let value: Json = read("state", &value)?;
                    let bytes = value.as_str().len();
                    page.put(StoredRecord::State { thread: id.clone(), name, value }, bytes);
                }
                Ok(())
            }
            RecordList::Inputs => self.inputs(page, log, after.map(|after| after.number(1))),
            RecordList::Decisions => self.decisions(page, id, (log, row)),
            RecordList::CommitKeys => self.commit_keys(page, id, (log, after.map(|after| after.text(1)))),
            _ => {
                let list = table::of_log(table::LOG_DOCUMENT, log);
                let key = after.map(|after| list.clone().text(after.text(1)).text(after.text(2)));
                self.documents_after(page, &list, key)
            }
        }
    }

    fn entries(&self, page: &mut Page<'_>, id: &ThreadId, (log, after): (u64, u64)) -> Result<()> {
        let list = table::nodes(log);
        let (mut nodes, mut bytes) = (Vec::new(), 0);
        for pair in self.rows(&list, Some(list.clone().number(after))) {
            let row = NodeRow::decode(&pair?.1).ok_or_else(|| damaged("node"))?;
            bytes += row.span.len as usize;
            nodes.push(row);
            if self.query.is_full(page.records.len() + nodes.len(), page.bytes + bytes) {
                break;
            }
        }
        let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { return Ok(()) };
        let mut marks = self.marks(log, (first.node.seq, last.node.seq))?;
        let spans: Vec<Span> = nodes.iter().map(|row| row.span).collect();
        let entries = records::read_all(self.shared, log, &spans, line::decode_entry)?;
        for ((entry, _), row) in entries.into_iter().zip(nodes) {
            let record = StoredRecord::Entry {
                thread: id.clone(),
                entry: Box::new(entry),
                marks: marks.remove(&row.node.seq).unwrap_or_default(),
                node: Box::new(row.node),
            };
            page.put(record, row.span.len as usize);
        }
        Ok(())
    }

    /// The marks of entries of a range.
    fn marks(&self, log: u64, (first, last): (u64, u64)) -> Result<BTreeMap<u64, EntryMarks>> {
        let (from, to) = (table::marks(log, first), table::marks(log, last.saturating_add(1)));
        let mut marks = BTreeMap::new();
        for pair in self.snapshot.range(from.as_bytes(), to.as_bytes(), Direction::Forward) {
            let (key, value) = pair?;
            marks.insert(table::last_number(&key).ok_or_else(|| damaged("marks"))?, read("marks", &value)?);
        }
        Ok(marks)
    }

    fn inputs(&self, page: &mut Page<'_>, log: u64, after: Option<u64>) -> Result<()> {
        let list = table::inputs(log);
        for pair in self.rows(&list, after.map(|after| list.clone().number(after))) {
            if page.is_full() {
                break;
            }
            let (key, value) = pair?;
            let rank = table::last_number(&key).ok_or_else(|| damaged("pending input"))?;
            let row = InputRow::decode(&value).ok_or_else(|| damaged("pending input"))?;
            // The line has the rank that the input was put with.
            let stored = records::read(self.shared, log, row.span, line::decode_input)?;
            page.put(StoredRecord::Input(Box::new(StoredInput::new(stored.input, rank))), row.span.len as usize);
        }
        Ok(())
    }

    fn commit_keys(&self, page: &mut Page<'_>, id: &ThreadId, (log, after): (u64, Option<&str>)) -> Result<()> {
        let list = table::commit_keys(log);
        for pair in self.rows(&list, after.map(|after| list.clone().text(after))) {
            if page.is_full() {
                break;
            }
            let span = Span::decode(&pair?.1).ok_or_else(|| damaged("commit key"))?;
            let commit = records::read(self.shared, log, span, CommitLine::decode)?;
            let (key, digest, receipt) = commit.key.ok_or_else(|| damaged("commit key"))?;
            let record = Box::new(CommitKeyRecord::new(key, digest, receipt));
            page.put(StoredRecord::CommitKey { thread: id.clone(), record }, span.len as usize);
        }
        Ok(())
    }

    /// The decisions of a thread. The index knows them by the sums of their tickets; the tickets themselves are in the
    /// log, which is read if there are any.
    fn decisions(&self, page: &mut Page<'_>, id: &ThreadId, (log, row): (u64, &ThreadRow)) -> Result<()> {
        if self.rows(&table::decisions(log), None).next().transpose()?.is_none() {
            return Ok(());
        }
        for ((run, ticket), record) in self.decisions_of_log(log)? {
            let known = self.snapshot.decision(row.log, &run, &ticket)?;
            let record =
                StoredRecord::Decision { thread: id.clone(), run, ticket, record: Box::new(known.unwrap_or(record)) };
            if !page.is_full() && self.query.admits(&record.key()) {
                page.put(record, 256);
            }
        }
        Ok(())
    }

    fn decisions_of_log(&self, log: u64) -> Result<BTreeMap<(RunId, String), DecisionRecord>> {
        let mut decisions = BTreeMap::new();
        let (file, path) = self.shared.open_log(log)?;
        let fail = |source| error::io(&path, source);
        let end = self.snapshot.log_row(log)?.ok_or_else(|| damaged("log"))?.end;
        let Header::Good(_, start) = read_header(&*file).map_err(fail)? else {
            return Err(error::corrupt(&path, Some(0)));
        };
        let mut scanner = Scanner::new(&*file, start, end.offset);
        while let Some(group) = scanner.next_group().map_err(fail)? {
            for (span, bytes) in &group.lines {
                if !bytes.starts_with(br#"{"t":"input""#) && !bytes.starts_with(br#"{"t":"decision""#) {
                    continue;
                }
                match decode_line(&path, *span, bytes, Line::decode)? {
                    Line::Decision(line) => drop(decisions.insert((line.run, line.ticket), line.record)),
                    Line::Input(stored) => {
                        if let Some((decision, record)) = stored.input.decision() {
                            decisions.insert((decision.run.clone(), decision.ticket.clone()), record);
                        }
                    }
                    _ => {}
                }
            }
        }
        if scanner.position() == end { Ok(decisions) } else { Err(gap(&path, scanner.position().offset)) }
    }
}

fn gap(path: &crate::vfs::FilePath, offset: u64) -> Error {
    error::corrupt(path, Some(offset))
}
