//! Helpers that build parts of commits.

use store_core::{Commit, NewEntry, StateChange};

/// The same change, which first clears the state.
pub(super) fn clearing(mut change: StateChange) -> StateChange {
    change.clear = true;
    change
}

/// The same commit with other entries.
pub(super) fn with_entries(mut commit: Commit, entries: impl IntoIterator<Item = NewEntry>) -> Commit {
    commit.entries = entries.into_iter().collect();
    commit
}
