//! Documents: loading, listing, writing.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgRow};
use store_core::{
    Direction, Document, DocumentKey, DocumentQuery, DocumentRef, DocumentStore, Error, MAX_BYTES_READ, Page, Result,
    ThreadId, Timestamp, WriteDocuments, WrittenDocuments,
    codec::{Codec, ObjectWriter},
    commit::DecisionContext,
    document::{self, DocumentLoad, StoredDocument},
    length,
};

use crate::{
    cache::{self, Lookup, RecordCache},
    columns::{read_i64, read_optional, read_text, read_u64},
    db::{add, signed},
    decide::{CacheUpdate, RuleResult, decide, decide_with_assumptions},
    error::corrupt,
    events::events_lookup,
    store::TenantHandle,
    tenant::Tenant,
    write::{Batch, WrittenRevision},
};

/// The log number of documents that belong to the tenant.
pub(crate) const LOG_OF_TENANT: i64 = 0;

/// The documents of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct PostgresDocuments {
    tenant: TenantHandle,
}

impl PostgresDocuments {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }
}

#[async_trait]
impl DocumentStore for PostgresDocuments {
    async fn load_documents(&self, documents: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
        let documents = documents.to_vec();
        let call = |tenant: Arc<Tenant>| async move {
            let limits = &tenant.shared.config.limits;
            let mut load = DocumentLoad::begin(&documents, limits)?;
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            cache::add_document_refs(&mut arguments, &documents)?;
            add(&mut arguments, i64::try_from(limits.load_bytes).unwrap_or(i64::MAX))?;
            // If they are too large together, the rows end with the one that shows it.
            let rows = tenant.db().any_connection().read(|sql| &sql.load_documents, arguments).await?;
            for row in &rows {
                // The first column is the index of the document in the request, counted from 1.
                let index = usize::try_from(read_i64(row, 0)? - 1).unwrap_or(usize::MAX);
                if let Some(document) = documents.get(index) {
                    load.add(index, Document::new(document.clone(), decode_stored(row)?))?;
                }
            }
            Ok(load.finish())
        };
        self.tenant.run_read(None, call).await
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<Document>> {
        let thread_of_call = query.scope.thread().cloned();
        let call = |tenant: Arc<Tenant>| async move {
            let (log, generation) = match query.scope.thread() {
                None => (Some(LOG_OF_TENANT), 0),
                Some(thread) => load_log_and_generation(&tenant, thread).await?,
            };
            let (range, mut page) =
                query.begin_page(generation, (&tenant.constants.tenant, &tenant.constants.cursor_key))?;
            let Some(log) = log.filter(|_| !range.is_empty()) else { return Ok(page.finish()) };
            // The server stores no U+0000. It only occurs at the end of a text that comes immediately after a key.
            let first_key = range.from.strip_suffix('\0');
            let mut arguments = PgArguments::default();
            add(&mut arguments, log)?;
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, query.collection.as_str())?;
            add(&mut arguments, first_key.unwrap_or(&range.from))?;
            add(&mut arguments, range.before.as_str())?;
            add(&mut arguments, signed(length(query.page.checked_limit()? + 1))?)?;
            add(&mut arguments, signed(MAX_BYTES_READ)?)?;
            add(&mut arguments, first_key.is_some())?;
            let is_forward = query.direction == Direction::Forward;
            let rows = tenant
                .db()
                .any_connection()
                .read(|sql| if is_forward { &sql.list_documents } else { &sql.list_documents_backward }, arguments)
                .await?;
            for row in &rows {
                let key = DocumentKey::from_encoded(query.collection.clone(), &read_text(row, 0)?)?;
                let document = DocumentRef { scope: query.scope.clone(), key };
                if !page.offer(Document::new(document, decode_stored(row)?)) {
                    break;
                }
            }
            Ok(page.finish())
        };
        self.tenant.run_read(thread_of_call, call).await
    }

