//! How deltas are written as JSON. Each record is written as stores write it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{Delta, ThreadDeletion};
use crate::{
    codec::{Codec, DecodeError, Fields, ObjectWriter},
    commit::{Plan, PlannedEntry, StateWrite},
    document::{DocumentPlan, DocumentRef, DocumentWrite, DocumentWritePlan, PlannedDocument, StoredDocument},
    event::{EventPlan, Scope, ScopeState, StoredEvent},
    id::{EntryId, ThreadId},
    json::Json,
    log::Entry,
    outbox::{OutboxPlan, StoredOutboxRow},
    pending::{PendingInput, QueueWrite, StoredInput},
    thread::ThreadIdRecord,
};

impl Codec for Delta {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        match self {
            Self::Thread(plan) => object.field("thread", plan.as_ref()),
            Self::Documents(plan) => object.field("documents", plan.as_ref()),
            Self::Deletion(deletion) => object.field("deletion", deletion),
            Self::TenantDeletion => object.field("tenant_deletion", &true),
        };
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let fields = Fields::parse(raw)?;
        match fields.first() {
            Some(("thread", plan)) => Plan::read(plan).map(|plan| Self::Thread(Box::new(plan))),
            Some(("documents", plan)) => DocumentWritePlan::read(plan).map(|plan| Self::Documents(Box::new(plan))),
            Some(("deletion", deletion)) => ThreadDeletion::read(deletion).map(Self::Deletion),
            Some(("tenant_deletion", _)) => Ok(Self::TenantDeletion),
            _ => Err(DecodeError::new("is no delta of a known kind")),
        }
    }
}

/// Two values, written as a list.
struct Pair<A, B>(A, B);

impl<A: Codec, B: Codec> Codec for Pair<A, B> {
    fn write(&self, out: &mut String) {
        out.push('[');
        self.0.write(out);
        out.push(',');
        self.1.write(out);
        out.push(']');
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let (first, second): (&RawValue, &RawValue) =
            serde_json::from_str(raw).map_err(|_| DecodeError::new("is no pair"))?;
        Ok(Self(A::read(first.get())?, B::read(second.get())?))
    }
}

fn to_pairs<A: Clone, B: Clone>(pairs: &[(A, B)]) -> Vec<Pair<A, B>> {
    pairs.iter().map(|(first, second)| Pair(first.clone(), second.clone())).collect()
}

fn take_pairs<A: Codec, B: Codec>(fields: &mut Fields<'_>, name: &str) -> Result<Vec<(A, B)>, DecodeError> {
    let pairs: Vec<Pair<A, B>> = fields.maybe(name)?.unwrap_or_default();
    Ok(pairs.into_iter().map(|Pair(first, second)| (first, second)).collect())
}

/// Writes a list unless it is empty.
fn write_list<T: Codec>(object: &mut ObjectWriter<'_>, name: &str, list: &Vec<T>) {
    if !list.is_empty() {
        object.field(name, list);
    }
}

impl Codec for Plan {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.maybe("thread", self.thread.as_ref());
        object.field_unless_default("creates_thread", &self.creates_thread).field("id_record", &self.id_record);
        write_list(&mut object, "entries", &self.entries);
        let marks = self.marks.iter().map(|(seq, marks)| Pair(*seq, marks.clone())).collect();
        write_list(&mut object, "marks", &marks);
        write_list(&mut object, "runs", &self.runs);
        object
            .field_unless_default("state", &self.state)
            .field_unless_default("queue", &self.queue)
            .field_unless_default("documents", &self.documents)
            .maybe("events", self.events.as_ref())
            .field_unless_default("outbox", &self.outbox)
            .maybe("key", self.key.as_ref())
            .field("receipt", &self.receipt);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self {
            thread: fields.maybe("thread")?,
            creates_thread: fields.maybe("creates_thread")?.unwrap_or_default(),
            id_record: fields.take("id_record")?,
            entries: fields.maybe("entries")?.unwrap_or_default(),
            marks: take_pairs(&mut fields, "marks")?.into_iter().collect::<BTreeMap<_, _>>(),
            runs: fields.maybe("runs")?.unwrap_or_default(),
            state: fields.maybe("state")?.unwrap_or_default(),
            queue: fields.maybe("queue")?.unwrap_or_default(),
            documents: fields.maybe("documents")?.unwrap_or_default(),
            events: fields.maybe("events")?,
            mailbox: None,
            outbox: fields.maybe("outbox")?.unwrap_or_default(),
            key: fields.maybe("key")?,
            receipt: fields.take("receipt")?,
        })
    }
}

impl Codec for PlannedEntry {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.key("entry").push_str(&self.text);
        object.field("node", &self.node);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let text = fields.take_raw("entry").ok_or_else(|| DecodeError::new("is missing").within("entry"))?.to_owned();
        Ok(Self { entry: Entry::read(&text).map_err(|e| e.within("entry"))?, node: fields.take("node")?, text })
    }
}

