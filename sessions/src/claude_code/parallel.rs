//! Puts the lines of one message of the model, and the results of its calls, on one path.
//!
//! Claude Code writes one line for each block of a message. The line of each call is the parent of its result. So
//! parallel calls fork the tree, although all of them are part of the conversation. The path gets the order of the
//! lines in the file, here call 1, result 1, call 2, result 2:
//!
//! ```text
//! as written                       as imported
//! call 1 ── call 2 ── result 2     call 1 ── result 1 ── call 2 ── result 2
//!        └─ result 1
//! ```

use std::num::NonZeroU32;

use super::line_format::{LineData, LinePlace, NodeKind};
use crate::{
    compact::{List, TextTable, digest, to_u32},
    source::hex,
    tree::{Parents, Tree},
};

/// The calls, the results and the ids of messages in the lines. They are kept until the parents of all lines are known.
#[derive(Debug, Default)]
pub(super) struct MessageLinks {
    messages: TextTable,
    call_ids: TextTable,
    /// The calls in each line.
    calls: CallsByLine,
    /// The calls that each line answers.
    results: CallsByLine,
}

impl MessageLinks {
    /// Notes the calls and the results in the current line.
    pub(super) fn note(&mut self, line: u64, calls: &[String], results: &[String]) {
        for (ids, links) in [(calls, &mut self.calls), (results, &mut self.results)] {
            for id in ids {
                if let Some(number) = number_of(&mut self.call_ids, id) {
                    links.0.push((to_u32(line), number));
                }
            }
        }
    }

    /// Returns the number, from 1 on, that stands for a message id of the provider.
    pub(super) fn number_of_message(&mut self, id: &str) -> Option<NonZeroU32> {
        NonZeroU32::new(number_of(&mut self.messages, id)? + 1)
    }
}

/// Returns the number, from 0 on, that stands for an id. The table contains only a digest of the id, because ids are
/// longer.
fn number_of(ids: &mut TextTable, id: &str) -> Option<u32> {
    Some(ids.add(&hex(&digest(id)))?.0)
}

/// Lines, and the numbers of the calls that each line names.
#[derive(Debug, Default)]
struct CallsByLine(List<(u32, u32)>);

impl CallsByLine {
    /// The numbers of the calls that a line names.
    fn of(&self, line: u64) -> impl Iterator<Item = u32> {
        let first = self.0.partition_point(|(other, _)| u64::from(*other) < line);
        let of_line = self.0.iter_from(first).take_while(move |(other, _)| u64::from(*other) == line);
        of_line.map(|(_, number)| *number)
    }
}

/// The lines of a message of the model, as positions in the tree.
struct MessageLines {
    /// Its first line.
    first: u32,
    /// The last of its lines and results so far.
    last: u32,
    /// The last of its lines so far.
    last_line: u32,
    /// Whether the conversation has gone on after it.
    is_closed: bool,
}

/// Returns the parents of all nodes. The lines of a message and the results of its calls are put on one path, in the
/// order of the file. If any other line names a node of such a path as its parent, the last node of the path becomes
/// its parent. As soon as the conversation goes on after a message, nothing is added to the message: later lines are on
/// a branch of their own.
pub(super) fn adjust_parents(tree: &mut Tree<LineData>, links: MessageLinks) -> Parents {
    let mut adjuster = Adjuster::new(links);
    for at in 0..tree.len() {
        let parent = adjuster.parent(tree, at);
        adjuster.parents.push(parent);
    }
    // The usage of a message counts at its last line. Lines that repeat the uuid of another line are not in these
    // lists, so they do not count it again.
    for last_line in adjuster.messages.iter().map(|message| message.last_line).chain(adjuster.single_lines) {
        if let Some(data) = tree.data_mut(last_line as usize) {
            data.carries_usage = true;
        }
    }
    adjuster.parents
}

/// For each number of a message id, or for each number of a call, the newest message that has it. `u32::MAX` stands
/// for none.
struct NewestMessages(List<u32>);

impl NewestMessages {
    fn get(&self, number: u32) -> Option<usize> {
        self.0.get(number as usize).filter(|message| **message != u32::MAX).map(|message| *message as usize)
    }

    fn set(&mut self, number: u32, message: usize) {
        if let Some(newest) = self.0.get_mut(number as usize) {
            *newest = to_u32(message);
        }
    }
}

struct Adjuster {
    calls: CallsByLine,
    results: CallsByLine,
    parents: Parents,
    messages: List<MessageLines>,
    /// Assistant lines without the id of a message.
    single_lines: Vec<u32>,
    /// The newest message with each id, as a position in `messages`.
    by_id: NewestMessages,
    /// The newest message with each call.
    by_call: NewestMessages,
    /// The lines and results that are part of messages: each with its position in the tree, and its message.
    message_of_node: List<(u32, u32)>,
    /// The messages that are not closed.
    open_messages: Vec<usize>,
}

