//! Losses: what a thread contains and a format cannot represent.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use store_core::{Entry, EntryId, ThreadId};

use crate::provenance::Provenance;

/// A part of a thread that an export could not write unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// The child thread; absent for the exported thread itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// The entry; absent for the thread as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryId>,
    /// A JSON pointer to what was lost. For a part of a message it begins at the message, for any other part at the
    /// entry or the thread. It is empty for the whole thread or entry.
    pub path: String,
    /// The kind of what was lost, such as `signature`.
    pub kind: &'static str,
    /// Why it was lost.
    pub reason: &'static str,
    /// What the export did about it: `dropped`, `moved` or `replaced`.
    pub action: &'static str,
}

/// The losses of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LossesOfKind<'a> {
    /// The kind.
    pub kind: &'static str,
    /// Every reason, in the order of the losses.
    pub reasons: Vec<&'static str>,
    /// The first loss of each entry, and of each thread as a whole.
    pub first_of_each: Vec<&'a Loss>,
}

/// Groups losses by their kinds, in the order of the names of the kinds.
pub(super) fn by_kind(losses: &[Loss]) -> Vec<LossesOfKind<'_>> {
    let mut kinds: BTreeMap<&'static str, LossesOfKind<'_>> = BTreeMap::new();
    let mut listed = HashSet::new();
    for loss in losses {
        let new_group = || LossesOfKind { kind: loss.kind, reasons: Vec::new(), first_of_each: Vec::new() };
        let group = kinds.entry(loss.kind).or_insert_with(new_group);
        if !group.reasons.contains(&loss.reason) {
            group.reasons.push(loss.reason);
        }
        if listed.insert((loss.kind, &loss.thread, &loss.entry)) {
            group.first_of_each.push(loss);
        }
    }
    kinds.into_values().collect()
}

/// The kind, the reason and the action of a loss.
pub(crate) type LossDescription = (&'static str, &'static str, &'static str);

/// The reason of the loss of something for which the format has no field.
pub(crate) const NO_FIELD: &str = "the format has no field for it";

/// What is lost of an entry that is written as a part of another one.
pub(crate) const MERGED: LossDescription = ("merged", "the entries of one message are one line", "replaced");

/// Collects the losses of one entry, or of the thread as a whole.
pub(crate) struct Losses<'a> {
    entry: Option<&'a EntryId>,
    list: &'a mut Vec<Loss>,
}

impl<'a> Losses<'a> {
    pub(crate) const fn new(entry: &'a EntryId, list: &'a mut Vec<Loss>) -> Self {
        Self { entry: Some(entry), list }
    }

    /// The losses of the thread as a whole.
    pub(crate) const fn of_thread(list: &'a mut Vec<Loss>) -> Self {
        Self { entry: None, list }
    }

    /// Adds a loss with its kind, its reason and the action of the export.
    pub(crate) fn add(&mut self, path: impl Into<String>, description: LossDescription) {
        let (kind, reason, action) = description;
        let loss = Loss { thread: None, entry: self.entry.cloned(), path: path.into(), kind, reason, action };
        self.list.push(loss);
    }

    /// Adds the loss of something for which the format has no field.
    pub(crate) fn add_no_field_for(&mut self, path: impl Into<String>, kind: &'static str) {
        self.add(path, (kind, NO_FIELD, "dropped"));
    }
}

/// The losses of a child thread, in the form for the list of the exported thread: each names the child.
pub(crate) fn losses_of_child(child: &ThreadId, losses: Vec<Loss>) -> impl Iterator<Item = Loss> {
    losses.into_iter().map(|mut loss| {
        loss.thread.get_or_insert_with(|| child.clone());
        loss
    })
}

/// What is lost of the line that an entry was imported from, if it is a line of another format: its bytes. If the entry
/// contains the provenance of a file, the header and the line ends of that file are lost.
pub(crate) fn loss_of_foreign_line(entry: &Entry) -> Option<(&'static str, LossDescription)> {
    if Provenance::read(entry).is_some() {
        return Some(("", ("raw", "the header and the line ends of a file of another format", "dropped")));
    }
    let has_raw = entry.origin.as_ref().is_some_and(|origin| origin.raw.is_some());
    has_raw.then_some(("/origin/raw", ("raw", "the bytes of a line of another format", "dropped")))
}

#[cfg(test)]
mod tests {
    use store_core::{EntryId, ThreadId};

    use super::{Loss, Losses, by_kind, losses_of_child};

    #[test]
    fn losses_are_grouped_by_kind_and_each_entry_counts_once() {
        let (a, b) = (EntryId::new("a").unwrap(), EntryId::new("b").unwrap());
        let mut list = Vec::new();
        Losses::new(&a, &mut list).add("/usage", ("usage", "one", "dropped"));
        Losses::new(&a, &mut list).add("/blocks/0", ("text", "two", "moved"));
        Losses::new(&b, &mut list).add("/usage", ("usage", "three", "dropped"));
        Losses::new(&a, &mut list).add("/usage/cost", ("usage", "three", "dropped"));
        Losses::of_thread(&mut list).add("/usage", ("usage", "one", "dropped"));
        let child = ThreadId::new("child").unwrap();
        list.extend(losses_of_child(&child, list.clone()).take(1).collect::<Vec<Loss>>());
        let found = by_kind(&list);
        let kinds: Vec<_> = found.iter().map(|group| (group.kind, group.reasons.clone())).collect();
        assert_eq!(kinds, [("text", vec!["two"]), ("usage", vec!["one", "three"])]);
        let entries: Vec<_> = found[1].first_of_each.iter().map(|loss| (&loss.thread, &loss.entry)).collect();
        assert_eq!(entries, [(&None, &Some(a.clone())), (&None, &Some(b)), (&None, &None), (&Some(child), &Some(a))]);
    }
}
