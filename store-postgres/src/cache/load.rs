//! Loads missing records in one statement.

use std::time::Duration;

use sqlx::{
    Row as _,
    postgres::{PgArguments, PgRow},
};
use store_core::{
    DocumentRef, Error, Event, EventId, Json, Result, Run, Scope, ThreadId, Timestamp,
    codec::{Codec, DecodeError},
    commit::CommitKeyRecord,
    document::DocumentState,
    event::{EventKeyRecord, ScopeState, StoredEvent},
    log::{EntryMarks, Node},
    pending::{DecisionRecord, PendingInput, StoredInput},
    thread::{StoredThread, ThreadIdRecord},
};

use super::{CachedMarks, CachedThreadRow, Lookup, RecordCache, marks_with_children};
use crate::{
    columns::{read_text, read_u64},
    db::{Connection, add, signed, unsigned},
    error::corrupt,
};

/// Loads missing records and adds them to the cache. Records of the thread that are already in the cache are kept only
/// if no other call has written to the thread since they were loaded.
pub(crate) async fn load_records(
    connection: &mut Connection<'_>,
    cache: &mut RecordCache,
    lookup: Lookup,
) -> Result<()> {
    let mut arguments = lookup_arguments(cache, &lookup)?;
    let rows = if lookup.documents.is_empty() && lookup.events.is_empty() {
        connection.read(|sql| &sql.load_records, arguments).await?
    } else {
        add_document_refs(&mut arguments, &lookup.documents)?;
        connection.read(|sql| &sql.load_records_and_documents, arguments).await?
    };
    let answer_rows: Vec<AnswerRow> = rows.iter().map(AnswerRow::of).collect::<Result<_>>()?;
    for clock_row in answer_rows.iter().filter(|row| row.kind == "clock") {
        connection.set_server_time(Duration::from_millis(unsigned(clock_row.first_number.unwrap_or_default())?));
    }
    if cache.id.is_some() {
        let thread_row = answer_rows.iter().find(|row| row.kind == "thread").map(AnswerRow::thread_row).transpose()?;
        let row = thread_row.unwrap_or_default();
        if cache.row.as_ref().is_some_and(|cached| cached.stamp != row.stamp) {
            cache.clear();
        }
        cache.row = Some(row);
    }
    add_as_absent(cache, &lookup);
    answer_rows.iter().try_for_each(|row| row.add_to(cache, &lookup))
}

fn lookup_arguments(cache: &RecordCache, lookup: &Lookup) -> Result<PgArguments> {
    fn texts(items: impl IntoIterator<Item = impl ToString>) -> Vec<String> {
        items.into_iter().map(|text| text.to_string()).collect()
    }
    fn numbers<'a>(items: impl IntoIterator<Item = &'a u64>) -> Result<Vec<i64>> {
        items.into_iter().map(|number| signed(*number)).collect()
    }
    let mut arguments = PgArguments::default();
    let to = &mut arguments;
    add(to, cache.constants.tenant.as_str())?;
    add(to, cache.id.as_ref().map(ThreadId::as_str))?;
    add(to, lookup.head)?;
    add(to, texts(&lookup.threads))?;
    add(to, texts(&lookup.lineage))?;
    add(to, texts(&lookup.runs))?;
    add(to, texts(&lookup.keys))?;
    add(to, texts(&lookup.entries))?;
    add(to, numbers(&lookup.paths)?)?;
    add(to, numbers(&lookup.marks)?)?;
    add(to, lookup.names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>())?;
    add(to, lookup.states.iter().map(|key| key.as_bytes()).collect::<Vec<_>>())?;
    add(to, texts(&lookup.inputs))?;
    add(to, lookup.queue)?;
    add(to, texts(lookup.decisions.iter().map(|(run, _)| run)))?;
    add(to, lookup.decisions.iter().map(|(_, ticket)| ticket.as_bytes()).collect::<Vec<_>>())?;
    add(to, lookup.scopes.iter().map(|scope| scope_kind_and_id(scope).0).collect::<Vec<_>>())?;
    add(to, lookup.scopes.iter().map(|scope| scope_kind_and_id(scope).1).collect::<Vec<_>>())?;
    add(to, texts(&lookup.events))?;
    add(to, texts(lookup.event_keys.iter().map(|(writer, _)| writer)))?;
    add(to, texts(lookup.event_keys.iter().map(|(_, key)| key)))?;
    Ok(arguments)
}

