//! Sessions: what a format makes of a source, and what the import does with it.

use std::path::PathBuf;

use store_core::{EntryId, NewEntry, ThreadFields, ThreadId, Timestamp};

pub(crate) use crate::stored_entries::{StoredEntries, StoredParent};
use crate::{activity::Activity, error::Result, issue::Issues, provenance::Provenance};

/// A session that the first pass has read. It becomes one thread.
///
/// The import leaves out drafts whose ids are already stored. It commits the others in batches, each under a commit
/// key, then moves the head to [`Session::head`], and writes the report.
pub(crate) trait Session: Send + Sync {
    /// What the first pass found out.
    fn info(&self) -> &SessionInfo;

    /// What the first pass found out, so that the import can set the parent of the thread.
    fn info_mut(&mut self) -> &mut SessionInfo;

    /// Whether the source begins with the bytes that a thread was imported from. `known` is the provenance of that
    /// thread.
    fn continues(&self, known: &Provenance) -> Result<bool>;

    /// Adopts the decisions of earlier imports, because stored entries cannot change. For example, an entry whose
    /// parent was not in the file when it was imported stays a root. The import calls this once, before the second
    /// pass.
    fn adopt(&mut self, _stored: &StoredEntries) {}

    /// The runs and the queued input of the source.
    fn activity(&self) -> &Activity {
        Activity::NONE
    }

    /// Starts the second pass. The stream contains every entry, including those that are already stored.
    fn drafts<'a>(&'a self, stored: &'a StoredEntries) -> Result<Box<dyn Drafts + 'a>>;

    /// The entry after which the program that writes the source would continue: a draft that is not a side entry.
    /// `None` means before the first entry.
    fn head(&self, stored: &StoredEntries) -> Option<EntryId>;

    /// The line whose entry gets this id in an import into a thread without other entries. `None` if this is not known;
    /// [`StoredEntries`] then needs more memory.
    fn usual_line(&self, _id: &EntryId) -> Option<u64> {
        None
    }
}

/// A stream of drafts. Reading it also notes the issues that only the second pass can find.
pub(crate) trait Drafts: Send {
    /// Returns the next draft, or `None` at the end.
    fn next(&mut self, issues: &mut Issues) -> Result<Option<Draft>>;
}

/// An entry that is not committed yet.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// The entry; its id is set.
    pub(crate) entry: NewEntry,
    /// How many bytes of the source the entry represents. The sizes of batches are computed from this.
    pub(crate) bytes: u64,
}

/// What the first pass found out about a session.
#[derive(Debug, Clone)]
pub(crate) struct SessionInfo {
    /// The file or folder, as reports name it.
    pub(crate) file: PathBuf,
    /// The name of the format, as in `ImportOrigin`.
    pub(crate) format: &'static str,
    /// The version that the source names.
    pub(crate) version: Option<String>,
    /// The preferred thread id. It gets a suffix if a thread with other content has this id.
    pub(crate) thread: ThreadId,
    /// Whether the id of the thread is the id of the session, and not only the name of a file. If it is, and the thread
    /// with this id was imported from other bytes, the tool has rewritten the session since.
    pub(crate) has_session_id: bool,
    /// Whether the thread is a child of the first thread of the same source.
    pub(crate) is_child: bool,
    /// The title, metadata and parent of the thread.
    pub(crate) fields: ThreadFields,
    /// When the session was created.
    pub(crate) created_at: Option<Timestamp>,
    /// The provenance of the files in their current state.
    pub(crate) provenance: Provenance,
}

impl SessionInfo {
    /// The number of lines of all files.
    pub(crate) fn lines(&self) -> u64 {
        self.provenance.files.iter().map(|file| file.lines).sum()
    }

    /// The number of bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.provenance.files.iter().map(|file| file.bytes).sum()
    }
}

/// A session, and the issues that the first pass found.
pub(crate) struct SessionWithIssues {
    /// The session.
    pub(crate) session: Box<dyn Session>,
    /// Its issues.
    pub(crate) issues: Issues,
}

/// The result of the first pass over a source.
pub(crate) enum FirstPassResult {
    /// The sessions that become threads, parents first.
    Sessions(Vec<SessionWithIssues>),
    /// The source is refused. The issues say why.
    Refused(Issues),
}

/// Returns a thread id made from the first of these texts that is a valid id.
pub(crate) fn first_valid_thread_id(texts: &[&str]) -> Result<ThreadId> {
    let mut found = ThreadId::new("");
    for text in texts {
        found = found.or_else(|_| ThreadId::new(text));
    }
    Ok(found?)
}

/// The first 12 digits of a hash. They are enough to distinguish the states of one file.
pub(crate) fn short_digest(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
