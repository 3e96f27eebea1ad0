//! Helpers that build parts of commits.

use store_core::{Commit, NewEntry, StateChange};

/// Returns the change with `clear` set, so that it first clears the state.
pub(super) fn clear_state_first(mut change: StateChange) -> StateChange {
    change.clear = true;
    change
}

/// Replaces the entries of a commit.
pub(super) fn replace_entries(mut commit: Commit, entries: impl IntoIterator<Item = NewEntry>) -> Commit {
    commit.entries = entries.into_iter().collect();
    commit
}
