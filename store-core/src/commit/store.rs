//! The contract for writing to threads.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Commit, Receipt};
use crate::{error::Result, event::EventStore, outbox::OutboxStore, pending::PendingStore, thread::ThreadRunStore};

/// The only way to write entries, runs, thread state and outbox rows, and to consume pending input (CM-2).
#[async_trait]
pub trait CommitCoordinator: Send + Sync {
    /// Writes everything in `commit`, or nothing.
    ///
    /// # Guarantees
    /// - All or nothing for every reader, after a reopen and through a crash (CM-1).
    /// - Of several commits with the same `Version` guard and an entry exactly one succeeds (CM-5).
    /// - The same key with the same content again gives the first receipt and writes nothing (CM-10), also when both
    ///   come at once (CM-14).
    /// - The receipt's version, head and ids are those that the next read gives (CM-34).
    ///
    /// # Errors
    /// In the order of CM-43: `Invalid` and `LimitExceeded` naming the part; `NotFound` for a deleted thread (TH-23);
    /// `IdempotencyMismatch`; `ClaimLost` and `StaleEpoch` under a fence (CM-31, CM-32), `Unsupported` for a `settle`
    /// where the store keeps no mailbox beside its threads; `Conflict`; `InvalidTransition`, `Invalid`, `NotFound` and
    /// `AlreadyExists` of the run; `NotFound`, `AlreadyConsumed` and `Conflict` of what it consumes (CM-28);
    /// `AlreadyExists` for an entry id in use (EN-16), `Invalid` for a parent or target that does not fit.
    ///
    /// After an `Unknown` outcome: repeat it with its key (CM-17); without a key, load the thread and compare its
    /// version. A commit without entries leaves that as it is (CM-8): whether it was applied, only a key tells.
    async fn commit(&self, commit: Commit) -> Result<Receipt>;

    /// The very store that this coordinator commits to.
    fn threads(&self) -> Arc<dyn ThreadRunStore>;

    /// The very store whose input it consumes.
    fn pending(&self) -> Arc<dyn PendingStore>;

    /// The very store that its events go to.
    fn events(&self) -> Arc<dyn EventStore>;

    /// The very store that its outbox rows go to.
    fn outbox(&self) -> Arc<dyn OutboxStore>;
}