impl Adjuster {
    /// Frees the texts of the links first, because only their numbers are needed.
    fn new(links: MessageLinks) -> Self {
        let MessageLinks { messages, call_ids, calls, results } = links;
        let (message_count, call_count) = (messages.len(), call_ids.len());
        drop((messages, call_ids));
        Self {
            calls,
            results,
            parents: Parents::default(),
            messages: List::default(),
            single_lines: Vec::new(),
            by_id: NewestMessages(List::filled(&u32::MAX, message_count as usize)),
            by_call: NewestMessages(List::filled(&u32::MAX, call_count as usize)),
            message_of_node: List::default(),
            open_messages: Vec::new(),
        }
    }

    fn parent(&mut self, tree: &Tree<LineData>, at: usize) -> Option<usize> {
        let node = tree.get(at)?;
        let named_parent = node.parent;
        if tree.repeats_id(at) {
            return named_parent;
        }
        // If the parent of a line comes later in the file, the line keeps that parent. So does a line that begins a
        // branch.
        let is_branch =
            node.data.place == LinePlace::Branch || named_parent.is_some_and(|named_parent| named_parent > at);
        if let Some(message) = self.message_of(tree, at, node.data).filter(|_| !is_branch) {
            return self.add_to_message(message, named_parent, (at, node.line, node.data));
        }
        let is_message = matches!(node.data.kind, NodeKind::User | NodeKind::Assistant);
        if is_branch || (is_message && node.data.place != LinePlace::AddedByTool) {
            self.close_messages_above(tree, at);
        }
        self.begin_message(at, node.line, node.data);
        if is_branch { named_parent } else { self.after_message(named_parent, at) }
    }

    /// Closes the messages on the path of a node.
    fn close_messages_above(&mut self, tree: &Tree<LineData>, at: usize) {
        let messages = &mut self.messages;
        self.open_messages.retain(|message| {
            let Some(lines) = messages.get_mut(*message) else { return false };
            lines.is_closed = tree.is_on_path(at, lines.first as usize);
            !lines.is_closed
        });
    }

    /// The open message to which a line belongs: the line is a line of the message, or answers one of its calls. The
    /// line must be below the first line of the message.
    fn message_of(&self, tree: &Tree<LineData>, at: usize, data: &LineData) -> Option<usize> {
        let message = match data.kind {
            NodeKind::Assistant => self.by_id.get(data.message_id?.get() - 1),
            NodeKind::User => self.results.of(tree.line(at)?).find_map(|call| self.by_call.get(call)),
            NodeKind::Boundary | NodeKind::Other => None,
        };
        let is_below = |message: &usize| {
            self.messages.get(*message).is_some_and(|lines| {
                let first = lines.first as usize;
                !lines.is_closed && first < at && tree.is_on_path(at, first)
            })
        };
        message.filter(is_below)
    }

    fn add_to_message(
        &mut self,
        message: usize,
        named_parent: Option<usize>,
        (at, line, data): (usize, u64, &LineData),
    ) -> Option<usize> {
        self.message_of_node.push((to_u32(at), to_u32(message)));
        let previous_node = self.messages.get(message).map(|lines| lines.last as usize)?;
        if let Some(lines) = self.messages.get_mut(message) {
            lines.last = to_u32(at);
            if data.kind == NodeKind::Assistant {
                lines.last_line = to_u32(at);
            }
        }
        self.calls.of(line).for_each(|call| self.by_call.set(call, message));
        // Lines of other kinds may stand between the last line of the message and this one.
        if named_parent.is_some_and(|named_parent| self.is_below(named_parent, previous_node)) {
            named_parent
        } else {
            Some(previous_node)
        }
    }

    /// Whether a node is the node `above` or below it. A parent is followed only if its position is lower than that of
    /// its child.
    fn is_below(&self, at: usize, above: usize) -> bool {
        let mut next = Some(at);
        while let Some(here) = next.filter(|here| *here > above) {
            next = self.parents.get(here).filter(|parent| *parent < here);
        }
        next == Some(above)
    }

    fn begin_message(&mut self, at: usize, line: u64, data: &LineData) {
        if data.kind != NodeKind::Assistant {
            return;
        }
        let position = to_u32(at);
        let Some(id) = data.message_id else {
            self.single_lines.push(position);
            return;
        };
        let message = self.messages.len();
        let lines = MessageLines { first: position, last: position, last_line: position, is_closed: false };
        self.messages.push(lines);
        self.open_messages.push(message);
        self.by_id.set(id.get() - 1, message);
        self.calls.of(line).for_each(|call| self.by_call.set(call, message));
        self.message_of_node.push((position, to_u32(message)));
    }

    /// Returns the parent of a line that is not part of a message. If the line names any line of a message as its
    /// parent, the last node of the message becomes its parent.
    fn after_message(&self, named_parent: Option<usize>, at: usize) -> Option<usize> {
        let named_parent = named_parent?;
        let node_and_message = self.message_of_node.find_by_key(&to_u32(named_parent), |(node, _)| *node);
        let message = node_and_message.and_then(|(_, message)| self.messages.get(*message as usize));
        let last = message.map(|lines| lines.last as usize).filter(|last| *last < at);
        Some(last.unwrap_or(named_parent))
    }
}
