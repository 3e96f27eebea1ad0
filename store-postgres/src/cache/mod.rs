//! The cache of the records of a thread, and of the records that the thread refers to. The rules of core decide by
//! these records.
//!
//! A rule asks for records one by one. If a record is not in the cache, it is noted as missing and the rule ends. The
//! missing records are loaded in one statement, and the rule runs again. Records that no other call has changed are
//! kept from one decision to the next.

mod load;
mod mailbox;
mod outbox;
mod view;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use store_core::{
    CommitKey, CursorKey, DocumentChange, DocumentExpect, DocumentRef, EntryId, Error, EventId, EventKey, IdSource,
    Json, Result, Run, RunId, Scope, TenantId, ThreadId, WriterId,
    commit::{CommitKeyRecord, Plan},
    document::DocumentState,
    event::{EventKeyRecord, EventPlan, ScopeState, StoredEvent},
    log::{EntryMarks, Node},
    pending::{DecisionRecord, QueuePlan, StoredInput},
    thread::{StoredThread, ThreadIdRecord},
};

use crate::{decide::CacheUpdate, write::WrittenThread};

pub(crate) use self::{
    load::{
        add_document_refs, decode, decode_event, decode_thread_row, load_ancestors, load_records, scope_kind_and_id,
    },
    mailbox::{CachedClaim, DispatchChange, MailboxCache, MailboxChanges, MailboxDraft, MailboxLookup, load_mailbox},
    outbox::{OutboxCache, OutboxChanges, OutboxDraft, OutboxLookup, load_outbox},
};

/// The records that a decision needs and that are not in the cache yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Lookup {
    /// The thread itself.
    pub(crate) thread: bool,
    /// The head of the thread, with the nodes and marks that are needed to append the next entry.
    pub(crate) head: bool,
    /// Threads whose existence must be known.
    pub(crate) threads: BTreeSet<ThreadId>,
    /// Threads whose ancestors are needed.
    pub(crate) lineage: BTreeSet<ThreadId>,
    pub(crate) runs: BTreeSet<RunId>,
    pub(crate) keys: BTreeSet<CommitKey>,
    pub(crate) entries: BTreeSet<EntryId>,
    /// Entries whose nodes are needed to follow a path. Nodes that probably follow on the path are loaded with them.
    pub(crate) paths: BTreeSet<u64>,
    /// Entries whose marks are needed.
    pub(crate) marks: BTreeSet<u64>,
    /// Names of snapshots.
    pub(crate) names: BTreeSet<String>,
    /// Keys of the thread's state.
    pub(crate) states: BTreeSet<String>,
    pub(crate) inputs: BTreeSet<EntryId>,
    /// The ids of all queued inputs.
    pub(crate) queue: bool,
    pub(crate) decisions: BTreeSet<(RunId, String)>,
    pub(crate) scopes: BTreeSet<Scope>,
    pub(crate) events: BTreeSet<EventId>,
    pub(crate) event_keys: BTreeSet<(WriterId, EventKey)>,
    /// Documents whose states are needed.
    pub(crate) documents: BTreeSet<DocumentRef>,
    pub(crate) outbox: OutboxLookup,
    pub(crate) mailbox: MailboxLookup,
}

/// The properties of a tenant that every decision uses.
#[derive(Debug)]
pub(crate) struct TenantConstants {
    pub(crate) tenant: TenantId,
    pub(crate) incarnation: u64,
    pub(crate) cursor_key: CursorKey,
}

