//! Commits. The checks of a commit have the order of CM-43. A commit changes a copy of its thread, which is stored at
//! the end.

use std::sync::Arc;

use serde_json::json;
use store_core::{
    AppendEvents, ClaimRef, Commit, CursorKey, Detail, DocumentExpect, DocumentOp, Entry, Error, EventRef, Expect,
    Fence, IdSource, Limits, Receipt, Result, Run, RunStatus, Scope, TenantId, Thread, ThreadFields, ThreadId,
    Timestamp, Version, check_limit, codec::Codec,
};

use super::{
    bug::Bug,
    bug_effects, documents,
    entries::LogDraft,
    events, mailbox,
    model_data::{TenantData, ThreadData, ThreadIdHistory, blank_thread, record_from_json},
    outbox, pending, run, shape, state,
    tree::token_counts_of,
};

/// What the rules depend on, besides the request and the stored data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Environment<'a> {
    /// Store time.
    pub(super) now: Timestamp,
    /// The limits.
    pub(super) limits: &'a Limits,
    /// Generates the ids that the caller does not give.
    pub(super) id_source: &'a dyn IdSource,
    /// The planted bug of the store, if it has one.
    pub(super) bug: Option<Bug>,
    /// The tenant that cursors of events belong to, and the key that authenticates them.
    pub(super) tenant_and_cursor_key: (&'a TenantId, &'a CursorKey),
}

/// Writes everything in `commit`, or nothing.
pub(super) fn commit(tenant: &mut TenantData, commit: &Commit, env: Environment<'_>) -> Result<Receipt> {
    let result = check_and_write(tenant, commit, env);
    if let (Err(refusal), Some(bug)) = (&result, env.bug) {
        bug_effects::apply_after_refusal(tenant, commit, refusal.kind(), (bug, env));
    }
    result
}

/// Makes all checks of a commit in their order, then writes it.
pub(super) fn check_and_write(tenant: &mut TenantData, commit: &Commit, env: Environment<'_>) -> Result<Receipt> {
    shape::check_shape(commit, (env.limits, env.bug))?;
    if env.bug == Some(Bug::DocumentsBeforeTheGuard) {
        documents::check_expectations(&tenant.documents, &commit.documents, env.bug)?;
    }
    let stored = tenant.threads.get(&commit.thread).cloned();
    let mut id_history = tenant.id_histories.get(&commit.thread).cloned().unwrap_or_default();
    let is_late_write = stored.is_none() && id_history.deleted_at.is_some() && commit.expect != Expect::Absent;
    if is_late_write && env.bug != Some(Bug::LateCommitRevives) {
        return Err(Error::not_found("thread", &commit.thread));
    }
    if let Some(receipt) = receipt_of_repeat(tenant, stored.as_ref(), commit, (env.bug, env.tenant_and_cursor_key))? {
        return Ok(receipt);
    }
    mailbox::check_fence(&tenant.mailbox, &commit.thread, commit.fence.as_ref(), env.bug)?;
    check_fence(&mut id_history, commit.fence.as_ref(), env.bug)?;
    if env.bug == Some(Bug::SettledBeforeTheGuard) {
        settle(tenant, commit, &env)?;
    }
    // The mailbox has its own time for each thread. So the settlement gets the store time of the call, and not the time
    // of the thread that the rest of the commit uses.
    let env_at_call = env;
    check_guard(stored.as_ref(), commit, env.bug)?;
    let now = stored.as_ref().map_or(env.now, |thread_data| env.now.max(thread_data.last_time));
    let env = Environment { now, ..env };
    if commit.at.is_some_and(|at| at > now) {
        return Err(Error::invalid("at", "it is after the store's time"));
    }
    // A commit without content may still have a fence, a settlement and a key. It does not create its thread.
    let has_no_content = commit.consume.is_empty()
        && commit.events.is_none()
        && commit.outbox.is_empty()
        && commit.documents.is_empty()
        && commit.entries.is_empty()
        && commit.run.is_none()
        && commit.create.is_none()
        && !shape::changes_state(commit);
    let thread_data = match stored {
        Some(thread_data) => thread_data,
        None if has_no_content => {
            let receipt = receipt_for(&blank_thread(&commit.thread, id_history.generation, now)?, now)?;
            settle(tenant, commit, &env_at_call)?;
            tenant.id_histories.insert(commit.thread.clone(), id_history);
            return Ok(receipt);
        }
        None => create_thread(tenant, commit, &id_history, &env)?,
    };
    id_history = ThreadIdHistory { generation: thread_data.thread.generation(), deleted_at: None, ..id_history };
    let (mut thread_data, mut receipt) = apply_commit(tenant, thread_data, commit, &env)?;
    let outbox_result = outbox::append(tenant, commit, &env);
    if let Some(request) = &events_of(commit, env.bug) {
        check_events(&thread_data, commit)?;
        // Errors of events are reported before errors of rows (CM-43). If the rows are refused, the events that were
        // appended here are removed again.
        let before_append = outbox_result.is_err().then(|| (tenant.events.clone(), tenant.id_histories.clone()));
        let appended = events::append(tenant, request, &env, (commit.at, env.tenant_and_cursor_key))?;
        if let Some(before_append) = before_append {
            (tenant.events, tenant.id_histories) = before_append;
        }
        receipt.events = appended.events.iter().map(EventRef::from).collect();
    }
    let (rows, row_ids) = outbox_result?;
    receipt.outbox = row_ids;
    settle(tenant, commit, &env_at_call)?;
    receipt.document_revision = write_documents(tenant, commit, &env);
    if let Some((_, stored_receipt)) = commit.key.as_ref().and_then(|key| thread_data.keyed_commits.get_mut(key)) {
        if env.bug != Some(Bug::ReceiptForgetsDocuments) {
            stored_receipt.document_revision = receipt.document_revision;
        }
        stored_receipt.events.clone_from(&receipt.events);
        stored_receipt.outbox.clone_from(&receipt.outbox);
    }
    tenant.outbox = rows;
    tenant.store_thread(thread_data);
    tenant.id_histories.insert(commit.thread.clone(), id_history);
    Ok(receipt)
}

