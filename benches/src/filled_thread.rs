//! Creates threads of a given length.

use anyhow::{Context as _, Result};
use store_core::{
    Block, Commit, CommitCoordinator, Compaction, EntryId, Expect, Interval, Message, NewEntry, Receipt, ThreadId,
    Version,
};

/// The largest number of entries in one commit of [`create_filled_thread`].
const BATCH_SIZE: u64 = 500;

/// The number of messages that [`create_compacted_thread`] writes after the compaction.
const MESSAGES_AFTER_COMPACTION: u64 = 10;

/// A thread that was filled, with the version and the entries that later calls need.
#[derive(Debug, Clone)]
pub struct FilledThread {
    /// The id of the thread.
    pub id: ThreadId,
    /// The current version of the thread.
    pub version: Version,
    /// The first entry of the thread.
    pub first_entry: EntryId,
    /// The last message of the thread.
    pub last_message: EntryId,
}

impl FilledThread {
    /// Takes the new version from the receipt of a commit.
    pub const fn update_version(&mut self, receipt: &Receipt) {
        self.version = receipt.version;
    }
}

/// Returns a message of about 200 bytes. An even number gives a message of the user, an odd one a message of the
/// assistant.
#[must_use]
pub fn numbered_message(number: u64) -> NewEntry {
    let text = format!("{number}: {}", "what was said here is about as long as an answer. ".repeat(4));
    NewEntry::new(if number.is_multiple_of(2) { Message::user(text) } else { Message::assistant(text) })
}

/// Makes a thread of `length` messages.
///
/// # Errors
/// The errors of the commits, and an error if `length` is 0.
pub async fn create_filled_thread(commits: &dyn CommitCoordinator, id: &str, length: u64) -> Result<FilledThread> {
    let id = ThreadId::new(id)?;
    let mut filled_thread = None;
    let mut written_count = 0;
    while written_count < length {
        let next_count = length.min(written_count + BATCH_SIZE);
        let expect = filled_thread
            .as_ref()
            .map_or(Expect::Absent, |filled_thread: &FilledThread| Expect::Version(filled_thread.version));
        let commit =
            Commit::new(id.clone()).expecting(expect).entries((written_count..next_count).map(numbered_message));
        let receipt = commits.commit(commit).await?;
        let last_message = receipt.entry_ids.last().context("the receipt has no entries")?.clone();
        let first_entry = receipt.entry_ids.first().context("the receipt has no entries")?.clone();
        let current_thread = filled_thread.get_or_insert(FilledThread {
            id: id.clone(),
            version: receipt.version,
            first_entry,
            last_message: last_message.clone(),
        });
        current_thread.update_version(&receipt);
        current_thread.last_message = last_message;
        written_count = next_count;
    }
    filled_thread.context("the thread has no entries")
}

/// Makes a thread of `length` entries: messages, a compaction that covers all of them, and a few more messages.
///
/// # Errors
/// The errors of the commits, and an error if no message is left for the compaction to cover.
pub async fn create_compacted_thread(commits: &dyn CommitCoordinator, id: &str, length: u64) -> Result<FilledThread> {
    let mut thread = create_filled_thread(commits, id, length.saturating_sub(MESSAGES_AFTER_COMPACTION + 1)).await?;
    let mut compaction = Compaction::default();
    compaction.covers = Some(Interval::new(thread.first_entry.clone(), thread.last_message.clone()));
    compaction.summary = vec![Block::text("what was said before, in short")];
    let commit = Commit::new(thread.id.clone())
        .expecting(Expect::Version(thread.version))
        .entry(NewEntry::new(compaction))
        .entries((0..MESSAGES_AFTER_COMPACTION).map(numbered_message));
    let receipt = commits.commit(commit).await?;
    thread.update_version(&receipt);
    thread.last_message = receipt.entry_ids.last().context("the receipt has no entries")?.clone();
    Ok(thread)
}
