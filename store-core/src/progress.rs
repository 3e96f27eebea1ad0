//! How far long work is.

use std::fmt;

/// Hears how far a long operation is, and can stop it between batches (PR-17).
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
