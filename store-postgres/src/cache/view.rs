//! The views through which the rules of core read the cached records.

use store_core::{
    CommitKey, CursorKey, EntryId, Error, EventId, EventKey, Json, Result, Run, RunId, Scope, TenantId, ThreadId,
    WriterId,
    commit::{CommitView, KeyRecord, LogView},
    event::{EventKeyRecord, EventView, ScopeState, StoredEvent},
    log::{MarkSource, Marks, Node, Nodes},
    mailbox::MailboxView,
    pending::{DecisionRecord, StoredInput},
    thread::{IdRecord, StoredThread},
};

use super::RecordCache;

impl RecordCache {
    fn known_node(&self, seq: u64) -> Result<(Node, EntryId)> {
        if !self.has_log()? {
            return Err(Error::corrupt("a log does not exist"));
        }
        self.find(&self.nodes, &seq, |look| _ = look.paths.insert(seq))
    }
}

impl Nodes for RecordCache {
    fn node(&self, seq: u64) -> Result<Node> {
        self.known_node(seq).map(|(node, _)| node)
    }
}

impl MarkSource for RecordCache {
    fn marks(&self, seq: u64) -> Result<Marks> {
        if !self.has_log()? {
            return Ok(Marks::default());
        }
        Ok(self.find(&self.marks, &seq, |look| _ = look.marks.insert(seq))?.marks)
    }
}

impl LogView for RecordCache {
    fn entry(&self, id: &EntryId) -> Result<Option<u64>> {
        if !self.has_log()? || self.generated.contains(id.as_str()) {
            return Ok(None);
        }
        self.find_new(&self.entries, id, |look| _ = look.entries.insert(id.clone()))
    }

    fn entry_id(&self, seq: u64) -> Result<EntryId> {
        self.known_node(seq).map(|(_, id)| id)
    }

    fn snapshot(&self, name: &str) -> Result<Option<u64>> {
        if !self.has_log()? {
            return Ok(None);
        }
        self.find(&self.names, &name.to_owned(), |look| _ = look.names.insert(name.to_owned()))
    }
}

impl EventView for RecordCache {
    fn scope(&self, scope: &Scope) -> Result<ScopeState> {
        let found = self.find_new(&self.scopes, scope, |look| _ = look.scopes.insert(scope.clone()))?;
        Ok(found.unwrap_or_default())
    }

    fn event_key(&self, writer: &WriterId, key: &EventKey) -> Result<Option<EventKeyRecord>> {
        let named = (writer.clone(), key.clone());
        self.find_new(&self.event_keys, &named, |look| _ = look.event_keys.insert(named.clone()))
    }

    fn event(&self, id: &EventId) -> Result<Option<StoredEvent>> {
        self.find(&self.events, id, |look| _ = look.events.insert(id.clone()))
    }

    fn sealer(&self) -> (&TenantId, &CursorKey) {
        (&self.constants.tenant, &self.constants.cursors)
    }
}

impl CommitView for RecordCache {
    fn incarnation(&self) -> u64 {
        self.constants.incarnation
    }

    fn claims(&self) -> Option<&dyn MailboxView> {
        Some(self)
    }

    fn id_record(&self) -> Result<IdRecord> {
        self.row().map(|row| row.id.clone())
    }

    fn thread(&self) -> Result<Option<StoredThread>> {
        self.row().map(|row| row.thread.clone())
    }

    fn key(&self, key: &CommitKey) -> Result<Option<KeyRecord>> {
        if !self.has_log()? {
            return Ok(None);
        }
        self.find_new(&self.keys, key, |look| _ = look.keys.insert(key.clone()))
    }

    fn thread_exists(&self, id: &ThreadId) -> Result<bool> {
        self.find(&self.threads, id, |look| _ = look.threads.insert(id.clone()))
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>> {
        self.find_new(&self.runs, id, |look| _ = look.runs.insert(id.clone()))
    }

    fn state(&self, key: &str) -> Result<Option<Json>> {
        if !self.has_log()? {
            return Ok(None);
        }
        self.find(&self.states, &key.to_owned(), |look| _ = look.states.insert(key.to_owned()))
    }

    fn pending(&self, id: &EntryId) -> Result<Option<StoredInput>> {
        if !self.has_log()? || self.generated.contains(id.as_str()) {
            return Ok(None);
        }
        self.find(&self.inputs, id, |look| _ = look.inputs.insert(id.clone()))
    }

    fn decision(&self, run: &RunId, ticket: &str) -> Result<Option<DecisionRecord>> {
        if !self.has_log()? {
            return Ok(None);
        }
        let key = (run.clone(), ticket.to_owned());
        self.find(&self.decisions, &key, |look| _ = look.decisions.insert(key.clone()))
    }

    fn queue(&self) -> Result<Vec<EntryId>> {
        if !self.has_log()? {
            return Ok(Vec::new());
        }
        self.queue.clone().ok_or_else(|| self.note_missing(|look| look.queue = true))
    }
}
