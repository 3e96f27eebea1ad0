//! The contract for writing to threads.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Commit, Receipt};
use crate::{
    document::DocumentStore, error::Result, event::EventStore, outbox::OutboxStore, pending::PendingStore,
    thread::ThreadRunStore,
};

/// Writes to threads.
///
/// Entries, runs, thread state and outbox rows are written only through this contract, and pending input is consumed
/// only through it (CM-2).
#[async_trait]
pub trait CommitCoordinator: Send + Sync {
    /// Writes everything in `commit`, or nothing.
    ///
    /// # Guarantees
    /// - The commit takes effect in full or not at all. This holds for every reader, and even after a reopen or a crash
    ///   (CM-1).
    /// - Of several commits that append entries under the same `Version` guard, exactly one succeeds (CM-5).
    /// - A commit with the key and content of an earlier commit returns the first receipt and writes nothing (CM-10).
    ///   This also holds if both commits are concurrent (CM-14).
    /// - The next read returns the version, head and ids of the receipt (CM-34).
    ///
    /// # Errors
    /// In the order of CM-43:
    /// - `Invalid` and `LimitExceeded`, which name the part.
    /// - `NotFound` for a deleted thread (TH-23).
    /// - `IdempotencyMismatch`.
    /// - `ClaimLost` and `StaleEpoch` under a fence (CM-31, CM-32). `Unsupported` for a `settle` if the store keeps no
    ///   mailbox with its threads.
    /// - `Conflict`, for the version of the thread, the revision of its state, and then for the documents.
    /// - `InvalidTransition`, `Invalid`, `NotFound` and `AlreadyExists` for the run.
    /// - `NotFound`, `AlreadyConsumed` and `Conflict` for the consumed inputs (CM-28).
    /// - `AlreadyExists` for an entry id in use (EN-16), `Invalid` for a parent or target that is not allowed,
    ///   `NotFound` for an unknown checkpoint (EN-22).
    /// - `IdempotencyMismatch` for an event key that was used with other content, `Conflict` if an expectation about a
    ///   scope does not hold, and `IdempotencyMismatch` for a dedupe key of the outbox that is in use with other
    ///   content (CM-22).
    ///
    /// After an `Unknown` outcome, repeat the commit with its key (CM-17). Without a key, load the thread and compare
    /// its version. A commit without entries does not change the version (CM-8), so only a key shows whether it was
    /// applied.
    async fn commit(&self, commit: Commit) -> Result<Receipt>;

    /// Returns the thread store that the commits write to.
    fn threads(&self) -> Arc<dyn ThreadRunStore>;

    /// Returns the store of the pending input that the commits consume.
    fn pending(&self) -> Arc<dyn PendingStore>;

    /// Returns the store that the events of the commits are appended to.
    fn events(&self) -> Arc<dyn EventStore>;

    /// Returns the store that the outbox rows of the commits are written to.
    fn outbox(&self) -> Arc<dyn OutboxStore>;

    /// Returns the store that the documents of the commits are written to, if the store has documents.
    ///
    /// Without it, commits with documents, and events in topics, are refused with `Unsupported`.
    fn documents(&self) -> Option<Arc<dyn DocumentStore>>;
}
