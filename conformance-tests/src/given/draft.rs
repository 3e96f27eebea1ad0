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
pub fn said(text: &str) -> NewEntry {
    NewEntry::new(Message::user(text))
}

/// A commit of one user message to a thread.
#[must_use]
pub fn say(thread: &ThreadId, expect: Expect, text: &str) -> Commit {
    Commit::new(thread.clone()).expecting(expect).entry(said(text))
}

/// A commit of one user message to a thread, with a key and without a guard.
#[must_use]
pub fn say_keyed(thread: &ThreadId, key: &str, text: &str) -> Commit {
    say(thread, Expect::Any, text).with_key(id(key))
}
