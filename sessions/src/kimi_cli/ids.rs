//! Entry ids. Lines have no ids of their own, so an id names the file of the history and the line.
//!
//! A file is identified by its position in the order in which the files were written, because a rotation changes
//! names.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use store_core::EntryId;

use crate::{error::Result, format::Stored, provenance::ReimportedLine};

/// The prefix of the ids of lines of the wire file.
pub(super) const WIRE_PREFIX: &str = "wire.";

/// The ids of the lines of one file.
#[derive(Debug, Default)]
pub(super) struct Ids {
    prefix: String,
    taken: Arc<HashSet<String>>,
    /// How often a line was imported before it was complete.
    reimport_counts: HashMap<u64, usize>,
}

impl Ids {
    /// The ids of entries that the import did not write.
    pub(super) fn taken(stored: &Stored) -> Arc<HashSet<String>> {
        Arc::new(stored.foreign.iter().map(|id| id.as_str().to_owned()).collect())
    }

    /// The prefix of the ids of the context at this position.
    pub(super) fn prefix(position: usize) -> String {
        if position == 0 { String::new() } else { format!("{}.", position + 1) }
    }

    /// The ids of the context at this position of the history, from 0.
    pub(super) fn context(position: usize, taken: &Arc<HashSet<String>>, reimported: &[ReimportedLine]) -> Self {
        Self::new(Self::prefix(position), taken, reimported)
    }

    /// The ids of the records of the wire file.
    pub(super) fn wire(taken: &Arc<HashSet<String>>, reimported: &[ReimportedLine]) -> Self {
        Self::new(WIRE_PREFIX.to_owned(), taken, reimported)
    }

    fn new(prefix: String, taken: &Arc<HashSet<String>>, reimported: &[ReimportedLine]) -> Self {
        let mut reimport_counts = HashMap::new();
        for reimported in reimported {
            *reimport_counts.entry(reimported.line).or_default() += 1;
        }
        Self { prefix, taken: Arc::clone(taken), reimport_counts }
    }

    /// The id of a line. Lines are counted from 1.
    pub(super) fn line(&self, line: u64) -> Result<EntryId> {
        self.first_free(
            &format!("{}L{line}", self.prefix),
            self.reimport_counts.get(&line).copied().unwrap_or_default(),
        )
    }

    /// The id of a reference, which represents a line that an earlier file contains.
    pub(super) fn reference(&self, line: u64) -> Result<EntryId> {
        self.first_free(
            &format!("{}L{line}.shared", self.prefix),
            self.reimport_counts.get(&line).copied().unwrap_or_default(),
        )
    }

    /// The id of the rewind to the end of the first `shared` lines.
    pub(super) fn rewind(&self, shared: usize) -> Result<EntryId> {
        self.first_free(&format!("{}L0#rewind.{shared}", self.prefix), 0)
    }

    /// The id of the same rewind while the file has no other lines. A later import may then decide otherwise.
    pub(super) fn open_rewind(&self, shared: usize) -> Result<EntryId> {
        self.first_free(&format!("{}L0#open.{shared}", self.prefix), 0)
    }

    /// The id of an entry that corresponds to no line.
    pub(super) fn named(&self, name: &str) -> Result<EntryId> {
        self.first_free(name, 0)
    }

    /// An id that no other entry has: the text itself, or the text with a number. The first `skip` candidates are left
    /// out.
    fn first_free(&self, text: &str, skip: usize) -> Result<EntryId> {
        let made = (1..).map(|n| if n == 1 { text.to_owned() } else { format!("{text}#{n}") });
        let first_free = made.skip(skip).find(|id| !self.taken.contains(id));
        Ok(EntryId::new(first_free.unwrap_or_default())?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Ids;
    use crate::provenance::ReimportedLine;

    #[test]
    fn an_id_says_which_file_and_line() {
        let taken = Arc::new(["L2", "2.L3", "2.L3#2"].map(str::to_owned).into());
        let reimported = [ReimportedLine { line: 3, torn: true }];
        let check = |ids: &Ids, expected: [&str; 4]| {
            let found = [ids.line(2), ids.line(3), ids.reference(1), ids.rewind(5)].map(|id| id.unwrap());
            assert_eq!(found.each_ref().map(|id| id.as_str()), expected);
        };
        check(&Ids::context(0, &taken, &[]), ["L2#2", "L3", "L1.shared", "L0#rewind.5"]);
        check(&Ids::context(1, &taken, &[]), ["2.L2", "2.L3#3", "2.L1.shared", "2.L0#rewind.5"]);
        check(&Ids::wire(&taken, &reimported), ["wire.L2", "wire.L3#2", "wire.L1.shared", "wire.L0#rewind.5"]);
    }
}
