//! Which messages of a thread say nothing any more: whatever each of them told has been told again since.
//!
//! A message that says that something was removed is needed as long as an older one is there that has it.

use std::collections::{BTreeMap, HashMap};

/// What a message tells something about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    /// The record of the thread.
    Record,
    /// A dispatch, by its number.
    Dispatch(u64),
    /// The interrupt that began an epoch.
    Interrupt(u64),
    /// Nobody knows what: this message cannot be read.
    Unreadable(u64),
}

/// The messages that tell of one thing, the oldest first.
#[derive(Debug, Default)]
struct Versions {
    messages: Vec<u64>,
    /// Whether the last one says that it was removed.
    is_removed: bool,
}

/// The messages of a thread.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    told: HashMap<Told, Versions>,
    messages: BTreeMap<u64, Vec<Told>>,
    last: u64,
}

impl Messages {
    /// The last one.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// Notes a message, and what it tells: each thing, and whether it was removed. Gives those that say nothing any
    /// more.
    pub(crate) fn add(&mut self, sequence: u64, tells: Vec<(Told, bool)>) -> Vec<u64> {
        let mut doubtful = vec![std::mem::replace(&mut self.last, sequence)];
        for &(told, is_removed) in &tells {
            let versions = self.told.entry(told).or_default();
            doubtful.extend(versions.messages.last());
            versions.messages.push(sequence);
            versions.is_removed = is_removed;
        }
        self.messages.insert(sequence, tells.into_iter().map(|(told, _)| told).collect());
        self.garbage_of(doubtful)
    }

    /// Notes that a message was removed. Gives those that are not needed any more for that reason.
    pub(crate) fn remove(&mut self, sequence: u64) -> Vec<u64> {
        let mut doubtful = Vec::new();
        for told in self.messages.remove(&sequence).unwrap_or_default() {
            let Some(versions) = self.told.get_mut(&told) else { continue };
            versions.messages.retain(|message| *message != sequence);
            match versions.messages.as_slice() {
                [] => drop(self.told.remove(&told)),
                [only] if versions.is_removed => doubtful.push(*only),
                _ => {}
            }
        }
        self.garbage_of(doubtful)
    }

    fn garbage_of(&self, mut doubtful: Vec<u64>) -> Vec<u64> {
        doubtful.sort_unstable();
        doubtful.dedup();
        doubtful.retain(|message| self.is_garbage(*message));
        doubtful
    }

    fn is_garbage(&self, message: u64) -> bool {
        let Some(tells) = self.messages.get(&message).filter(|_| message != self.last) else { return false };
        tells.iter().all(|told| {
            self.told.get(told).is_none_or(|versions| match versions.messages.as_slice() {
                [only] => *only != message || versions.is_removed,
                many => many.last() != Some(&message),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Messages,
        Told::{Dispatch, Record},
    };

    #[test]
    fn what_was_told_again_is_garbage() {
        let mut messages = Messages::default();
        assert_eq!(messages.add(1, vec![(Dispatch(1), false)]), [0; 0]);
        assert_eq!(messages.add(2, vec![(Dispatch(2), false)]), [0; 0]);
        assert_eq!(messages.add(5, vec![(Dispatch(1), false)]), [1]);
        assert_eq!(messages.remove(1), [0; 0]);
        // It tells nothing, and is needed as the last one alone.
        assert_eq!(messages.add(6, vec![]), [0; 0]);
        assert_eq!(messages.add(7, vec![(Dispatch(2), false)]), [2, 6]);
    }

    #[test]
    fn the_record_of_a_thread_is_needed_behind_messages_that_say_nothing() {
        let mut messages = Messages::default();
        assert_eq!(messages.add(1, vec![(Record, false)]), [0; 0]);
        assert_eq!(messages.add(2, vec![]), [0; 0]);
        assert_eq!(messages.add(3, vec![]), [2]);
        assert_eq!(messages.add(4, vec![(Record, false)]), [1, 3]);
    }

    #[test]
    fn a_removal_is_needed_as_long_as_something_older_is_there() {
        let mut messages = Messages::default();
        messages.add(1, vec![(Dispatch(1), false), (Dispatch(2), false)]);
        assert_eq!(messages.add(2, vec![(Dispatch(1), false)]), [0; 0]);
        assert_eq!(messages.add(3, vec![(Dispatch(1), true)]), [2]);
        assert_eq!(messages.add(4, vec![]), [0; 0]);
        assert_eq!(messages.remove(2), [0; 0], "the first message has it, too");
        assert_eq!(messages.add(5, vec![(Dispatch(2), false)]), [1, 4]);
        assert_eq!(messages.remove(1), [3]);
    }
}
