//! The contract of checks and repairs of a whole store.

use async_trait::async_trait;

use super::Inspection;
use crate::{error::Result, progress::Progress};

/// Checks and repairs a whole store.
#[async_trait]
pub trait Inspector: Send + Sync {
    /// Reads everything and reports each case of damage with its place. Changes nothing (VF-1).
    ///
    /// # Errors
    /// Whatever prevents reading as a whole. Damage is no error but a finding.
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection>;

    /// Rebuilds what can be derived from other records. Never changes an entry, a run or a thread that was accepted
    /// (VF-5).
    ///
    /// With `dry_run` it reports what it would do.
    ///
    /// # Errors
    /// Whatever prevents reading or writing. After an `Unknown` outcome, call it again.
    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection>;
}
