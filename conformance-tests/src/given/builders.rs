//! Ids, entries and commits for cases.

use std::str::FromStr;

use store_core::{Commit, Error, Expect, Message, NewEntry, ThreadId};

/// Parses an id of any type.
///
/// # Panics
/// If the text is not a valid id. This is a mistake in the case.
#[must_use]
pub fn id<T: FromStr<Err = Error>>(text: &str) -> T {
    text.parse().expect("a valid id")
}

/// An entry with a user message, without an id.
#[must_use]
pub fn message_entry(text: &str) -> NewEntry {
    NewEntry::new(Message::user(text))
}

/// A commit of one user message to a thread.
#[must_use]
pub fn commit_with_message(thread: &ThreadId, expect: Expect, text: &str) -> Commit {
    Commit::new(thread.clone()).expecting(expect).entry(message_entry(text))
}

/// A commit of one user message to a thread, with a key and without a guard.
#[must_use]
pub fn keyed_commit_with_message(thread: &ThreadId, key: &str, text: &str) -> Commit {
    commit_with_message(thread, Expect::Any, text).with_key(id(key))
}
