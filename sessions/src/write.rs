//! Writes a session to its thread: new entries in batches, each under a commit key, and the head at the end.

use std::collections::BTreeSet;

use store_core::{
    Commit, CommitCoordinator, CommitKey, Detail, EntryId, Expect, ImportOrigin, NewBody, NewEntry, ParentRef,
    Progress, Receipt, RewindTo, Role, ThreadId, Timestamp, Visibility,
};

use crate::{
    activity::ActivityWriter,
    error::{Error, Result},
    issue::{IssueCode, Issues},
    session::{Draft, Session, SessionInfo, StoredEntries, short_digest},
};

const MAX_BATCH_ENTRIES: usize = 1_000;
/// The largest batch, in bytes of the source. While it is committed, it needs about fifteen times as much memory.
const MAX_BATCH_BYTES: u64 = 2 << 20;

/// What the drafts of a session contain, and what was written of them.
#[derive(Debug, Default)]
pub(crate) struct EntryCounts {
    /// The number of entries that represent the source.
    pub(crate) entries: u64,
    /// How many of them were written.
    pub(crate) added: u64,
    /// How many of them are messages.
    pub(crate) messages: u64,
    /// The newest time of an entry.
    pub(crate) newest_time: Option<Timestamp>,
    leaves: BTreeSet<EntryId>,
    /// The entry that is the head after the drafts that were counted.
    implied_head: Option<EntryId>,
}

impl EntryCounts {
    /// The number of leaves.
    pub(crate) fn leaves(&self) -> u64 {
        u64::try_from(self.leaves.len()).unwrap_or(u64::MAX)
    }