/// A removed key is in a list of its own, because a value can be `null`.
impl Codec for StateWrite {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        let set: BTreeMap<String, Json> =
            self.values.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect();
        let removed = self.values.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key.clone()).collect();
        object.field_unless_default("clear", &self.clear).field_unless_default("set", &set);
        write_list(&mut object, "removed", &removed);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let set: BTreeMap<String, Json> = fields.maybe("set")?.unwrap_or_default();
        let removed: Vec<String> = fields.maybe("removed")?.unwrap_or_default();
        let set = set.into_iter().map(|(key, value)| (key, Some(value)));
        let values = set.chain(removed.into_iter().map(|key| (key, None))).collect();
        Ok(Self { clear: fields.maybe("clear")?.unwrap_or_default(), values })
    }
}

impl Codec for QueueWrite {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        let put = self.put.iter().map(|stored| Pair(stored.rank, stored.input.clone())).collect();
        write_list(&mut object, "put", &put);
        write_list(&mut object, "removed", &self.removed);
        write_list(&mut object, "ranks", &to_pairs(&self.ranks));
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let put: Vec<(u64, PendingInput)> = take_pairs(&mut fields, "put")?;
        Ok(Self {
            put: put.into_iter().map(|(rank, input)| StoredInput::new(input, rank)).collect(),
            removed: fields.maybe::<Vec<EntryId>>("removed")?.unwrap_or_default(),
            ranks: take_pairs(&mut fields, "ranks")?,
        })
    }
}

impl Codec for PlannedDocument {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("document", &self.document).maybe("found", self.found.as_ref());
        match &self.write {
            DocumentWrite::Put(stored) => drop(object.field("put", stored)),
            DocumentWrite::Delete => drop(object.field("delete", &true)),
            DocumentWrite::Keep => {}
        }
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let write = match (fields.maybe::<StoredDocument>("put")?, fields.maybe::<bool>("delete")?) {
            (Some(stored), _) => DocumentWrite::Put(stored),
            (None, Some(true)) => DocumentWrite::Delete,
            _ => DocumentWrite::Keep,
        };
        Ok(Self { document: fields.take::<DocumentRef>("document")?, found: fields.maybe("found")?, write })
    }
}

impl Codec for DocumentPlan {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        write_list(&mut object, "changes", &self.changes);
        object.maybe("revision", self.revision.as_ref());
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self { changes: fields.maybe("changes")?.unwrap_or_default(), revision: fields.maybe("revision")? })
    }
}

impl Codec for StoredEvent {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("event", &self.event);
        object.maybe("thread_seq", self.thread_seq.as_ref()).maybe("run_seq", self.run_seq.as_ref());
        write_list(&mut object, "topic_seqs", &self.topic_seqs);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let stored = Self::new(fields.take("event")?, fields.maybe("thread_seq")?, fields.maybe("run_seq")?);
        Ok(stored.with_topic_seqs(fields.maybe("topic_seqs")?.unwrap_or_default()))
    }
}

impl Codec for EventPlan {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("events", &self.events);
        let scopes: Vec<Pair<Scope, ScopeState>> =
            self.scopes.iter().map(|(scope, state)| Pair(scope.clone(), state.clone())).collect();
        object.field("scopes", &scopes);
        if let Some((writer, key, record)) = &self.key {
            object.field("writer", writer).field("key", key).field("key_record", record);
        }
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let (events, scopes) = (fields.take("events")?, take_pairs(&mut fields, "scopes")?.into_iter().collect());
        let key = match fields.maybe("writer")? {
            Some(writer) => Some((writer, fields.take("key")?, fields.take("key_record")?)),
            None => None,
        };
        Ok(Self { events, scopes, key })
    }
}

impl Codec for OutboxPlan {
    fn write(&self, out: &mut String) {
        to_pairs(&self.rows).write(out);
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let rows: Vec<Pair<StoredOutboxRow, Json>> = Codec::read(raw)?;
        Ok(Self { rows: rows.into_iter().map(|Pair(row, payload)| (row, payload)).collect() })
    }
}

impl Codec for DocumentWritePlan {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field_unless_default("documents", &self.documents).maybe("events", self.events.as_ref());
        if let Some((thread, id_record)) = &self.id_record {
            object.field("thread", thread).field("id_record", id_record);
        }
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let id_record = match fields.maybe::<ThreadId>("thread")? {
            Some(thread) => Some((thread, fields.take::<ThreadIdRecord>("id_record")?)),
            None => None,
        };
        Ok(Self {
            documents: fields.maybe("documents")?.unwrap_or_default(),
            events: fields.maybe("events")?,
            id_record,
        })
    }
}

impl Codec for ThreadDeletion {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("deleted", &to_pairs(&self.deleted));
        write_list(&mut object, "detached", &self.detached);
        object.field("at", &self.at);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self {
            deleted: take_pairs(&mut fields, "deleted")?,
            detached: fields.maybe("detached")?.unwrap_or_default(),
            at: fields.take("at")?,
        })
    }
}
