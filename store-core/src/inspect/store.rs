//! The contract for checks and repairs of a whole store.

use async_trait::async_trait;

use super::Inspection;
use crate::{error::Result, progress::Progress};

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
    /// What keeps it from reading or writing. After an `Unknown` outcome: call it again.
    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection>;
}
