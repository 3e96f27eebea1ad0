//! The tree that the lines of a file form: ids, parents, cycles and paths.

use std::collections::HashMap;

use crate::{
    issue::{IssueCode, Issues},
    json::Object,
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
    /// Its parent is the node at this position, which comes before it.
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

/// A line of the tree.
#[derive(Debug)]
pub(crate) struct Node<D> {
    /// The number of the line, from 1.
    pub(crate) line: u64,
    /// The id that the line contains.
    pub(crate) source_id: Option<String>,
    /// What the line says about its parent.
    pub(crate) parent_field: ParentField,
    /// The position of its parent in the tree.
    pub(crate) parent: Option<usize>,
    /// The data of the format about the line.
    pub(crate) data: D,
    /// The position of the node in depth-first order.
    enter: usize,
    /// The last position in depth-first order of the node and its descendants.
    leave: usize,
}

impl<D> Node<D> {
    pub(crate) const fn new(line: u64, source_id: Option<String>, parent_field: ParentField, data: D) -> Self {
        Self { line, source_id, parent_field, parent: None, data, enter: 0, leave: 0 }
    }
}

/// What names of parents mean if they are not ids of lines.
#[derive(Debug, Default)]
pub(crate) struct ParentNames {
    /// Whether the line before is the parent of a line that says nothing about its parent.
    pub(crate) chain: bool,
    /// Whether a line after the first that has no parent is an issue. If `chain` is set, this does not concern lines
    /// that say nothing about their parent.
    pub(crate) notes_new_roots: bool,
    /// Whether the line before is the parent of a line whose parent is not in the file, and of a line after the first
    /// that says that it has no parent.
    pub(crate) nearest: bool,
    /// A name that means that the line is a root.
    pub(crate) root: Option<String>,
    /// Names that mean an earlier line: ids of calls, with the positions of the lines that contain the calls.
    pub(crate) calls: HashMap<String, Vec<usize>>,
}

/// The lines of the tree, in file order.
#[derive(Debug)]
pub(crate) struct Tree<D> {
    nodes: Vec<Node<D>>,
}

impl<D> Default for Tree<D> {
    fn default() -> Self {
        Self { nodes: Vec::new() }
    }
}

impl<D> Tree<D> {
    pub(crate) fn push(&mut self, node: Node<D>) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Node<D>> {
        self.nodes.get(at)
    }

    pub(crate) fn data_mut(&mut self, at: usize) -> Option<&mut D> {
        self.nodes.get_mut(at).map(|node| &mut node.data)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &Node<D>)> {
        self.nodes.iter().enumerate()
    }

    pub(crate) const fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn parent(&self, at: usize) -> Option<usize> {
        self.get(at)?.parent
    }

    /// The node and its ancestors, up to its root.
    pub(crate) fn path(&self, at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(at), |at| self.parent(*at))
    }

    /// Whether `above` is on the path of `at`, which includes `at` itself.
    pub(crate) fn is_on_path(&self, at: usize, above: usize) -> bool {
        let (Some(at), Some(above)) = (self.get(at), self.get(above)) else { return false };
        above.enter <= at.enter && at.leave <= above.leave
    }

    /// The first node without children.
    pub(crate) fn first_leaf(&self) -> Option<usize> {
        let mut has_child = vec![false; self.nodes.len()];
        for parent in self.nodes.iter().filter_map(|node| node.parent) {
            if let Some(flag) = has_child.get_mut(parent) {
                *flag = true;
            }
        }
        has_child.iter().position(|has_child| !has_child)
    }

    /// Finds every parent, and cuts cycles. Returns the nodes in an order in which parents come first. `is_message`
    /// says whether a node is a message of the context.
    pub(crate) fn resolve_parents(
        &mut self,
        names: &ParentNames,
        is_message: &dyn Fn(&D) -> bool,
        issues: &mut Issues,
    ) -> Vec<usize> {
        let mut finder = ParentFinder::new(&self.nodes, names, issues);
        let parents: Vec<_> = (0..self.nodes.len()).map(|at| finder.parent(&self.nodes, at)).collect();
        let gaps = finder.gaps;
        for (node, parent) in self.nodes.iter_mut().zip(parents) {
            node.parent = parent;
        }
        self.cut_cycles(issues);
        let order = self.number_nodes();
        self.note_gaps(gaps, &self.messages_on_paths(&order, is_message), issues);
        order
    }

    /// For each node, the number of messages on its path.
    fn messages_on_paths(&self, order: &[usize], is_message: &dyn Fn(&D) -> bool) -> Vec<usize> {
        let mut counts = vec![0; self.nodes.len()];
        for &at in order {
            let above = self.parent(at).and_then(|parent| counts.get(parent).copied()).unwrap_or_default();
            let own = usize::from(self.get(at).is_some_and(|node| is_message(&node.data)));
            if let Some(count) = counts.get_mut(at) {
                *count = above + own;
            }
        }
        counts
    }

    /// Notes the lines that have no parent in the file, with the number of messages that are lost to their contexts.
    fn note_gaps(&self, gaps: Vec<Gap>, messages: &[usize], issues: &mut Issues) {
        for Gap { at, code, detail } in gaps {
            let Some(node) = self.get(at) else { continue };
            let before = at.checked_sub(1).filter(|before| !self.is_on_path(*before, at));
            let lost = before.and_then(|before| messages.get(before)).copied().unwrap_or_default();
            if node.parent.is_some() {
                issues.add(node.line, code, detail, "the line before it becomes its parent; the raw line is kept");
            } else {
                let detail =
                    if lost == 0 { detail } else { format!("{detail}; messages that its context loses: {lost}") };
                issues.add(node.line, code, detail, "it becomes a root; the raw line keeps the given parent");
            }
        }
    }

    /// Sets the parent of every node. Returns the new order.
    pub(crate) fn set_parents(&mut self, parents: &[Option<usize>]) -> Vec<usize> {
        for (node, parent) in self.nodes.iter_mut().zip(parents) {
            node.parent = *parent;
        }
        self.number_nodes()
    }

    fn cut_cycles(&mut self, issues: &mut Issues) {
        // 0 for a node that was not visited, else the number of the walk that visited it first.
        let mut seen = vec![0_usize; self.nodes.len()];
        for start in 0..self.nodes.len() {
            let mut at = Some(start);
            while let Some(here) = at {
                match seen.get_mut(here) {
                    Some(walk) if *walk == 0 => *walk = start + 1,
                    Some(walk) if *walk == start + 1 => {
                        self.cut_cycle(here, issues);
                        break;
                    }
                    _ => break,
                }
                at = self.parent(here);
            }
        }
    }

    fn cut_cycle(&mut self, member: usize, issues: &mut Issues) {
        let mut members = vec![member];
        let mut at = self.parent(member);
        while let Some(here) = at.filter(|here| *here != member) {
            members.push(here);
            at = self.parent(here);
        }
        members.sort_unstable();
        let lines: Vec<_> = members.iter().filter_map(|at| Some(self.get(*at)?.line.to_string())).collect();
        if let Some(node) = members.first().and_then(|first| self.nodes.get_mut(*first)) {
            node.parent = None;
            let detail = format!("the parents of lines {} form a cycle", lines.join(", "));
            issues.add(node.line, IssueCode::ParentCycle, detail, "cut: it becomes a root");
        }
    }

    /// Numbers the nodes in depth-first order, so that `is_on_path` needs no walk. Returns this order.
    fn number_nodes(&mut self) -> Vec<usize> {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut open = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            match node.parent.and_then(|parent| children.get_mut(parent)) {
                Some(list) => list.push(at),
                None => open.push(at),
            }
        }
        open.reverse();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(at) = open.pop() {
            if let Some(node) = self.nodes.get_mut(at) {
                node.enter = order.len();
                node.leave = order.len();
            }
            order.push(at);
            open.extend(children.get(at).into_iter().flatten().rev());
        }
        for &at in order.iter().rev() {
            let Some(leave) = self.get(at).map(|node| node.leave) else { continue };
            if let Some(parent) = self.parent(at).and_then(|parent| self.nodes.get_mut(parent)) {
                parent.leave = parent.leave.max(leave);
            }
        }
        order
    }
}

