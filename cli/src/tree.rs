//! Draws the tree of a log for people: branches, the head, labels and checkpoints. Long sequences of entries are
//! folded, and side entries are left out, unless all entries are to be drawn.

use std::collections::{BTreeMap, BTreeSet};

use agentstore::{Body, BodyKind, Entry, EntryId};

use crate::{output::Output, text};

/// The tree of a log. It keeps a short text of each entry instead of the body.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    by_id: BTreeMap<EntryId, usize>,
    roots: Vec<usize>,
    side_entries: u64,
    /// The side entries that have no parent.
    side_roots: Vec<SideEntry>,
}

#[derive(Debug)]
struct Node {
    seq: u64,
    id: EntryId,
    kind: &'static str,
    text: String,
    parent: Option<usize>,
    children: Vec<usize>,
    depth: u64,
    /// Whether the entry is a checkpoint or a compaction, which is never folded.
    is_never_folded: bool,
    label: Option<String>,
    side_entries: Vec<SideEntry>,
}

#[derive(Debug)]
struct SideEntry {
    seq: u64,
    kind: &'static str,
    text: String,
}

/// The lines of a drawing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DrawnTree {
    pub(crate) lines: Vec<String>,
    /// The number of entries that have no line of their own.
    pub(crate) left_out: u64,
}

/// A segment that has not been drawn yet: the entries from a node to the next branch point or leaf.
struct Segment {
    node: usize,
    /// The text in front of its first line.
    first_prefix: String,
    /// The text in front of its other lines.
    margin: String,
}

/// How many columns of an entry's text are kept.
const KEPT_COLUMNS: usize = 200;

impl Tree {
    /// Adds the next entry of the log.
    pub(crate) fn push(&mut self, entry: &Entry) {
        if let Body::Label(label) = &*entry.body
            && let Some(target) = self.by_id.get(&label.target).and_then(|&index| self.nodes.get_mut(index))
        {
            target.label.clone_from(&label.text);
        }
        let parent = entry.parent.as_ref().and_then(|id| self.by_id.get(id)).copied();
        let (seq, kind) = (entry.seq, text::role_or_kind(entry));
        let text = text::one_line(&text::content_text(entry), KEPT_COLUMNS);
        if entry.side {
            self.side_entries += 1;
            let parent = parent.and_then(|parent| self.nodes.get_mut(parent));
            let siblings = parent.map_or(&mut self.side_roots, |parent| &mut parent.side_entries);
            siblings.push(SideEntry { seq, kind, text });
            return;
        }
        let index = self.nodes.len();
        let mut depth = 1;
        match parent.and_then(|parent| self.nodes.get_mut(parent)) {
            Some(parent) => {
                parent.children.push(index);
                depth += parent.depth;
            }
            None => self.roots.push(index),
        }
        let label = match &*entry.body {
            Body::Checkpoint(checkpoint) => checkpoint.label.clone(),
            _ => None,
        };
        self.by_id.insert(entry.id.clone(), index);
        self.nodes.push(Node {
            seq,
            id: entry.id.clone(),
            kind,
            text,
            parent,
            children: Vec::new(),
            depth,
            is_never_folded: matches!(entry.kind(), BodyKind::Checkpoint | BodyKind::Compaction),
            label,
            side_entries: Vec::new(),
        });
    }

    /// Returns the number of side entries.
    pub(crate) const fn side_entries(&self) -> u64 {
        self.side_entries
    }

    /// Draws the tree. With `all`, nothing is folded, and each side entry is drawn below its parent.
    pub(crate) fn draw(&self, head: Option<&EntryId>, all: bool, out: &Output) -> DrawnTree {
        let painter = TreePainter { tree: self, head_path: self.path(head), head, all, out };
        painter.draw()
    }

    /// Returns the indices of the nodes on the path of the head.
    fn path(&self, head: Option<&EntryId>) -> BTreeSet<usize> {
        let mut path = BTreeSet::new();
        let mut next = head.and_then(|id| self.by_id.get(id)).copied();
        while let Some(index) = next {
            path.insert(index);
            next = self.nodes.get(index).and_then(|node| node.parent);
        }
        path
    }
}

struct TreePainter<'a> {
    tree: &'a Tree,
    head: Option<&'a EntryId>,
    head_path: BTreeSet<usize>,
    all: bool,
    out: &'a Output,
}

