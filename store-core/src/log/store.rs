//! The contract for reading a thread's log.

use std::sync::Arc;

use async_trait::async_trait;

use super::{BranchPoint, Entry, EntryQuery, Leaf, Snapshot};
use crate::{
    context::{ContextRequest, ThreadContext},
    error::Result,
    id::{EntryId, ThreadId},
    page::{Page, PageRequest},
};

/// Reads the logs of threads.
///
/// Only [`CommitCoordinator::commit`](crate::CommitCoordinator::commit) writes them.
#[async_trait]
pub trait LogReader: Send + Sync {
    /// Loads one entry.
    ///
    /// # Guarantees
    /// - The entry is found without reading other entries. For an unknown thread or entry the result is none (EN-15).
    /// - Every body and every block is read back equal to what was written (EN-17).
    ///
    /// # Errors
    /// `Corrupt` if the bytes of the entry are damaged.
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>>;

    /// Lists entries of a log, page by page.
    ///
    /// # Guarantees
    /// - Sequence numbers begin at 1 and have no gaps (EN-1). Entries never change (EN-2).
    /// - The last page of a long log costs no more than the first (EN-14).
    /// - With `path_of`, the list is the path from the root to that entry. It can be read in both directions (EN-12).
    /// - For an unknown thread or entry the page is empty (PG-2).
    ///
    /// # Errors
    /// `Invalid` for an invalid limit; `InvalidCursor` for a cursor of another query or of a deleted thread.
    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>>;

    /// Lists the leaves by sequence number, each with its path length and time (EN-11).
    ///
    /// # Errors
    /// The same as for [`list_entries`](Self::list_entries).
    async fn list_leaves(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Leaf>>;

    /// Lists the branch points of the log, by sequence number (EN-31).
    ///
    /// # Errors
    /// The same as for [`list_entries`](Self::list_entries).
    async fn list_branch_points(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BranchPoint>>;

    /// Lists the checkpoints that have a name, by name and then by sequence number (EN-30).
    ///
    /// # Errors
    /// The same as for [`list_entries`](Self::list_entries).
    async fn list_snapshots(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Snapshot>>;

    /// Loads the context of a leaf together with the thread, its state and its runs. All parts are from the same
    /// moment.
    ///
    /// # Guarantees
    /// - A commit is visible in all parts of the result or in none (CX-13).
    /// - The context is made from the path of the entry alone (CX-1 to CX-9), and never changes (CX-11).
    /// - The duration of the call grows with the length of the path after the last compaction that begins at a root,
    ///   not with the length of the log (CX-12).
    ///
    /// # Errors
    /// `NotFound` for an unknown thread, and for an unknown entry, which the error names (CX-14).
    async fn load_context(&self, thread: &ThreadId, request: ContextRequest) -> Result<ThreadContext>;
}