/// A line that has no parent in the file although another line comes before it.
struct Gap {
    at: usize,
    code: IssueCode,
    detail: String,
}

/// Finds the parents of lines.
struct ParentFinder<'a> {
    /// The positions of lines by the ids that the lines contain, in file order.
    ids: HashMap<String, Vec<usize>>,
    names: &'a ParentNames,
    issues: &'a mut Issues,
    gaps: Vec<Gap>,
}

impl<'a> ParentFinder<'a> {
    fn new<D>(nodes: &[Node<D>], names: &'a ParentNames, issues: &'a mut Issues) -> Self {
        let mut ids: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, node) in nodes.iter().enumerate() {
            if let Some(source_id) = &node.source_id {
                ids.entry(source_id.clone()).or_default().push(at);
            }
        }
        Self { ids, names, issues, gaps: Vec::new() }
    }

    fn parent<D>(&mut self, nodes: &[Node<D>], at: usize) -> Option<usize> {
        let node = nodes.get(at)?;
        let before = at.checked_sub(1);
        let has_new_root = at > 0 && self.names.notes_new_roots;
        let name = match &node.parent_field {
            ParentField::Root if has_new_root => {
                let detail = "the line says that it has no parent, although lines come before it".to_owned();
                return self.gap(Gap { at, code: IssueCode::NewRoot, detail });
            }
            ParentField::Missing if has_new_root && !self.names.chain => {
                let detail = "the line names no parent, although other lines do".to_owned();
                return self.gap(Gap { at, code: IssueCode::NewRoot, detail });
            }
            ParentField::Invalid => {
                let detail = "the parent is neither an id nor null".to_owned();
                return self.gap(Gap { at, code: IssueCode::BadField, detail });
            }
            ParentField::Root => return before.filter(|_| self.names.nearest),
            ParentField::Missing => return before.filter(|_| self.names.chain || self.names.nearest),
            ParentField::Named(name) => name,
            ParentField::Node(parent) => return Some(*parent).filter(|parent| *parent < at),
        };
        if let Some(candidates) = self.ids.get(name) {
            let earlier = candidates.partition_point(|other| *other < at);
            if let Some(found) = earlier.checked_sub(1).and_then(|before| candidates.get(before)) {
                return Some(*found);
            }
            let found = candidates.get(earlier).copied();
            let line = found.and_then(|found| nodes.get(found)).map_or(0, |found| found.line);
            if line == node.line {
                return found;
            }
            let detail = format!("the parent `{name}` comes later, on line {line}");
            self.issues.add(node.line, IssueCode::ForwardParent, detail, "appended after its parent");
            return found;
        }
        if self.names.root.as_ref() == Some(name) {
            return None;
        }
        let calls = self.names.calls.get(name).into_iter().flatten().take_while(|call| **call < at);
        if let Some(call) = calls.last() {
            return Some(*call);
        }
        self.gap(Gap { at, code: IssueCode::DanglingParent, detail: format!("no line has the id `{name}`") })
    }

    /// Notes that a line has no parent in the file. Returns the parent that it gets.
    fn gap(&mut self, gap: Gap) -> Option<usize> {
        let before = gap.at.checked_sub(1);
        self.gaps.push(gap);
        before.filter(|_| self.names.nearest)
    }
}