    fn add(&mut self, entry: &NewEntry) {
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
pub(crate) fn dry_run(session: &dyn Session, stored: &StoredEntries, issues: &mut Issues) -> Result<EntryCounts> {
    let mut drafts = session.drafts(stored)?;
    let mut counts = EntryCounts::default();
    let mut moves_head = false;
    while let Some(draft) = drafts.next(issues)? {
        counts.add(&draft.entry);
        moves_head |= moves_the_head(&draft.entry) && !is_stored(&draft.entry, session, stored);
    }
    // Only its issue is needed.
    let _kept_head = kept_head(stored, moves_head, issues);
    Ok(counts)
}

/// Whether a session contains a message of a conversation. Instructions for the model, and messages that the tool
/// itself adds to the context, do not count. Drafts are read up to the first message that counts.
pub(crate) fn has_conversation(session: &dyn Session, stored: &StoredEntries) -> Result<bool> {
    let mut drafts = session.drafts(stored)?;
    let mut issues = Issues::default();
    while let Some(draft) = drafts.next(&mut issues)? {
        if let NewBody::Message(message) = &draft.entry.body
            && message.role != Role::System
            && message.visibility != Visibility::Internal
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the entries that the thread does not contain yet.
pub(crate) async fn write(
    target: WriteTarget<'_>,
    session: &dyn Session,
    stored: &StoredEntries,
    issues: &mut Issues,
) -> Result<EntryCounts> {
    let mut drafts = session.drafts(stored)?;
    let mut counts = EntryCounts::default();
    let mut activity = ActivityWriter::new((target.commits, target.thread), session, stored);
    let mut batches = BatchWriter::new(target, session.info(), stored.provenance.is_none());
    activity.retract_dequeued().await?;
    let mut moves_head = false;
    while let Some(draft) = drafts.next(issues)? {
        let at = counts.entries;
        counts.add(&draft.entry);
        batches.note_draft(&draft)?;
        if !is_stored(&draft.entry, session, stored) {
            moves_head |= moves_the_head(&draft.entry);
            activity.note_missing(draft.entry.origin.as_ref().map_or(0, |origin| origin.line));
            batches.push(at, draft).await?;
        }
    }
    let kept_head = kept_head(stored, moves_head, issues);
    let head = kept_head.cloned().or_else(|| session.head(stored));
    // A head that no import wrote needs no rewind if the new entries do not move it.
    if head != counts.implied_head
        && (stored.kept_head.is_none() || kept_head.is_some())
        && let Some(draft) = head_rewind(session.info(), head)
    {
        let at = counts.entries;
        counts.entries += 1;
        if !is_stored(&draft.entry, session, stored) {
            batches.push(at, draft).await?;
        }
    }
    // The runs and the queued input are written before the last entry: see `ActivityWriter::write`.
    if !activity.is_empty() && batches.flush_all_but_last().await? {
        activity.write(batches.newest_time, issues).await?;
    }
    batches.flush().await?;
    // Entries of lines that changed after they were imported stay in the log, and the last of them may be the head.
    if batches.written > 0
        && stored.provenance.is_some()
        && stored.foreign_entries.is_empty()
        && let Some(draft) = batches.correct_head(session.head(stored)).await?
        && !draft.entry.id.as_ref().is_some_and(|id| stored.has_imported(session, id))
    {
        batches.push(counts.entries + 1, draft).await?;
        batches.flush().await?;
    }
    counts.added = batches.written;
    counts.newest_time = batches.newest_time;
    Ok(counts)
}

/// Whether an import wrote this entry.
fn is_stored(entry: &NewEntry, session: &dyn Session, stored: &StoredEntries) -> bool {
    entry.id.as_ref().is_some_and(|id| stored.has_imported(session, id))
}

/// Whether an entry moves the head.
fn moves_the_head(entry: &NewEntry) -> bool {
    matches!(entry.body, NewBody::Rewind(_)) || !entry.is_side()
}

/// The head of the thread, if no import wrote it and new entries would move it. The import does not move it.
fn kept_head<'a>(stored: &'a StoredEntries, moves_head: bool, issues: &mut Issues) -> Option<&'a EntryId> {
    let head = stored.kept_head.as_ref().filter(|_| moves_head)?;
    let detail = format!("the head of the thread is `{}`, which no import wrote", head.as_str());
    issues.add_for_file(IssueCode::HeadKept, detail, "the head stays; the new lines are another branch");
    Some(head)
}

/// Returns the entry that moves the head to `head`, or to before the first entry. The entry corresponds to no line.
fn head_rewind(info: &SessionInfo, head: Option<EntryId>) -> Option<Draft> {
    let to = head.map_or(RewindTo::Start, RewindTo::Entry);
    let id = EntryId::new(format!("L0#head.{}", short_digest(&info.provenance.digest()))).ok()?;
    let entry =
        NewEntry::new(to).with_id(id).with_parent(ParentRef::Root).with_origin(ImportOrigin::new(info.format, 0));
    Some(Draft { entry, bytes: 0 })
}

/// Where entries are written, and where the progress is reported.
pub(crate) struct WriteTarget<'a> {
    pub(crate) commits: &'a dyn CommitCoordinator,
    pub(crate) thread: &'a ThreadId,
    pub(crate) progress: &'a SourceProgress<'a>,
}

/// The progress of an import of several sources, in bytes.
pub(crate) struct SourceProgress<'a> {
    pub(crate) progress: &'a dyn Progress,
    /// The bytes of the files of the sources before this one.
    pub(crate) bytes_before: u64,
    /// The bytes of the files of this source.
    pub(crate) bytes: u64,
    /// The bytes of the files of all sources.
    pub(crate) total: u64,
}

impl SourceProgress<'_> {
    /// Reports that `done` bytes of the source are imported. For a compressed source, `done` may exceed the bytes of
    /// its file. Returns false if the import must stop.
    pub(crate) fn advance(&self, done: u64) -> bool {
        self.progress.advance(self.bytes_before + done.min(self.bytes), Some(self.total))
    }
}

/// Collects entries and commits them in batches.
struct BatchWriter<'a> {
    target: WriteTarget<'a>,
    info: &'a SessionInfo,
    digest: String,
    /// Whether the next commit creates the thread.
    is_new: bool,
    /// The position of the first entry of the batch among all drafts.
    first_position: u64,
    /// The position of its last entry.
    last_position: u64,
    entries: Vec<NewEntry>,
    bytes: u64,
    /// The number of entries that were written.
    written: u64,
    /// The newest time of all drafts so far.
    newest_time: Option<Timestamp>,
    /// The bytes of the source that all drafts so far represent.
    bytes_read: u64,
}

