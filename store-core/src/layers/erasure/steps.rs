//! The steps of an erasure, in their order.

use std::collections::BTreeSet;

use super::{
    record::Erased,
    rules,
    store::{ErasureLayer, clear},
};
use crate::{
    document::{DeleteDocuments, DocumentQuery},
    error::{ErrorKind, Result},
    event::{EventQuery, RedactEvent, Scope, TrimBefore, TrimRequest},
    ext::DocumentStoreExt,
    id::{EventId, RunId, ThreadId},
    layers::{
        audit::ResourceFilter,
        effect,
        profile::ProfileOwner,
        replay::{self, ReplayStreamRef},
        stream_checkpoint,
    },
    limits::length,
    log::Direction,
    mailbox::{DispatchFilter, DispatchQuery, Interrupt, Purge},
    outbox::{OutboxFilter, OutboxQuery, PurgeOutbox},
    page::{MAX_PAGE, PageRequest},
    progress::{IgnoreProgress, Progress},
    run::{RunFilter, RunQuery},
    thread::{ChildStrategy, DeleteRequest, ParentFilter, Thread, ThreadFilter, ThreadOrder, ThreadPatch, ThreadQuery},
    version::Expect,
};

/// An erasure that runs.
pub(super) struct Erasing<'a> {
    of: &'a ErasureLayer,
    replay: &'a [ReplayStreamRef],
    dry_run: bool,
    progress: &'a dyn Progress,
    erased: Erased,
    /// In a dry run, what was counted: descendants of several threads of a resource are counted once.
    counted: BTreeSet<ThreadId>,
}

/// A page after another one, if there is one.
fn page_after(cursor: crate::page::Cursor) -> PageRequest {
    PageRequest::first(MAX_PAGE).after(cursor)
}

impl<'a> Erasing<'a> {
    pub(super) fn new(
        of: &'a ErasureLayer,
        replay: &'a [ReplayStreamRef],
        dry_run: bool,
        progress: &'a dyn Progress,
    ) -> Self {
        Self { of, replay, dry_run, progress, erased: Erased::default(), counted: BTreeSet::new() }
    }

    /// Returns whether the progress lets the erasure go on.
    pub(super) fn goes_on(&mut self) -> bool {
        let done = length(self.erased.threads.len());
        self.erased.stopped = self.erased.stopped || !self.progress.advance(done, None);
        !self.erased.stopped
    }

    /// Ends the erasure: replay streams that the caller named are removed, and what the deletions of threads left.
    pub(super) async fn finish(mut self) -> Result<Erased> {
        if !self.erased.stopped {
            for stream in self.replay {
                self.erased.replay_records += replay::erase_stream(&self.of.layers, stream, self.dry_run).await?;
            }
        }
        if !self.dry_run {
            if let Some(blobs) = &self.of.blobs {
                self.erased.blobs += blobs.erase_noted_of_deleted().await?;
            }
            self.of.threads.purge_deleted(&IgnoreProgress).await?;
        }
        Ok(self.erased)
    }

    /// Erases a thread after its descendants, so that one that is left over can still be found.
    pub(super) async fn with_descendants(&mut self, root: Thread) -> Result<()> {
        let resource = root.resource_id.clone();
        // A thread is on the stack twice: its children are looked for, then it is erased.
        let mut stack = vec![(root, false)];
        while let Some((thread, has_children_done)) = stack.pop() {
            if self.erased.stopped || self.counted.contains(&thread.id) {
                continue;
            }
            if has_children_done {
                self.thread(&thread).await?;
                continue;
            }
            let id = thread.id.clone();
            stack.push((thread, true));
            for child in self.children(&id).await? {
                if rules::is_erased_with(&child, resource.as_ref()) {
                    stack.push((child, false));
                } else {
                    self.detach(&child).await?;
                }
            }
        }
        Ok(())
    }

    async fn children(&self, thread: &ThreadId) -> Result<Vec<Thread>> {
        let filter = ThreadFilter { parent: Some(ParentFilter::Of(thread.clone())), ..ThreadFilter::default() };
        let query = ThreadQuery::new(filter).ordered(ThreadOrder::Creation, Direction::Forward);
        let (mut found, mut next) = (Vec::new(), Some(PageRequest::first(MAX_PAGE)));
        while let Some(page) = next.take() {
            let page = self.of.threads.list_threads(query.clone().with_page(page)).await?;
            found.extend(page.items);
            next = page.next.map(page_after);
        }
        Ok(found)
    }

    async fn detach(&mut self, child: &Thread) -> Result<()> {
        if !self.dry_run {
            let patch = ThreadPatch { parent_thread_id: Some(None), ..ThreadPatch::default() };
            match self.of.threads.update_thread(&child.id, patch, Expect::Any).await {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                updated => updated?,
            };
        }
        if !self.erased.detached.contains(&child.id) {
            self.erased.detached.push(child.id.clone());
        }
        Ok(())
    }

