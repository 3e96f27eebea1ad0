//! Limits on the sizes and numbers of records. A store may be opened with smaller limits than the defaults.

use crate::error::{Error, Result};

/// The limits of a store. The defaults are the largest limits that any store has (ER-9, ER-10).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one record: an entry, a run, a pending input, an event, a dispatch, an outbox row, a document,
    /// one value of the state. Default: 64 MiB.
    pub record_bytes: u64,
    /// Bytes of one commit or of one append of events, in all. Default: 128 MiB.
    pub commit_bytes: u64,
    /// Entries of one commit. Default: 1,000.
    pub commit_entries: u64,
    /// Pending inputs that one commit consumes. Default: 1,000.
    pub commit_inputs: u64,
    /// Events of one commit or of one append of events. Default: 1,000.
    pub commit_events: u64,
    /// Outbox rows of one commit, and outbox rows that one call names. Default: 1,000.
    pub commit_outbox: u64,
    /// Changes of documents in one commit or one write, and documents that one call loads. Default: 1,000.
    pub commit_documents: u64,
    /// Bytes of the values that one call loads, in all; one document is loaded whatever its size. Default: 128 MiB, so
    /// that one call can load what one commit or one write put.
    pub load_bytes: u64,
    /// Keys of the thread's state that one commit changes. Default: 1,000.
    pub commit_state_keys: u64,
    /// Bytes of a title, a label or an error text. Default: 1 KiB.
    pub text_bytes: u64,
    /// Bytes of a thread's metadata in all. Default: 64 KiB.
    pub metadata_bytes: u64,
    /// Keys of a thread's state. Default: 1,000.
    pub state_keys: u64,
    /// Bytes of a thread's state in all, keys and values. Default: 1 MiB.
    pub state_bytes: u64,
    /// Threads that one deletion changes. Default: 10,000.
    pub deletion_threads: u64,
    /// Open runs of a thread. Default: 64.
    pub open_runs: u64,
    /// Pending inputs of a thread. Default: 10,000.
    pub pending_inputs: u64,
    /// Dispatches in one call. Default: 1,000.
    pub call_dispatches: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            record_bytes: 64 << 20,
            commit_bytes: 128 << 20,
            commit_entries: 1_000,
            commit_inputs: 1_000,
            commit_events: 1_000,
            commit_outbox: 1_000,
            commit_documents: 1_000,
            load_bytes: 128 << 20,
            commit_state_keys: 1_000,
            text_bytes: 1 << 10,
            metadata_bytes: 64 << 10,
            state_keys: 1_000,
            state_bytes: 1 << 20,
            deletion_threads: 10_000,
            open_runs: 64,
            pending_inputs: 10_000,
            call_dispatches: 1_000,
        }
    }
}

impl Limits {
    /// Returns for each limit the smaller of the two values.
    #[must_use]
    pub fn at_most(&self, other: &Self) -> Self {
        Self {
            record_bytes: self.record_bytes.min(other.record_bytes),
            commit_bytes: self.commit_bytes.min(other.commit_bytes),
            commit_entries: self.commit_entries.min(other.commit_entries),
            commit_inputs: self.commit_inputs.min(other.commit_inputs),
            commit_events: self.commit_events.min(other.commit_events),
            commit_outbox: self.commit_outbox.min(other.commit_outbox),
            commit_documents: self.commit_documents.min(other.commit_documents),
            load_bytes: self.load_bytes.min(other.load_bytes),
            commit_state_keys: self.commit_state_keys.min(other.commit_state_keys),
            text_bytes: self.text_bytes.min(other.text_bytes),
            metadata_bytes: self.metadata_bytes.min(other.metadata_bytes),
            state_keys: self.state_keys.min(other.state_keys),
            state_bytes: self.state_bytes.min(other.state_bytes),
            deletion_threads: self.deletion_threads.min(other.deletion_threads),
            open_runs: self.open_runs.min(other.open_runs),
            pending_inputs: self.pending_inputs.min(other.pending_inputs),
            call_dispatches: self.call_dispatches.min(other.call_dispatches),
        }
    }
}

/// Checks that `actual` is at most `max`.
///
/// # Errors
/// `LimitExceeded` if `actual` is above `max`.
pub fn check_limit(limit: &'static str, actual: u64, max: u64) -> Result<()> {
    if actual > max { Err(Error::limit_exceeded(limit, max, actual)) } else { Ok(()) }
}

/// Converts the length of a text or list to the type of the limits.
#[must_use]
pub fn length(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Shortens an error text that is longer than its limit: cuts it between two characters and adds `…` (ER-10).
pub(crate) fn truncate_text(text: &mut String, limits: &Limits) {
    let max = usize::try_from(limits.text_bytes).unwrap_or(usize::MAX);
    if text.len() > max {
        let end = (0..=max.saturating_sub('…'.len_utf8())).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, truncate_text};

    #[test]
    fn a_long_error_text_is_cut_at_a_character() {
        let mut text = "é".repeat(10);
        truncate_text(&mut text, &Limits { text_bytes: 12, ..Limits::default() });
        assert_eq!(text, "éééé…");
    }
}