/// The cached records of a thread, and those to which it refers. A record that is not in a map was not loaded. `None`
/// means that it does not exist.
#[derive(Debug)]
pub(crate) struct RecordCache {
    pub(crate) constants: Arc<TenantConstants>,
    /// The thread to which the cache belongs. `None` if the decisions are about records that belong to no thread.
    pub(crate) id: Option<ThreadId>,
    /// The row of the thread; `None` if it was not loaded.
    pub(crate) row: Option<CachedThreadRow>,
    /// For each thread, whether it exists.
    threads: HashMap<ThreadId, bool>,
    /// For each thread, the thread and its ancestors.
    lineages: HashMap<ThreadId, Vec<ThreadId>>,
    runs: HashMap<RunId, Option<Run>>,
    keys: HashMap<CommitKey, Option<CommitKeyRecord>>,
    /// The sequence number of each entry.
    entries: HashMap<EntryId, Option<u64>>,
    /// The nodes by sequence number, each with the id of its entry.
    nodes: HashMap<u64, (Node, EntryId)>,
    marks: HashMap<u64, CachedMarks>,
    names: HashMap<String, Option<u64>>,
    states: HashMap<String, Option<Json>>,
    inputs: HashMap<EntryId, Option<StoredInput>>,
    queue: Option<Vec<EntryId>>,
    decisions: HashMap<(RunId, String), Option<DecisionRecord>>,
    scopes: HashMap<Scope, Option<ScopeState>>,
    events: HashMap<EventId, Option<StoredEvent>>,
    event_keys: HashMap<(WriterId, EventKey), Option<EventKeyRecord>>,
    documents: HashMap<DocumentRef, Option<DocumentState>>,
    /// What the decision expects of documents that were not loaded. It is assumed, and the server checks it.
    expected_documents: RefCell<HashMap<DocumentRef, DocumentExpect>>,
    /// The revision of the documents that the decision puts; 0 if the server numbers the write when it writes it.
    pub(crate) document_revision: Cell<u64>,
    outbox: OutboxCache,
    pub(crate) mailbox: MailboxCache,
    missing: RefCell<Lookup>,
    /// The ids that were generated for this decision. No stored record has them.
    pub(crate) generated: Arc<GeneratedIds>,
    /// Whether all records were loaded after the decision began. If not, they may be outdated.
    pub(crate) is_fresh: bool,
    /// Whether a record that may exist was assumed to be absent, or a document to be as expected. If that is wrong, the
    /// server refuses the write.
    assumed_absence: Cell<bool>,
}

/// The row of a thread as it was when it was loaded.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedThreadRow {
    /// The number of the transaction that wrote the row last; 0 if there is no row.
    pub(crate) stamp: i64,
    /// The number of the thread's log. The rows of other tables that belong to the thread contain it.
    pub(crate) log: Option<i64>,
    pub(crate) thread: Option<StoredThread>,
    /// What the store keeps about the thread's id, also after the thread is deleted.
    pub(crate) id_record: ThreadIdRecord,
}

/// The cached marks of an entry: the properties that later entries determine.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedMarks {
    pub(crate) marks: EntryMarks,
    /// Whether the marks have a row of their own.
    pub(crate) has_row: bool,
    /// Whether the next entry of the log is a child of this entry and not a side entry.
    pub(crate) is_parent_of_next: bool,
}

impl RecordCache {
    pub(crate) fn new(constants: Arc<TenantConstants>, id: Option<ThreadId>) -> Self {
        Self {
            constants,
            id,
            row: None,
            threads: HashMap::new(),
            lineages: HashMap::new(),
            runs: HashMap::new(),
            keys: HashMap::new(),
            entries: HashMap::new(),
            nodes: HashMap::new(),
            marks: HashMap::new(),
            names: HashMap::new(),
            states: HashMap::new(),
            inputs: HashMap::new(),
            queue: None,
            decisions: HashMap::new(),
            scopes: HashMap::new(),
            events: HashMap::new(),
            event_keys: HashMap::new(),
            documents: HashMap::new(),
            expected_documents: RefCell::default(),
            document_revision: Cell::new(0),
            outbox: OutboxCache::default(),
            mailbox: MailboxCache::default(),
            missing: RefCell::default(),
            generated: Arc::default(),
            is_fresh: false,
            assumed_absence: Cell::new(false),
        }
    }