#[cfg(test)]
mod tests {
    use super::{Node, ParentField, ParentNames, Tree};
    use crate::issue::{IssueCode, Issues};

    fn build_tree(lines: &[(&str, &str)], names: &ParentNames) -> (Tree<()>, Vec<(Option<u64>, IssueCode)>) {
        let mut tree = Tree::default();
        for (at, (id, parent)) in lines.iter().enumerate() {
            let parent_field = match *parent {
                "" => ParentField::Root,
                "?" => ParentField::Missing,
                name => ParentField::Named(name.to_owned()),
            };
            tree.push(Node::new(at as u64 + 1, Some((*id).to_owned()), parent_field, ()));
        }
        let mut issues = Issues::default();
        let order = tree.resolve_parents(names, &|()| true, &mut issues);
        for (step, at) in order.iter().enumerate() {
            assert!(tree.parent(*at).is_none_or(|parent| order[..step].contains(&parent)), "{order:?}");
        }
        (tree, issues.into_parts().0.into_iter().map(|issue| (issue.line, issue.code)).collect())
    }

    fn parents(tree: &Tree<()>) -> Vec<Option<usize>> {
        tree.iter().map(|(_, node)| node.parent).collect()
    }

    #[test]
    fn a_parent_is_the_nearest_earlier_line_with_its_id() {
        let (tree, issues) = build_tree(
            &[("a", ""), ("b", "a"), ("a", "b"), ("c", "a"), ("d", "e"), ("e", "c")],
            &ParentNames::default(),
        );
        assert_eq!(parents(&tree), [None, Some(0), Some(1), Some(2), Some(5), Some(3)]);
        assert_eq!(issues, [(Some(5), IssueCode::ForwardParent)]);
        assert!(tree.is_on_path(4, 5) && tree.is_on_path(4, 0) && !tree.is_on_path(5, 4));
        assert_eq!((tree.first_leaf(), tree.path(4).collect::<Vec<_>>()), (Some(4), vec![4, 5, 3, 2, 1, 0]));
    }

