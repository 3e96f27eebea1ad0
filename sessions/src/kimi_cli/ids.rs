//! Entry ids: lines have none of their own, so an id says which file of the history and which line.
//!
//! Files are counted in the order in which they were written and not by name, because a rotation renames them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use store_core::EntryId;

use crate::{error::Result, facts::Retaken, format::Stored};

/// What ids of lines of the wire begin with.
pub(super) const WIRE_PREFIX: &str = "wire.";

/// The ids of the lines of one file.
#[derive(Debug, Default)]
pub(super) struct Ids {
    prefix: String,
    taken: Arc<HashSet<String>>,
    /// Lines that were imported before they were whole, and how often.
    again: HashMap<u64, usize>,
}

impl Ids {
    /// The ids that entries of somebody else have.
    pub(super) fn taken(stored: &Stored) -> Arc<HashSet<String>> {
        Arc::new(stored.foreign.iter().map(|id| id.as_str().to_owned()).collect())
    }

    /// What ids of the context at this position begin with.
    pub(super) fn prefix(position: usize) -> String {
        if position == 0 { String::new() } else { format!("{}.", position + 1) }
    }

    /// Ids of the context at this position of the history, from 0.
    pub(super) fn context(position: usize, taken: &Arc<HashSet<String>>, retaken: &[Retaken]) -> Self {
        Self::new(Self::prefix(position), taken, retaken)
    }

    /// Ids of what went over the wire.
    pub(super) fn wire(taken: &Arc<HashSet<String>>, retaken: &[Retaken]) -> Self {
        Self::new(WIRE_PREFIX.to_owned(), taken, retaken)
    }

    fn new(prefix: String, taken: &Arc<HashSet<String>>, retaken: &[Retaken]) -> Self {
        let mut again = HashMap::new();
        for retaken in retaken {
            *again.entry(retaken.line).or_default() += 1;
        }
        Self { prefix, taken: Arc::clone(taken), again }
    }

    /// The id of a line, from 1.
    pub(super) fn line(&self, line: u64) -> Result<EntryId> {
        self.free(&format!("{}L{line}", self.prefix), self.again.get(&line).copied().unwrap_or_default())
    }

    /// The id of a reference that stands for a line which an earlier file has.
    pub(super) fn shared(&self, line: u64) -> Result<EntryId> {
        self.free(&format!("{}L{line}.shared", self.prefix), self.again.get(&line).copied().unwrap_or_default())
    }

    /// The id of the rewind to behind so many leading lines.
    pub(super) fn rewind(&self, shared: usize) -> Result<EntryId> {
        self.free(&format!("{}L0#rewind.{shared}", self.prefix), 0)
    }

    /// The id of the rewind to there while the file says nothing else: it may still become anything.
    pub(super) fn open(&self, shared: usize) -> Result<EntryId> {
        self.free(&format!("{}L0#open.{shared}", self.prefix), 0)
    }

    /// The id of an entry that no line stands for.
    pub(super) fn named(&self, name: &str) -> Result<EntryId> {
        self.free(name, 0)
    }

    /// An id that nothing else has: the text itself, or with a number.
    fn free(&self, text: &str, skip: usize) -> Result<EntryId> {
        let made = (1..).map(|n| if n == 1 { text.to_owned() } else { format!("{text}#{n}") });
        let free = made.skip(skip).find(|id| !self.taken.contains(id));
        Ok(EntryId::new(free.unwrap_or_default())?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Ids;
    use crate::facts::Retaken;

    #[test]
    fn an_id_says_which_file_and_line() {
        let taken = Arc::new(["L2", "2.L3", "2.L3#2"].map(str::to_owned).into());
        let retaken = [Retaken { line: 3, torn: true }];
        let check = |ids: &Ids, expected: [&str; 4]| {
            let found = [ids.line(2), ids.line(3), ids.shared(1), ids.rewind(5)].map(|id| id.unwrap());
            assert_eq!(found.each_ref().map(|id| id.as_str()), expected);
        };
        check(&Ids::context(0, &taken, &[]), ["L2#2", "L3", "L1.shared", "L0#rewind.5"]);
        check(&Ids::context(1, &taken, &[]), ["2.L2", "2.L3#3", "2.L1.shared", "2.L0#rewind.5"]);
        check(&Ids::wire(&taken, &retaken), ["wire.L2", "wire.L3#2", "wire.L1.shared", "wire.L0#rewind.5"]);
    }
}