    async fn write_documents(&self, request: WriteDocuments) -> Result<WrittenDocuments> {
        let is_of_one_thread = request.changes.iter().all(|change| change.document.scope.thread().is_some());
        let thread_of_call = request.thread().filter(|_| is_of_one_thread && request.events.is_none()).cloned();
        let call = |tenant: Arc<Tenant>| async move {
            document::check_write(&request, &tenant.shared.config.limits)?;
            let likely_records = lookup_of_write(&request);
            let revision = WrittenRevision::default();
            let rule = |cache: &RecordCache, decision_context: DecisionContext<'_>| {
                plan(cache, &request, decision_context, &revision)
            };
            let mut written = match &request.fence {
                Some((thread, _)) => decide(&tenant, thread, likely_records, rule).await?,
                None => decide_with_assumptions(&tenant, likely_records, rule).await?,
            };
            written.revision = revision.get();
            Ok(written)
        };
        self.tenant.run_write(thread_of_call, call).await
    }
}

/// Returns the log and the generation of a thread; none and 0 if it does not exist.
async fn load_log_and_generation(tenant: &Tenant, thread: &ThreadId) -> Result<(Option<i64>, u64)> {
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    add(&mut arguments, vec![thread.as_str()])?;
    let rows = tenant.db().any_connection().read(|sql| &sql.load_rows, arguments).await?;
    let Some(row) = rows.first() else { return Ok((None, 0)) };
    let record = read_optional::<String>(row, 3)?;
    let row = cache::decode_thread_row(read_i64(row, 1)?, read_optional(row, 2)?, record.as_deref(), None)?;
    Ok((row.log, row.thread.map_or(0, |stored| stored.thread.generation())))
}

/// Decodes a document from the columns after the first: its value, its revision and its times.
fn decode_stored(row: &PgRow) -> Result<StoredDocument> {
    let time = |at| Timestamp::from_millis(read_u64(row, at)?);
    let mut text = String::new();
    let mut object = ObjectWriter::open(&mut text);
    object.key("value").push_str(&read_text(row, 1)?);
    object.field("revision", &read_u64(row, 2)?).field("created_at", &time(3)?).field("updated_at", &time(4)?);
    object.close();
    StoredDocument::read(&text).map_err(|error| -> Error { corrupt("a document").with_source(error) })
}

/// Returns the records that the plan of a write most likely needs.
fn lookup_of_write(request: &WriteDocuments) -> Lookup {
    let threads = request.changes.iter().filter_map(|change| change.document.scope.thread().cloned());
    Lookup {
        threads: threads.filter(|_| request.fence.is_none()).collect(),
        documents: request.changes.iter().map(|change| change.document.clone()).collect(),
        ..events_lookup(request.events.as_ref())
    }
}

fn plan(
    cache: &RecordCache,
    request: &WriteDocuments,
    decision_context: DecisionContext<'_>,
    revision: &WrittenRevision,
) -> Result<RuleResult<WrittenDocuments>> {
    cache.expect_documents(&request.changes);
    let decision = document::plan_write(cache, request, decision_context)?;
    let mut batch = Batch::default();
    let mut cache_update = CacheUpdate::Nothing;
    let events = decision.plan.events;
    match (decision.plan.id_record, &cache.row) {
        (Some((thread, id_record)), Some(row)) => {
            batch.add_thread(&thread, row, (row.thread.clone(), id_record.clone()));
            batch.require_unchanged_claims(cache, &thread)?;
            cache_update = CacheUpdate::Events(Box::new(events.clone().unwrap_or_default()), Some(id_record));
        }
        _ => {
            if let Some(thread) = request.changes.iter().find_map(|change| change.document.scope.thread()) {
                batch.require_thread(thread);
            }
        }
    }
    batch.add_documents(&request.changes, &decision.plan.documents, revision);
    if let Some(events) = &events {
        batch.add_events(cache, events);
    }
    Ok(RuleResult::Write { batch, cache_update, answer: decision.answer })
}
