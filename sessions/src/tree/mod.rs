//! The tree that the lines of a file form: ids, parents, cycles and paths.

mod depth_first_tree;
mod finder;
mod inherited_values;

use std::collections::HashMap;

use self::{
    depth_first_tree::{DepthFirstTree, to_position},
    finder::{MissingParent, ParentFinder},
};
pub(crate) use self::{
    depth_first_tree::{Parents, PathOrder},
    inherited_values::InheritedValues,
};
use crate::{
    compact::{List, RangeMap, TextTable, to_u32},
    issue::{IssueCode, Issues},
    json::Object,
    lines::SourceIds,
};

/// What a line says about its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ParentField {
    /// It has no parent.
    Root,
    /// It says nothing.
    Missing,
    /// It contains something that is neither an id nor null.
    Invalid,
    /// Its parent is the line with this id.
    Named(String),
    /// Its parent is the earlier node at this position.
    Node(usize),
}

impl ParentField {
    /// Reads the field with this name, which contains an id or null.
    pub(crate) fn read(line: &Object<'_>, name: &str) -> Self {
        match line.raw(name) {
            None => Self::Missing,
            Some("null") => Self::Root,
            Some(_) => line.text(name).map_or(Self::Invalid, Self::Named),
        }
    }
}

/// What a line says about its parent, packed into one byte, which is kept until all lines are read. Parents that need
/// more than one byte are in a list of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PackedParent {
    /// The parent is the preceding node.
    Preceding,
    Root,
    Missing,
    Invalid,
    /// The parent is the next of the links.
    Link,
}

/// A parent that is not the preceding node.
#[derive(Debug, Clone, Copy)]
enum Link {
    /// A line whose id has this number among the ids of lines.
    Id(u32),
    /// A line whose id has this number in `unknown_names`. No earlier line has this id.
    Unknown(u32),
    /// The node at this position.
    Node(u32),
}

/// A line of the tree.
#[derive(Debug)]
pub(crate) struct Node<'a, D> {
    /// The number of the line, from 1.
    pub(crate) line: u64,
    /// The position of its parent in the tree.
    pub(crate) parent: Option<usize>,
    /// The format-specific data of the line.
    pub(crate) data: &'a D,
}

/// How parents are found for lines that do not name the id of another line as their parent.
#[derive(Debug, Default)]
pub(crate) struct ParentPolicy {
    /// Whether a line that says nothing about its parent is a child of the preceding line.
    pub(crate) unstated_means_preceding: bool,
    /// Whether it is an issue if any line except the first has no parent. If `unstated_means_preceding` is set, a line
    /// that says nothing about its parent has one.
    pub(crate) reports_new_roots: bool,
    /// Whether the preceding line becomes the parent of a line that would otherwise be a root. Such a line has a parent
    /// that is not in the file, or says that it has none although it is not the first line.
    pub(crate) preceding_replaces_root: bool,
    /// A line that names this as its parent is a root.
    pub(crate) name_of_root: Option<String>,
    /// A line may also name a call as its parent. For each id of a call: the positions of the lines that contain it.
    pub(crate) calls: HashMap<String, Vec<usize>>,
}

/// The lines of the tree, in file order. Most nodes take no more memory than their ids and the data of the format.
#[derive(Debug)]
pub(crate) struct Tree<D> {
    source_ids: SourceIds,
    /// The line of each node.
    lines: RangeMap,
    data: List<D>,
    /// What each line says about its parent. The list is empty when all parents are found.
    packed_parents: List<PackedParent>,
    links: List<Link>,
    /// The names of parents that are not the id of an earlier line.
    unknown_names: TextTable,
    depth_first_tree: DepthFirstTree,
}

impl<D> Default for Tree<D> {
    fn default() -> Self {
        Self {
            source_ids: SourceIds::default(),
            lines: RangeMap::default(),
            data: List::default(),
            packed_parents: List::default(),
            links: List::default(),
            unknown_names: TextTable::default(),
            depth_first_tree: DepthFirstTree::default(),
        }
    }
}

impl<D> Tree<D> {
    /// Adds a node. The id of its line is in [`Self::source_ids_mut`] already.
    pub(crate) fn push(&mut self, line: u64, parent: ParentField, data: D) -> usize {
        let at = self.data.len();
        let packed = match parent {
            ParentField::Root => PackedParent::Root,
            ParentField::Missing => PackedParent::Missing,
            ParentField::Invalid => PackedParent::Invalid,
            ParentField::Node(parent) if Some(parent) == at.checked_sub(1) => PackedParent::Preceding,
            ParentField::Node(parent) => self.push_link(Link::Node(to_u32(parent))),
            ParentField::Named(name) => match self.source_ids.find(&name) {
                Some(id) if Some(id) == self.number_of(at.checked_sub(1)) => PackedParent::Preceding,
                Some(id) => self.push_link(Link::Id(id)),
                None => {
                    let name = self.unknown_names.add(&name).map_or(u32::MAX, |(number, _)| number);
                    self.push_link(Link::Unknown(name))
                }
            },
        };
        self.packed_parents.push(packed);
        self.data.push(data);
        self.lines.push(to_u32(line), to_u32(at));
        at
    }

