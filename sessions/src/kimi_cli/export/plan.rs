//! Decides which contexts become files.
//!
//! kimi-cli keeps one context in a file. It starts a new file for a compaction, a revert and a clear. The last file is
//! the current context, and the files before it are its history. Each leaf of a thread therefore gets a file, and each
//! compaction on the path of a leaf gets a file with the context before it.

use store_core::{Body, EntryId};

use super::log::ThreadLog;

/// The entries whose contexts become files, in the order of the files. The last is that of the head.
pub(super) fn context_entries(log: &ThreadLog, leaves: &[EntryId], head: Option<&EntryId>) -> Vec<EntryId> {
    let mut targets: Vec<EntryId> = Vec::new();
    let mut previous: Vec<EntryId> = Vec::new();
    for leaf in leaves.iter().filter(|leaf| Some(*leaf) != head).chain(head) {
        let path = log.path(leaf);
        let entries = path.iter().filter(|entry| matches!(&*entry.body, Body::Compaction(_)));
        let compactions_on_path: Vec<_> = entries.map(|entry| entry.id.clone()).collect();
        // The previous file may already contain the summaries of the first compactions of this path. An import
        // then takes the new file for a revert of the previous one.
        let known = if compactions_on_path.starts_with(&previous) { previous.len() } else { 0 };
        let contexts_before = compactions_on_path.iter().skip(known).filter_map(|id| log.nodes.get(id)?.parent.clone());
        for target in contexts_before.chain([leaf.clone()]) {
            if targets.last() != Some(&target) {
                targets.push(target);
            }
        }
        previous = compactions_on_path;
    }
    targets
}
