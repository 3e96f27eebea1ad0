//! The progress of long operations.

use std::fmt;

/// Receives the progress of a long operation, and can stop it between two batches (PR-17).
///
/// ```
/// use store_core::Progress;
///
/// #[derive(Debug)]
/// struct FirstThousand;
///
/// impl Progress for FirstThousand {
///     fn advance(&self, done: u64, total: Option<u64>) -> bool {
///         println!("{done} of {}", total.map_or_else(|| "?".to_owned(), |total| total.to_string()));
///         done < 1_000
///     }
/// }
/// ```
pub trait Progress: fmt::Debug + Send + Sync {
    /// Called when `done` of `total` pieces of work are done. `total` is `None` if it is unknown. Return false to stop.
    fn advance(&self, done: u64, total: Option<u64>) -> bool;
}

/// Ignores the progress and never stops the operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct IgnoreProgress;

impl Progress for IgnoreProgress {
    fn advance(&self, _done: u64, _total: Option<u64>) -> bool {
        true
    }
}
