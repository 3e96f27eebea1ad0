//! Records that are written as they were in another store, list by list, in one transaction.

use std::collections::{BTreeMap, HashMap};

use sqlx::{
    Encode, Postgres, Type,
    postgres::{PgArguments, PgHasArrayType, PgRow},
};
use store_core::{
    Body, Document, DocumentRef, DocumentScope, Error, Result, ThreadId, Timestamp,
    codec::Codec,
    document::{DocumentPlan, DocumentWrite},
    log::{Entry, EntryMarks, Node, assigned_name},
    outbox::StoredOutboxRow,
    records::{NumbersGiven, RecordList, StoredRecord, ThreadRecord},
};

use super::statements::Restored;
use crate::{
    columns::{read_optional, read_text, read_value},
    db::{Connection, add, signed},
    documents::LOG_OF_TENANT,
    tenant::Tenant,
};

/// Writes records of any lists, all of them or none.
pub(super) async fn restore(tenant: &Tenant, records: &[StoredRecord]) -> Result<()> {
    let mut connection = tenant.db().begin_transaction().await?;
    let restored = restore_in(&mut connection, tenant, records).await;
    let end = connection.finish(restored.is_ok()).await;
    restored?;
    for record in records {
        if let StoredRecord::Thread(record) = record {
            tenant.remove_cached(&record.id);
        } else if let Some(thread) = record.thread() {
            tenant.remove_cached(thread);
        }
    }
    if records.iter().any(|record| record.list() == RecordList::Dispatches) {
        tenant.notify_workers(Some(Timestamp::MIN));
    }
    end
}

async fn restore_in(connection: &mut Connection<'_>, tenant: &Tenant, records: &[StoredRecord]) -> Result<()> {
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    let rows = connection.read(|sql| &sql.records.begin_restore, arguments).await?;
    if !rows.first().map_or(Ok(false), |row| read_value(row, 0))? {
        return Err(Error::closed());
    }
    for records in records.chunk_by(|left, right| left.list() == right.list()) {
        let mut step = Step { connection: &mut *connection, tenant };
        match records.first().map(StoredRecord::list) {
            None => {}
            Some(RecordList::Numbers) => step.numbers(records).await?,
            Some(RecordList::Threads) => step.threads(records).await?,
            Some(RecordList::Entries) => step.entries(records).await?,
            Some(RecordList::Scopes | RecordList::Events | RecordList::EventKeys) => step.events(records).await?,
            Some(RecordList::Documents) => step.documents(records, &Logs::new()).await?,
            Some(RecordList::Outbox) => step.outbox(records).await?,
            Some(RecordList::Mailboxes | RecordList::Interrupts | RecordList::Dispatches) => {
                step.mailbox(records).await?;
            }
            Some(_) => step.of_threads(records).await?,
        }
    }
    Ok(())
}

/// Writes the documents of a plan that has numbered them, in the transaction of a connection.
pub(crate) async fn write_documents(
    connection: &mut Connection<'_>,
    tenant: &Tenant,
    plan: &DocumentPlan,
) -> Result<()> {
    let (mut put, mut deleted) = (Vec::new(), Vec::new());
    for change in &plan.changes {
        match &change.write {
            DocumentWrite::Put(stored) => {
                let document = Document::new(change.document.clone(), stored.clone());
                put.push(StoredRecord::Document(Box::new(document)));
            }
            DocumentWrite::Delete => deleted.push(&change.document),
            DocumentWrite::Keep => {}
        }
    }
    let mut step = Step { connection, tenant };
    let changed = plan.changes.iter().filter(|change| !matches!(change.write, DocumentWrite::Keep));
    let threads = changed.filter_map(|change| change.document.scope.thread()).collect();
    let logs = step.logs(threads).await?;
    if !put.is_empty() {
        step.documents(&put, &logs).await?;
    }
    if !deleted.is_empty() {
        step.remove_documents(&deleted, &logs).await?;
    }
    Ok(())
}

/// The log and the head of each thread.
type Logs = HashMap<ThreadId, (i64, Option<i64>)>;

/// Returns the log of the documents of a scope.
fn log_of(scope: &DocumentScope, logs: &Logs) -> Option<i64> {
    match scope.thread() {
        Some(thread) => logs.get(thread).map(|(log, _)| *log),
        None => Some(LOG_OF_TENANT),
    }
}