    fn push_link(&mut self, link: Link) -> PackedParent {
        self.links.push(link);
        PackedParent::Link
    }

    /// The ids of all lines, also of those that are not in the tree.
    pub(crate) const fn source_ids(&self) -> &SourceIds {
        &self.source_ids
    }

    pub(crate) const fn source_ids_mut(&mut self) -> &mut SourceIds {
        &mut self.source_ids
    }

    pub(crate) fn get(&self, at: usize) -> Option<Node<'_, D>> {
        let data = self.data.get(at)?;
        Some(Node { line: self.line(at)?, parent: self.parent(at), data })
    }

    /// The number of the line of a node.
    pub(crate) fn line(&self, at: usize) -> Option<u64> {
        self.lines.find(u32::try_from(at).ok()?).map(u64::from)
    }

    /// The position of a line, if it is in the tree.
    pub(crate) fn position(&self, line: u64) -> Option<usize> {
        self.lines.get(u32::try_from(line).ok()?).map(to_position)
    }

    /// The id that the line of a node contains.
    pub(crate) fn source_id(&self, at: usize) -> Option<String> {
        self.source_ids.of_line(to_u32(self.line(at)?))
    }

    /// Whether an earlier node has the same id.
    pub(crate) fn repeats_id(&self, at: usize) -> bool {
        let line = self.line(at).map(to_u32);
        let number = line.and_then(|line| self.source_ids.repeated_id(line));
        number.is_some_and(|number| self.nodes_with_number(number).first().is_some_and(|first| *first < at))
    }

    /// The number of the id that the line of a node contains.
    fn number_of(&self, at: Option<usize>) -> Option<u32> {
        self.source_ids.number_of_line(to_u32(self.line(at?)?))
    }

    /// The nodes whose lines contain an id, in file order.
    pub(crate) fn nodes_with_id(&self, id: &str) -> Vec<usize> {
        self.source_ids.find(id).map_or_else(Vec::new, |number| self.nodes_with_number(number))
    }

    fn nodes_with_number(&self, id: u32) -> Vec<usize> {
        self.source_ids.lines_with(id).filter_map(|line| self.position(u64::from(line))).collect()
    }

    /// The names of parents that are not ids of lines.
    pub(crate) fn unknown_parents(&self) -> impl Iterator<Item = String> {
        let names = (0..self.unknown_names.len()).filter_map(|number| self.unknown_names.text(number));
        names.filter(|name| self.nodes_with_id(name).is_empty())
    }

    pub(crate) fn data(&self, at: usize) -> Option<&D> {
        self.data.get(at)
    }

    pub(crate) fn data_mut(&mut self, at: usize) -> Option<&mut D> {
        self.data.get_mut(at)
    }

    /// The data of all nodes.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &D)> {
        (0..self.data.len()).filter_map(|at| Some((at, self.data.get(at)?)))
    }

    pub(crate) const fn len(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn parent(&self, at: usize) -> Option<usize> {
        self.depth_first_tree.parents().get(at)
    }

    /// The node and its ancestors, up to its root.
    pub(crate) fn path(&self, at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(at), |at| self.parent(*at))
    }

    /// The root of the path of a node.
    pub(crate) fn root(&self, at: usize) -> usize {
        self.depth_first_tree.parents().root(at)
    }

    /// Whether `node` is on the path of `at`, which includes `at` itself.
    pub(crate) fn is_on_path(&self, at: usize, node: usize) -> bool {
        self.depth_first_tree.is_on_path(at, node)
    }

    /// The first node without children.
    pub(crate) fn first_leaf(&self) -> Option<usize> {
        self.depth_first_tree.first_leaf()
    }

    /// Finds every parent, and cuts cycles. Returns the nodes in an order in which parents come first. `is_message`
    /// says whether a node is a message of the context.
    pub(crate) fn resolve_parents(
        &mut self,
        policy: &ParentPolicy,
        is_message: &dyn Fn(&D) -> bool,
        issues: &mut Issues,
    ) -> PathOrder {
        let mut finder = ParentFinder::new(self, policy, issues);
        let mut parents = Parents::default();
        (0..self.data.len()).for_each(|at| parents.push(finder.parent(at)));
        let missing_parents = finder.into_missing_parents();
        (self.packed_parents, self.links, self.unknown_names) =
            (List::default(), List::default(), TextTable::default());
        self.source_ids.finish();
        self.cut_cycles(&mut parents, issues);
        let order = self.set_parents(parents);
        if !missing_parents.is_empty() {
            self.note_missing_parents(missing_parents, &self.messages_on_paths(&order, is_message), issues);
        }
        order
    }

    /// For each node, the number of messages on its path.
    fn messages_on_paths(&self, order: &PathOrder, is_message: &dyn Fn(&D) -> bool) -> Vec<u32> {
        let mut counts = vec![0; self.data.len()];
        for at in order.iter() {
            let count_of_parent = self.parent(at).and_then(|parent| counts.get(parent).copied()).unwrap_or_default();
            let own_count = u32::from(self.data(at).is_some_and(is_message));
            if let Some(count) = counts.get_mut(at) {
                *count = count_of_parent + own_count;
            }
        }
        counts
    }

    /// Notes the lines that have no parent in the file, with the number of messages that their contexts lack.
    fn note_missing_parents(&self, missing_parents: Vec<MissingParent>, messages: &[u32], issues: &mut Issues) {
        for MissingParent { at, code, detail } in missing_parents {
            let Some(node) = self.get(at) else { continue };
            let preceding = at.checked_sub(1).filter(|preceding| !self.is_on_path(*preceding, at));
            let lost = preceding.and_then(|preceding| messages.get(preceding)).copied().unwrap_or_default();
            if node.parent.is_some() {
                issues.add(node.line, code, detail, "the line before it becomes its parent; the raw line is kept");
            } else {
                let detail = match lost {
                    0 => detail,
                    _ => format!("{detail}; number of messages missing from its context: {lost}"),
                };
                issues.add(node.line, code, detail, "it becomes a root; the raw line keeps the given parent");
            }
        }
    }

    /// Sets the parent of every node. Returns the new order.
    pub(crate) fn set_parents(&mut self, parents: Parents) -> PathOrder {
        self.depth_first_tree = DepthFirstTree::of(parents);
        self.depth_first_tree.path_order()
    }

    /// Cuts cycles. A segment is a run of nodes, each the parent of the next. A cycle that enters a segment contains
    /// its first node, so the walk goes from segment to segment.
    fn cut_cycles(&self, parents: &mut Parents, issues: &mut Issues) {
        // 0 for a segment that was not visited, else the number of the walk that visited it first.
        let mut first_visits = vec![0_u32; parents.segments().len()];
        for start in 0..first_visits.len() {
            let walk = to_u32(start + 1);
            let mut at = Some(start);
            while let Some(segment) = at {
                match first_visits.get_mut(segment) {
                    Some(visit) if *visit == 0 => *visit = walk,
                    Some(visit) if *visit == walk => {
                        self.cut_cycle(parents, segment, issues);
                        break;
                    }
                    _ => break,
                }
                at = parents.parent_position(segment).map(|(parent_segment, _)| parent_segment);
            }
        }
    }

    fn cut_cycle(&self, parents: &mut Parents, segment: usize, issues: &mut Issues) {
        // The parts of the segments that are in the cycle: each from its first node to the parent of another part.
        let mut parts = Vec::new();
        let mut at = segment;
        while let Some((parent_segment, parent)) = parents.parent_position(at) {
            parts.push((parent_segment, parent));
            at = parent_segment;
            if at == segment {
                break;
            }
        }
        let start = |segment: usize| parents.segments().get(segment).map_or(0, |segment| segment.start);
        let mut members: Vec<_> = parts.iter().flat_map(|(part, last)| start(*part)..=*last).collect();
        members.sort_unstable();
        let lines: Vec<_> = members.iter().filter_map(|at| Some(self.line(to_position(*at))?.to_string())).collect();
        let first = parts.iter().map(|(part, _)| *part).min().unwrap_or(segment);
        let line = self.line(to_position(start(first))).unwrap_or_default();
        let detail = format!("the parents of lines {} form a cycle", lines.join(", "));
        issues.add(line, IssueCode::ParentCycle, detail, "cut: it becomes a root");
        parents.cut(first);
    }
}

