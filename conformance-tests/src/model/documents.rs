//! Documents (promises DO of the contract): a list of documents for each tenant, in no order. Every call searches the
//! whole list.

use serde_json::json;
use store_core::{
    AppendEvents, CollectionId, Detail, Direction, Document, DocumentChange, DocumentExpect, DocumentKey, DocumentOp,
    DocumentQuery, DocumentRef, Error, Event, KeySegment, Limits, Page, Result, ThreadId, WriteDocuments,
    WrittenDocuments, check_limit,
};

use super::{
    bug::Bug,
    commit::{Environment, check_fence},
    events, mailbox,
    model_data::{TenantData, record_from_json},
    read::TenantView,
};

/// The documents of a tenant.
#[derive(Debug, Clone, Default)]
pub(super) struct DocumentTable {
    pub(super) documents: Vec<Document>,
    /// The revision of the last write.
    pub(super) last_revision: u64,
}

/// Returns whether the key of a stored document is the wanted one.
fn is_same_key(stored: &DocumentKey, wanted: &DocumentKey, bug: Option<Bug>) -> bool {
    if !matches!(bug, Some(Bug::KeysFolded | Bug::KeySegmentsJoined | Bug::NumbersEqualTheirText | Bug::LongKeysCut)) {
        return stored == wanted;
    }
    let texts = |key: &DocumentKey| key.segments().iter().map(ToString::to_string).collect::<Vec<_>>();
    let (left, right) = (texts(stored), texts(wanted));
    stored.collection() == wanted.collection()
        && match bug {
            Some(Bug::KeysFolded) => left.join("/").to_lowercase() == right.join("/").to_lowercase(),
            Some(Bug::KeySegmentsJoined) => left.join("/") == right.join("/"),
            Some(Bug::NumbersEqualTheirText) => left == right,
            _ => left.join("\0").chars().take(300).eq(right.join("\0").chars().take(300)),
        }
}

fn is_same_document(stored: &Document, wanted: &DocumentRef, bug: Option<Bug>) -> bool {
    let both_of_threads = stored.scope.thread().is_some() && wanted.scope.thread().is_some();
    let is_same_scope = stored.scope == wanted.scope || (both_of_threads && bug == Some(Bug::ThreadsShareDocuments));
    is_same_scope && is_same_key(&stored.key, &wanted.key, bug)
}

impl DocumentTable {
    pub(super) fn find(&self, wanted: &DocumentRef, bug: Option<Bug>) -> Option<&Document> {
        self.documents.iter().find(|stored| is_same_document(stored, wanted, bug))
    }

    pub(super) fn remove_of_thread(&mut self, thread: &ThreadId) {
        self.documents.retain(|stored| stored.scope.thread() != Some(thread));
    }