pub(super) struct Step<'a, 'b> {
    connection: &'a mut Connection<'b>,
    tenant: &'a Tenant,
}

/// The arguments of a statement: the tenant, then columns.
pub(super) struct Arguments(PgArguments);

impl Arguments {
    fn new(tenant: &Tenant) -> Result<Self> {
        let mut arguments = PgArguments::default();
        add(&mut arguments, tenant.constants.tenant.as_str())?;
        Ok(Self(arguments))
    }

    pub(super) fn column<'q, T>(mut self, values: impl Iterator<Item = T>) -> Result<Self>
    where
        T: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType + 'q,
    {
        add(&mut self.0, values.collect::<Vec<T>>())?;
        Ok(self)
    }
}

pub(super) fn millis(at: Timestamp) -> i64 {
    saturating(at.as_millis())
}

pub(super) fn saturating(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Step<'_, '_> {
    pub(super) fn arguments(&self) -> Result<Arguments> {
        Arguments::new(self.tenant)
    }

    pub(super) async fn run(&mut self, what: Restored, arguments: Arguments) -> Result<Vec<PgRow>> {
        let ran = self.connection.write(|sql| sql.records.restore(what), arguments.0).await;
        ran.map_err(|failed| failed.error)
    }

    async fn numbers(&mut self, records: &[StoredRecord]) -> Result<()> {
        for record in records {
            let StoredRecord::Numbers(NumbersGiven { document_revision, claim_incarnation }) = record else { continue };
            let mut arguments = self.arguments()?;
            add(&mut arguments.0, signed(*claim_incarnation)?)?;
            self.run(Restored::Numbers, arguments).await?;
            self.raise_document_revision(*document_revision).await?;
        }
        Ok(())
    }

    async fn raise_document_revision(&mut self, revision: u64) -> Result<()> {
        let mut arguments = self.arguments()?;
        add(&mut arguments.0, signed(revision)?)?;
        self.run(Restored::DocumentRevision, arguments).await.map(drop)
    }

    async fn threads(&mut self, records: &[StoredRecord]) -> Result<()> {
        let incarnation = self.tenant.constants.incarnation;
        let rows: Vec<(&ThreadRecord, _)> = records
            .iter()
            .filter_map(|record| match record {
                StoredRecord::Thread(record) => Some((&**record, record.thread_in(incarnation))),
                _ => None,
            })
            .collect();
        let thread = |(_, stored): &(_, Option<store_core::thread::StoredThread>)| stored.clone();
        let rows = || rows.iter();
        let arguments = self
            .arguments()?
            .column(rows().map(|(record, _)| record.id.to_string()))?
            .column(rows().map(|row| thread(row)?.head_seq.map(saturating)))?
            .column(rows().map(|row| Some(millis(thread(row)?.thread.created_at))))?
            .column(rows().map(|row| Some(millis(thread(row)?.thread.updated_at))))?
            .column(rows().map(|row| Some(millis(thread(row)?.last_time))))?
            .column(rows().map(|row| thread(row)?.thread.resource_id.map(|id| id.to_string())))?
            .column(rows().map(|row| thread(row)?.thread.parent_thread_id.map(|id| id.to_string())))?
            .column(rows().map(|row| thread(row).is_some_and(|stored| !stored.thread.open_runs.is_empty())))?
            .column(rows().map(|row| thread(row).is_some_and(|stored| stored.queue.count > 0)))?
            .column(rows().map(|(record, _)| record.id_record.deleted_at.map(millis)))?
            .column(rows().map(|row| thread(row).map(|stored| stored.encode())))?
            .column(rows().map(|(record, _)| record.id_record.encode()))?;
        self.run(Restored::Threads, arguments).await.map(drop)
    }

    /// Loads the logs of the threads of records, which exist.
    async fn logs_of(&mut self, records: &[StoredRecord]) -> Result<Logs> {
        self.logs(records.iter().filter_map(StoredRecord::thread).collect()).await
    }

    /// Loads the logs of threads, which exist.
    async fn logs(&mut self, mut threads: Vec<&ThreadId>) -> Result<Logs> {
        threads.sort();
        threads.dedup();
        if threads.is_empty() {
            return Ok(Logs::new());
        }
        let arguments = self.arguments()?.column(threads.iter().map(|thread| thread.to_string()))?;
        let rows = self.connection.read(|sql| &sql.records.load_logs, arguments.0).await?;
        let mut logs = Logs::new();
        for row in &rows {
            if let Some(log) = read_optional(row, 1)? {
                logs.insert(read_text(row, 0)?.parse()?, (log, read_optional(row, 2)?));
            }
        }
        match threads.into_iter().find(|thread| !logs.contains_key(*thread)) {
            Some(missing) => Err(Error::not_found("thread", missing)),
            None => Ok(logs),
        }
    }

    async fn entries(&mut self, records: &[StoredRecord]) -> Result<()> {
        let logs = self.logs_of(records).await?;
        let rows: Vec<(i64, &Entry, &Node, &EntryMarks)> = records
            .iter()
            .filter_map(|record| match record {
                StoredRecord::Entry { thread, entry, node, marks } => {
                    Some((logs.get(thread)?.0, &**entry, &**node, marks))
                }
                _ => None,
            })
            .collect();
        let rows = || rows.iter();
        let arguments = self
            .arguments()?
            .column(rows().map(|row| row.0))?
            .column(rows().map(|row| saturating(row.2.seq)))?
            .column(rows().map(|row| row.1.id.to_string()))?
            .column(rows().map(|row| row.2.parent.map(saturating)))?
            .column(rows().map(|row| row.2.jump.map(saturating)))?
            .column(rows().map(|row| row.2.side))?
            .column(rows().map(|row| row.2.encode()))?
            .column(rows().map(|row| row.1.encode()))?;
        self.run(Restored::Entries, arguments).await?;
        let marks = marks_with_rows(records, &logs);
        if !marks.is_empty() {
            let rows = || marks.iter();
            let arguments = self
                .arguments()?
                .column(rows().map(|row| row.0))?
                .column(rows().map(|row| saturating(row.1)))?
                .column(rows().map(|row| i64::from(row.2.children)))?
                .column(rows().map(|row| row.2.encode()))?;
            self.run(Restored::Marks, arguments).await?;
        }
        // The list of leaves does not contain the head.
        let heads: HashMap<i64, Option<i64>> = logs.values().copied().collect();
        let is_leaf = |row: &&(i64, &Entry, &Node, &EntryMarks)| {
            !row.2.side && row.3.children == 0 && heads.get(&row.0).copied().flatten() != Some(saturating(row.2.seq))
        };
        let leaves: Vec<(i64, i64)> = rows().filter(is_leaf).map(|row| (row.0, saturating(row.2.seq))).collect();
        if !leaves.is_empty() {
            let arguments =
                self.arguments()?.column(leaves.iter().map(|row| row.0))?.column(leaves.iter().map(|row| row.1))?;
            self.run(Restored::Leaves, arguments).await?;
        }
        self.names(&names(rows().map(|row| (row.0, row.1, row.2)))).await
    }

    async fn names(&mut self, names: &BTreeMap<(i64, i64), (Option<String>, i64)>) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let keys = || names.keys();
        let arguments = self.arguments()?.column(keys().map(|key| key.0))?.column(keys().map(|key| key.1))?;
        self.run(Restored::RemovedNames, arguments).await?;
        let given: Vec<_> =
            names.iter().filter_map(|(key, (name, giver))| Some((key, name.clone()?.into_bytes(), *giver))).collect();
        let arguments = self
            .arguments()?
            .column(given.iter().map(|row| row.0.0))?
            .column(given.iter().map(|row| row.1.clone()))?
            .column(given.iter().map(|row| row.0.1))?
            .column(given.iter().map(|row| row.2))?;
        self.run(Restored::Names, arguments).await.map(drop)
    }

    /// Records of threads that have a table of their own.
    async fn of_threads(&mut self, records: &[StoredRecord]) -> Result<()> {
        let logs = self.logs_of(records).await?;
        let log_of = |record: &StoredRecord| record.thread().and_then(|thread| logs.get(thread)).map(|log| log.0);
        let (mut texts, mut names) = ((Vec::new(), Vec::new()), Vec::new());
        let mut numbers = Vec::new();
        let (what, log_column) = match records.first() {
            Some(StoredRecord::Run(_)) => return self.runs(records, &logs).await,
            Some(StoredRecord::Document(_)) => return self.documents(records, &logs).await,
            Some(StoredRecord::State { .. }) => (Restored::State, records.iter().filter_map(log_of)),
            Some(StoredRecord::Input(_)) => (Restored::Inputs, records.iter().filter_map(log_of)),
            Some(StoredRecord::Decision { .. }) => (Restored::Decisions, records.iter().filter_map(log_of)),
            _ => (Restored::CommitKeys, records.iter().filter_map(log_of)),
        };
        for record in records {
            match record {
                StoredRecord::State { name, value, .. } => {
                    names.push(name.as_bytes().to_vec());
                    texts.1.push(value.as_str().to_owned());
                }
                StoredRecord::Input(stored) => {
                    texts.0.push(stored.input.id.to_string());
                    numbers.push(signed(stored.rank)?);
                    texts.1.push(stored.input.encode());
                }
                StoredRecord::Decision { run, ticket, record, .. } => {
                    texts.0.push(run.to_string());
                    names.push(ticket.as_bytes().to_vec());
                    texts.1.push(record.encode());
                }
                StoredRecord::CommitKey { record, .. } => {
                    texts.0.push(record.key.to_string());
                    texts.1.push(record.encode());
                }
                _ => {}
            }
        }
        let mut arguments = self.arguments()?.column(log_column)?;
        if !texts.0.is_empty() {
            arguments = arguments.column(texts.0.into_iter())?;
        }
        if !names.is_empty() {
            arguments = arguments.column(names.into_iter())?;
        }
        if !numbers.is_empty() {
            arguments = arguments.column(numbers.into_iter())?;
        }
        self.run(what, arguments.column(texts.1.into_iter())?).await.map(drop)
    }

    async fn runs(&mut self, records: &[StoredRecord], logs: &Logs) -> Result<()> {
        let rows: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                StoredRecord::Run(run) => Some((logs.get(&run.thread)?.0, &**run)),
                _ => None,
            })
            .collect();
        let rows = || rows.iter();
        let arguments = self
            .arguments()?
            .column(rows().map(|row| row.1.id.to_string()))?
            .column(rows().map(|row| row.0))?
            .column(rows().map(|row| millis(row.1.created_at)))?
            .column(rows().map(|row| row.1.status.phase().name()))?
            .column(rows().map(|row| row.1.agent.to_string()))?
            .column(rows().map(|row| row.1.parent_run.as_ref().map(ToString::to_string)))?
            .column(rows().map(|row| row.1.encode()))?;
        self.run(Restored::Runs, arguments).await.map(drop)
    }

    async fn documents(&mut self, records: &[StoredRecord], logs: &Logs) -> Result<()> {
        let rows: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                StoredRecord::Document(document) => Some((log_of(&document.scope, logs)?, &**document)),
                _ => None,
            })
            .collect();
        let newest = rows.iter().map(|row| row.1.revision).max().unwrap_or_default();
        let rows = || rows.iter();
        let arguments = self
            .arguments()?
            .column(rows().map(|row| row.0))?
            .column(rows().map(|row| row.1.key.collection().to_string()))?
            .column(rows().map(|row| row.1.key.encoded().to_owned()))?
            .column(rows().map(|row| saturating(row.1.revision)))?
            .column(rows().map(|row| millis(row.1.created_at)))?
            .column(rows().map(|row| millis(row.1.updated_at)))?
            .column(rows().map(|row| row.1.value.as_str().to_owned()))?;
        self.run(Restored::Documents, arguments).await?;
        self.raise_document_revision(newest).await
    }

    async fn remove_documents(&mut self, documents: &[&DocumentRef], logs: &Logs) -> Result<()> {
        let rows: Vec<_> =
            documents.iter().filter_map(|document| Some((log_of(&document.scope, logs)?, *document))).collect();
        let rows = || rows.iter();
        let arguments = self
            .arguments()?
            .column(rows().map(|row| row.0))?
            .column(rows().map(|row| row.1.key.collection().to_string()))?
            .column(rows().map(|row| row.1.key.encoded().to_owned()))?;
        self.run(Restored::RemovedDocuments, arguments).await.map(drop)
    }

    async fn outbox(&mut self, records: &[StoredRecord]) -> Result<()> {
        let rows: Vec<&(StoredOutboxRow, store_core::Json)> = records
            .iter()
            .filter_map(|record| match record {
                StoredRecord::Outbox(row) => Some(&**row),
                _ => None,
            })
            .collect();
        let rows = || rows.iter().map(|row| &row.0);
        let is_ready = |row: &StoredOutboxRow| row.order_key.is_none() && row.status.name() == "pending";
        let arguments = self
            .arguments()?
            .column(rows().map(|row| row.id.to_string()))?
            .column(rows().map(|row| row.lane.to_string()))?
            .column(rows().map(|row| row.target.to_string()))?
            .column(rows().map(|row| row.status.name()))?
            .column(rows().map(|row| millis(row.created_at)))?
            .column(rows().map(|row| millis(row.available_at)))?
            .column(rows().map(|row| row.claim.as_ref().map(|claim| millis(claim.lease_until))))?
            .column(rows().map(|row| row.finished_at.map(millis)))?
            .column(rows().map(|row| row.dedupe_key.as_ref().map(ToString::to_string)))?
            .column(rows().map(|row| row.order_key.as_ref().map(ToString::to_string)))?
            .column(rows().map(|row| row.order_key.as_ref().map(|_| saturating(row.order))))?
            .column(rows().map(is_ready))?
            .column(rows().map(|row| saturating(row.revision)))?
            .column(rows().map(Codec::encode))?
            .column(records.iter().filter_map(|record| match record {
                StoredRecord::Outbox(row) => Some(row.1.as_str().to_owned()),
                _ => None,
            }))?;
        self.run(Restored::Outbox, arguments).await?;
        let groups: Vec<_> = rows().filter_map(StoredOutboxRow::group).collect();
        if groups.is_empty() {
            return Ok(());
        }
        let arguments = self
            .arguments()?
            .column(groups.iter().map(|group| group.lane.to_string()))?
            .column(groups.iter().map(|group| group.target.to_string()))?
            .column(groups.iter().map(|group| group.key.to_string()))?;
        self.run(Restored::OutboxReady, arguments).await.map(drop)
    }
}

