//! Finds the superseded messages of a thread: messages whose parts were all written again in later messages.
//!
//! A message that records a removal is needed as long as an older message contains what was removed.

use std::collections::{BTreeMap, HashMap};

/// What a part of a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PartKey {
    /// The record of the thread.
    Record,
    /// A dispatch, by its number.
    Dispatch(u64),
    /// The interrupt that began an epoch.
    Interrupt(u64),
    /// The unknown content of a message that cannot be read, by the sequence number of the message.
    Unreadable(u64),
}

/// A part of a message: the newest data under a key, or the removal of that data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Written(PartKey),
    Removed(PartKey),
}

impl Part {
    const fn key(self) -> PartKey {
        match self {
            Self::Written(key) | Self::Removed(key) => key,
        }
    }
}

/// The messages with a part under the same key, oldest first.
#[derive(Debug, Default)]
struct Versions {
    messages: Vec<u64>,
    /// Whether the last message records a removal.
    is_removed: bool,
}

/// The messages of a thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadMessages {
    versions: HashMap<PartKey, Versions>,
    messages: BTreeMap<u64, Vec<PartKey>>,
    last_message: u64,
}

impl ThreadMessages {
    /// Returns the sequence number of the last message.
    pub(crate) const fn last_message(&self) -> u64 {
        self.last_message
    }

    /// Notes a message and its parts. Returns the messages that are superseded as a result.
    pub(crate) fn add(&mut self, sequence: u64, parts: Vec<Part>) -> Vec<u64> {
        let mut candidates = vec![std::mem::replace(&mut self.last_message, sequence)];
        for part in &parts {
            let versions = self.versions.entry(part.key()).or_default();
            candidates.extend(versions.messages.last());
            versions.messages.push(sequence);
            versions.is_removed = matches!(part, Part::Removed(_));
        }
        self.messages.insert(sequence, parts.into_iter().map(Part::key).collect());
        self.garbage_among(candidates)
    }

    /// Notes that a message was removed. Returns the messages that are no longer needed as a result.
    pub(crate) fn remove(&mut self, sequence: u64) -> Vec<u64> {
        let mut candidates = Vec::new();
        for key in self.messages.remove(&sequence).unwrap_or_default() {
            let Some(versions) = self.versions.get_mut(&key) else { continue };
            versions.messages.retain(|message| *message != sequence);
            match versions.messages.as_slice() {
                [] => drop(self.versions.remove(&key)),
                [only] if versions.is_removed => candidates.push(*only),
                _ => {}
            }
        }
        self.garbage_among(candidates)
    }

    fn garbage_among(&self, mut candidates: Vec<u64>) -> Vec<u64> {
        candidates.sort_unstable();
        candidates.dedup();
        candidates.retain(|message| self.is_garbage(*message));
        candidates
    }

    fn is_garbage(&self, message: u64) -> bool {
        let Some(keys) = self.messages.get(&message).filter(|_| message != self.last_message) else { return false };
        keys.iter().all(|key| {
            self.versions.get(key).is_none_or(|versions| match versions.messages.as_slice() {
                [only] => *only != message || versions.is_removed,
                many => many.last() != Some(&message),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Part::{Removed, Written},
        PartKey::{Dispatch, Record},
        ThreadMessages,
    };

    #[test]
    fn messages_whose_parts_were_all_rewritten_are_garbage() {
        let mut messages = ThreadMessages::default();
        assert_eq!(messages.add(1, vec![Written(Dispatch(1))]), [0; 0]);
        assert_eq!(messages.add(2, vec![Written(Dispatch(2))]), [0; 0]);
        assert_eq!(messages.add(5, vec![Written(Dispatch(1))]), [1]);
        assert_eq!(messages.remove(1), [0; 0]);
        // The message has no parts. It is needed only while it is the last one.
        assert_eq!(messages.add(6, vec![]), [0; 0]);
        assert_eq!(messages.add(7, vec![Written(Dispatch(2))]), [2, 6]);
    }

    #[test]
    fn the_record_of_a_thread_is_needed_after_empty_messages() {
        let mut messages = ThreadMessages::default();
        assert_eq!(messages.add(1, vec![Written(Record)]), [0; 0]);
        assert_eq!(messages.add(2, vec![]), [0; 0]);
        assert_eq!(messages.add(3, vec![]), [2]);
        assert_eq!(messages.add(4, vec![Written(Record)]), [1, 3]);
    }

    #[test]
    fn a_removal_is_needed_while_an_older_message_exists() {
        let mut messages = ThreadMessages::default();
        messages.add(1, vec![Written(Dispatch(1)), Written(Dispatch(2))]);
        assert_eq!(messages.add(2, vec![Written(Dispatch(1))]), [0; 0]);
        assert_eq!(messages.add(3, vec![Removed(Dispatch(1))]), [2]);
        assert_eq!(messages.add(4, vec![]), [0; 0]);
        assert_eq!(messages.remove(2), [0; 0], "the first message contains the dispatch, too");
        assert_eq!(messages.add(5, vec![Written(Dispatch(2))]), [1, 4]);
        assert_eq!(messages.remove(1), [3]);
    }
}