/// Settles the claim under which a commit is written, if the commit has a settlement (CM-33).
pub(super) fn settle(tenant: &mut TenantData, commit: &Commit, env: &Environment<'_>) -> Result<()> {
    let (Some(fence), Some(settlement)) = (&commit.fence, &commit.settle) else { return Ok(()) };
    mailbox::settle(&mut tenant.mailbox, &ClaimRef::from(fence), settlement, env).map(drop)
}

/// Writes the documents of a commit. Returns their revision, or none if the commit puts none.
fn write_documents(tenant: &mut TenantData, commit: &Commit, env: &Environment<'_>) -> Option<u64> {
    let mut changes = commit.documents.clone();
    changes.retain(|change| change.op != DocumentOp::Delete || env.bug != Some(Bug::CommitDeletesNoDocument));
    tenant.documents.apply(&changes, env)
}

/// Returns the events of a commit. With the planted bug `CommitForgetsTopics`, events that have another scope lack
/// their topics.
fn events_of(commit: &Commit, bug: Option<Bug>) -> Option<AppendEvents> {
    let mut events = commit.events.clone();
    for draft in events.iter_mut().flat_map(|events| &mut events.drafts) {
        let has_other_scope = draft.scopes.iter().any(|scope| !matches!(scope, Scope::Topic(_)));
        if has_other_scope && bug == Some(Bug::CommitForgetsTopics) {
            draft.scopes.retain(|scope| !matches!(scope, Scope::Topic(_)));
        }
    }
    events
}

/// Refuses events that name another thread, or a run of another thread (CM-21).
fn check_events(thread_data: &ThreadData, commit: &Commit) -> Result<()> {
    let is_own_scope = |scope: &Scope| match scope {
        Scope::Thread(thread) => *thread == commit.thread,
        Scope::Run(id) => thread_data.runs.iter().any(|run| run.id == *id),
        Scope::Topic(_) => true,
    };
    for (index, draft) in commit.events.iter().flat_map(|events| &events.drafts).enumerate() {
        if !draft.scopes.iter().all(is_own_scope) {
            return Err(Error::invalid("scopes", "it is not a scope of the commit").in_part(format!("events[{index}]")));
        }
    }
    Ok(())
}