impl TreePainter<'_> {
    fn draw(&self) -> DrawnTree {
        let mut drawn = DrawnTree::default();
        let mut remaining = Vec::new();
        self.draw_side_entries("", &self.tree.side_roots, &mut drawn);
        self.queue_children(&self.tree.roots, String::new(), &mut remaining);
        while let Some(segment) = remaining.pop() {
            self.draw_segment(segment, &mut drawn, &mut remaining);
        }
        drawn
    }

    /// Queues the segments that begin at `children`. The child on the path of the head, or else the newest child, is
    /// drawn last and at the same margin; the others are drawn before it and indented.
    fn queue_children(&self, children: &[usize], margin: String, remaining: &mut Vec<Segment>) {
        let on_head_path = children.iter().rev().find(|child| self.head_path.contains(child));
        let Some(&last_drawn) = on_head_path.or(children.last()) else { return };
        let others = children.iter().copied().filter(|&child| child != last_drawn);
        let segments =
            others
                .map(|node| Segment { node, first_prefix: format!("{margin}├─"), margin: format!("{margin}│ ") });
        let mut segments: Vec<_> = segments.collect();
        segments.push(Segment { node: last_drawn, first_prefix: margin.clone(), margin });
        remaining.extend(segments.into_iter().rev());
    }

    /// Draws a segment up to its leaf or its branch point. Entries that need no line of their own are folded.
    fn draw_segment(&self, segment: Segment, drawn: &mut DrawnTree, remaining: &mut Vec<Segment>) {
        let Segment { node: first, first_prefix, margin } = segment;
        let mut folded: Vec<&Node> = Vec::new();
        let mut first_prefix = Some(first_prefix);
        let mut next = self.tree.nodes.get(first);
        while let Some(node) = next {
            if let Some(first_prefix) = first_prefix.take() {
                self.draw_entry((&first_prefix, &margin), node, drawn);
            } else if self.is_shown(node) {
                self.draw_folded(&mut folded, &margin, drawn);
                self.draw_entry((&margin, &margin), node, drawn);
            } else {
                folded.push(node);
            }
            next = match node.children.as_slice() {
                [only] => self.tree.nodes.get(*only),
                several => {
                    self.queue_children(several, margin.clone(), remaining);
                    None
                }
            };
        }
    }

    /// Returns whether the entry gets a line of its own, even if the entries around it are folded.
    fn is_shown(&self, node: &Node) -> bool {
        self.all
            || node.children.len() != 1
            || node.is_never_folded
            || node.label.is_some()
            || self.head == Some(&node.id)
    }

    /// Draws the folded entries as one line. A single entry is drawn itself, because it takes no more space.
    fn draw_folded(&self, folded: &mut Vec<&Node>, margin: &str, drawn: &mut DrawnTree) {
        match folded.as_slice() {
            [] => {}
            [only] => self.draw_entry((margin, margin), only, drawn),
            several => {
                let count = format!("⋯ {} entries", several.len());
                drawn.lines.push(format!("{margin}│ {}", self.out.style(count).dim()));
                let side_entries: usize = several.iter().map(|node| node.side_entries.len()).sum();
                drawn.left_out += (several.len() + side_entries) as u64;
            }
        }
        folded.clear();
    }

    /// Draws an entry, and its side entries below it.
    fn draw_entry(&self, (first_prefix, margin): (&str, &str), node: &Node, drawn: &mut DrawnTree) {
        drawn.lines.push(self.entry_line(first_prefix, node));
        let branch = if node.children.is_empty() { " " } else { "│" };
        self.draw_side_entries(&format!("{margin}{branch} "), &node.side_entries, drawn);
    }

    fn draw_side_entries(&self, prefix: &str, side_entries: &[SideEntry], drawn: &mut DrawnTree) {
        if !self.all {
            drawn.left_out += side_entries.len() as u64;
            return;
        }
        for SideEntry { seq, kind, text } in side_entries {
            let line_start = format!("{prefix}· @{seq} {kind}  ");
            let room = self.out.width().saturating_sub(console::measure_text_width(&line_start));
            let line = format!("{line_start}{}", text::one_line(text, room));
            drawn.lines.push(self.out.style(line.trim_end()).dim().to_string());
        }
    }

    fn entry_line(&self, first_prefix: &str, node: &Node) -> String {
        let is_head = self.head == Some(&node.id);
        let is_leaf = node.children.is_empty();
        let mark = match (is_head, is_leaf) {
            (true, _) => self.out.style("◉").green().bold(),
            (false, true) => self.out.style("○").yellow(),
            (false, false) => self.out.style("●").dim(),
        };
        let mut notes = String::new();
        if let Some(label) = &node.label {
            notes.push_str(&format!("  [{}]", self.out.style(text::one_line(label, 40)).cyan()));
        }
        if is_leaf {
            notes.push_str(&format!("  leaf, path of {}", node.depth));
        }
        if is_head {
            notes.push_str(&format!("  {}", self.out.style("← head").green().bold()));
        }
        let line_start = format!("{first_prefix}{mark} @{} {}  ", node.seq, self.out.style(node.kind).bold());
        let used = console::measure_text_width(&line_start) + console::measure_text_width(&notes);
        let room = self.out.width().saturating_sub(used);
        let text = if room < 8 { String::new() } else { text::one_line(&node.text, room) };
        format!("{line_start}{text}{notes}")
    }
}