/// The marks that have a row: not those that say only whether the next entry of the log is a child. Of the last entry
/// the next one is not known here.
fn marks_with_rows<'r>(records: &'r [StoredRecord], logs: &Logs) -> Vec<(i64, u64, &'r EntryMarks)> {
    let next = records.iter().skip(1).map(Some).chain([None]);
    let with_row = |(record, next): (&'r StoredRecord, Option<&StoredRecord>)| {
        let StoredRecord::Entry { thread, node, marks, .. } = record else { return None };
        let is_child_next = match next {
            Some(StoredRecord::Entry { thread: of, node: next, .. }) if of == thread => {
                Some(next.parent == Some(node.seq) && !next.side)
            }
            _ => None,
        };
        let says_more = marks.label.is_some() || marks.context_size.is_some() || !marks.extra.is_empty();
        let is_implied = match is_child_next {
            Some(is_child) => marks.children == u32::from(is_child),
            None => marks.children == 0,
        };
        (says_more || !is_implied).then_some((logs.get(thread)?.0, node.seq, marks))
    };
    records.iter().zip(next).filter_map(with_row).collect()
}

/// The names that entries give to checkpoints or take from them, the last one for each: by log and checkpoint.
fn names<'r>(entries: impl Iterator<Item = (i64, &'r Entry, &'r Node)>) -> BTreeMap<(i64, i64), (Option<String>, i64)> {
    let mut names = BTreeMap::new();
    for (log, entry, node) in entries {
        let name = assigned_name(entry).map(str::to_owned);
        let target = match &*entry.body {
            Body::Checkpoint(_) if name.is_some() => Some(node.seq),
            Body::Label(_) => node.target,
            _ => None,
        };
        if let Some(target) = target {
            names.insert((log, saturating(target)), (name, saturating(node.seq)));
        }
    }
    names
}
