//! Entry ids. Lines have no ids of their own, so an id names the file of the history and the line.
//!
//! A file is identified by its position in the order in which the files were written, because kimi-cli renames a
//! context file when it begins the next one.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use store_core::EntryId;

use crate::{error::Result, provenance::ReimportedLine, session::StoredEntries};

/// The prefix of the ids of lines of the wire file.
pub(super) const WIRE_PREFIX: &str = "wire.";

/// The ids of the lines of one file.
#[derive(Debug, Default)]
pub(super) struct FileLineIds {
    prefix: String,
    ids_in_use: Arc<HashSet<String>>,
    /// For each line, how often it was imported before it was complete.
    reimport_counts: HashMap<u64, usize>,
}

impl FileLineIds {
    /// The ids of entries that the import did not write.
    pub(super) fn ids_in_use(stored: &StoredEntries) -> Arc<HashSet<String>> {
        Arc::new(stored.foreign_entries.iter().map(|id| id.as_str().to_owned()).collect())
    }

    /// The prefix of the ids of the context at this position.
    pub(super) fn prefix(position: usize) -> String {
        if position == 0 { String::new() } else { format!("{}.", position + 1) }
    }

    /// The ids of the context at this position of the history, from 0.
    pub(super) fn context(position: usize, ids_in_use: &Arc<HashSet<String>>, reimported: &[ReimportedLine]) -> Self {
        Self::new(Self::prefix(position), ids_in_use, reimported)
    }

    /// The ids of the records of the wire file.
    pub(super) fn wire(ids_in_use: &Arc<HashSet<String>>, reimported: &[ReimportedLine]) -> Self {
        Self::new(WIRE_PREFIX.to_owned(), ids_in_use, reimported)
    }

    fn new(prefix: String, ids_in_use: &Arc<HashSet<String>>, reimported: &[ReimportedLine]) -> Self {
        let mut reimport_counts = HashMap::new();
        for reimported in reimported {
            *reimport_counts.entry(reimported.line).or_default() += 1;
        }
        Self { prefix, ids_in_use: Arc::clone(ids_in_use), reimport_counts }
    }

    /// The id of a line. Lines are counted from 1.
    pub(super) fn line(&self, line: u64) -> Result<EntryId> {
        self.first_unused_id(
            &format!("{}L{line}", self.prefix),
            self.reimport_counts.get(&line).copied().unwrap_or_default(),
        )
    }

    /// The id of a reference, which represents a line that an earlier file contains.
    pub(super) fn reference(&self, line: u64) -> Result<EntryId> {
        self.first_unused_id(
            &format!("{}L{line}.shared", self.prefix),
            self.reimport_counts.get(&line).copied().unwrap_or_default(),
        )
    }

    /// The id of the rewind to the end of the first `shared_lines` lines.
    pub(super) fn rewind(&self, shared_lines: usize) -> Result<EntryId> {
        self.first_unused_id(&format!("{}L0#rewind.{shared_lines}", self.prefix), 0)
    }

    /// The id of the same rewind while the file has no other lines. A later import may then decide otherwise.
    pub(super) fn open_rewind(&self, shared_lines: usize) -> Result<EntryId> {
        self.first_unused_id(&format!("{}L0#open.{shared_lines}", self.prefix), 0)
    }

    /// The id of an entry that corresponds to no line.
    pub(super) fn free_id(&self, name: &str) -> Result<EntryId> {
        self.first_unused_id(name, 0)
    }

    /// An id that no other entry has: the text itself, or the text with a number. The first `skip` candidates are left
    /// out.
    fn first_unused_id(&self, text: &str, skip: usize) -> Result<EntryId> {
        let candidates = (1..).map(|n| if n == 1 { text.to_owned() } else { format!("{text}#{n}") });
        let first_unused_id = candidates.skip(skip).find(|id| !self.ids_in_use.contains(id));
        Ok(EntryId::new(first_unused_id.unwrap_or_default())?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::FileLineIds;
    use crate::provenance::ReimportedLine;

    #[test]
    fn an_id_says_which_file_and_line() {
        let ids_in_use = Arc::new(["L2", "2.L3", "2.L3#2"].map(str::to_owned).into());
        let reimported = [ReimportedLine { line: 3, was_torn: true }];
        let check = |ids: &FileLineIds, expected: [&str; 4]| {
            let found = [ids.line(2), ids.line(3), ids.reference(1), ids.rewind(5)].map(|id| id.unwrap());
            assert_eq!(found.each_ref().map(|id| id.as_str()), expected);
        };
        check(&FileLineIds::context(0, &ids_in_use, &[]), ["L2#2", "L3", "L1.shared", "L0#rewind.5"]);
        check(&FileLineIds::context(1, &ids_in_use, &[]), ["2.L2", "2.L3#3", "2.L1.shared", "2.L0#rewind.5"]);
        check(
            &FileLineIds::wire(&ids_in_use, &reimported),
            ["wire.L2", "wire.L3#2", "wire.L1.shared", "wire.L0#rewind.5"],
        );
    }
}
