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

/// Reads the logs of threads. It is written by [`CommitCoordinator::commit`](crate::CommitCoordinator::commit) only.
#[async_trait]
pub trait LogReader: Send + Sync {
    /// Loads one entry.
    ///
    /// # Guarantees
    /// - None for an unknown thread or entry, without reading other entries (EN-15).
    /// - Every body and block comes back equal (EN-17).
    ///
    /// # Errors
    /// `Corrupt` if its bytes are damaged.
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>>;

    /// Lists entries of a log, in pages.
    ///
    /// # Guarantees
    /// - Sequence numbers are dense from 1 (EN-1); entries never change (EN-2).
    /// - The last page of a long log costs what the first costs (EN-14).
    /// - With `path_of`, the path from the root to that entry, from either end (EN-12).
    /// - An unknown thread or entry gives an empty page (PG-2).
    ///
    /// # Errors
    /// `Invalid` for a bad limit; `InvalidCursor` for a cursor of another query or of a deleted thread.
    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>>;

    /// Lists the ends of the branches by sequence, each with its path length and time (EN-11).
    ///
    /// # Errors
    /// As [`list_entries`](Self::list_entries).
    async fn list_leaves(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Leaf>>;

    /// Lists where the log branches, by sequence (EN-31).
    ///
    /// # Errors
    /// As [`list_entries`](Self::list_entries).
    async fn list_branch_points(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BranchPoint>>;

    /// Lists the checkpoints that have a name, by name, then by sequence (EN-30).
    ///
    /// # Errors
    /// As [`list_entries`](Self::list_entries).
    async fn list_snapshots(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Snapshot>>;

    /// Loads what a leaf sends to a model, with the thread, its state and its runs, as of one moment.
    ///
    /// # Guarantees
    /// - No commit shows in one part and not in another (CX-13).
    /// - The context is that of the entry's path only (CX-1 to CX-9), and never changes (CX-11).
    /// - The time grows with the path after the last compaction that begins at a root, not with the log (CX-12).
    ///
    /// # Errors
    /// `NotFound` for an unknown thread, and for an unknown entry, naming it (CX-14).
    async fn load_context(&self, thread: &ThreadId, request: ContextRequest) -> Result<ThreadContext>;
}
