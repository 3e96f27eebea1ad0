//! Pages of records.

use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgRow};
use store_core::{
    Document, DocumentKey, DocumentScope, Entry, Event, Json, Result, Run, Scope, ThreadId, Timestamp,
    codec::Codec,
    document::{DocumentRef, DocumentState, StoredDocument},
    event::StoredEvent,
    log::EntryMarks,
    mailbox::StoredDispatch,
    pending::StoredInput,
    records::{NumbersGiven, RecordKey, RecordList, RecordQuery, StoredRecord, ThreadRecord},
};

use crate::{
    cache::decode,
    columns::{read_name, read_optional},
    db::{add, signed},
    error::corrupt,
    tenant::Tenant,
};

/// Returns the next records of a list.
pub(super) async fn dump(tenant: &Tenant, query: &RecordQuery) -> Result<Vec<StoredRecord>> {
    if query.list == RecordList::Numbers && query.after.is_some() {
        return Ok(Vec::new());
    }
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    add(&mut arguments, i64::try_from(query.bytes).unwrap_or(i64::MAX))?;
    add(&mut arguments, i64::try_from(query.limit).unwrap_or(i64::MAX))?;
    add_key(&mut arguments, query.list, query.after.as_ref().unwrap_or(&RecordKey::default()))?;
    let rows = tenant.db().any_connection().read(|sql| sql.records.dump(query.list), arguments).await?;
    let mut records = rows.iter().map(|row| Columns(row).record(query.list)).collect::<Result<Vec<_>>>()?;
    // The rows come in this order, but nothing in the statement says so.
    records.sort_by_cached_key(StoredRecord::key);
    Ok(records)
}

/// Adds the parts of a key as the statement of the list takes them. The first key comes after an empty one.
fn add_key(to: &mut PgArguments, list: RecordList, after: &RecordKey) -> Result<()> {
    match list {
        RecordList::Numbers => Ok(()),
        RecordList::Threads
        | RecordList::Runs
        | RecordList::Events
        | RecordList::Outbox
        | RecordList::Mailboxes
        | RecordList::Dispatches => add(to, after.text(0).to_owned()),
        RecordList::Entries | RecordList::Inputs => {
            add(to, after.text(0).to_owned())?;
            // Ranks and sequence numbers begin with 1; a rank of 0 would be left out.
            add(to, if after.parts().is_empty() { -1 } else { signed(after.number(1))? })
        }
        // Epochs begin with 1.
        RecordList::Interrupts => {
            add(to, after.text(0).to_owned())?;
            add(to, signed(after.number(1))?)
        }
        RecordList::State => {
            add(to, after.text(0).to_owned())?;
            add(to, after.text(1).as_bytes().to_vec())
        }
        RecordList::CommitKeys | RecordList::Documents | RecordList::Scopes | RecordList::EventKeys => {
            add(to, after.text(0).to_owned())?;
            add(to, after.text(1).to_owned())
        }
        RecordList::Decisions => {
            add(to, after.text(0).to_owned())?;
            add(to, after.text(1).to_owned())?;
            add(to, after.text(2).as_bytes().to_vec())
        }
        RecordList::ThreadDocuments => {
            add(to, after.text(0).to_owned())?;
            add(to, after.text(1).to_owned())?;
            add(to, after.text(2).to_owned())
        }
    }
}

/// The columns of a row: four texts, and bytes.
struct Columns<'a>(&'a PgRow);

