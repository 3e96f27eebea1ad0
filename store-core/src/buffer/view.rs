//! The stored records with those of an overlay laid over them, as the rules of core read them.

use super::{Overlay, thread_overlay::ThreadOverlay};
use crate::{
    commit::{CommitKeyRecord, CommitView, LogView},
    document::{DocumentRef, DocumentState, DocumentView, DocumentWriteView},
    error::{Error, Result},
    event::{EventKeyRecord, EventView, Scope, ScopeState, StoredEvent},
    id::{CommitKey, EntryId, EventId, EventKey, OutboxId, RunId, TenantId, ThreadId, WriterId},
    json::Json,
    log::{EntryMarks, MarkSource, Node, NodeSource},
    mailbox::MailboxView,
    outbox::{OutboxList, OutboxPosition, OutboxView, StoredOutboxRow},
    page::CursorKey,
    pending::{DecisionRecord, StoredInput},
    run::Run,
    thread::{StoredThread, ThreadIdRecord},
};

/// A view of one thread and of the records of its tenant: what the overlay has, and otherwise what is stored.
pub struct OverlayView<'a> {
    overlay: &'a Overlay,
    stored: &'a dyn CommitView,
    thread_id: &'a ThreadId,
}

impl std::fmt::Debug for OverlayView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OverlayView").field("thread", &self.thread_id).finish_non_exhaustive()
    }
}

impl<'a> OverlayView<'a> {
    /// Lays `overlay` over the view `stored` of the thread.
    #[must_use]
    pub const fn new(overlay: &'a Overlay, stored: &'a dyn CommitView, thread_id: &'a ThreadId) -> Self {
        Self { overlay, stored, thread_id }
    }

    fn thread_overlay(&self) -> Option<&'a ThreadOverlay> {
        self.overlay.threads.get(self.thread_id)
    }

    /// Returns the view of what is stored of the thread, unless the overlay has all of it.
    fn stored_of_thread(&self) -> Option<&'a dyn CommitView> {
        (!self.overlay.is_whole(self.thread_id)).then_some(self.stored)
    }

    /// Returns the view of what is stored of the thread, unless that is of an earlier thread with this id. A whole
    /// thread may have records that are only there.
    fn stored_records(&self) -> Option<&'a dyn CommitView> {
        (!self.overlay.hides_stored(self.thread_id)).then_some(self.stored)
    }

    /// Returns the node and the id of an entry, if the overlay has them.
    fn overlaid_node(&self, seq: u64) -> Option<(&'a Node, &'a EntryId)> {
        let overlay = self.thread_overlay()?;
        match overlay.entries.get(&seq) {
            Some((_, planned)) => Some((&planned.node, &planned.entry.id)),
            None => overlay.applied_nodes.get(&seq).map(|(node, id)| (node, id)),
        }
    }
}

impl NodeSource for OverlayView<'_> {
    fn node(&self, seq: u64) -> Result<Node> {
        match self.overlaid_node(seq) {
            Some((node, _)) => Ok(node.clone()),
            None => match self.stored_records() {
                Some(stored) => stored.node(seq),
                None => Err(Error::corrupt(format!("entry {seq} of the log does not exist"))),
            },
        }
    }
}

impl MarkSource for OverlayView<'_> {
    fn marks(&self, seq: u64) -> Result<EntryMarks> {
        let Some(overlay) = self.thread_overlay() else { return self.stored.marks(seq) };
        // The store behind does not know an entry that only the overlay has.
        let is_known = overlay.entries.contains_key(&seq) || overlay.applied_nodes.contains_key(&seq);
        match (overlay.marks.get(&seq), self.stored_records()) {
            (Some((_, marks)), _) => Ok(marks.clone()),
            (None, Some(stored)) if !is_known => stored.marks(seq),
            (None, _) => Ok(EntryMarks::default()),
        }
    }
}