#[cfg(test)]
mod tests {
    use super::{ParentField, ParentPolicy, Tree};
    use crate::issue::{IssueCode, Issues};

    fn build_tree(lines: &[(&str, &str)], policy: &ParentPolicy) -> (Tree<()>, Vec<(Option<u64>, IssueCode)>) {
        let mut tree = Tree::default();
        for (at, (id, parent)) in lines.iter().enumerate() {
            let parent_field = match *parent {
                "" => ParentField::Root,
                "?" => ParentField::Missing,
                "!" => ParentField::Invalid,
                name => ParentField::Named(name.to_owned()),
            };
            let line = at as u64 + 1;
            tree.source_ids_mut().add(line, id, &[]);
            tree.push(line, parent_field, ());
        }
        let mut issues = Issues::default();
        let order = tree.resolve_parents(policy, &|()| true, &mut issues);
        let order: Vec<_> = order.iter().collect();
        for (step, at) in order.iter().enumerate() {
            assert!(tree.parent(*at).is_none_or(|parent| order[..step].contains(&parent)), "{order:?}");
        }
        (tree, issues.into_parts().0.into_iter().map(|issue| (issue.line, issue.code)).collect())
    }

    fn parents(tree: &Tree<()>) -> Vec<Option<usize>> {
        (0..tree.len()).map(|at| tree.parent(at)).collect()
    }

