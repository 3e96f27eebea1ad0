//! The contract of checks and repairs of a whole store.

use async_trait::async_trait;

use super::Inspection;
use crate::{error::Result, progress::Progress};

/// Checks and repairs a whole store.
#[async_trait]
pub trait Inspector: Send + Sync {
    /// Reads everything and reports each case of damage and where it is. Changes nothing (VF-1).
    ///
    /// # Errors
    /// Any error that prevents the inspection itself. Damage is not an error but a finding.
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection>;

    /// Rebuilds what can be derived from other records. Never changes an entry, a run or a thread that was accepted
    /// (VF-5).
    ///
    /// With `dry_run` it reports what it would do.
    ///
    /// # Errors
    /// Any error that prevents the repair itself. After an `Unknown` outcome, call it again.
    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection>;
}