    /// Erases a thread without children. Everything that is found by its runs comes before its deletion.
    async fn thread(&mut self, thread: &Thread) -> Result<()> {
        let id = &thread.id;
        self.dispatches(id).await?;
        let runs = self.runs(id).await?;
        self.before_deletion(id, &runs).await?;
        // Before the deletion, too: an erasure of the resource that goes on does not find a deleted thread.
        self.records_about(id).await?;
        if !self.dry_run && !self.delete(thread).await? {
            return Ok(());
        }
        self.erased.entries += thread.version.number();
        self.erased.runs += length(runs.len());
        self.erased.threads.push(id.clone());
        self.counted.insert(id.clone());
        if !self.dry_run {
            self.blobs(id).await?;
            // What a writer had written between the first look and the deletion.
            self.records_about(id).await?;
            self.dispatches(id).await?;
            self.outbox(id).await?;
            let events = self.events(id, &runs).await?;
            self.remove_events(id, &runs, &events).await?;
        }
        Ok(())
    }

    /// Removes what an earlier deletion of a thread has left: what is found by its id alone.
    pub(super) async fn remains(&mut self, id: &ThreadId) -> Result<()> {
        self.dispatches(id).await?;
        self.before_deletion(id, &[]).await?;
        self.records_about(id).await?;
        self.blobs(id).await
    }

    async fn before_deletion(&mut self, id: &ThreadId, runs: &[RunId]) -> Result<()> {
        let events = self.events(id, runs).await?;
        self.replay(id, runs, &events).await?;
        self.outbox(id).await?;
        self.remove_events(id, runs, &events).await?;
        match &self.of.blobs {
            Some(blobs) if self.dry_run => self.erased.blobs += blobs.count_of_thread_alone(id).await?,
            Some(blobs) => blobs.note_erasure(id).await?,
            None => {}
        }
        Ok(())
    }

    /// Removes the blobs of a thread that was deleted.
    async fn blobs(&mut self, id: &ThreadId) -> Result<()> {
        if let (Some(blobs), false) = (&self.of.blobs, self.dry_run) {
            self.erased.blobs += blobs.erase_noted(id).await?;
        }
        Ok(())
    }

    /// Removes what records of the tenant say about a thread.
    async fn records_about(&mut self, id: &ThreadId) -> Result<()> {
        for query in effect::entries_of(id)?.into_iter().chain([stream_checkpoint::entries_of(id)?]) {
            self.documents(query).await?;
        }
        for owner in rules::profiles_of(id) {
            self.profile(&owner).await?;
        }
        self.audit(&rules::audits_of(id)?).await
    }

    /// Deletes a thread. Returns false if another caller has deleted it, or has given it a child: its threads are
    /// looked for again then.
    async fn delete(&mut self, thread: &Thread) -> Result<bool> {
        let request = DeleteRequest { children: ChildStrategy::Reject, expect: Expect::Any };
        loop {
            match self.of.threads.delete_thread(&thread.id, request).await {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                Err(error) if error.kind() == ErrorKind::HasChildren => {
                    for child in self.children(&thread.id).await? {
                        if rules::is_erased_with(&child, thread.resource_id.as_ref()) {
                            Box::pin(self.with_descendants(child)).await?;
                        } else {
                            self.detach(&child).await?;
                        }
                    }
                }
                deleted => return deleted.map(|_| true),
            }
        }
    }

    async fn runs(&self, thread: &ThreadId) -> Result<Vec<RunId>> {
        let filter = RunFilter { thread: Some(thread.clone()), ..RunFilter::default() };
        let mut query = RunQuery { page: PageRequest::first(MAX_PAGE), ..RunQuery::new(filter) };
        let mut found = Vec::new();
        loop {
            let page = self.of.threads.list_runs(query.clone()).await?;
            found.extend(page.items.into_iter().map(|run| run.id));
            match page.next {
                Some(cursor) => query.page = page_after(cursor),
                None => return Ok(found),
            }
        }
    }

    /// Ends all dispatches of a thread and removes them, with the reasons and keys of its interrupts.
    async fn dispatches(&mut self, thread: &ThreadId) -> Result<()> {
        let Some(mailbox) = &self.of.stores.mailbox else { return Ok(()) };
        let mut query = DispatchQuery::new(DispatchFilter::of_thread(thread.clone()));
        query.page = PageRequest::first(MAX_PAGE);
        let count: u64 = mailbox.count_dispatches(Some(thread)).await?.total();
        if self.dry_run || (count == 0 && mailbox.load_epoch(thread).await? == 0) {
            self.erased.dispatches += count;
            return Ok(());
        }
        loop {
            mailbox.interrupt(Interrupt::new(thread.clone()).taking_over().forgetting()).await?;
            let mut ids = Vec::new();
            loop {
                let page = mailbox.list_dispatches(query.clone()).await?;
                ids.extend(page.items.into_iter().map(|dispatch| dispatch.id));
                match page.next {
                    Some(cursor) => query.page = page_after(cursor),
                    None => break,
                }
            }
            query.page = PageRequest::first(MAX_PAGE);
            let mut removed = 0;
            for ids in ids.chunks(usize::try_from(MAX_PAGE).unwrap_or(1)) {
                removed += mailbox.purge(Purge::of(ids.to_vec())).await?.removed;
            }
            self.erased.dispatches += removed;
            // Those that were enqueued after the interrupt have not ended.
            if removed >= length(ids.len()) {
                return Ok(());
            }
        }
    }