    fn put(&mut self, document: &DocumentRef, value: &store_core::Json, (revision, env): (u64, &Environment<'_>)) {
        let found = self.find(document, env.bug).cloned();
        self.documents.retain(|stored| !is_same_document(stored, document, env.bug));
        let segments: Vec<_> = document.key.segments().iter().map(segment_json).collect();
        let draft = json!({
            "collection": document.key.collection(), "key": segments, "value": null, "revision": revision,
            "created_at": env.now, "updated_at": env.now,
        });
        let Ok(mut new) = record_from_json::<Document>(&draft) else { return };
        (new.scope, new.value) = (document.scope.clone(), value.clone());
        if env.bug == Some(Bug::DocumentValueRewritten) {
            let rewritten = serde_json::from_str::<serde_json::Value>(value.as_str()).ok();
            new.value = rewritten.and_then(|value| store_core::Json::of(&value).ok()).unwrap_or(new.value);
        }
        if let Some(found) = found {
            if env.bug != Some(Bug::DocumentCreatedAgain) {
                new.created_at = found.created_at;
            }
            if env.bug != Some(Bug::DocumentTimeGoesBack) {
                new.updated_at = new.updated_at.max(found.updated_at);
            }
            if env.bug == Some(Bug::DocumentTimeStays) {
                new.updated_at = found.updated_at;
            }
            if env.bug == Some(Bug::RevisionStartsAgain) {
                new.revision = found.revision + 1;
            }
        } else if env.bug == Some(Bug::RevisionStartsAgain) {
            new.revision = 1;
        }
        self.documents.push(new);
    }

    /// Makes changes. Returns their revision, or none if they put no document.
    pub(super) fn apply(&mut self, changes: &[DocumentChange], env: &Environment<'_>) -> Option<u64> {
        let is_put = |change: &&DocumentChange| match change.op {
            DocumentOp::Put(_) => true,
            DocumentOp::Delete => false,
            DocumentOp::Keep => env.bug == Some(Bug::CheckPutsADocument),
        };
        let puts = changes.iter().filter(is_put).count() as u64;
        if puts == 0 {
            changes.iter().for_each(|change| self.apply_one(change, (0, env)));
            return None;
        }
        self.last_revision += 1;
        if env.bug == Some(Bug::DocumentAckWithoutWriting) && self.last_revision.is_multiple_of(7) {
            return Some(self.last_revision);
        }
        for change in changes {
            self.apply_one(change, (self.last_revision, env));
            self.last_revision += u64::from(env.bug == Some(Bug::RevisionPerChange));
        }
        let revision_of_put = |change: &DocumentChange| Some(self.find(&change.document, env.bug)?.revision);
        changes.iter().filter(is_put).find_map(revision_of_put)
    }

    fn apply_one(&mut self, change: &DocumentChange, (revision, env): (u64, &Environment<'_>)) {
        match &change.op {
            DocumentOp::Put(value) => self.put(&change.document, value, (revision, env)),
            DocumentOp::Delete => self.documents.retain(|stored| !is_same_document(stored, &change.document, env.bug)),
            DocumentOp::Keep if env.bug == Some(Bug::CheckPutsADocument) => {
                if let Some(value) = self.find(&change.document, env.bug).map(|found| found.value.clone()) {
                    self.put(&change.document, &value, (revision, env));
                }
            }
            DocumentOp::Keep => {}
        }
    }
}

fn segment_json(segment: &KeySegment) -> serde_json::Value {
    match segment {
        KeySegment::Number(number) => json!(number),
        KeySegment::Id(id) => json!(id.as_str()),
    }
}

/// Refuses changes that have a wrong shape or exceed a limit. `thread` is the thread that they may name.
pub(super) fn check_shape(
    changes: &[DocumentChange],
    thread: Option<&ThreadId>,
    limits_and_bug: (&Limits, Option<Bug>),
) -> Result<()> {
    let (limits, bug) = limits_and_bug;
    if bug != Some(Bug::DocumentChangesUnlimited) {
        check_limit("documents", changes.len() as u64, limits.commit_documents)?;
    }
    for (at, change) in changes.iter().enumerate() {
        let in_part = |error: Error| error.in_part(format!("documents[{at}]"));
        let is_named_before = changes.iter().take(at).any(|other| other.document == change.document);
        if is_named_before && bug != Some(Bug::DocumentNamedTwice) {
            return Err(in_part(Error::invalid("documents", "a document is named twice")));
        }
        let is_foreign = change.document.scope.thread().is_some_and(|named| Some(named) != thread);
        if is_foreign && bug != Some(Bug::SeveralThreadsOfDocuments) {
            return Err(in_part(Error::invalid("documents", "they belong to several threads")));
        }
        if let DocumentOp::Put(value) = &change.op
            && bug != Some(Bug::DocumentValueUnlimited)
        {
            check_limit("record bytes", value.as_str().len() as u64, limits.record_bytes).map_err(in_part)?;
        }
    }
    Ok(())
}

/// Refuses changes if an expectation does not hold (DO-2).
pub(super) fn check_expectations(table: &DocumentTable, changes: &[DocumentChange], bug: Option<Bug>) -> Result<()> {
    let mut refusals = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        let actual = table.find(&change.document, bug).map(|found| found.revision);
        let holds = match (change.expect, actual) {
            (DocumentExpect::Any, _) => true,
            (DocumentExpect::Absent, actual) => actual.is_none() || bug == Some(Bug::AbsenceUnchecked),
            (DocumentExpect::Present, actual) => actual.is_some() || bug == Some(Bug::PresenceUnchecked),
            (DocumentExpect::Revision(_), None) => bug == Some(Bug::DeletedRevisionHolds),
            (DocumentExpect::Revision(expected), Some(actual)) => {
                expected == actual || bug == Some(Bug::DocumentRevisionUnchecked)
            }
        };
        let is_refused_delete = change.op == DocumentOp::Delete && actual.is_none();
        if !holds || (is_refused_delete && bug == Some(Bug::DeleteNeedsTheDocument)) {
            let document = Box::new(change.document.clone());
            let refusal = Detail::DocumentConflict { document, expected: change.expect, actual };
            refusals.push(Error::new(refusal).in_part(format!("documents[{at}]")));
        }
    }
    if bug == Some(Bug::ConflictNamesTheLast) {
        refusals.reverse();
    }
    refusals.into_iter().next().map_or(Ok(()), Err)
}

/// Makes all checks of a write in their order, then writes it.
pub(super) fn write(
    tenant: &mut TenantData,
    request: &WriteDocuments,
    env: &Environment<'_>,
) -> Result<WrittenDocuments> {
    let result = check_and_write(tenant, request, env);
    if let (Err(error), Some(bug)) = (&result, env.bug) {
        write_after_refusal(tenant, request, (error, bug, env));
    }
    result
}

/// Makes the changes that a store with this bug makes although it refused a write.
fn write_after_refusal(
    tenant: &mut TenantData,
    request: &WriteDocuments,
    (error, bug, env): (&Error, Bug, &Environment<'_>),
) {
    let part = error.part().and_then(|part| part.strip_prefix("documents[")?.strip_suffix(']')?.parse().ok());
    match (bug, &request.events, part) {
        (Bug::DocumentsBeforeTheRefusedOne, _, Some(refused_at)) => {
            let earlier = request.changes.get(..refused_at).unwrap_or_default();
            tenant.documents.apply(earlier, env);
        }
        (Bug::EventsOfRefusedDocuments, Some(append), _) => {
            let _written = append_events(tenant, append, env);
        }
        _ => {}
    }
}

fn append_events(tenant: &mut TenantData, append: &AppendEvents, env: &Environment<'_>) -> Result<Vec<Event>> {
    let in_events = |error: Error| if error.part().is_some() { error } else { error.in_part("events") };
    let appended = events::append(tenant, append, env, (None, env.tenant_and_cursor_key)).map_err(in_events)?;
    Ok(appended.events)
}

fn check_request(request: &WriteDocuments, env: &Environment<'_>) -> Result<()> {
    let is_empty = request.changes.is_empty() && request.events.is_none();
    if is_empty && env.bug != Some(Bug::EmptyDocumentWriteAccepted) {
        return Err(Error::invalid("documents", "there are none"));
    }
    check_shape(&request.changes, request.thread(), (env.limits, env.bug))?;
    let value_bytes = request.changes.iter().filter_map(|change| match &change.op {
        DocumentOp::Put(value) => Some(value.as_str().len() as u64),
        DocumentOp::Delete | DocumentOp::Keep => None,
    });
    check_limit("commit bytes", value_bytes.sum(), env.limits.commit_bytes)?;
    let Some(append) = &request.events else { return Ok(()) };
    events::check_request(append, (env.limits, env.bug)).map_err(|error| error.in_part("events"))?;
    let thread = request.thread();
    let mut scopes = append.drafts.iter().flat_map(|draft| &draft.scopes);
    let names_another_thread =
        scopes.any(|scope| matches!(scope, store_core::Scope::Thread(other) if Some(other) != thread));
    let names_another_thread = names_another_thread && env.bug != Some(Bug::FenceCoversAnyThread);
    if append.fence.is_some() || (request.fence.is_some() && names_another_thread) {
        return Err(Error::invalid("events", "they are not covered by the fence of the write").in_part("events"));
    }
    Ok(())
}

fn check_and_write(
    tenant: &mut TenantData,
    request: &WriteDocuments,
    env: &Environment<'_>,
) -> Result<WrittenDocuments> {
    check_request(request, env)?;
    let mut id_history = None;
    if let Some((thread, fence)) = request.fence.as_ref().filter(|_| env.bug != Some(Bug::DocumentFenceIgnored)) {
        mailbox::check_fence(&tenant.mailbox, thread, Some(fence), env.bug)?;
        let mut history = tenant.id_histories.get(thread).cloned().unwrap_or_default();
        check_fence(&mut history, Some(fence), env.bug)?;
        if env.bug == Some(Bug::RefusedDocumentFenceStays) {
            tenant.id_histories.insert(thread.clone(), history.clone());
        }
        id_history = Some((thread.clone(), history)).filter(|_| env.bug != Some(Bug::DocumentFenceForgotten));
    }
    let missing_thread = request.changes.iter().enumerate().find_map(|(at, change)| {
        let thread = change.document.scope.thread().filter(|thread| !tenant.threads.contains_key(thread))?;
        Some(Error::not_found("thread", thread).in_part(format!("documents[{at}]")))
    });
    if let Some(error) = missing_thread.filter(|_| env.bug != Some(Bug::ThreadOfDocumentUnchecked)) {
        return Err(error);
    }
    check_expectations(&tenant.documents, &request.changes, env.bug)?;
    let events = request.events.as_ref().map(|append| append_events(tenant, append, env)).transpose()?;
    let revision = tenant.documents.apply(&request.changes, env);
    tenant.id_histories.extend(id_history);
    if let Some(thread_data) = request.thread().and_then(|thread| tenant.threads.get_mut(thread))
        && env.bug == Some(Bug::DocumentsRaiseTheirThread)
    {
        thread_data.thread.updated_at = env.now;
    }
    Ok(WrittenDocuments::new(revision, events.unwrap_or_default(), env.now))
}

/// Returns a text that sorts as a segment does: numbers first and by value, ids by their bytes.
fn sort_text(segment: &KeySegment, bug: Option<Bug>) -> String {
    match segment {
        KeySegment::Number(number) if bug == Some(Bug::NumbersOrderedAsText) => format!("0{number}\u{1}"),
        KeySegment::Number(number) => format!("0{number:020}"),
        KeySegment::Id(id) => format!("1{id}\u{1}"),
    }
}

fn sort_text_of(segments: &[KeySegment], bug: Option<Bug>) -> String {
    segments.iter().map(|segment| sort_text(segment, bug)).collect()
}

fn is_in_list(key: &DocumentKey, query: &DocumentQuery, bug: Option<Bug>) -> bool {
    let segments = key.segments();
    let begins_with_prefix = match (bug, query.prefix.split_last()) {
        (Some(Bug::PrefixEndsInsideAnId), Some((last, others))) => {
            let next = segments.get(others.len()).map(ToString::to_string).unwrap_or_default();
            segments.starts_with(others) && next.starts_with(&last.to_string())
        }
        _ => segments.starts_with(&query.prefix),
    };
    let has_collection = *key.collection() == query.collection || bug == Some(Bug::CollectionIgnored);
    let is_before =
        |end: &Vec<KeySegment>| segments < *end || (segments == *end && bug == Some(Bug::ListIncludesItsEnd));
    has_collection
        && begins_with_prefix
        && query.from.as_ref().is_none_or(|from| segments >= *from)
        && query.before.as_ref().is_none_or(is_before)
        && query.after_prefix.as_ref().is_none_or(|prefix| is_after_prefix(&segments, prefix, bug))
}

fn is_after_prefix(segments: &[KeySegment], prefix: &[KeySegment], bug: Option<Bug>) -> bool {
    segments > prefix && (!segments.starts_with(prefix) || bug == Some(Bug::PrefixNotSkipped))
}

/// Refuses a prefix or a bound that is longer than any key.
fn check_bounds(query: &DocumentQuery, bug: Option<Bug>) -> Result<()> {
    if bug == Some(Bug::LongBoundAccepted) {
        return Ok(());
    }
    let bounds = [Some(&query.prefix), query.from.as_ref(), query.before.as_ref(), query.after_prefix.as_ref()];
    for segments in bounds.into_iter().flatten() {
        if !segments.is_empty() {
            DocumentKey::new(CollectionId::new("bounds")?, segments.iter().cloned()).map(drop)?;
        }
    }
    Ok(())
}

/// Returns a page of documents, sorted by key.
pub(super) fn list(view: &TenantView<'_>, query: &DocumentQuery) -> Result<Page<Document>> {
    check_bounds(query, view.bug)?;
    let thread_data = query.scope.thread().and_then(|thread| view.tenant.threads.get(thread));
    let generation = thread_data.map(|thread_data| thread_data.thread.generation());
    let generation = generation.filter(|_| view.bug != Some(Bug::DocumentCursorsOutliveTheirThread));
    let DocumentQuery { scope, collection, prefix, from, before, after_prefix, direction, page, .. } = query;
    let bounds = format!("{prefix:?} {from:?} {before:?} {after_prefix:?}");
    let binding = format!("{scope:?} {generation:?} {collection:?} {bounds} {direction:?}");
    let page_reader = view.page_reader("documents", &binding, page)?;
    let is_listed = |stored: &&Document| {
        let shares_documents = view.bug == Some(Bug::ThreadsShareDocuments);
        let is_same_scope =
            stored.scope == *scope || (shares_documents && stored.scope.thread().is_some() && scope.thread().is_some());
        is_same_scope && is_in_list(&stored.key, query, view.bug)
    };
    let documents = view.tenant.documents.documents.iter().filter(is_listed);
    let mut records: Vec<_> =
        documents.map(|stored| ((0, sort_text_of(&stored.key.segments(), view.bug)), stored.clone())).collect();
    if view.bug == Some(Bug::DocumentCursorCounts) {
        records.sort_by(|(left, _), (right, _)| left.cmp(right));
        records = (0..).zip(records).map(|(at, (_, stored))| ((at, String::new()), stored)).collect();
    }
    let is_forward = *direction == Direction::Forward || view.bug == Some(Bug::DocumentsOnlyForward);
    let mut page = page_reader.page(records, if is_forward { Direction::Forward } else { Direction::Backward });
    if view.bug == Some(Bug::DocumentsOfOnePageOnly) {
        let mut bytes = 0;
        page.items.retain(|document| {
            bytes += document.value.as_str().len();
            bytes < 64 << 20
        });
    }
    Ok(page)
}
