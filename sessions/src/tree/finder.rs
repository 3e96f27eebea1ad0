//! Finds the parents that lines name.

use super::{Link, PackedParent, ParentPolicy, Tree, depth_first_tree::to_position};
use crate::{
    compact::Items,
    issue::{IssueCode, Issues},
};

/// A line without a parent in the file, and the issue to note about it.
pub(super) struct MissingParent {
    pub(super) at: usize,
    pub(super) code: IssueCode,
    pub(super) detail: String,
}

/// Finds the parents of lines, in file order.
pub(super) struct ParentFinder<'a, D> {
    tree: &'a Tree<D>,
    links: Items<'a, Link>,
    policy: &'a ParentPolicy,
    issues: &'a mut Issues,
    missing_parents: Vec<MissingParent>,
}

impl<'a, D> ParentFinder<'a, D> {
    pub(super) fn new(tree: &'a Tree<D>, policy: &'a ParentPolicy, issues: &'a mut Issues) -> Self {
        Self { tree, links: tree.links.iter(), policy, issues, missing_parents: Vec::new() }
    }

    pub(super) fn into_missing_parents(self) -> Vec<MissingParent> {
        self.missing_parents
    }

    /// The parent of the next line.
    pub(super) fn parent(&mut self, at: usize) -> Option<usize> {
        let preceding = at.checked_sub(1);
        let has_new_root = at > 0 && self.policy.reports_new_roots;
        match self.tree.packed_parents.get(at)? {
            PackedParent::Preceding => preceding,
            PackedParent::Root if has_new_root => {
                let detail = "the line says that it has no parent, although lines come before it".to_owned();
                self.note_missing(MissingParent { at, code: IssueCode::NewRoot, detail })
            }
            PackedParent::Missing if has_new_root && !self.policy.unstated_means_preceding => {
                let detail = "the line names no parent, although other lines do".to_owned();
                self.note_missing(MissingParent { at, code: IssueCode::NewRoot, detail })
            }
            PackedParent::Invalid => {
                let detail = "the parent is neither an id nor null".to_owned();
                self.note_missing(MissingParent { at, code: IssueCode::BadField, detail })
            }
            PackedParent::Root => preceding.filter(|_| self.policy.preceding_replaces_root),
            PackedParent::Missing => {
                preceding.filter(|_| self.policy.unstated_means_preceding || self.policy.preceding_replaces_root)
            }
            PackedParent::Link => match *self.links.next()? {
                Link::Node(parent) => Some(to_position(parent)).filter(|parent| *parent < at),
                Link::Id(id) => {
                    let found = self.node_with_id(at, &self.tree.nodes_with_number(id), id);
                    found.or_else(|| self.parent_without_id(at, self.tree.source_ids.text(id)))
                }
                Link::Unknown(name) => self.parent_of_unknown_name(at, name),
            },
        }
    }

    fn parent_of_unknown_name(&mut self, at: usize, name: u32) -> Option<usize> {
        let name = self.tree.unknown_names.text(name);
        let id = name.as_ref().and_then(|name| self.tree.source_ids.find(name));
        let found = id.and_then(|id| self.node_with_id(at, &self.tree.nodes_with_number(id), id));
        found.or_else(|| self.parent_without_id(at, name))
    }

    /// The nearest earlier node with an id, or else the first later one. Returns `None` if no node has the id.
    fn node_with_id(&mut self, at: usize, nodes: &[usize], id: u32) -> Option<usize> {
        let earlier = nodes.partition_point(|other| *other < at);
        if let Some(found) = earlier.checked_sub(1).and_then(|before| nodes.get(before)) {
            return Some(*found);
        }
        let found = *nodes.get(earlier)?;
        // A line that names itself as its parent is a cycle, which is cut later.
        if found != at {
            let (line, found_line) = (self.tree.line(at)?, self.tree.line(found)?);
            let name = self.tree.source_ids.text(id).unwrap_or_default();
            let detail = format!("the parent `{name}` comes later, on line {found_line}");
            self.issues.add(line, IssueCode::ForwardParent, detail, "appended after its parent");
        }
        Some(found)
    }

    /// The parent that a line gets if it names a parent that is not the id of a node.
    fn parent_without_id(&mut self, at: usize, name: Option<String>) -> Option<usize> {
        if name.is_some() && self.policy.name_of_root == name {
            return None;
        }
        let name = name.unwrap_or_default();
        let calls = self.policy.calls.get(&name).into_iter().flatten().take_while(|call| **call < at);
        if let Some(call) = calls.last() {
            return Some(*call);
        }
        self.note_missing(MissingParent {
            at,
            code: IssueCode::DanglingParent,
            detail: format!("no line has the id `{name}`"),
        })
    }

    /// Notes that the parent of a line was not found. Returns the preceding line if the policy puts it in place of a
    /// root.
    fn note_missing(&mut self, missing: MissingParent) -> Option<usize> {
        let preceding = missing.at.checked_sub(1);
        self.missing_parents.push(missing);
        preceding.filter(|_| self.policy.preceding_replaces_root)
    }
}