#[cfg(test)]
mod tests {
    use super::{DrawnTree, Tree};
    use crate::output::Output;
    use agentstore::{Entry, EntryId};

    /// Draws a log. `id<parent` is a user message whose text is its id, `id<` is one without a parent, and `id=label`
    /// gives an entry a label.
    fn draw(log: &[&str], head: &str) -> String {
        drawn(log, head, false).lines.join("\n")
    }

    fn drawn(log: &[&str], head: &str, all: bool) -> DrawnTree {
        let mut tree = Tree::default();
        for (at, text) in log.iter().enumerate() {
            let seq = at + 1;
            let document = match (text.split_once('<'), text.split_once('=')) {
                (Some((id, "")), _) => {
                    format!(
                        r#"{{"seq":{seq},"id":"{id}","timestamp":1,"body":{{"message":{{"role":"user","blocks":[{{"text":"{id}"}}]}}}}}}"#
                    )
                }
                (Some((id, parent)), _) => {
                    format!(
                        r#"{{"seq":{seq},"id":"{id}","parent":"{parent}","timestamp":1,"body":{{"message":{{"role":"user","blocks":[{{"text":"{id}"}}]}}}}}}"#
                    )
                }
                (None, Some((target, label))) => {
                    format!(
                        r#"{{"seq":{seq},"id":"n{seq}","side":true,"timestamp":1,"body":{{"label":{{"target":"{target}","text":"{label}"}}}}}}"#
                    )
                }
                (None, None) => panic!("{text}"),
            };
            tree.push(&serde_json::from_str::<Entry>(&document).unwrap());
        }
        let head = EntryId::new(head).ok();
        tree.draw(head.as_ref(), all, &Output::new(true))
    }

    #[test]
    fn a_long_sequence_of_entries_is_folded() {
        assert_eq!(
            draw(&["a<", "b<a", "c<b", "d<c", "e<d"], "e"),
            "● @1 user  a\n│ ⋯ 3 entries\n◉ @5 user  e  leaf, path of 5  ← head"
        );
        assert_eq!(
            draw(&["a<", "b<a", "c<b"], "c"),
            "● @1 user  a\n● @2 user  b\n◉ @3 user  c  leaf, path of 3  ← head"
        );
        assert_eq!(draw(&[], ""), "");
    }

    #[test]
    fn the_branch_of_the_head_is_drawn_without_indentation() {
        assert_eq!(
            draw(&["a<", "b<a", "c<b", "x<a", "y<x", "c=kept"], "c"),
            "● @1 user  a\n├─● @4 user  x\n│ ○ @5 user  y  leaf, path of 3\n● @2 user  b\n◉ @3 user  c  [kept]  leaf, path of 3  ← head"
        );
    }

    /// Labels of this log are side entries without a parent.
    #[test]
    fn left_out_entries_are_counted_and_can_be_drawn() {
        let log = ["a<", "b<a", "c<b", "d<c", "a=kept"];
        assert_eq!(drawn(&log, "d", false).left_out, 3);
        let all = drawn(&log, "d", true);
        assert_eq!(
            (all.lines.join("\n").as_str(), all.left_out),
            (
                "· @5 label  `kept` for a\n● @1 user  a  [kept]\n● @2 user  b\n● @3 user  c\n◉ @4 user  d  leaf, path of \
                 4  ← head",
                0
            )
        );
    }

    #[test]
    fn several_roots_are_drawn_like_branches() {
        assert_eq!(
            draw(&["a<", "b<", "c<b"], ""),
            "├─○ @1 user  a  leaf, path of 1\n● @2 user  b\n○ @3 user  c  leaf, path of 2"
        );
    }

    #[test]
    fn a_deep_log_is_drawn_without_recursion() {
        let log: Vec<String> =
            (0..20_000).map(|at| if at == 0 { "e0<".into() } else { format!("e{at}<e{}", at - 1) }).collect();
        let log: Vec<&str> = log.iter().map(String::as_str).collect();
        assert_eq!(draw(&log, "e19999").lines().count(), 3);
    }
}
