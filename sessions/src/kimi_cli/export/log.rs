//! The entries of a thread that become lines of contexts.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use store_core::{Body, Entry, EntryId};

use super::is_of_kimi_cli;
use crate::{error::Result, export::ExportSource, provenance::Provenance};

/// The entries of a thread that become lines of contexts.
#[derive(Default)]
pub(super) struct ThreadLog {
    /// The entries of the tree.
    pub(super) nodes: HashMap<EntryId, Arc<Entry>>,
    /// The usage records, by the entry that they follow.
    pub(super) usages: HashMap<EntryId, Vec<Arc<Entry>>>,
    /// Whether the thread has checkpoints that were not imported from kimi-cli. If so, the export makes no others.
    pub(super) has_checkpoints: bool,
    /// The newest provenance of an import from kimi-cli.
    pub(super) provenance: Option<Provenance>,
}

impl ThreadLog {
    pub(super) async fn load(source: &ExportSource<'_>) -> Result<Self> {
        let mut log = Self::default();
        let mut pages = source.entries();
        while let Some(page) = pages.next().await? {
            for entry in page {
                log.add(entry);
            }
        }
        Ok(log)
    }

    fn add(&mut self, entry: Arc<Entry>) {
        if is_of_kimi_cli(&entry) {
            self.provenance = Provenance::read(&entry).or(self.provenance.take());
        } else if matches!(&*entry.body, Body::Checkpoint(_)) {
            self.has_checkpoints = true;
        }
        if !entry.side {
            self.nodes.insert(entry.id.clone(), entry);
        } else if let (Body::Usage(_), Some(parent)) = (&*entry.body, entry.parent.clone()) {
            self.usages.entry(parent).or_default().push(entry);
        }
    }

    /// The entries from the root to an entry.
    pub(super) fn path(&self, to: &EntryId) -> Vec<Arc<Entry>> {
        let parent = |entry: &&Arc<Entry>| self.nodes.get(entry.parent.as_ref()?);
        let mut path: Vec<_> = std::iter::successors(self.nodes.get(to), parent).map(Arc::clone).collect();
        path.reverse();
        path
    }

    /// The usage records after an entry that name the size of the context, each with this size.
    pub(super) fn context_sizes(&self, entry: &EntryId) -> impl Iterator<Item = (&Arc<Entry>, u64)> {
        self.usages.get(entry).into_iter().flatten().filter_map(|entry| match &*entry.body {
            Body::Usage(usage) => Some((entry, usage.context_size?)),
            _ => None,
        })
    }
}

/// The entries that were written, and those about which losses were noted.
#[derive(Default)]
pub(super) struct WrittenEntries {
    pub(super) ids: HashSet<EntryId>,
    /// The entries whose open calls got a result.
    pub(super) answered_entries: HashSet<EntryId>,
    /// The entries with results that a context leaves out.
    pub(super) incomplete_entries: HashSet<EntryId>,
}
