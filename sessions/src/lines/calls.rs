//! Calls without a result, and results without a call.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
};

use crate::{
    compact::{List, digest, to_u32},
    issue::{IssueCode, Issues},
};

/// The calls and results of a file. Only the ids of those that have no counterpart so far are kept as texts.
#[derive(Debug, Default)]
pub(super) struct CallPairs {
    /// The calls without a result so far, and the lines that contain them first.
    open_calls: HashMap<String, u64>,
    /// The results without a call so far, and the lines that contain them first.
    orphan_results: HashMap<String, u64>,
    paired_ids: PairedIds,
    /// Digests of the ids of the calls in nodes, and the positions of these nodes.
    positions: List<([u8; 16], u32)>,
}

impl CallPairs {
    pub(super) fn add_call(&mut self, id: String, line: u64) {
        self.paired_ids.add((id, line), &mut self.open_calls, &mut self.orphan_results);
    }

    pub(super) fn add_result(&mut self, id: String, line: u64) {
        self.paired_ids.add((id, line), &mut self.orphan_results, &mut self.open_calls);
    }

    /// Remembers the node of a call, because lines may name the call as their parent.
    pub(super) fn add_position(&mut self, id: &str, at: usize) {
        self.positions.push((digest(id), to_u32(at)));
    }

    /// The positions of the calls with these ids.
    pub(super) fn positions_of(&self, ids: impl Iterator<Item = String>) -> HashMap<String, Vec<usize>> {
        let wanted: HashMap<_, _> = ids.map(|id| (digest(&id), id)).collect();
        let mut found: HashMap<String, Vec<usize>> = HashMap::new();
        if wanted.is_empty() {
            return found;
        }
        for (digest, at) in self.positions.iter() {
            if let (Some(id), Ok(at)) = (wanted.get(digest), usize::try_from(*at)) {
                found.entry(id.clone()).or_default().push(at);
            }
        }
        found
    }

    /// Notes the calls and results without a counterpart.
    pub(super) fn note_unpaired(&self, issues: &mut Issues) {
        for (line, id) in by_line(&self.open_calls) {
            let action = "kept; the context adds a result";
            issues.add(line, IssueCode::OpenCall, format!("no result for call `{id}`"), action);
        }
        for (line, id) in by_line(&self.orphan_results) {
            let action = "kept; the context leaves the result out";
            issues.add(line, IssueCode::OrphanResult, format!("no call for result `{id}`"), action);
        }
    }
}

/// Hashes of the ids of calls that have a result.
#[derive(Debug, Default)]
struct PairedIds {
    hashes: HashSet<u64>,
    hasher: RandomState,
}

impl PairedIds {
    /// Adds a call or a result, and the line that contains it. If there is a counterpart with the same id in
    /// `counterparts`, the two are a pair. Otherwise the id is added to `unpaired`.
    fn add(
        &mut self,
        (id, line): (String, u64),
        unpaired: &mut HashMap<String, u64>,
        counterparts: &mut HashMap<String, u64>,
    ) {
        let hash = self.hasher.hash_one(&id);
        if self.hashes.contains(&hash) {
            return;
        }
        if counterparts.remove(&id).is_some() {
            self.hashes.insert(hash);
        } else {
            unpaired.entry(id).or_insert(line);
        }
    }
}

/// The ids, in the order of their lines.
fn by_line(ids: &HashMap<String, u64>) -> Vec<(u64, &str)> {
    let mut ids: Vec<_> = ids.iter().map(|(id, line)| (*line, id.as_str())).collect();
    ids.sort_unstable();
    ids
}
