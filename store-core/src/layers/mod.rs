//! Layers: contracts that core implements over documents and topics. No backend knows a layer.
//!
//! A layer loads documents, decides by a pure rule, and writes with the expectation that nothing has changed since. If
//! something has, it decides again.

pub mod profile;
pub mod registry;

use std::future::Future;

use crate::error::{Error, ErrorKind, Result};

/// How often a layer decides again because another writer was faster. Each time, at least one writer succeeds.
const MAX_CONFLICTS: u32 = 100;

/// How one attempt to write ended.
pub(crate) enum Attempt<T> {
    /// It was written.
    Done(T),
    /// Another writer changed what the decision relied on.
    Overtaken(Error),
}

impl<T> Attempt<T> {
    /// Returns how a write ended that expects only what the attempt itself has read.
    ///
    /// # Errors
    /// Every error except `Conflict`.
    pub(crate) fn of(written: Result<T>) -> Result<Self> {
        match written {
            Ok(value) => Ok(Self::Done(value)),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(Self::Overtaken(error)),
            Err(error) => Err(error),
        }
    }

    /// Converts the value of an attempt that succeeded.
    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Self::Done(value) => Attempt::Done(convert(value)),
            Self::Overtaken(error) => Attempt::Overtaken(error),
        }
    }
}

/// Repeats an attempt while other writers are faster, a bounded number of times.
///
/// # Errors
/// The error of the attempt; `Conflict` if other writers were always faster.
pub(crate) async fn repeat_if_overtaken<T, F>(mut attempt: impl FnMut() -> F + Send) -> Result<T>
where
    T: Send,
    F: Future<Output = Result<Attempt<T>>> + Send,
{
    let mut conflicts = 0;
    loop {
        match attempt().await? {
            Attempt::Done(value) => return Ok(value),
            Attempt::Overtaken(error) if conflicts == MAX_CONFLICTS => return Err(error),
            Attempt::Overtaken(_) => conflicts += 1,
        }
    }
}
