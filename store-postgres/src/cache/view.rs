//! The views through which the rules of core read the cached records.

use store_core::{
    CommitKey, CursorKey, DocumentExpect, DocumentRef, EntryId, Error, EventId, EventKey, Json, Result, Run, RunId,
    Scope, TenantId, ThreadId, Timestamp, WriterId,
    commit::{CommitKeyRecord, CommitView, LogView},
    document::{DocumentState, DocumentView, DocumentWriteView},
    event::{EventKeyRecord, EventView, ScopeState, StoredEvent},
    log::{EntryMarks, MarkSource, Node, NodeSource},
    mailbox::MailboxView,
    pending::{DecisionRecord, StoredInput},
    thread::{StoredThread, ThreadIdRecord},
};

use super::RecordCache;

impl RecordCache {
    fn cached_node(&self, seq: u64) -> Result<(Node, EntryId)> {
        if !self.has_log()? {
            return Err(Error::corrupt("a log does not exist"));
        }
        self.find(&self.nodes, &seq, |lookup| _ = lookup.paths.insert(seq))
    }
}

impl NodeSource for RecordCache {
    fn node(&self, seq: u64) -> Result<Node> {
        self.cached_node(seq).map(|(node, _)| node)
    }
}

impl MarkSource for RecordCache {
    fn marks(&self, seq: u64) -> Result<EntryMarks> {
        if !self.has_log()? {
            return Ok(EntryMarks::default());
        }
        Ok(self.find(&self.marks, &seq, |lookup| _ = lookup.marks.insert(seq))?.marks)
    }
}

impl LogView for RecordCache {
    fn entry(&self, id: &EntryId) -> Result<Option<u64>> {
        if !self.has_log()? || self.generated.contains(id.as_str()) {
            return Ok(None);
        }
        self.find_likely_absent(&self.entries, id, |lookup| _ = lookup.entries.insert(id.clone()))
    }

    fn entry_id(&self, seq: u64) -> Result<EntryId> {
        self.cached_node(seq).map(|(_, id)| id)
    }

    fn snapshot(&self, name: &str) -> Result<Option<u64>> {
        if !self.has_log()? {
            return Ok(None);
        }
        self.find(&self.names, &name.to_owned(), |lookup| _ = lookup.names.insert(name.to_owned()))
    }
}

impl EventView for RecordCache {
    fn scope(&self, scope: &Scope) -> Result<ScopeState> {
        let found = self.find_likely_absent(&self.scopes, scope, |lookup| _ = lookup.scopes.insert(scope.clone()))?;
        Ok(found.unwrap_or_default())
    }

    fn event_key(&self, writer: &WriterId, key: &EventKey) -> Result<Option<EventKeyRecord>> {
        let cache_key = (writer.clone(), key.clone());
        self.find_likely_absent(&self.event_keys, &cache_key, |lookup| _ = lookup.event_keys.insert(cache_key.clone()))
    }

    fn event(&self, id: &EventId) -> Result<Option<StoredEvent>> {
        self.find(&self.events, id, |lookup| _ = lookup.events.insert(id.clone()))
    }

    fn tenant_and_cursor_key(&self) -> (&TenantId, &CursorKey) {
        (&self.constants.tenant, &self.constants.cursor_key)
    }
}

impl DocumentView for RecordCache {
    fn document(&self, document: &DocumentRef) -> Result<Option<DocumentState>> {
        if self.is_fresh || self.documents.contains_key(document) {
            return self.find(&self.documents, document, |lookup| _ = lookup.documents.insert(document.clone()));
        }
        self.assumed_absence.set(true);
        let revision = match self.expected_documents.borrow().get(document) {
            Some(DocumentExpect::Revision(revision)) => Some(*revision),
            Some(DocumentExpect::Present) => Some(1),
            _ => None,
        };
        let time = Timestamp::MIN;
        Ok(revision.map(|revision| DocumentState { revision, created_at: time, updated_at: time }))
    }

    /// Returns 0 if the server numbers the write when it writes it.
    fn next_document_revision(&self) -> Result<u64> {
        Ok(self.document_revision.get())
    }
}

impl DocumentWriteView for RecordCache {
    fn has_thread(&self, thread: &ThreadId) -> Result<bool> {
        if self.id.is_some() {
            return self.has_log();
        }
        if self.is_fresh || self.threads.contains_key(thread) {
            return self.thread_exists(thread);
        }
        self.assumed_absence.set(true);
        Ok(true)
    }

    fn id_record(&self, _thread: &ThreadId) -> Result<ThreadIdRecord> {
        self.row().map(|row| row.id_record.clone())
    }

    fn fenced_mailbox(&self) -> Option<&dyn MailboxView> {
        Some(self)
    }
}

impl CommitView for RecordCache {
    fn incarnation(&self) -> u64 {
        self.constants.incarnation
    }

    fn fenced_mailbox(&self) -> Option<&dyn MailboxView> {
        Some(self)
    }

    fn id_record(&self) -> Result<ThreadIdRecord> {
        self.row().map(|row| row.id_record.clone())
    }

    fn thread(&self) -> Result<Option<StoredThread>> {
        self.row().map(|row| row.thread.clone())
    }

    fn key(&self, key: &CommitKey) -> Result<Option<CommitKeyRecord>> {
        if !self.has_log()? {
            return Ok(None);
        }
        self.find_likely_absent(&self.keys, key, |lookup| _ = lookup.keys.insert(key.clone()))
    }

    fn thread_exists(&self, id: &ThreadId) -> Result<bool> {
        self.find(&self.threads, id, |lookup| _ = lookup.threads.insert(id.clone()))
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>> {
        self.find_likely_absent(&self.runs, id, |lookup| _ = lookup.runs.insert(id.clone()))
    }

    fn state(&self, key: &str) -> Result<Option<Json>> {
        if !self.has_log()? {
            return Ok(None);
        }
        self.find(&self.states, &key.to_owned(), |lookup| _ = lookup.states.insert(key.to_owned()))
    }

    fn pending(&self, id: &EntryId) -> Result<Option<StoredInput>> {
        if !self.has_log()? || self.generated.contains(id.as_str()) {
            return Ok(None);
        }
        self.find(&self.inputs, id, |lookup| _ = lookup.inputs.insert(id.clone()))
    }

    fn decision(&self, run: &RunId, ticket: &str) -> Result<Option<DecisionRecord>> {
        if !self.has_log()? {
            return Ok(None);
        }
        let key = (run.clone(), ticket.to_owned());
        self.find(&self.decisions, &key, |lookup| _ = lookup.decisions.insert(key.clone()))
    }

    fn queue(&self) -> Result<Vec<EntryId>> {
        if !self.has_log()? {
            return Ok(Vec::new());
        }
        self.queue.clone().ok_or_else(|| self.note_missing(|lookup| lookup.queue = true))
    }
}