impl Columns<'_> {
    fn maybe(&self, at: usize) -> Result<Option<String>> {
        read_optional(self.0, at)
    }

    fn text(&self, at: usize) -> Result<String> {
        self.maybe(at)?.ok_or_else(|| corrupt("a record"))
    }

    fn number(&self, at: usize) -> Result<Option<u64>> {
        self.maybe(at)?.map(|text| text.parse().map_err(|error| corrupt("a number").with_source(error))).transpose()
    }

    fn record_of<T: Codec>(&self, what: &'static str, at: usize) -> Result<T> {
        decode(what, &self.text(at)?)
    }

    fn json(&self, at: usize) -> Result<Json> {
        Json::parse(&self.text(at)?).map_err(|error| corrupt("a value").with_source(error))
    }

    fn thread(&self) -> Result<ThreadId> {
        self.text(0)?.parse()
    }

    fn record(&self, list: RecordList) -> Result<StoredRecord> {
        Ok(match list {
            RecordList::Numbers => StoredRecord::Numbers(NumbersGiven {
                document_revision: self.number(0)?.unwrap_or_default(),
                claim_incarnation: self.number(1)?.unwrap_or_default(),
            }),
            RecordList::Threads => StoredRecord::Thread(Box::new(ThreadRecord {
                id: self.thread()?,
                thread: self.maybe(1)?.map(|text| decode("thread", &text)).transpose()?,
                id_record: self.record_of("thread id", 2)?,
            })),
            RecordList::Entries => StoredRecord::Entry {
                thread: self.thread()?,
                node: Box::new(self.record_of("node", 1)?),
                entry: Box::new(self.record_of::<Entry>("entry", 2)?),
                marks: self.marks()?,
            },
            RecordList::Runs => StoredRecord::Run(Box::new(self.record_of::<Run>("run", 0)?)),
            RecordList::State => {
                StoredRecord::State { thread: self.thread()?, name: read_name(self.0, 4)?, value: self.json(1)? }
            }
            RecordList::Inputs => {
                let rank = self.number(2)?.unwrap_or_default();
                StoredRecord::Input(Box::new(StoredInput::new(self.record_of("pending input", 1)?, rank)))
            }
            RecordList::Decisions => StoredRecord::Decision {
                thread: self.thread()?,
                run: self.text(1)?.parse()?,
                ticket: read_name(self.0, 4)?,
                record: Box::new(self.record_of("decision", 2)?),
            },
            RecordList::CommitKeys => {
                StoredRecord::CommitKey { thread: self.thread()?, record: Box::new(self.record_of("commit key", 1)?) }
            }
            RecordList::ThreadDocuments => StoredRecord::Document(Box::new(self.document(Some(self.thread()?))?)),
            RecordList::Documents => StoredRecord::Document(Box::new(self.document(None)?)),
            RecordList::Scopes => StoredRecord::Scope { scope: self.scope()?, state: self.record_of("scope", 2)? },
            RecordList::Events => StoredRecord::Event(Box::new(self.event()?)),
            RecordList::EventKeys => StoredRecord::EventKey {
                writer: self.text(0)?.parse()?,
                key: self.text(1)?.parse()?,
                record: Box::new(self.record_of("event key", 2)?),
            },
            RecordList::Outbox => StoredRecord::Outbox(Box::new((self.record_of("outbox row", 0)?, self.json(1)?))),
            RecordList::Mailboxes => {
                StoredRecord::Mailbox { thread: self.thread()?, record: Box::new(self.record_of("mailbox", 1)?) }
            }
            RecordList::Interrupts => {
                StoredRecord::Interrupt { thread: self.thread()?, interrupt: Box::new(self.record_of("interrupt", 1)?) }
            }
            RecordList::Dispatches => StoredRecord::Dispatch(Box::new(StoredDispatch::new(
                Arc::new(self.record_of("dispatch", 0)?),
                self.record_of("dispatch", 1)?,
            ))),
        })
    }

    /// The marks of an entry. Without a row they say only whether the next entry of the log is its child.
    fn marks(&self) -> Result<EntryMarks> {
        match self.maybe(3)?.as_deref() {
            None => Ok(EntryMarks::default()),
            Some("") => {
                let mut marks = EntryMarks::default();
                marks.children = 1;
                Ok(marks)
            }
            Some(text) => decode("marks", text),
        }
    }

    fn document(&self, thread: Option<ThreadId>) -> Result<Document> {
        let numbers = read_name(self.0, 4)?;
        let numbers: Vec<u64> = numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [revision, created_at, updated_at] = numbers[..] else { return Err(corrupt("a document")) };
        let key = DocumentKey::from_encoded(self.text(1)?.parse()?, &self.text(2)?)?;
        let scope = thread.map_or(DocumentScope::Tenant, DocumentScope::Thread);
        let (created_at, updated_at) = (Timestamp::from_millis(created_at)?, Timestamp::from_millis(updated_at)?);
        let state = DocumentState { revision, created_at, updated_at };
        Ok(Document::new(DocumentRef { scope, key }, StoredDocument::new(self.json(3)?, state)))
    }

    fn scope(&self) -> Result<Scope> {
        let id = self.text(1)?;
        Ok(match self.text(0)?.as_str() {
            "thread" => Scope::Thread(id.parse()?),
            "run" => Scope::Run(id.parse()?),
            _ => Scope::Topic(id.parse()?),
        })
    }

    fn event(&self) -> Result<StoredEvent> {
        let stored = StoredEvent::new(self.record_of::<Event>("event", 0)?, self.number(1)?, self.number(2)?);
        let topic_seqs = self.maybe(3)?.unwrap_or_default();
        let topic_seqs = topic_seqs.split(' ').filter_map(|number| number.parse().ok()).collect();
        Ok(stored.with_topic_seqs(topic_seqs))
    }
}
