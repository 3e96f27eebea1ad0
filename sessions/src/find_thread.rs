//! Finds the thread that a session is written to.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use store_core::{BodyKind, Direction, EntryQuery, MAX_PAGE, PageRequest, Thread, ThreadId, Version};

use crate::{
    comparison,
    error::Result,
    formats,
    import::ImportTarget,
    issue::{IssueCode, Issues},
    provenance::Provenance,
    session::{Session, StoredEntries},
};

/// Threads with the id that a session of this import would get, if they were imported from other bytes. Many files may
/// have the same name, and so the same preferred id, for example in different folders. Without this list, the import of
/// each of these files would load the threads of all earlier ones from the store. Each thread has the format and the
/// provenance of its import.
#[derive(Debug, Default)]
pub(crate) struct ThreadsOfOtherFiles(Mutex<HashMap<ThreadId, (String, Provenance)>>);

impl ThreadsOfOtherFiles {
    fn note(&self, thread: ThreadId, imported_from: (String, Provenance)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(thread, imported_from);
    }

    /// Whether it is known that `thread` was not imported from `session`. If it may have been, it is removed from the
    /// list, so that the caller asks the store.
    fn is_of_other_file(&self, thread: &ThreadId, session: &dyn Session) -> Result<bool> {
        let mut threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((format, provenance)) = threads.get(thread) else { return Ok(false) };
        let may_be_same =
            session.info().has_session_id || (format == session.info().format && session.continues(provenance)?);
        if may_be_same {
            threads.remove(thread);
        }
        Ok(!may_be_same)
    }
}

fn other_bytes_issue(thread: &ThreadId) -> (IssueCode, String) {
    (IssueCode::ChangedFile, format!("thread `{thread}` was imported from other bytes"))
}

impl ImportTarget<'_> {
    /// Finds the thread of a session: one that was imported from the same bytes or their beginning, or else a new one.
    ///
    /// If a thread of the same session was imported from bytes that the source does not continue, the tool has
    /// rewritten its file since. The thread is then replaced if the options say so; otherwise the source is refused.
    pub(crate) async fn find_thread(&self, session: &dyn Session, issues: &mut Issues) -> Result<FoundThread> {
        let info = session.info();
        let mut conflict = None;
        for n in 1_u32.. {
            let id = candidate_id(&info.thread, n)?;
            if self.threads_of_other_files.is_of_other_file(&id, session)? {
                conflict = Some(other_bytes_issue(&id));
                continue;
            }
            let Some(thread) = self.threads.load_thread(&id).await? else {
                if let Some((code, detail)) = conflict {
                    issues.add_for_file(code, detail, "imported as a new thread");
                }
                return Ok(FoundThread::Target { thread: id, stored: StoredEntries::default(), replaced: None });
            };
            match self.load_provenance(&thread, info.format).await? {
                Some((format, provenance)) if format == info.format && session.continues(&provenance)? => {
                    let mut stored = self.load_stored(&id, provenance, session).await?;
                    stored.kept_head = thread.head.filter(|head| stored.foreign_entries.contains(head));
                    return Ok(FoundThread::Target { thread: id, stored, replaced: None });
                }
                Some((format, _)) if info.has_session_id => {
                    let comparison = comparison::compare(self.threads, &id, session).await?;
                    let detail = comparison.describe(&id, (&format, info.format));
                    // An older copy of the session has nothing that the thread does not have.
                    if !self.options.replace || comparison.session_is_older() {
                        issues.add_for_file(IssueCode::ChangedFile, detail, "refused");
                        return Ok(FoundThread::Refused);
                    }
                    let replaced = Some(ReplacedThread { version: thread.version, detail });
                    return Ok(FoundThread::Target { thread: id, stored: StoredEntries::default(), replaced });
                }
                Some(other) => {
                    conflict = Some(other_bytes_issue(&id));
                    self.threads_of_other_files.note(id, other);
                }
                None => conflict = conflict.or(Some((IssueCode::TakenId, format!("thread `{id}` has other content")))),
            }
        }
        Ok(FoundThread::Refused)
    }

    /// The newest provenance of a thread that was imported from this format or another version of it, and the name of
    /// that version.
    async fn load_provenance(&self, thread: &Thread, format: &str) -> Result<Option<(String, Provenance)>> {
        let mut query = EntryQuery::all().with_direction(Direction::Backward);
        query.kinds = Some(vec![BodyKind::Custom]);
        query.side = Some(true);
        query.page = PageRequest::first(MAX_PAGE);
        loop {
            let page = self.threads.list_entries(&thread.id, query.clone()).await?;
            let of_format = page.items.iter().filter_map(|entry| {
                let origin = entry.origin.as_ref().filter(|origin| formats::is_same_format(&origin.format, format))?;
                Some((origin.format.clone(), Provenance::read(entry)?))
            });
            if let Some(found) = of_format.into_iter().next() {
                return Ok(Some(found));
            }
            let Some(next) = page.next else { return Ok(None) };
            query.page = query.page.after(next);
        }
    }

    /// The ids and parents of the entries of a thread.
    async fn load_stored(
        &self,
        thread: &ThreadId,
        provenance: Provenance,
        session: &dyn Session,
    ) -> Result<StoredEntries> {
        let mut stored = StoredEntries::default();
        stored.provenance = Some(provenance);
        let mut query = EntryQuery::all().with_page(PageRequest::first(MAX_PAGE));
        loop {
            let page = self.threads.list_entries(thread, query.clone()).await?;
            page.items.iter().for_each(|entry| stored.add(session, entry, session.info().format));
            let Some(next) = page.next else { return Ok(stored) };
            query.page = query.page.after(next);
        }
    }
}

/// The thread that a session is written to.
pub(crate) enum FoundThread {
    /// The thread, what is stored in it, and the thread with the same id that it replaces.
    Target { thread: ThreadId, stored: StoredEntries, replaced: Option<ReplacedThread> },
    /// There is no thread, because the source is refused. The issues say why.
    Refused,
}

/// A thread that is deleted before its session is imported anew.
pub(crate) struct ReplacedThread {
    /// The version of the thread that was compared with the session.
    pub(crate) version: Version,
    /// How the session differs from the thread.
    pub(crate) detail: String,
}

/// The `n`th candidate for the id of a thread: first the id itself, then the id with the suffix `-n`.
fn candidate_id(id: &ThreadId, n: u32) -> Result<ThreadId> {
    if n == 1 {
        return Ok(id.clone());
    }
    let suffix = format!("-{n}");
    let mut end = id.as_str().len().min(store_core::MAX_ID_BYTES - suffix.len());
    while !id.as_str().is_char_boundary(end) {
        end -= 1;
    }
    Ok(ThreadId::new(format!("{}{suffix}", id.as_str().get(..end).unwrap_or_default()))?)
}
