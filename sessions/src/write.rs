//! Writes a session to its thread: new entries in batches, each under a commit key, and the head at the end.

use std::collections::BTreeSet;

use store_core::{
    Commit, CommitCoordinator, CommitKey, Detail, EntryId, Expect, ImportOrigin, NewBody, NewEntry, ParentRef,
    RewindTo, ThreadId,
};

use crate::{
    error::Result,
    issue::Issues,
    session::{Draft, Session, SessionInfo, StoredEntries, short_digest},
};

const MAX_BATCH_ENTRIES: usize = 1_000;
const MAX_BATCH_BYTES: u64 = 8 << 20;

/// What the drafts of a session contain, and what was written of them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The number of entries that represent the source.
    pub(crate) entries: u64,
    /// How many of them were written.
    pub(crate) added: u64,
    /// How many of them are messages.
    pub(crate) messages: u64,
    leaves: BTreeSet<EntryId>,
    /// The entry that is the head after the drafts that were counted.
    implied_head: Option<EntryId>,
}

impl Tally {
    /// The number of leaves.
    pub(crate) fn leaves(&self) -> u64 {
        u64::try_from(self.leaves.len()).unwrap_or(u64::MAX)
    }

    fn count(&mut self, entry: &NewEntry) {
        self.entries += 1;
        self.messages += u64::from(matches!(entry.body, NewBody::Message(_)));
        match &entry.body {
            NewBody::Rewind(RewindTo::Entry(to)) => self.implied_head = Some(to.clone()),
            NewBody::Rewind(_) => self.implied_head = None,
            _ if entry.is_side() => {}
            _ => {
                if let ParentRef::Entry(parent) = &entry.parent {
                    self.leaves.remove(parent);
                }
                self.leaves.extend(entry.id.clone());
                self.implied_head.clone_from(&entry.id);
            }
        }
    }
}

/// Reads all drafts and writes nothing, to find every issue before anything is written.
pub(crate) fn dry_run(session: &dyn Session, stored: &StoredEntries, issues: &mut Issues) -> Result<Tally> {
    let mut drafts = session.drafts(stored)?;
    let mut tally = Tally::default();
    while let Some(draft) = drafts.next(issues)? {
        tally.count(&draft.entry);
    }
    Ok(tally)
}

/// Writes the entries that the thread does not contain yet.
pub(crate) async fn write(
    commits: &dyn CommitCoordinator,
    session: &dyn Session,
    target: (&ThreadId, &StoredEntries),
    issues: &mut Issues,
) -> Result<Tally> {
    let (thread, stored) = target;
    let mut drafts = session.drafts(stored)?;
    let mut tally = Tally::default();
    let mut batches = BatchWriter::new(commits, session.info(), thread, stored.provenance.is_none());
    while let Some(draft) = drafts.next(issues)? {
        let at = tally.entries;
        tally.count(&draft.entry);
        if !draft.entry.id.as_ref().is_some_and(|id| stored.has_imported(id)) {
            batches.push(at, draft).await?;
        }
    }
    let head = session.head(stored);
    if head != tally.implied_head
        && let Some(draft) = head_rewind(session.info(), head)
    {
        let at = tally.entries;
        tally.entries += 1;
        if !draft.entry.id.as_ref().is_some_and(|id| stored.has_imported(id)) {
            batches.push(at, draft).await?;
        }
    }
    batches.flush().await?;
    // Entries of lines that changed after they were imported stay in the log, and the last of them may be the head.
    if batches.written > 0
        && stored.provenance.is_some()
        && stored.foreign.is_empty()
        && let Some(draft) = batches.mend_head(session.head(stored)).await?
        && !draft.entry.id.as_ref().is_some_and(|id| stored.has_imported(id))
    {
        batches.push(tally.entries + 1, draft).await?;
        batches.flush().await?;
    }
    tally.added = batches.written;
    Ok(tally)
}

/// Returns the entry that moves the head to `head`, or to before the first entry. The entry corresponds to no line.
fn head_rewind(info: &SessionInfo, head: Option<EntryId>) -> Option<Draft> {
    let to = head.map_or(RewindTo::Start, RewindTo::Entry);
    let id = EntryId::new(format!("L0#head.{}", short_digest(&info.provenance.digest()))).ok()?;
    let entry =
        NewEntry::new(to).with_id(id).with_parent(ParentRef::Root).with_origin(ImportOrigin::new(info.format, 0));
    Some(Draft { entry, bytes: 0 })
}

/// Collects entries and commits them in batches.
struct BatchWriter<'a> {
    commits: &'a dyn CommitCoordinator,
    info: &'a SessionInfo,
    thread: &'a ThreadId,
    digest: String,
    /// Whether the next commit creates the thread.
    is_new: bool,
    /// The position of the first entry of the batch among all drafts.
    first: u64,
    entries: Vec<NewEntry>,
    bytes: u64,
    /// The number of entries that were written.
    written: u64,
}

impl<'a> BatchWriter<'a> {
    fn new(commits: &'a dyn CommitCoordinator, info: &'a SessionInfo, thread: &'a ThreadId, is_new: bool) -> Self {
        let digest = info.provenance.digest();
        Self { commits, info, thread, digest, is_new, first: 0, entries: Vec::new(), bytes: 0, written: 0 }
    }

    async fn push(&mut self, at: u64, draft: Draft) -> Result<()> {
        if self.entries.len() >= MAX_BATCH_ENTRIES || (self.bytes > 0 && self.bytes + draft.bytes > MAX_BATCH_BYTES) {
            self.flush().await?;
        }
        if self.entries.is_empty() {
            self.first = at;
        }
        self.bytes += draft.bytes;
        self.entries.push(draft.entry);
        Ok(())
    }

    /// Commits the batch. Its commit key names the position of its first entry among all drafts. An interrupted
    /// import continues with the first missing entry, which is where one of its batches began, so that the keys of
    /// both imports agree.
    async fn flush(&mut self) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.entries);
        self.bytes = 0;
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let key = CommitKey::new(format!("import:{}:{}:{}", self.info.format, self.digest, self.first))?;
        let commit = Commit::new(self.thread.clone()).with_key(key).entries(entries);
        let receipt = if std::mem::take(&mut self.is_new) {
            self.create(commit).await?
        } else {
            self.commits.commit(commit).await?
        };
        if !receipt.deduplicated {
            self.written += count;
        }
        Ok(())
    }

    /// The entry that moves the head of the thread to `head`, if it is elsewhere.
    async fn mend_head(&self, head: Option<EntryId>) -> Result<Option<Draft>> {
        let thread = self.commits.threads().load_thread(self.thread).await?;
        let is_elsewhere = thread.is_some_and(|thread| thread.head != head);
        Ok(if is_elsewhere { head_rewind(self.info, head) } else { None })
    }

    async fn create(&self, commit: Commit) -> Result<store_core::Receipt> {
        let commit = commit.expecting(Expect::Absent).creating(self.info.fields.clone());
        let Some(at) = self.info.created_at else { return Ok(self.commits.commit(commit).await?) };
        match self.commits.commit(commit.clone().at(at)).await {
            // The store refuses a creation time that is later than its own time. A machine whose clock is ahead may
            // have written such a time. The thread is then created with the time of the store.
            Err(e) if matches!(e.detail(), Detail::Invalid { what, .. } if what == "at") => {
                Ok(self.commits.commit(commit).await?)
            }
            other => Ok(other?),
        }
    }
}