    /// Removes all records from the cache.
    pub(crate) fn clear(&mut self) {
        let generated = Arc::clone(&self.generated);
        *self = Self::new(Arc::clone(&self.constants), self.id.take());
        self.generated = generated;
    }

    /// Returns the records that a rule asked for and that are missing, if there are any.
    pub(crate) fn take_missing(&mut self) -> Option<Lookup> {
        let missing = self.missing.take();
        (missing != Lookup::default()).then_some(missing)
    }

    /// Notes these records as missing before the rule runs again. If the rule then misses other records, all are loaded
    /// together.
    pub(crate) fn note_lookup(&mut self, lookup: Lookup) {
        self.missing = RefCell::new(lookup);
    }

    /// Prepares the cache for the next execution of the rule.
    pub(crate) fn begin_rule(&self) {
        self.generated.restart();
        self.assumed_absence.set(false);
    }

    /// Returns whether a record that may exist was assumed to be absent.
    pub(crate) fn has_assumed_absence(&self) -> bool {
        self.assumed_absence.get()
    }

    /// Returns whether an answer or an error is certain: no record can be outdated, and no record was assumed to be
    /// absent.
    pub(crate) fn is_certain(&self) -> bool {
        self.is_fresh && !self.assumed_absence.get()
    }

    /// Returns a value of the cache. If it is not in the cache, it is noted as missing, and the returned error ends the
    /// rule.
    fn find<K: Eq + Hash, V: Clone>(
        &self,
        cached: &HashMap<K, V>,
        key: &K,
        note: impl FnOnce(&mut Lookup),
    ) -> Result<V> {
        cached.get(key).cloned().ok_or_else(|| self.note_missing(note))
    }

    /// Returns a record that usually does not exist. If it is not in the cache, it may be assumed to be absent, because
    /// the server has a unique index and refuses the write if the record exists. Only a fresh cache notes it as
    /// missing.
    fn find_likely_absent<K: Eq + Hash, V: Clone>(
        &self,
        cached: &HashMap<K, Option<V>>,
        key: &K,
        note: impl FnOnce(&mut Lookup),
    ) -> Result<Option<V>> {
        match cached.get(key) {
            Some(found) => Ok(found.clone()),
            None if self.is_fresh => Err(self.note_missing(note)),
            None => {
                self.assumed_absence.set(true);
                Ok(None)
            }
        }
    }

    /// Notes what the decision expects of documents. Documents that were not loaded are assumed to be like that, unless
    /// the cache is fresh.
    pub(crate) fn expect_documents(&self, changes: &[DocumentChange]) {
        if !self.is_fresh {
            let expected = changes.iter().map(|change| (change.document.clone(), change.expect));
            *self.expected_documents.borrow_mut() = expected.collect();
        }
    }

    fn note_missing(&self, note: impl FnOnce(&mut Lookup)) -> Error {
        note(&mut self.missing.borrow_mut());
        Error::unavailable("the record was not loaded yet")
    }

    /// Returns a thread and its ancestors, the thread first; nothing if it does not exist.
    pub(crate) fn lineage(&self, thread: &ThreadId) -> Result<Vec<ThreadId>> {
        self.find(&self.lineages, thread, |lookup| _ = lookup.lineage.insert(thread.clone()))
    }

    fn row(&self) -> Result<&CachedThreadRow> {
        self.row.as_ref().ok_or_else(|| self.note_missing(|lookup| lookup.thread = true))
    }

    fn has_log(&self) -> Result<bool> {
        self.row().map(|row| row.log.is_some())
    }

    /// Removes all records and stores the row that another call has written. The removed records may be outdated.
    pub(crate) fn replace_row(&mut self, row: CachedThreadRow, keys: Vec<(CommitKey, Option<CommitKeyRecord>)>) {
        self.clear();
        self.keys.extend(keys);
        self.row = Some(row);
        self.is_fresh = true;
    }

