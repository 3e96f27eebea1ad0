//! The contract for checks and repairs of a whole store.

use async_trait::async_trait;

use super::Inspection;
use crate::error::Result;

/// Hears how far a long operation is, and can stop it between batches (PR-17).
pub trait Progress: Send + Sync {
    /// `done` of `total` pieces of work are done, if the total is known. Return false to stop.
    fn advance(&self, done: u64, total: Option<u64>) -> bool;
}

/// Nobody listens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn advance(&self, _done: u64, _total: Option<u64>) -> bool {
        true
    }
}

/// Checks and repairs a whole store.
#[async_trait]
pub trait Inspector: Send + Sync {
    /// Reads everything and reports each damage with its place. Changes nothing (VF-1).
    ///
    /// # Errors
    /// What keeps it from reading at all; damage is no error but a finding.
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection>;

    /// Rebuilds what can be derived; never changes an entry, a run or a thread that was accepted (VF-5). With
    /// `dry_run` it says what it would do.
    ///
    /// # Errors
    /// What keeps it from reading or writing.
    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection>;
}
