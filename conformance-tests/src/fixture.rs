//! How the suite opens a store, and what it may do to it.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{Capabilities, Limits, Result, Store};

use crate::case::Need;

/// A store that was opened for a case, and what must live as long.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Dropped after the store: a temporary folder, a schema, a clock.
    pub guard: Box<dyn Any + Send + Sync>,
}

impl Opened {
    /// `store`, with a guard to be dropped after it.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, guard: impl Any + Send + Sync) -> Self {
        Self { store, guard: Box::new(guard) }
    }

    /// The guard, if it is a `G`.
    #[must_use]
    pub fn guard<G: Any>(&self) -> Option<&G> {
        self.guard.downcast_ref()
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

/// Why a case that needs something does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// The backend does not have it, and says so.
    Unsupported(&'static str),
    /// The backend has it, but it cannot be had here.
    NotRun(&'static str),
}

/// A case that is known to fail, with the reason. One that passes is a failure: the list only shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The name of the case, as `thread::update_keeps_what_it_does_not_name`.
    pub case: &'static str,
    /// Why it fails.
    pub reason: &'static str,
}

/// What a backend gives to be tested.
///
/// Abilities are declared, not tried: [`lack`](Self::lack) says which needs of cases are not met, and the methods that
/// serve such a need are then never called.
#[async_trait]
pub trait Fixture: Send + Sync + 'static {
    /// What the report calls the store: the backend and its settings.
    fn name(&self) -> String;

    /// What the store declares to give. A case compares it with what the opened store says (PR-1).
    fn capabilities(&self) -> Capabilities;

    /// Whether cases with this need cannot run, and why.
    fn lack(&self, need: Need) -> Option<Lack>;

    /// Cases that are known to fail.
    fn gaps(&self) -> Vec<Gap>;

    /// Opens a new, empty store with these limits. They are the default ones unless a case has [`Need::Limits`].
    async fn open(&self, limits: Limits) -> Result<Opened>;

    /// Opens the store again, with everything that it kept ([`Need::Reopen`]). The suite has closed it, or has dropped
    /// every handle of it; then another one, that is closed, stands in its place.
    async fn reopen(&self, opened: Opened) -> Result<Opened>;

    /// Opens the store again while it is open, in this process ([`Need::Beside`]).
    async fn open_beside(&self, opened: &Opened) -> Result<Arc<dyn Store>>;

    /// Moves the store's time forward ([`Need::Time`]).
    async fn advance(&self, opened: &Opened, by: Duration);

    /// Moves the store's time back ([`Need::Time`]).
    async fn set_back(&self, opened: &Opened, by: Duration);

    /// Changes one stored byte of the closed store, which `seed` chooses, and opens it again ([`Need::Damage`]). The
    /// error is that of the opening.
    async fn damage(&self, opened: Opened, seed: u64) -> Result<Opened>;
}