impl LogView for OverlayView<'_> {
    fn entry(&self, id: &EntryId) -> Result<Option<u64>> {
        match self.thread_overlay().and_then(|overlay| overlay.entry_seqs.get(id)) {
            Some(seq) => Ok(Some(*seq)),
            None => self.stored_of_thread().map_or(Ok(None), |stored| stored.entry(id)),
        }
    }

    fn entry_id(&self, seq: u64) -> Result<EntryId> {
        match self.overlaid_node(seq) {
            Some((_, id)) => Ok(id.clone()),
            None => match self.stored_records() {
                Some(stored) => stored.entry_id(seq),
                None => Err(Error::corrupt(format!("entry {seq} of the log does not exist"))),
            },
        }
    }

    /// The caller has made sure that no delta of the overlay names a checkpoint ([`Overlay::newest_naming`]).
    fn snapshot(&self, name: &str) -> Result<Option<u64>> {
        if self.overlay.hides_stored(self.thread_id) { Ok(None) } else { self.stored.snapshot(name) }
    }
}

impl DocumentView for OverlayView<'_> {
    fn document(&self, document: &DocumentRef) -> Result<Option<DocumentState>> {
        match self.overlay.documents.get(document) {
            Some((_, written)) => Ok(written.as_ref().map(|stored| stored.state())),
            None if document.scope.thread().is_some_and(|thread| self.overlay.hides_stored(thread)) => Ok(None),
            None => self.stored.document(document),
        }
    }

    /// The store behind does not number again what it has given, unless it lost numbers that it gave without a write.
    /// A document keeps a revision that is larger than every earlier one then, too (DO-3).
    fn next_document_revision(&self) -> Result<u64> {
        Ok(self.stored.next_document_revision()?.max(self.overlay.document_revision + 1))
    }
}

impl EventView for OverlayView<'_> {
    fn scope(&self, scope: &Scope) -> Result<ScopeState> {
        match self.overlay.scopes.get(scope) {
            // The scope may have been trimmed since.
            Some((_, state)) => Ok(state.clone().after_trim(self.stored.scope(scope)?.floor)),
            None => self.stored.scope(scope),
        }
    }

    fn event_key(&self, writer: &WriterId, key: &EventKey) -> Result<Option<EventKeyRecord>> {
        match self.overlay.event_keys.get(&(writer.clone(), key.clone())) {
            Some((_, record)) => Ok(Some(record.clone())),
            None => self.stored.event_key(writer, key),
        }
    }

    fn event(&self, id: &EventId) -> Result<Option<StoredEvent>> {
        match self.overlay.events.get(id) {
            Some((_, stored)) => Ok(Some(stored.clone())),
            None => self.stored.event(id),
        }
    }

    fn tenant_and_cursor_key(&self) -> (&TenantId, &CursorKey) {
        self.stored.tenant_and_cursor_key()
    }
}

impl OutboxView for OverlayView<'_> {
    fn row(&self, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        match self.overlay.rows.get(id) {
            Some((_, row)) => Ok(Some(row.clone())),
            None => self.stored.row(id),
        }
    }

    /// Of the lists that a plan reads, new rows are in that of their dedupe key.
    fn next(&self, list: &OutboxList, after: Option<&OutboxPosition>) -> Result<Option<OutboxPosition>> {
        if let (OutboxList::Keyed(lane, target, key), None) = (list, after)
            && let Some((_, id)) = self.overlay.keyed_rows.get(&(lane.clone(), target.clone(), key.clone()))
        {
            return Ok(Some(OutboxPosition { rank: (0, 0), id: id.clone() }));
        }
        self.stored.next(list, after)
    }

    /// Of the lists that a plan reads, new rows are at the end of that of their order group.
    fn last(&self, list: &OutboxList) -> Result<Option<OutboxPosition>> {
        if let OutboxList::AllOfGroup(group) = list
            && let Some((_, (number, id))) = self.overlay.last_of_groups.get(group)
        {
            return Ok(Some(OutboxPosition { rank: (*number, 0), id: id.clone() }));
        }
        self.stored.last(list)
    }
}

