//! The parents of nodes, and the paths that follow from them.
//!
//! In most files the parent of most lines is the preceding line. So the nodes are kept as segments: in a segment each
//! node but the first is the child of the preceding node. A file without branches is one segment.

use std::ops::Range;

use crate::compact::to_u32;

/// The parents of all nodes. A parent is found in logarithmic time.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    segments: Vec<Segment>,
    len: u32,
}

/// A sequence of nodes. Each node but the first is the child of the preceding node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    /// The position of its first node.
    pub(super) start: u32,
    /// The parent of the first node.
    pub(super) parent: Option<u32>,
}

impl Parents {
    /// Adds the next node.
    pub(crate) fn push(&mut self, parent: Option<usize>) {
        let parent = parent.map(to_u32);
        if parent.is_none() || parent != self.len.checked_sub(1) {
            self.segments.push(Segment { start: self.len, parent });
        }
        self.len += 1;
    }

    /// The parent of a node.
    pub(crate) fn get(&self, at: usize) -> Option<usize> {
        let at = u32::try_from(at).ok().filter(|at| *at < self.len)?;
        let segment = self.segments.get(self.segment_of(at)?)?;
        if segment.start == at { segment.parent.map(to_position) } else { Some(to_position(at - 1)) }
    }

    /// The root of the path of a node. There must be no cycle.
    pub(super) fn root(&self, at: usize) -> usize {
        let Some(mut segment) = u32::try_from(at).ok().and_then(|at| self.segment_of(at)) else { return at };
        while let Some((parent_segment, _)) = self.parent_position(segment) {
            segment = parent_segment;
        }
        self.segments.get(segment).map_or(at, |segment| to_position(segment.start))
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Makes the first node of a segment a root.
    pub(super) fn cut(&mut self, segment: usize) {
        if let Some(segment) = self.segments.get_mut(segment) {
            segment.parent = None;
        }
    }

    /// The number of the segment that contains a node.
    pub(super) fn segment_of(&self, at: u32) -> Option<usize> {
        self.segments.partition_point(|segment| segment.start <= at).checked_sub(1)
    }

    /// The segment that contains the parent of a segment, and the position of that parent.
    pub(super) fn parent_position(&self, segment: usize) -> Option<(usize, u32)> {
        let parent = self.segments.get(segment)?.parent?;
        Some((self.segment_of(parent)?, parent))
    }

    /// The end of a segment.
    fn end(&self, segment: usize) -> u32 {
        self.segments.get(segment + 1).map_or(self.len, |next| next.start)
    }
}

pub(super) const fn to_position(at: u32) -> usize {
    at as usize
}

/// The nodes in depth-first order. A node follows its parent directly, or after other descendants of its parent.
#[derive(Debug, Default)]
pub(crate) struct DepthFirstTree {
    parents: Parents,
    /// For each segment: the place of its first node in the order, and the last place of its nodes and their
    /// descendants.
    places: Vec<(u32, u32)>,
    /// For each segment, the end of its part of `children`.
    child_ends: Vec<u32>,
    /// For each segment: its child segments, each as the position of its parent and its own number. The children of
    /// later nodes come first.
    children: Vec<(u32, u32)>,
    /// The segments in the order.
    order: Vec<u32>,
}

impl DepthFirstTree {
    /// Brings the nodes into depth-first order. The parents must not form a cycle.
    pub(super) fn of(parents: Parents) -> Self {
        let count = parents.segments.len();
        let mut children: Vec<(usize, u32, u32)> = Vec::new();
        let mut roots = Vec::new();
        for segment in 0..count {
            match parents.parent_position(segment) {
                Some((parent_segment, parent)) => children.push((parent_segment, parent, to_u32(segment))),
                None => roots.push(segment),
            }
        }
        children
            .sort_unstable_by_key(|(parent_segment, parent, segment)| (*parent_segment, u32::MAX - parent, *segment));
        let mut child_ends = vec![0; count];
        for (at, (parent_segment, ..)) in children.iter().enumerate() {
            if let Some(end) = child_ends.get_mut(*parent_segment) {
                *end = to_u32(at + 1);
            }
        }
        for segment in 1..count {
            let previous_end = child_ends.get(segment - 1).copied().unwrap_or_default();
            if let Some(end) = child_ends.get_mut(segment) {
                *end = previous_end.max(*end);
            }
        }
        let children = children.into_iter().map(|(_, parent, segment)| (parent, segment)).collect();
        let mut depth_first_tree =
            Self { parents, places: vec![(0, 0); count], child_ends, children, order: Vec::new() };
        roots.reverse();
        depth_first_tree.assign_places(roots);
        depth_first_tree
    }

    /// Finds the order and the places. `pending` contains the roots, in reverse order.
    fn assign_places(&mut self, mut pending: Vec<usize>) {
        let mut next = 0;
        while let Some(segment) = pending.pop() {
            let Some(start) = self.parents.segments.get(segment).map(|found| found.start) else { continue };
            let first = next;
            next += self.parents.end(segment) - start;
            if let Some(place) = self.places.get_mut(segment) {
                *place = (first, next.saturating_sub(1));
            }
            self.order.push(to_u32(segment));
            let children = self.children_of(segment).iter().rev().map(|(_, child)| to_position(*child));
            pending.extend(children);
        }
        for at in (0..self.order.len()).rev() {
            let Some(segment) = self.order.get(at).map(|segment| to_position(*segment)) else { continue };
            let last = self.last_place(segment);
            if let Some((parent_segment, _)) = self.parents.parent_position(segment)
                && let Some(place) = self.places.get_mut(parent_segment)
            {
                place.1 = place.1.max(last);
            }
        }
    }