    #[test]
    fn the_parent_is_the_nearest_earlier_line_with_the_named_id() {
        let (tree, issues) = build_tree(
            &[("a", ""), ("b", "a"), ("a", "b"), ("c", "a"), ("d", "e"), ("e", "c")],
            &ParentPolicy::default(),
        );
        assert_eq!(parents(&tree), [None, Some(0), Some(1), Some(2), Some(5), Some(3)]);
        assert_eq!(issues, [(Some(5), IssueCode::ForwardParent)]);
        assert!(tree.is_on_path(4, 5) && tree.is_on_path(4, 0) && !tree.is_on_path(5, 4));
        assert_eq!((tree.first_leaf(), tree.path(4).collect::<Vec<_>>()), (Some(4), vec![4, 5, 3, 2, 1, 0]));
    }

    #[test]
    fn cycles_are_cut_at_their_first_line() {
        let (tree, issues) =
            build_tree(&[("x", "b"), ("a", "b"), ("b", "a"), ("c", "c"), ("d", "unknown")], &ParentPolicy::default());
        assert_eq!(parents(&tree), [Some(2), None, Some(1), None, None]);
        let codes = [
            (Some(1), IssueCode::ForwardParent),
            (Some(2), IssueCode::ForwardParent),
            (Some(2), IssueCode::ParentCycle),
            (Some(4), IssueCode::ParentCycle),
            (Some(5), IssueCode::DanglingParent),
        ];
        assert_eq!(issues, codes);
    }

    #[test]
    fn parents_named_by_other_means_than_ids_are_found() {
        let calls = [("call".to_owned(), vec![1, 3])].into();
        let policy = ParentPolicy {
            unstated_means_preceding: true,
            name_of_root: Some("session".to_owned()),
            calls,
            ..ParentPolicy::default()
        };
        let (tree, issues) =
            build_tree(&[("a", "session"), ("b", "?"), ("c", "call"), ("d", "session"), ("e", "call")], &policy);
        assert_eq!(parents(&tree), [None, Some(0), Some(1), None, Some(3)]);
        assert_eq!(issues, []);
    }

    #[test]
    fn a_line_without_a_parent_in_the_file_becomes_a_root_or_gets_the_line_before_as_its_parent() {
        let lines = [("a", ""), ("b", "a"), ("c", "lost"), ("d", "c"), ("e", ""), ("f", "?")];
        let policy =
            ParentPolicy { unstated_means_preceding: true, reports_new_roots: true, ..ParentPolicy::default() };
        let (tree, issues) = build_tree(&lines, &policy);
        assert_eq!(parents(&tree), [None, Some(0), None, Some(2), None, Some(4)]);
        let expected = [(Some(3), IssueCode::DanglingParent), (Some(5), IssueCode::NewRoot)];
        assert_eq!(issues, expected);
        let (tree, issues) = build_tree(&[("a", ""), ("b", "!")], &policy);
        assert_eq!((tree.parent(1), issues), (None, vec![(Some(2), IssueCode::BadField)]));
        let every_line_names_its_parent = ParentPolicy { reports_new_roots: true, ..ParentPolicy::default() };
        assert_eq!(
            build_tree(&[("a", "?"), ("b", "?")], &every_line_names_its_parent).1,
            [(Some(2), IssueCode::NewRoot)]
        );
        let (tree, issues) = build_tree(&lines, &ParentPolicy { preceding_replaces_root: true, ..policy });
        assert_eq!(parents(&tree), [None, Some(0), Some(1), Some(2), Some(3), Some(4)]);
        assert_eq!(issues, expected);
    }
}