impl CommitView for OverlayView<'_> {
    fn incarnation(&self) -> u64 {
        self.stored.incarnation()
    }

    /// Returns none: a claim is in no stream, so it cannot be checked in the step that makes a delta durable.
    fn fenced_mailbox(&self) -> Option<&dyn MailboxView> {
        None
    }

    fn id_record(&self) -> Result<ThreadIdRecord> {
        match self.thread_overlay().and_then(|overlay| overlay.id_record.as_ref()) {
            Some((_, record)) => Ok(record.clone()),
            None => self.stored.id_record(),
        }
    }

    fn thread(&self) -> Result<Option<StoredThread>> {
        match self.overlay.stored_thread(self.thread_id) {
            Some(thread) => Ok(thread.cloned()),
            None => self.stored.thread(),
        }
    }

    fn key(&self, key: &CommitKey) -> Result<Option<CommitKeyRecord>> {
        match self.thread_overlay().and_then(|overlay| overlay.keys.get(key)) {
            Some((_, Some(record))) => Ok(Some(record.clone())),
            Some((_, None)) => self.stored.key(key),
            None => self.stored_of_thread().map_or(Ok(None), |stored| stored.key(key)),
        }
    }

    fn thread_exists(&self, id: &ThreadId) -> Result<bool> {
        match self.overlay.stored_thread(id) {
            Some(thread) => Ok(thread.is_some()),
            None => self.stored.thread_exists(id),
        }
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>> {
        match self.overlay.run(id) {
            Some(run) => Ok(Some(run.clone())),
            None => Ok(self.stored.run(id)?.filter(|run| !self.overlay.hides_stored(&run.thread))),
        }
    }

    fn state(&self, key: &str) -> Result<Option<Json>> {
        let Some(overlay) = self.thread_overlay() else { return self.stored.state(key) };
        match (overlay.state.get(key), self.stored_of_thread()) {
            (Some((_, value)), _) => Ok(value.clone()),
            (None, Some(stored)) if overlay.state_cleared.is_none() => stored.state(key),
            (None, _) => Ok(None),
        }
    }

    fn pending(&self, id: &EntryId) -> Result<Option<StoredInput>> {
        let Some(overlay) = self.thread_overlay() else { return self.stored.pending(id) };
        let input = match (overlay.inputs.get(id), self.stored_of_thread()) {
            (Some((_, input)), _) => input.clone(),
            (None, Some(stored)) => stored.pending(id)?,
            (None, None) => None,
        };
        let rank = overlay.ranks.get(id).map(|(_, rank)| *rank);
        Ok(input.map(|stored| StoredInput { rank: rank.unwrap_or(stored.rank), ..stored }))
    }

    fn decision(&self, run: &RunId, ticket: &str) -> Result<Option<DecisionRecord>> {
        let Some(overlay) = self.thread_overlay() else { return self.stored.decision(run, ticket) };
        match (overlay.decisions.get(&(run.clone(), ticket.to_owned())), self.stored_of_thread()) {
            (Some((_, record)), _) => Ok(Some(record.clone())),
            (None, Some(stored)) => stored.decision(run, ticket),
            (None, None) => Ok(None),
        }
    }

    fn queue(&self) -> Result<Vec<EntryId>> {
        let Some(overlay) = self.thread_overlay() else { return self.stored.queue() };
        let mut ids = self.stored_of_thread().map_or_else(|| Ok(Vec::new()), CommitView::queue)?;
        ids.extend(overlay.inputs.keys().cloned());
        ids.sort();
        ids.dedup();
        let mut ranked = Vec::new();
        for id in ids {
            ranked.extend(self.pending(&id)?.map(|stored| (stored.rank, id)));
        }
        ranked.sort();
        Ok(ranked.into_iter().map(|(_, id)| id).collect())
    }
}

impl DocumentWriteView for OverlayView<'_> {
    fn has_thread(&self, thread: &ThreadId) -> Result<bool> {
        match self.overlay.stored_thread(thread) {
            Some(stored) => Ok(stored.is_some()),
            None => Ok(self.stored.thread()?.is_some()),
        }
    }

    fn id_record(&self, _thread: &ThreadId) -> Result<ThreadIdRecord> {
        CommitView::id_record(self)
    }

    fn fenced_mailbox(&self) -> Option<&dyn MailboxView> {
        None
    }
}
