//! Loads missing records in one statement.

use std::time::Duration;

use sqlx::{
    Row as _,
    postgres::{PgArguments, PgRow},
};
use store_core::{
    Error, Event, Json, Result, Run, Scope,
    codec::{Codec, DecodeError},
    commit::KeyRecord,
    event::{EventKeyRecord, ScopeState, StoredEvent},
    log::{Marks, Node},
    pending::{DecisionRecord, PendingInput, StoredInput},
    thread::{IdRecord, StoredThread},
};

use super::{CachedMarks, Lookup, RecordCache, Row, implied};
use crate::{
    columns::{read_u64, text},
    db::{Connection, add, signed, unsigned},
    error::corrupt,
};

/// Loads missing records and adds them to the cache. Records of the thread that are already in the cache are kept only
/// if no other call has written to the thread since they were loaded.
pub(crate) async fn load_records(connection: &mut Connection<'_>, cache: &mut RecordCache, look: Lookup) -> Result<()> {
    let arguments = arguments(cache, &look)?;
    let rows = connection.read(|sql| &sql.look, arguments).await?;
    let found: Vec<AnswerRow> = rows.iter().map(AnswerRow::of).collect::<Result<_>>()?;
    for clock in found.iter().filter(|found| found.kind == "clock") {
        connection.set_server_time(Duration::from_millis(unsigned(clock.i.unwrap_or_default())?));
    }
    if cache.id.is_some() {
        let row =
            found.iter().find(|found| found.kind == "thread").map(AnswerRow::row).transpose()?.unwrap_or_default();
        if cache.row.as_ref().is_some_and(|known| known.stamp != row.stamp) {
            cache.forget();
        }
        cache.row = Some(row);
    }
    mark_absent(cache, &look);
    found.iter().try_for_each(|found| found.add_to(cache, &look))
}

fn arguments(cache: &RecordCache, look: &Lookup) -> Result<PgArguments> {
    fn texts(of: impl IntoIterator<Item = impl ToString>) -> Vec<String> {
        of.into_iter().map(|text| text.to_string()).collect()
    }
    fn numbers<'a>(of: impl IntoIterator<Item = &'a u64>) -> Result<Vec<i64>> {
        of.into_iter().map(|number| signed(*number)).collect()
    }
    let mut arguments = PgArguments::default();
    let all = &mut arguments;
    add(all, cache.constants.tenant.as_str())?;
    add(all, cache.id.as_ref().map(store_core::ThreadId::as_str))?;
    add(all, look.head)?;
    add(all, texts(&look.threads))?;
    add(all, texts(&look.lineage))?;
    add(all, texts(&look.runs))?;
    add(all, texts(&look.keys))?;
    add(all, texts(&look.entries))?;
    add(all, numbers(&look.paths)?)?;
    add(all, numbers(&look.marks)?)?;
    add(all, look.names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>())?;
    add(all, look.states.iter().map(|key| key.as_bytes()).collect::<Vec<_>>())?;
    add(all, texts(&look.inputs))?;
    add(all, look.queue)?;
    add(all, texts(look.decisions.iter().map(|(run, _)| run)))?;
    add(all, look.decisions.iter().map(|(_, ticket)| ticket.as_bytes()).collect::<Vec<_>>())?;
    add(all, look.scopes.iter().map(|scope| scope_key(scope).0).collect::<Vec<_>>())?;
    add(all, look.scopes.iter().map(|scope| scope_key(scope).1).collect::<Vec<_>>())?;
    add(all, texts(&look.events))?;
    add(all, texts(look.event_keys.iter().map(|(writer, _)| writer)))?;
    add(all, texts(look.event_keys.iter().map(|(_, key)| key)))?;
    Ok(arguments)
}

/// Returns the kind and the id of a scope as they are stored.
pub(crate) fn scope_key(scope: &Scope) -> (&'static str, &str) {
    match scope {
        Scope::Thread(id) => ("thread", id.as_str()),
        Scope::Run(id) => ("run", id.as_str()),
    }
}

/// Decodes an event. A sequence number of 0 means that the event has none in that scope.
pub(crate) fn decode_event(record: &str, thread_seq: i64, run_seq: i64) -> Result<StoredEvent> {
    let place = |seq: i64| (seq > 0).then(|| unsigned(seq)).transpose();
    Ok(StoredEvent::new(decode::<Event>("event", record)?, place(thread_seq)?, place(run_seq)?))
}

/// Marks the requested records as absent. The records that were found are added afterwards.
fn mark_absent(cache: &mut RecordCache, look: &Lookup) {
    cache.threads.extend(look.threads.iter().map(|id| (id.clone(), false)));
    cache.lineages.extend(look.lineage.iter().map(|id| (id.clone(), Vec::new())));
    cache.runs.extend(look.runs.iter().map(|id| (id.clone(), None)));
    cache.keys.extend(look.keys.iter().map(|key| (key.clone(), None)));
    cache.entries.extend(look.entries.iter().map(|id| (id.clone(), None)));
    cache.names.extend(look.names.iter().map(|name| (name.clone(), None)));
    cache.states.extend(look.states.iter().map(|key| (key.clone(), None)));
    cache.inputs.extend(look.inputs.iter().map(|id| (id.clone(), None)));
    cache.decisions.extend(look.decisions.iter().map(|key| (key.clone(), None)));
    cache.scopes.extend(look.scopes.iter().map(|scope| (scope.clone(), None)));
    cache.events.extend(look.events.iter().map(|id| (id.clone(), None)));
    cache.event_keys.extend(look.event_keys.iter().map(|key| (key.clone(), None)));
    if look.queue {
        cache.queue = Some(Vec::new());
    }
}