/// Returns the receipt of the earlier commit with this key and content, if there is one (CM-10 to CM-12).
fn receipt_of_repeat(
    tenant: &TenantData,
    stored: Option<&ThreadData>,
    commit: &Commit,
    bug_and_cursor_key: (Option<Bug>, (&TenantId, &CursorKey)),
) -> Result<Option<Receipt>> {
    let (bug, tenant_and_cursor_key) = bug_and_cursor_key;
    let Some(key) = &commit.key else { return Ok(None) };
    let mut found = stored.and_then(|thread_data| thread_data.keyed_commits.get(key));
    match bug {
        Some(Bug::KeyIgnored) => return Ok(None),
        Some(Bug::KeysOfAllThreads) => {
            found = tenant.threads.values().find_map(|thread_data| thread_data.keyed_commits.get(key))
        }
        _ => {}
    }
    let Some((first, receipt)) = found else { return Ok(None) };
    if content(first, bug) != content(commit, bug) && bug != Some(Bug::KeyContentIgnored) {
        return Err(Error::new(Detail::IdempotencyMismatch { key: key.to_string() }));
    }
    let mut receipt = receipt.clone();
    receipt.deduplicated = true;
    for event in &mut receipt.events {
        // An event that was trimmed after the first commit has no cursors.
        let found = tenant.events.load(&event.id, tenant_and_cursor_key);
        event.cursors = found.map(|event| event.cursors).unwrap_or_default();
    }
    Ok(Some(receipt))
}

/// Returns the content of a commit: everything except guard, fence and the expectations of documents, with the state
/// changes sorted by key, and the changes of documents by document (CM-11).
fn content(commit: &Commit, bug: Option<Bug>) -> Commit {
    let mut content = commit.clone();
    content.documents.sort_by(|left, right| left.document.cmp(&right.document));
    content.documents.iter_mut().for_each(|change| change.expect = DocumentExpect::Any);
    if bug == Some(Bug::DocumentsNotInTheContent) {
        content.documents.clear();
    }
    content.expect = Expect::Any;
    content.fence = None;
    if let Some(state) = &mut content.state {
        state.changes.sort_by(|(left_key, _), (right_key, _)| left_key.cmp(right_key));
    }
    content
}

/// Refuses a claim number that is lower than the highest one under which a caller has written. Remembers a higher one
/// (CM-32).
pub(super) fn check_fence(id_history: &mut ThreadIdHistory, fence: Option<&Fence>, bug: Option<Bug>) -> Result<()> {
    let Some(fence) = fence else { return Ok(()) };
    if let Some(highest) =
        id_history.highest_claim.filter(|highest| *highest > fence.claim && bug != Some(Bug::FenceIgnored))
    {
        let (expected, actual) = (fence.claim.to_string(), highest.to_string());
        return Err(Error::new(Detail::StaleEpoch { expected, actual }));
    }
    id_history.highest_claim = Some(fence.claim);
    Ok(())
}

fn check_guard(stored: Option<&ThreadData>, commit: &Commit, bug: Option<Bug>) -> Result<()> {
    let version =
        |thread_data: &ThreadData| Version::new(thread_data.entries.len() as u64, thread_data.thread.generation(), 0);
    let actual = stored.map(version);
    let expected = match commit.expect {
        Expect::Any => return Ok(()),
        Expect::Absent => None,
        Expect::Version(version) => Some(version),
    };
    let is_wrongly_accepted = match bug {
        Some(Bug::VersionOffByOne) => expected.map(|version| version.plus(1)) == actual,
        Some(Bug::GuardComparesTimes) => {
            stored.zip(expected).is_some_and(|(thread_data, expected)| has_time_of_last_entry(thread_data, expected))
        }
        _ => false,
    };
    if expected == actual || is_wrongly_accepted { Ok(()) } else { Err(Error::conflict("version", expected, actual)) }
}