    /// Sets the row of the thread after a write, and removes the records that the write does not determine.
    fn set_row_after_write(
        &mut self,
        stamp: i64,
        log: Option<i64>,
        thread: Option<StoredThread>,
        id_record: ThreadIdRecord,
    ) {
        self.row = Some(CachedThreadRow { stamp, log, thread, id_record });
        self.is_fresh = false;
        self.assumed_absence.set(false);
        // These records also depend on other threads or other writers.
        self.threads.clear();
        self.lineages.clear();
        self.keys.clear();
        self.entries.clear();
        self.names.clear();
        self.events.clear();
        self.outbox = OutboxCache::default();
        self.mailbox = MailboxCache::default();
        self.event_keys.clear();
        self.documents.clear();
    }

    /// Starts a decision. The records in the cache are older than the decision.
    pub(crate) fn begin_decision(&mut self) {
        self.is_fresh = false;
        self.assumed_absence.set(false);
        self.generated = Arc::default();
        self.documents.clear();
        self.expected_documents.take();
    }

    /// Updates the cache after a write.
    pub(crate) fn apply_write(&mut self, written: WrittenThread, cache_update: CacheUpdate) {
        let (stamp, log) = written;
        match cache_update {
            CacheUpdate::Commit(plan) => self.apply_commit(stamp, log, *plan),
            CacheUpdate::Queue(plan) => self.apply_queue_change(stamp, log, *plan),
            CacheUpdate::Thread(thread, id_record) => {
                self.set_row_after_write(stamp, log, thread.map(|thread| *thread), id_record);
            }
            CacheUpdate::Nothing => {}
            CacheUpdate::Events(plan, None) => self.apply_appended_events(Some(*plan)),
            CacheUpdate::Events(plan, Some(id_record)) => {
                self.apply_appended_events(Some(*plan));
                let thread = self.row.take().and_then(|row| row.thread);
                self.set_row_after_write(stamp, log, thread, id_record);
            }
        }
    }

    fn apply_commit(&mut self, stamp: i64, log: Option<i64>, mut plan: Plan) {
        self.apply_appended_events(plan.events.take());
        let head = plan.thread.as_ref().and_then(|thread| thread.head_seq);
        let marks = head.and_then(|head| self.marks_after(head, &plan));
        self.marks.clear();
        self.marks.extend(head.zip(marks));
        for planned in plan.entries {
            self.nodes.insert(planned.node.seq, (planned.node, planned.entry.id));
        }
        self.keep_jump_nodes(head);
        if plan.state.clear {
            self.states.values_mut().for_each(|value| *value = None);
        }
        self.states.extend(plan.state.values);
        let written_runs: Vec<_> = plan.runs.into_iter().map(|run| (run.id.clone(), Some(run))).collect();
        let id = self.id.clone();
        self.runs.retain(|_, run| run.as_ref().is_some_and(|run| Some(&run.thread) == id.as_ref() && run.is_open()));
        self.runs.extend(written_runs);
        self.queue = None;
        self.inputs.clear();
        self.set_row_after_write(stamp, log, plan.thread, plan.id_record);
    }

    /// Updates the states of scopes after an append of events.
    fn apply_appended_events(&mut self, plan: Option<EventPlan>) {
        self.scopes.clear();
        self.scopes.extend(plan.into_iter().flat_map(|plan| plan.scopes).map(|(scope, state)| (scope, Some(state))));
    }

    /// Replaces the states of scopes with those that other calls have written.
    pub(crate) fn replace_scopes(&mut self, scopes: Vec<(Scope, ScopeState)>) {
        self.scopes.extend(scopes.into_iter().map(|(scope, state)| (scope, Some(state))));
    }

    /// Returns the state of a scope before the decision.
    pub(crate) fn scope_before(&self, scope: &Scope) -> ScopeState {
        self.scopes.get(scope).cloned().flatten().unwrap_or_default()
    }