    #[test]
    fn cycles_are_cut_at_their_first_line() {
        let (tree, issues) =
            build_tree(&[("x", "b"), ("a", "b"), ("b", "a"), ("c", "c"), ("d", "nobody")], &ParentNames::default());
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
        let names = ParentNames { chain: true, root: Some("session".to_owned()), calls, ..ParentNames::default() };
        let (tree, issues) =
            build_tree(&[("a", "session"), ("b", "?"), ("c", "call"), ("d", "session"), ("e", "call")], &names);
        assert_eq!(parents(&tree), [None, Some(0), Some(1), None, Some(3)]);
        assert_eq!(issues, []);
    }

    #[test]
    fn a_line_without_a_parent_in_the_file_becomes_a_root_or_gets_the_line_before_as_its_parent() {
        let lines = [("a", ""), ("b", "a"), ("c", "lost"), ("d", "c"), ("e", ""), ("f", "?")];
        let given = ParentNames { chain: true, notes_new_roots: true, ..ParentNames::default() };
        let (tree, issues) = build_tree(&lines, &given);
        assert_eq!(parents(&tree), [None, Some(0), None, Some(2), None, Some(4)]);
        let expected = [(Some(3), IssueCode::DanglingParent), (Some(5), IssueCode::NewRoot)];
        assert_eq!(issues, expected);
        let nodes = |(at, parent_field)| Node::new(at, None, parent_field, ());
        let mut tree = Tree { nodes: [(1, ParentField::Root), (2, ParentField::Invalid)].map(nodes).into() };
        let mut issues = Issues::default();
        tree.resolve_parents(&given, &|()| true, &mut issues);
        assert_eq!((tree.parent(1), issues.into_parts().0[0].code), (None, IssueCode::BadField));
        let apart = ParentNames { notes_new_roots: true, ..ParentNames::default() };
        assert_eq!(build_tree(&[("a", "?"), ("b", "?")], &apart).1, [(Some(2), IssueCode::NewRoot)]);
        let (tree, issues) = build_tree(&lines, &ParentNames { nearest: true, ..given });
        assert_eq!(parents(&tree), [None, Some(0), Some(1), Some(2), Some(3), Some(4)]);
        assert_eq!(issues, expected);
    }
}
