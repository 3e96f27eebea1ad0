//! Puts the lines of one message of the model, and the results of its calls, on one path.
//!
//! Claude Code writes one line for each block of a message. The result of each call hangs below the line of that call,
//! so that parallel calls fork the tree, although all of them are part of the conversation:
//!
//! ```text
//! as written                       as imported
//! call 1 ── call 2 ── result 2     call 1 ── result 1 ── call 2 ── result 2
//!        └─ result 1
//! ```

use std::collections::HashMap;

use super::line_format::{LineData, LinePlace, NodeKind};
use crate::tree::Tree;

/// A message of the model.
struct MessageLines {
    /// Its first line.
    first: usize,
    /// The last of its lines and results so far.
    last: usize,
    /// The last of its lines so far.
    last_line: usize,
    /// Whether the conversation has gone on after it.
    is_closed: bool,
}

/// Returns the parents of all nodes. Each line of a message after its first, and each result of its calls, hangs below
/// the line of the message or the result that comes before it in the file. So does what follows any of them. As soon as
/// the conversation goes on after a message, nothing is added to it: what comes later is on a branch of its own.
pub(super) fn adjust_parents(tree: &mut Tree<LineData>) -> Vec<Option<usize>> {
    let mut adjuster = Adjuster { parents: Vec::with_capacity(tree.len()), ..Adjuster::default() };
    for at in 0..tree.len() {
        let parent = adjuster.parent(tree, at);
        adjuster.parents.push(parent);
    }
    // A line that repeats another one does not count its usage again.
    for last_line in adjuster.messages.iter().map(|message| message.last_line).chain(adjuster.single_lines) {
        if let Some(data) = tree.data_mut(last_line) {
            data.carries_usage = true;
        }
    }
    adjuster.parents
}

#[derive(Default)]
struct Adjuster {
    parents: Vec<Option<usize>>,
    messages: Vec<MessageLines>,
    /// Assistant lines without the id of a message.
    single_lines: Vec<usize>,
    /// The newest message with each id, as a position in `messages`.
    by_id: HashMap<String, usize>,
    /// The newest message with each call.
    by_call: HashMap<String, usize>,
    /// The message that a line or a result is part of, by its position in the tree.
    of_node: HashMap<usize, usize>,
    /// The messages that are not closed.
    open: Vec<usize>,
}

impl Adjuster {
    fn parent(&mut self, tree: &Tree<LineData>, at: usize) -> Option<usize> {
        let node = tree.get(at)?;
        let named = node.parent;
        if node.data.place == LinePlace::Repeated {
            return named;
        }
        // A line whose parent comes later in the file hangs below what follows.
        let is_branch = node.data.place == LinePlace::Branch || named.is_some_and(|named| named > at);
        if let Some(message) = self.message_of(tree, at, &node.data).filter(|_| !is_branch) {
            return self.add_to_message(message, named, (at, &node.data));
        }
        let is_message = matches!(node.data.kind, NodeKind::User | NodeKind::Assistant);
        if is_branch || (is_message && node.data.place != LinePlace::Added) {
            self.close_messages_above(tree, at);
        }
        self.begin_message(at, &node.data);
        if is_branch { named } else { self.after_message(named, at) }
    }

    /// Closes the messages that a node hangs below.
    fn close_messages_above(&mut self, tree: &Tree<LineData>, at: usize) {
        let messages = &mut self.messages;
        self.open.retain(|message| {
            let Some(lines) = messages.get_mut(*message) else { return false };
            lines.is_closed = tree.is_on_path(at, lines.first);
            !lines.is_closed
        });
    }

    /// The message that a line is a part of or has a result for. The line must be below the first line of the message.
    fn message_of(&self, tree: &Tree<LineData>, at: usize, data: &LineData) -> Option<usize> {
        let message = match data.kind {
            NodeKind::Assistant => self.by_id.get(data.message_id.as_ref()?),
            NodeKind::User => data.results.iter().find_map(|call| self.by_call.get(call)),
            NodeKind::Boundary | NodeKind::Other => None,
        };
        let is_below = |message: &usize| {
            self.messages
                .get(*message)
                .is_some_and(|lines| !lines.is_closed && lines.first < at && tree.is_on_path(at, lines.first))
        };
        message.copied().filter(is_below)
    }

    fn add_to_message(
        &mut self,
        message: usize,
        named: Option<usize>,
        (at, data): (usize, &LineData),
    ) -> Option<usize> {
        self.of_node.insert(at, message);
        let before = self.messages.get(message).map(|lines| lines.last)?;
        if let Some(lines) = self.messages.get_mut(message) {
            lines.last = at;
            if data.kind == NodeKind::Assistant {
                lines.last_line = at;
            }
        }
        self.by_call.extend(data.calls.iter().map(|call| (call.clone(), message)));
        // Lines of other kinds may stand between the two.
        if named.is_some_and(|named| self.is_below(named, before)) { named } else { Some(before) }
    }

    /// Whether a node is another node or below it. In this tree a parent has a lower position, or the named parent
    /// stays.
    fn is_below(&self, at: usize, above: usize) -> bool {
        let mut next = Some(at);
        while let Some(here) = next.filter(|here| *here > above) {
            next = self.parents.get(here).copied().flatten().filter(|parent| *parent < here);
        }
        next == Some(above)
    }

    fn begin_message(&mut self, at: usize, data: &LineData) {
        if data.kind != NodeKind::Assistant {
            return;
        }
        let Some(id) = &data.message_id else {
            self.single_lines.push(at);
            return;
        };
        let message = self.messages.len();
        self.messages.push(MessageLines { first: at, last: at, last_line: at, is_closed: false });
        self.open.push(message);
        self.by_id.insert(id.clone(), message);
        self.by_call.extend(data.calls.iter().map(|call| (call.clone(), message)));
        self.of_node.insert(at, message);
    }

    /// The parent of a line that is not part of a message: what follows one line of a message follows the message.
    fn after_message(&self, named: Option<usize>, at: usize) -> Option<usize> {
        let message = self.of_node.get(&named?).and_then(|message| self.messages.get(*message));
        let last = message.map(|lines| lines.last).filter(|last| *last < at);
        last.or(named)
    }
}