/// Loads the nodes that a search for an ancestor visits, from an entry up to a depth or a sequence number, and some of
/// the nodes in front of the last of them. The rules of core do the search. They ask for nodes that are still missing.
pub(crate) async fn load_ancestors(
    connection: &mut Connection<'_>,
    cache: &mut RecordCache,
    (log, from): (i64, u64),
    (depth, seq): (u64, u64),
) -> Result<()> {
    let mut with = PgArguments::default();
    add(&mut with, log)?;
    add(&mut with, signed(from)?)?;
    add(&mut with, signed(depth)?)?;
    add(&mut with, signed(seq)?)?;
    for row in connection.read(|sql| &sql.load_ancestors, with).await? {
        cache.nodes.insert(read_u64(&row, 0)?, (decode::<Node>("node", &text(&row, 2)?)?, text(&row, 1)?.parse()?));
    }
    Ok(())
}

/// A row of the server's answer.
struct AnswerRow {
    kind: String,
    i: Option<i64>,
    j: Option<i64>,
    a: Option<String>,
    b: Option<String>,
}

impl AnswerRow {
    fn of(row: &PgRow) -> Result<Self> {
        let read = || -> Result<Self, sqlx::Error> {
            Ok(Self {
                kind: row.try_get(0)?,
                i: row.try_get(1)?,
                j: row.try_get(2)?,
                a: row.try_get(3)?,
                b: row.try_get(4)?,
            })
        };
        read().map_err(|error| corrupt("an answer of the server").with_source(error))
    }

    fn row(&self) -> Result<Row> {
        decode_thread_row(self.i.unwrap_or_default(), self.j, self.a.as_deref(), self.b.as_deref())
    }

    fn add_to(&self, cache: &mut RecordCache, look: &Lookup) -> Result<()> {
        let a = self.a.as_deref().unwrap_or_default();
        let b = self.b.as_deref().unwrap_or_default();
        let seq = unsigned(self.i.unwrap_or_default())?;
        // `j` is the index of the requested record, counted from 1.
        let at = self.j.and_then(|at| usize::try_from(at - 1).ok()).unwrap_or(usize::MAX);
        match self.kind.as_str() {
            "exists" => _ = cache.threads.insert(a.parse()?, true),
            "lineage" => cache.lineages.entry(a.parse()?).or_default().push(b.parse()?),
            "run" => _ = cache.runs.insert(a.parse()?, Some(decode::<Run>("run", b)?)),
            "key" => _ = cache.keys.insert(a.parse()?, Some(decode::<KeyRecord>("commit key", b)?)),
            "entry" => _ = cache.entries.insert(a.parse()?, Some(seq)),
            "node" => _ = cache.nodes.insert(seq, (decode::<Node>("node", b)?, a.parse()?)),
            "marks" => {
                let is_parent_of_next = self.j == Some(1);
                let marks = self.a.as_deref().map(|record| decode::<Marks>("marks", record)).transpose()?;
                let has_row = marks.is_some();
                let marks = marks.unwrap_or_else(|| implied(u32::from(is_parent_of_next)));
                cache.marks.insert(seq, CachedMarks { marks, has_row, is_parent_of_next });
            }
            "name" => cache.names.extend(look.names.iter().nth(at).map(|name| (name.clone(), self.i.map(|_| seq)))),
            "state" => {
                let value =
                    Json::parse(a).map_err(|error| corrupt("a value of a thread's state").with_source(error))?;
                cache.states.extend(look.states.iter().nth(at).map(|key| (key.clone(), Some(value))));
            }
            "input" => {
                let input = StoredInput::new(decode::<PendingInput>("pending input", b)?, seq);
                cache.inputs.insert(a.parse()?, Some(input));
            }
            "queued" => cache.queue.get_or_insert_default().push(a.parse()?),
            "decision" => {
                let record = decode::<DecisionRecord>("decision", a)?;
                cache.decisions.extend(look.decisions.iter().nth(at).map(|key| (key.clone(), Some(record))));
            }
            "scope" => {
                let state = decode::<ScopeState>("scope", a)?;
                cache.scopes.extend(look.scopes.iter().nth(at).map(|scope| (scope.clone(), Some(state))));
            }
            "event" => {
                let stored = decode_event(b, self.i.unwrap_or_default(), self.j.unwrap_or_default())?;
                cache.events.insert(a.parse()?, Some(stored));
            }
            "event key" => {
                let record = decode::<EventKeyRecord>("event key", a)?;
                cache.event_keys.extend(look.event_keys.iter().nth(at).map(|key| (key.clone(), Some(record))));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Decodes the row of a thread.
pub(crate) fn decode_thread_row(stamp: i64, log: Option<i64>, thread: Option<&str>, id: Option<&str>) -> Result<Row> {
    Ok(Row {
        stamp,
        log,
        thread: thread.map(|text| decode::<StoredThread>("thread", text)).transpose()?,
        id: id.map(|text| decode::<IdRecord>("thread id", text)).transpose()?.unwrap_or_default(),
    })
}

/// Decodes a record of a row.
pub(crate) fn decode<T: Codec>(what: &'static str, text: &str) -> Result<T> {
    T::read(text).map_err(|error: DecodeError| -> Error { corrupt(what).with_source(error) })
}