/// Returns whether the entry at this version has the same time as the last entry.
fn has_time_of_last_entry(thread_data: &ThreadData, version: Version) -> bool {
    let time_of_entry = |number: usize| {
        number.checked_sub(1).and_then(|index| thread_data.entries.get(index)).map(|entry| entry.timestamp)
    };
    usize::try_from(version.number()).ok().and_then(time_of_entry) == time_of_entry(thread_data.entries.len())
}

fn create_thread(
    tenant: &TenantData,
    commit: &Commit,
    id_history: &ThreadIdHistory,
    env: &Environment<'_>,
) -> Result<ThreadData> {
    let fields = commit.create.clone().unwrap_or_default();
    if let Some(parent) = &fields.parent_thread_id {
        if *parent == commit.thread {
            return Err(Error::invalid("parent_thread_id", "it is the thread itself").in_part("create"));
        }
        if !tenant.threads.contains_key(parent) {
            return Err(Error::not_found("parent thread", parent).in_part("create"));
        }
    }
    new_thread_data(&commit.thread, fields, id_history, (commit.at.unwrap_or(env.now), env))
}

/// Returns a new thread with these fields (TH-1, TH-24).
pub(super) fn new_thread_data(
    id: &ThreadId,
    fields: ThreadFields,
    id_history: &ThreadIdHistory,
    time_and_env: (Timestamp, &Environment<'_>),
) -> Result<ThreadData> {
    let (at, env) = time_and_env;
    let generation = if env.bug == Some(Bug::GenerationForgotten) { 1 } else { id_history.generation + 1 };
    let mut thread = blank_thread(id, generation, at)?;
    thread.resource_id = fields.resource_id;
    thread.parent_thread_id = fields.parent_thread_id;
    thread.title = fields.title;
    thread.metadata = fields.metadata;
    let mut thread_data = ThreadData::new(thread, env.now);
    thread_data.entries = id_history.old_log.clone().unwrap_or_default();
    Ok(thread_data)
}

/// Applies a commit to a thread. Returns the changed thread and the receipt.
fn apply_commit(
    tenant: &TenantData,
    mut thread_data: ThreadData,
    commit: &Commit,
    env: &Environment<'_>,
) -> Result<(ThreadData, Receipt)> {
    let change = commit.state.as_ref();
    if let Some(expected) = change.and_then(|change| change.expect_revision)
        && expected != thread_data.thread.state_revision
    {
        let version = |number| Some(Version::new(number, thread_data.thread.generation(), 0));
        return Err(Error::conflict("state revision", version(expected), version(thread_data.thread.state_revision)));
    }
    documents::check_expectations(&tenant.documents, &commit.documents, env.bug)?;
    let run = run::run_after_commit(tenant, &thread_data, commit, env)?;
    let at = commit.at.unwrap_or(env.now);
    let thread_before = thread_data.clone();
    let mut drafts = pending::consume(&mut thread_data, commit, env.bug)?;
    pending::check_ids_unused(&thread_before, commit, env.bug)?;
    if env.bug == Some(Bug::ConsumedComesLast) {
        drafts.splice(0..0, commit.entries.iter().cloned());
    } else {
        drafts.extend(commit.entries.iter().cloned());
    }
    let mut log = LogDraft::new(&thread_data.entries);
    for (index, draft) in drafts.iter().enumerate() {
        log.append(draft, at, env).map_err(|e| e.in_part(format!("entries[{index}]")))?;
    }
    let (first_new_index, entries) = (thread_data.entries.len(), log.entries);
    check_runs_of_entries(&thread_data, run.as_ref(), entries.get(first_new_index..).unwrap_or_default())?;
    thread_data.entries = entries;
    if let Some(change) = change {
        thread_data.state = state::apply_change(&thread_data.state, change, (env.limits, env.bug))?;
        state::check_totals(&thread_data.state, env.limits)?;
        thread_data.thread.state_revision += u64::from(shape::changes_state(commit));
    }
    if let Some(run) = &run {
        thread_data.thread.latest_run = Some(run.id.clone());
        match thread_data.runs.iter_mut().find(|stored_run| stored_run.id == run.id) {
            Some(stored_run) => *stored_run = run.clone(),
            None => thread_data.runs.push(run.clone()),
        }
    }
    check_totals(&thread_data, run.as_ref(), first_new_index, (commit, env.limits))?;
    thread_data.last_time = env.now;
    thread_data.thread.updated_at = thread_data.thread.updated_at.max(at);
    if let Some(bug) = env.bug {
        bug_effects::apply_after_commit(&mut thread_data, commit, first_new_index, (bug, env));
    }
    let mut receipt = receipt_for(&thread_data.to_thread(env.bug), env.now)?;
    let new_count = commit.consume.len() + commit.entries.len();
    receipt.first_seq = (new_count > 0).then_some(first_new_index as u64 + 1);
    receipt.entry_ids = thread_data.entries.iter().skip(first_new_index).map(|entry| entry.id.clone()).collect();
    receipt.consumed = commit.consume.iter().map(|input| input.id.clone()).collect();
    receipt.run_status = run.map(|run| run.status);
    if let Some(key) = &commit.key {
        thread_data.keyed_commits.insert(key.clone(), (commit.clone(), receipt.clone()));
    }
    Ok((thread_data, receipt))
}

/// Returns the receipt of a commit after which its thread is `thread`.
pub(super) fn receipt_for(thread: &Thread, now: Timestamp) -> Result<Receipt> {
    let mut receipt: Receipt = record_from_json(&json!({
        "thread": thread.id, "version": thread.version.number(), "generation": thread.version.generation(),
        "entry_ids": [], "state_revision": thread.state_revision, "time": now, "deduplicated": false,
    }))?;
    receipt.head.clone_from(&thread.head);
    Ok(receipt)
}

/// Refuses new entries that name a run which the thread does not have. Also refuses those that add token counts to a
/// run which was done before the commit.
fn check_runs_of_entries(
    thread_data: &ThreadData,
    written_run: Option<&Run>,
    new_entries: &[Arc<Entry>],
) -> Result<()> {
    for (index, entry) in new_entries.iter().enumerate() {
        let Some(id) = entry.run.as_ref().filter(|id| written_run.is_none_or(|run| run.id != **id)) else { continue };
        let part = format!("entries[{index}]");
        let Some(run) = thread_data.runs.iter().find(|run| run.id == *id) else {
            return Err(Error::not_found("run", id).in_part(part));
        };
        if token_counts_of(entry).is_some() && matches!(run.status, RunStatus::Done(_)) {
            return Err(Error::invalid_transition("run", id, "done", "done").in_part(part));
        }
    }
    Ok(())
}

/// Refuses a commit whose stored size exceeds the limit, or after which its thread has too many open runs.
fn check_totals(
    thread_data: &ThreadData,
    run: Option<&Run>,
    first_new_index: usize,
    commit_and_limits: (&Commit, &Limits),
) -> Result<()> {
    let (commit, limits) = commit_and_limits;
    let entry_bytes: usize = thread_data.entries.iter().skip(first_new_index).map(|entry| entry.encode().len()).sum();
    let changed_keys = commit.state.iter().flat_map(|change| &change.changes);
    let state_bytes: usize =
        changed_keys.filter_map(|(key, _)| thread_data.state.get(key)).map(|json| json.as_str().len()).sum();
    let run_bytes = run.map_or(0, |run| run.encode().len());
    let events = commit.events.iter().flat_map(|request| &request.drafts).filter_map(|event| event.payload.as_ref());
    let rows = commit.outbox.iter().map(|row| &row.payload);
    let values = commit.documents.iter().filter_map(|change| match &change.op {
        DocumentOp::Put(value) => Some(value),
        DocumentOp::Delete | DocumentOp::Keep => None,
    });
    let payload_bytes: usize = events.chain(rows).chain(values).map(|payload| payload.as_str().len()).sum();
    check_limit("commit bytes", (entry_bytes + run_bytes + state_bytes + payload_bytes) as u64, limits.commit_bytes)?;
    let open_runs = thread_data.runs.iter().filter(|run| !matches!(run.status, RunStatus::Done(_))).count();
    check_limit("open runs", open_runs as u64, limits.open_runs)
}
