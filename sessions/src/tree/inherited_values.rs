//! Values that a node takes from its parent, unless it has a value of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::{PathOrder, Tree};

/// The values of nodes. Consecutive nodes of one segment that have the same value take the memory of one value.
#[derive(Debug)]
pub(crate) struct InheritedValues<T>(BTreeMap<usize, Option<T>>);

impl<T> Default for InheritedValues<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Clone> InheritedValues<T> {
    /// Finds the values of all nodes. `changes` are the nodes whose value may differ from that of their parent.
    /// `value_of` gets a node and the value of its parent, and returns the value of the node. It is called for the
    /// nodes in `changes`, for roots, and for some other nodes, parents first. For these other nodes it must return the
    /// value of the parent.
    pub(crate) fn of<D>(
        tree: &Tree<D>,
        order: &PathOrder,
        changes: &BTreeSet<usize>,
        value_of: &mut dyn FnMut(usize, Option<T>) -> Option<T>,
    ) -> Self {
        let mut values = Self::default();
        for segment in order.segments() {
            let inherited = tree.parent(segment.start).and_then(|parent| values.get(parent).cloned());
            let mut value = value_of(segment.start, inherited);
            values.0.insert(segment.start, value.clone());
            for &at in changes.range(segment.start + 1..segment.end.max(segment.start + 1)) {
                value = value_of(at, value);
                values.0.insert(at, value.clone());
            }
        }
        values
    }

    /// The value of a node.
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.0.range(..=at).next_back()?.1.as_ref()
    }
}