    /// Keeps only the nodes that the next entry needs: the head, and those that are reached from it by jump pointers.
    fn keep_jump_nodes(&mut self, head: Option<u64>) {
        let mut kept = BTreeMap::new();
        let mut next = head;
        while let Some((node, id)) = next.and_then(|seq| self.nodes.remove(&seq)) {
            next = node.jump;
            kept.insert(node.seq, (node, id));
        }
        self.nodes = kept.into_iter().collect();
    }

    /// Updates the cache after a change of the queue.
    fn apply_queue_change(&mut self, stamp: i64, log: Option<i64>, plan: QueuePlan) {
        for stored in plan.write.put {
            if let Some((decision, record)) = stored.input.decision() {
                self.decisions.insert((decision.run.clone(), decision.ticket.clone()), Some(record));
            }
        }
        self.queue = None;
        self.inputs.clear();
        self.set_row_after_write(stamp, log, Some(plan.thread), plan.id_record);
    }

    /// Returns the marks of an entry after a plan, or `None` if they are not in the cache.
    pub(crate) fn marks_after(&self, seq: u64, plan: &Plan) -> Option<CachedMarks> {
        let node = |seq: u64| plan.entries.iter().map(|planned| &planned.node).find(|node| node.seq == seq);
        let before = match (self.marks.get(&seq), node(seq)) {
            (Some(cached), _) => cached.clone(),
            (None, Some(_)) => CachedMarks::default(),
            (None, None) => return None,
        };
        let marks = plan.marks.get(&seq).cloned().unwrap_or(before.marks);
        let is_parent_of_next =
            node(seq + 1).map_or(before.is_parent_of_next, |next| next.parent == Some(seq) && !next.side);
        // Marks that say only whether the next entry of the log is a child of this one need no row.
        let has_row = before.has_row || marks != marks_with_children(u32::from(is_parent_of_next));
        Some(CachedMarks { marks, has_row, is_parent_of_next })
    }

    /// Returns whether an entry is a side entry, or `None` if the entry is not in the cache.
    pub(crate) fn is_side(&self, seq: u64) -> Option<bool> {
        self.nodes.get(&seq).map(|(node, _)| node.side)
    }

    pub(crate) fn is_cached_run(&self, id: &RunId) -> bool {
        self.runs.get(id).is_some_and(Option::is_some)
    }
}

/// The ids that are generated for a decision. Each execution of its rule gets the same ids again.
#[derive(Debug, Default)]
pub(crate) struct GeneratedIds(Mutex<GeneratedIdList>);

#[derive(Debug, Default)]
struct GeneratedIdList {
    ids: Vec<String>,
    /// The same ids, for lookups.
    id_set: HashSet<String>,
    /// The number of ids that the current execution of the rule has used.
    used: usize,
}

impl GeneratedIds {
    fn lock(&self) -> MutexGuard<'_, GeneratedIdList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts again with the first id.
    fn restart(&self) {
        self.lock().used = 0;
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.lock().id_set.contains(id)
    }

    fn next(&self, source: &dyn IdSource) -> String {
        let mut generated = self.lock();
        let id = generated.ids.get(generated.used).cloned().unwrap_or_else(|| source.next_id());
        if generated.used == generated.ids.len() {
            generated.ids.push(id.clone());
            generated.id_set.insert(id.clone());
        }
        generated.used += 1;
        id
    }
}

/// The source of the ids of a decision.
#[derive(Debug)]
pub(crate) struct DecisionIds<'a> {
    pub(crate) generated: &'a GeneratedIds,
    pub(crate) source: &'a dyn IdSource,
}

impl IdSource for DecisionIds<'_> {
    fn next_id(&self) -> String {
        self.generated.next(self.source)
    }
}

/// Returns the marks of an entry with this number of children and no other marks.
fn marks_with_children(children: u32) -> EntryMarks {
    let mut marks = EntryMarks::default();
    marks.children = children;
    marks
}