    pub(super) const fn parents(&self) -> &Parents {
        &self.parents
    }

    fn children_of(&self, segment: usize) -> &[(u32, u32)] {
        let end = |segment: usize| self.child_ends.get(segment).copied().map_or(0, to_position);
        let start = segment.checked_sub(1).map_or(0, end);
        self.children.get(start..end(segment)).unwrap_or_default()
    }

    fn last_place(&self, segment: usize) -> u32 {
        self.places.get(segment).map_or(0, |(_, last)| *last)
    }

    /// The place of a node in the order, and the last place of the node and its descendants.
    fn places_of(&self, at: usize) -> Option<(u32, u32)> {
        let at = u32::try_from(at).ok().filter(|at| *at < self.parents.len)?;
        let segment = self.parents.segment_of(at)?;
        let (first, start) = (self.places.get(segment)?.0, self.parents.segments.get(segment)?.start);
        // The list has the order of the places: the child segments of later nodes come first. So of the child segments
        // of this node and of later ones, the last in the list has the last place.
        let children = self.children_of(segment);
        let count = children.partition_point(|(parent, _)| *parent >= at);
        let last = match count.checked_sub(1).and_then(|last| children.get(last)) {
            Some((_, child)) => self.last_place(to_position(*child)),
            None => first + (self.parents.end(segment) - start) - 1,
        };
        Some((first + (at - start), last))
    }

    /// Whether `node` is on the path of `at`, which includes `at` itself.
    pub(super) fn is_on_path(&self, at: usize, node: usize) -> bool {
        let (Some((place, _)), Some((first, last))) = (self.places_of(at), self.places_of(node)) else { return false };
        (first..=last).contains(&place)
    }

    /// The first node without children.
    pub(super) fn first_leaf(&self) -> Option<usize> {
        let last_node = |segment: usize| self.parents.end(segment).checked_sub(1);
        let is_leaf =
            |segment: &usize| last_node(*segment) != self.children_of(*segment).first().map(|(parent, _)| *parent);
        (0..self.parents.segments.len()).find(is_leaf).and_then(last_node).map(to_position)
    }

    /// The nodes in an order in which parents come first.
    pub(super) fn path_order(&self) -> PathOrder {
        let range = |segment: &u32| {
            let segment = to_position(*segment);
            Some((self.parents.segments.get(segment)?.start, self.parents.end(segment)))
        };
        PathOrder(self.order.iter().filter_map(range).collect())
    }
}

/// The nodes in an order in which parents come first.
#[derive(Debug, Default)]
pub(crate) struct PathOrder(Vec<(u32, u32)>);

impl PathOrder {
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.segments().flatten()
    }

    /// The order, as ranges of nodes. In a range each node but the first is the child of the preceding node.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Range<usize>> {
        self.0.iter().map(|(start, end)| to_position(*start)..to_position(*end))
    }
}

#[cfg(test)]
mod tests {
    use super::{DepthFirstTree, Parents};

    /// A small generator of pseudorandom numbers.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % limit
        }

        /// Parents of nodes, without cycles. A parent may come after its child.
        fn parents(&mut self, len: usize, kinds: usize) -> Vec<Option<usize>> {
            let mut parents: Vec<_> = (0..len)
                .map(|at| match self.below(kinds) {
                    0 => None,
                    1 => Some(self.below(len)),
                    2 if at > 0 => Some(self.below(at)),
                    _ => at.checked_sub(1),
                })
                .collect();
            for at in 0..len {
                let mut ancestor = parents[at];
                for _ in 0..=len {
                    ancestor = ancestor.and_then(|ancestor| parents[ancestor]);
                }
                // A path that is longer than the number of nodes contains a cycle.
                if ancestor.is_some() {
                    parents[at] = None;
                }
            }
            parents
        }
    }

    #[test]
    fn paths_and_orders_are_those_of_the_parents() {
        let mut numbers = Numbers(7);
        for round in 0..300 {
            let len = numbers.below(40);
            let parents = numbers.parents(len, 3 + round % 8);
            let mut list = Parents::default();
            parents.iter().for_each(|parent| list.push(*parent));
            let found: Vec<_> = (0..len).map(|at| list.get(at)).collect();
            assert_eq!(found, parents);
            let depth_first_tree = DepthFirstTree::of(list);
            let path = |at| std::iter::successors(Some(at), |at: &usize| parents[*at]).collect::<Vec<_>>();
            for at in 0..len {
                let on_path: Vec<_> = (0..len).filter(|node| depth_first_tree.is_on_path(at, *node)).collect();
                let mut expected = path(at);
                expected.sort_unstable();
                assert_eq!(on_path, expected, "{at} of {parents:?}");
                assert_eq!(Some(&depth_first_tree.parents().root(at)), path(at).last());
            }
            let order: Vec<_> = depth_first_tree.path_order().iter().collect();
            for (step, at) in order.iter().enumerate() {
                assert!(parents[*at].is_none_or(|parent| order[..step].contains(&parent)), "{order:?} of {parents:?}");
            }
            let mut all = order;
            all.sort_unstable();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
            let leaf = (0..len).find(|at| !parents.contains(&Some(*at)));
            assert_eq!(depth_first_tree.first_leaf(), leaf, "{parents:?}");
        }
    }
}