impl<'a> BatchWriter<'a> {
    fn new(target: WriteTarget<'a>, info: &'a SessionInfo, is_new: bool) -> Self {
        let digest = info.provenance.digest();
        Self {
            target,
            info,
            digest,
            is_new,
            first_position: 0,
            last_position: 0,
            entries: Vec::new(),
            bytes: 0,
            written: 0,
            newest_time: None,
            bytes_read: 0,
        }
    }

    /// Notes the time and the size of a draft, which may already be stored.
    fn note_draft(&mut self, draft: &Draft) -> Result<()> {
        self.newest_time = self.newest_time.max(draft.entry.timestamp);
        let full_batches = self.bytes_read / MAX_BATCH_BYTES;
        self.bytes_read += draft.bytes;
        if self.bytes_read / MAX_BATCH_BYTES > full_batches && !self.target.progress.advance(self.bytes_read) {
            return Err(Error::Stopped { path: self.info.file.clone() });
        }
        Ok(())
    }

    /// Adds an entry to the batch. The first entry of a new thread is committed by itself, because the time of its
    /// commit is the time at which the session was created.
    async fn push(&mut self, at: u64, draft: Draft) -> Result<()> {
        let batch_creates_thread = self.is_new && self.info.created_at.is_some() && !self.entries.is_empty();
        let is_full = self.entries.len() >= MAX_BATCH_ENTRIES;
        if batch_creates_thread || is_full || (self.bytes > 0 && self.bytes + draft.bytes > MAX_BATCH_BYTES) {
            self.flush().await?;
        }
        if self.entries.is_empty() {
            self.first_position = at;
        }
        self.last_position = at;
        self.bytes += draft.bytes;
        self.entries.push(draft.entry);
        Ok(())
    }

    /// Commits the batch without its last entry, which then begins a batch of its own. Returns false if there is no
    /// entry.
    async fn flush_all_but_last(&mut self) -> Result<bool> {
        let Some(last) = self.entries.pop() else { return Ok(false) };
        self.flush().await?;
        self.first_position = self.last_position;
        self.entries.push(last);
        Ok(true)
    }

    /// Commits the batch. Its commit key names the position of its first entry among all drafts. An interrupted
    /// import continues with the first missing entry. One of its batches began with this entry, so the keys of both
    /// imports agree.
    async fn flush(&mut self) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.entries);
        self.bytes = 0;
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let key = CommitKey::new(format!("import:{}:{}:{}", self.info.format, self.digest, self.first_position))?;
        // A batch of entries without times does not count as new activity.
        let last_activity = entries.iter().filter_map(|entry| entry.timestamp).max().or(self.newest_time);
        let mut commit = Commit::new(self.target.thread.clone()).with_key(key).entries(entries);
        let mut at = last_activity;
        if std::mem::take(&mut self.is_new) {
            commit = commit.expecting(Expect::Absent).creating(self.info.fields.clone());
            at = self.info.created_at.or(last_activity);
        }
        let receipt = commit_at(self.target.commits, commit, at).await?;
        if !receipt.deduplicated {
            self.written += count;
        }
        Ok(())
    }

    /// The entry that moves the head of the thread to `head`, if the head is elsewhere.
    async fn correct_head(&self, head: Option<EntryId>) -> Result<Option<Draft>> {
        let thread = self.target.commits.threads().load_thread(self.target.thread).await?;
        let is_elsewhere = thread.is_some_and(|thread| thread.head != head);
        Ok(if is_elsewhere { head_rewind(self.info, head) } else { None })
    }
}

/// Commits at a time of the source. The store refuses a time that is later than its own. A machine whose clock is ahead
/// may have written such a time. In that case, the commit gets the time of the store.
pub(crate) async fn commit_at(
    commits: &dyn CommitCoordinator,
    commit: Commit,
    at: Option<Timestamp>,
) -> Result<Receipt> {
    let Some(at) = at else { return Ok(commits.commit(commit).await?) };
    match commits.commit(commit.clone().at(at)).await {
        Err(e) if is_after_store_time(&e) => Ok(commits.commit(commit).await?),
        other => Ok(other?),
    }
}

/// Whether the store refused a time because it is later than its own.
pub(crate) fn is_after_store_time(error: &store_core::Error) -> bool {
    matches!(error.detail(), Detail::Invalid { what, .. } if what == "at")
}