/// Appends the threads, collections and keys of documents.
pub(crate) fn add_document_refs<'d>(
    to: &mut PgArguments,
    documents: impl IntoIterator<Item = &'d DocumentRef>,
) -> Result<()> {
    let (mut threads, mut collections, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for document in documents {
        threads.push(document.scope.thread().map(ThreadId::as_str));
        collections.push(document.key.collection().as_str());
        keys.push(document.key.encoded());
    }
    add(to, threads)?;
    add(to, collections)?;
    add(to, keys)
}

/// Returns the kind and the id of a scope as they are stored.
pub(crate) fn scope_kind_and_id(scope: &Scope) -> (&'static str, &str) {
    match scope {
        Scope::Thread(id) => ("thread", id.as_str()),
        Scope::Run(id) => ("run", id.as_str()),
        Scope::Topic(id) => ("topic", id.as_str()),
    }
}

/// Decodes an event. A sequence number of 0 means that the event is not in a scope of that kind.
pub(crate) fn decode_event(record: &str, thread_seq: i64, run_seq: i64) -> Result<StoredEvent> {
    let seq_in_scope = |seq: i64| (seq > 0).then(|| unsigned(seq)).transpose();
    Ok(StoredEvent::new(decode::<Event>("event", record)?, seq_in_scope(thread_seq)?, seq_in_scope(run_seq)?))
}

/// Adds all requested records as absent. Those that were found replace them afterwards.
fn add_as_absent(cache: &mut RecordCache, lookup: &Lookup) {
    cache.threads.extend(lookup.threads.iter().map(|id| (id.clone(), false)));
    cache.lineages.extend(lookup.lineage.iter().map(|id| (id.clone(), Vec::new())));
    cache.runs.extend(lookup.runs.iter().map(|id| (id.clone(), None)));
    cache.keys.extend(lookup.keys.iter().map(|key| (key.clone(), None)));
    cache.entries.extend(lookup.entries.iter().map(|id| (id.clone(), None)));
    cache.names.extend(lookup.names.iter().map(|name| (name.clone(), None)));
    cache.states.extend(lookup.states.iter().map(|key| (key.clone(), None)));
    cache.inputs.extend(lookup.inputs.iter().map(|id| (id.clone(), None)));
    cache.decisions.extend(lookup.decisions.iter().map(|key| (key.clone(), None)));
    cache.scopes.extend(lookup.scopes.iter().map(|scope| (scope.clone(), None)));
    cache.events.extend(lookup.events.iter().map(|id| (id.clone(), None)));
    cache.event_keys.extend(lookup.event_keys.iter().map(|key| (key.clone(), None)));
    cache.documents.extend(lookup.documents.iter().map(|document| (document.clone(), None)));
    if lookup.queue {
        cache.queue = Some(Vec::new());
    }
}

/// Loads the nodes that a search for an ancestor visits. The search begins at the entry `from` and ends at the first
/// node whose depth is at most `depth` or whose sequence number is at most `seq`. Also loads the nodes just in front of
/// that node in the log, because the caller probably needs them next. The rules of core do the search, and ask for
/// nodes that are still missing.
pub(crate) async fn load_ancestors(
    connection: &mut Connection<'_>,
    cache: &mut RecordCache,
    (log, from): (i64, u64),
    (depth, seq): (u64, u64),
) -> Result<()> {
    let mut arguments = PgArguments::default();
    add(&mut arguments, log)?;
    add(&mut arguments, signed(from)?)?;
    add(&mut arguments, signed(depth)?)?;
    add(&mut arguments, signed(seq)?)?;
    for row in connection.read(|sql| &sql.load_ancestors, arguments).await? {
        cache
            .nodes
            .insert(read_u64(&row, 0)?, (decode::<Node>("node", &read_text(&row, 2)?)?, read_text(&row, 1)?.parse()?));
    }
    Ok(())
}

/// A row of the server's answer. Its kind determines the meaning of its numbers and texts.
struct AnswerRow {
    kind: String,
    first_number: Option<i64>,
    second_number: Option<i64>,
    first_text: Option<String>,
    second_text: Option<String>,
}

impl AnswerRow {
    fn of(row: &PgRow) -> Result<Self> {
        let read = || -> Result<Self, sqlx::Error> {
            Ok(Self {
                kind: row.try_get(0)?,
                first_number: row.try_get(1)?,
                second_number: row.try_get(2)?,
                first_text: row.try_get(3)?,
                second_text: row.try_get(4)?,
            })
        };
        read().map_err(|error| corrupt("an answer of the server").with_source(error))
    }

    fn thread_row(&self) -> Result<CachedThreadRow> {
        decode_thread_row(
            self.first_number.unwrap_or_default(),
            self.second_number,
            self.first_text.as_deref(),
            self.second_text.as_deref(),
        )
    }

    fn add_to(&self, cache: &mut RecordCache, lookup: &Lookup) -> Result<()> {
        let first_text = self.first_text.as_deref().unwrap_or_default();
        let second_text = self.second_text.as_deref().unwrap_or_default();
        let seq = unsigned(self.first_number.unwrap_or_default())?;
        // For records without an id, the second number is the index of the record in the request, counted from 1.
        let index = self.second_number.and_then(|index| usize::try_from(index - 1).ok()).unwrap_or(usize::MAX);
        match self.kind.as_str() {
            "exists" => _ = cache.threads.insert(first_text.parse()?, true),
            "lineage" => cache.lineages.entry(first_text.parse()?).or_default().push(second_text.parse()?),
            "run" => _ = cache.runs.insert(first_text.parse()?, Some(decode::<Run>("run", second_text)?)),
            "key" => {
                _ = cache.keys.insert(first_text.parse()?, Some(decode::<CommitKeyRecord>("commit key", second_text)?))
            }
            "entry" => _ = cache.entries.insert(first_text.parse()?, Some(seq)),
            "node" => _ = cache.nodes.insert(seq, (decode::<Node>("node", second_text)?, first_text.parse()?)),
            "marks" => {
                let is_parent_of_next = self.second_number == Some(1);
                let marks =
                    self.first_text.as_deref().map(|record| decode::<EntryMarks>("marks", record)).transpose()?;
                let has_row = marks.is_some();
                let marks = marks.unwrap_or_else(|| marks_with_children(u32::from(is_parent_of_next)));
                cache.marks.insert(seq, CachedMarks { marks, has_row, is_parent_of_next });
            }
            "name" => cache
                .names
                .extend(lookup.names.iter().nth(index).map(|name| (name.clone(), self.first_number.map(|_| seq)))),
            "state" => {
                let value = Json::parse(first_text)
                    .map_err(|error| corrupt("a value of a thread's state").with_source(error))?;
                cache.states.extend(lookup.states.iter().nth(index).map(|key| (key.clone(), Some(value))));
            }
            "input" => {
                let input = StoredInput::new(decode::<PendingInput>("pending input", second_text)?, seq);
                cache.inputs.insert(first_text.parse()?, Some(input));
            }
            "queued" => cache.queue.get_or_insert_default().push(first_text.parse()?),
            "decision" => {
                let record = decode::<DecisionRecord>("decision", first_text)?;
                cache.decisions.extend(lookup.decisions.iter().nth(index).map(|key| (key.clone(), Some(record))));
            }
            "scope" => {
                let state = decode::<ScopeState>("scope", first_text)?;
                cache.scopes.extend(lookup.scopes.iter().nth(index).map(|scope| (scope.clone(), Some(state))));
            }
            "event" => {
                let stored = decode_event(
                    second_text,
                    self.first_number.unwrap_or_default(),
                    self.second_number.unwrap_or_default(),
                )?;
                cache.events.insert(first_text.parse()?, Some(stored));
            }
            "topic" => {
                let id: EventId = first_text.parse()?;
                if let Some(stored) = cache.events.get_mut(&id).and_then(Option::as_mut) {
                    stored.topic_seqs.push(seq);
                }
            }
            "document" => {
                let (created_at, updated_at) = (decode_time(first_text)?, decode_time(second_text)?);
                let state = DocumentState { revision: seq, created_at, updated_at };
                cache.documents.extend(lookup.documents.iter().nth(index).map(|key| (key.clone(), Some(state))));
            }
            "event key" => {
                let record = decode::<EventKeyRecord>("event key", first_text)?;
                cache.event_keys.extend(lookup.event_keys.iter().nth(index).map(|key| (key.clone(), Some(record))));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Decodes a time that the server returned as text.
fn decode_time(text: &str) -> Result<Timestamp> {
    text.parse::<u64>().map_err(|_| corrupt("a time of a document")).and_then(Timestamp::from_millis)
}

/// Decodes the row of a thread.
pub(crate) fn decode_thread_row(
    stamp: i64,
    log: Option<i64>,
    thread: Option<&str>,
    id_record: Option<&str>,
) -> Result<CachedThreadRow> {
    Ok(CachedThreadRow {
        stamp,
        log,
        thread: thread.map(|text| decode::<StoredThread>("thread", text)).transpose()?,
        id_record: id_record.map(|text| decode::<ThreadIdRecord>("thread id", text)).transpose()?.unwrap_or_default(),
    })
}

/// Decodes a record of a row.
pub(crate) fn decode<T: Codec>(what: &'static str, text: &str) -> Result<T> {
    T::read(text).map_err(|error: DecodeError| -> Error { corrupt(what).with_source(error) })
}