    async fn outbox(&mut self, thread: &ThreadId) -> Result<()> {
        let Some(outbox) = &self.of.stores.outbox else { return Ok(()) };
        let mut query = OutboxQuery::new(OutboxFilter::default());
        query.page = PageRequest::first(MAX_PAGE);
        loop {
            let page = outbox.list_outbox(query.clone()).await?;
            let rows = page.items.into_iter().filter(|row| row.thread == *thread);
            let ids: Vec<_> = rows.map(|row| row.id).collect();
            self.erased.outbox_rows += match (ids.is_empty(), self.dry_run) {
                (true, _) => 0,
                (false, true) => length(ids.len()),
                (false, false) => outbox.purge_outbox(PurgeOutbox::of(ids)).await?,
            };
            match page.next {
                Some(cursor) => query.page = page_after(cursor),
                None => return Ok(()),
            }
        }
    }

    /// The events of a thread and its runs.
    async fn events(&self, thread: &ThreadId, runs: &[RunId]) -> Result<BTreeSet<EventId>> {
        let mut found = BTreeSet::new();
        for scope in scopes(thread, runs) {
            let (query, mut next) = (EventQuery::new(scope), Some(PageRequest::first(MAX_PAGE)));
            while let Some(page) = next.take() {
                let page = self.of.layers.events.list_events(query.clone().with_page(page)).await?;
                found.extend(page.items.into_iter().map(|event| event.id));
                next = page.next.map(page_after);
            }
        }
        Ok(found)
    }

    /// Removes the content of events, and then the events from the scopes of the thread and its runs.
    async fn remove_events(&mut self, thread: &ThreadId, runs: &[RunId], events: &BTreeSet<EventId>) -> Result<()> {
        self.erased.events += length(events.len());
        if self.dry_run {
            return Ok(());
        }
        let ids: Vec<_> = events.iter().cloned().collect();
        for ids in ids.chunks(usize::try_from(MAX_PAGE).unwrap_or(1)) {
            self.of.layers.events.redact_events(ids.iter().cloned().map(RedactEvent::new).collect()).await?;
        }
        for scope in scopes(thread, runs) {
            if let Some(last) = self.of.layers.events.load_scope(&scope).await?.last {
                let trim = TrimRequest::new(scope, TrimBefore::Cursor(last));
                self.of.layers.events.trim_events(trim).await?;
            }
        }
        Ok(())
    }

    /// Removes the replay streams of a thread, and the bytes of records of other streams that were made from its
    /// events.
    async fn replay(&mut self, thread: &ThreadId, runs: &[RunId], events: &BTreeSet<EventId>) -> Result<()> {
        let layers = &self.of.layers;
        for stream in replay::streams(layers).await? {
            self.erased.replay_records += if rules::is_stream_of(&stream, thread, runs) {
                replay::erase_stream(layers, &stream, self.dry_run).await?
            } else {
                replay::erase_made_from(layers, &stream, events, self.dry_run).await?
            };
        }
        Ok(())
    }

    async fn documents(&mut self, query: DocumentQuery) -> Result<()> {
        let mut request = DeleteDocuments::new(query);
        request.dry_run = self.dry_run;
        self.erased.documents += self.of.layers.documents.delete_documents(request, &IgnoreProgress).await?.documents;
        Ok(())
    }

    /// Removes the values of a profile.
    pub(super) async fn profile(&mut self, owner: &ProfileOwner) -> Result<()> {
        self.erased.profile_values += clear(&self.of.profiles, owner, self.dry_run).await?;
        Ok(())
    }

    /// Removes the values from audit records.
    pub(super) async fn audit(&mut self, resources: &[ResourceFilter]) -> Result<()> {
        for log in &self.of.audits {
            for resource in resources {
                self.erased.audit_records += log.erase_values(resource, self.dry_run).await?;
            }
        }
        Ok(())
    }
}

fn scopes(thread: &ThreadId, runs: &[RunId]) -> impl Iterator<Item = Scope> {
    [Scope::Thread(thread.clone())].into_iter().chain(runs.iter().cloned().map(Scope::Run))
}
