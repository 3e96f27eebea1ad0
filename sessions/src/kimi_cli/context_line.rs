//! What the import keeps of each line of a context file between the two passes.

use std::hash::{DefaultHasher, Hash, Hasher};

use store_core::{BlockKind, NewBody, Role};

use super::{
    line::LineBody,
    message::{COMPACTION_MARKER, SYSTEM_PROMPT_ROLE, comparable_form, first_text, is_inserted, plain_text},
};
use crate::{
    compact::{List, TextTable, to_u32},
    json::Object,
    source::Line,
};

/// What is kept of the lines of a context file: about 15 bytes for each line, and 16 more if the session has other
/// contexts. Lines are counted from 0.
#[derive(Debug)]
pub(super) struct ContextLines {
    kinds: List<ContextLineKind>,
    /// For each line, `fingerprint` and `content_hash`. It is `None` if the session has only this context, because the
    /// hashes are compared with those of other contexts only.
    hashes: Option<List<[u64; 2]>>,
    /// The lines with a user message whose text is plain, and the hash of this text.
    text_hashes: List<(u32, u64)>,
    /// The lines with calls, and the number of the id of each call.
    calls: List<(u32, u32)>,
    /// The lines with a result, and the number of the id of the call that it answers.
    answers: List<(u32, u32)>,
}

/// What a line is, and what it is compared by.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContextLine {
    pub(super) kind: ContextLineKind,
    /// The hash of its bytes. Lines with the same hash count as equal.
    pub(super) fingerprint: u64,
    /// For a message: a hash of its content, which does not depend on how the JSON is written.
    pub(super) content_hash: u64,
}

impl ContextLines {
    /// No lines yet. `is_only_context` says whether the session has no other context.
    pub(super) fn new(is_only_context: bool) -> Self {
        Self {
            kinds: List::default(),
            hashes: (!is_only_context).then(List::default),
            text_hashes: List::default(),
            calls: List::default(),
            answers: List::default(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn get(&self, line_index: usize) -> Option<ContextLine> {
        let kind = *self.kinds.get(line_index)?;
        let hashes = self.hashes.as_ref().and_then(|hashes| hashes.get(line_index));
        let [fingerprint, content_hash] = hashes.copied().unwrap_or_default();
        Some(ContextLine { kind, fingerprint, content_hash })
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = ContextLine> {
        (0..self.len()).filter_map(|line_index| self.get(line_index))
    }

    /// For a user message with plain text: the hash of this text.
    pub(super) fn text_hash(&self, line_index: usize) -> Option<u64> {
        self.text_hashes.find_by_key(&to_u32(line_index), |(at, _)| *at).map(|(_, text_hash)| *text_hash)
    }

    /// The numbers of the ids of the calls in a line.
    pub(super) fn calls(&self, line_index: usize) -> impl Iterator<Item = u32> {
        let line_index = to_u32(line_index);
        let first = self.calls.partition_point(|(at, _)| *at < line_index);
        self.calls.iter_from(first).take_while(move |(at, _)| *at == line_index).map(|(_, call)| *call)
    }

    /// The number of the id of the call that a line answers.
    pub(super) fn answered_call(&self, line_index: usize) -> Option<u32> {
        self.answers.find_by_key(&to_u32(line_index), |(at, _)| *at).map(|(_, call)| *call)
    }

    /// The numbers of the ids of all calls.
    pub(super) fn all_calls(&self) -> impl Iterator<Item = u32> {
        self.calls.iter().map(|(_, call)| *call)
    }

    /// The numbers of the ids of all calls that a line answers.
    pub(super) fn all_answered_calls(&self) -> impl Iterator<Item = u32> {
        self.answers.iter().map(|(_, call)| *call)
    }

    /// Adds a line that is blank or not a JSON object.
    pub(super) fn push_blank_or_broken(&mut self, line: &Line) {
        let kind = if line.is_blank() { ContextLineKind::Blank } else { ContextLineKind::SideEntry };
        self.push(ContextLine { kind, fingerprint: hash(&line.bytes), content_hash: 0 });
    }

    /// Adds a line that is an object. `call_ids` gets the ids of its calls and results.
    pub(super) fn push_object(
        &mut self,
        line: &Line,
        object: &Object<'_>,
        line_body: &LineBody,
        call_ids: &mut TextTable,
    ) {
        let mut added = ContextLine {
            kind: ContextLineKind::of(object, line_body),
            fingerprint: hash(&line.bytes),
            content_hash: 0,
        };
        if let NewBody::Message(message) = &line_body.body
            && !line_body.side
        {
            added.content_hash = hash(&comparable_form(object));
            for block in &message.blocks {
                match &block.kind {
                    BlockKind::ToolUse(call) => call_ids.add(&call.id).into_iter().for_each(|id| self.push_call(id.0)),
                    BlockKind::ToolResult(result) => {
                        call_ids.add(&result.tool_use_id).into_iter().for_each(|id| self.push_answer(id.0));
                    }
                    _ => {}
                }
            }
            if added.kind == ContextLineKind::Message(Role::User)
                && let Some(text) = object.raw("content").and_then(plain_text)
            {
                self.push_text_hash(hash(&text));
            }
        }
        self.push(added);
    }

    /// Adds a line. Its calls, its answer and the hash of its text must have been added already.
    pub(super) fn push(&mut self, line: ContextLine) {
        self.kinds.push(line.kind);
        if let Some(hashes) = &mut self.hashes {
            hashes.push([line.fingerprint, line.content_hash]);
        }
    }

    /// Adds the hash of the text of the next line.
    pub(super) fn push_text_hash(&mut self, text_hash: u64) {
        self.text_hashes.push((to_u32(self.kinds.len()), text_hash));
    }

    /// Adds a call of the next line.
    pub(super) fn push_call(&mut self, call: u32) {
        self.calls.push((to_u32(self.kinds.len()), call));
    }

    /// Adds a call that the next line answers. If there are several, the last one counts.
    pub(super) fn push_answer(&mut self, call: u32) {
        let line_index = to_u32(self.kinds.len());
        match self.answers.last_mut().filter(|(last, _)| *last == line_index) {
            Some((_, last_call)) => *last_call = call,
            None => self.answers.push((line_index, call)),
        }
    }
}

/// What a line of a context file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContextLineKind {
    /// A blank line.
    Blank,
    /// A line that becomes a side entry: usage, a line of an unknown type, or a line that is not a JSON object.
    SideEntry,
    /// The system prompt.
    Prompt,
    /// A checkpoint.
    Checkpoint {
        /// Whether its number is 0.
        is_first: bool,
    },
    /// A message.
    Message(Role),
    /// A user message that kimi-cli itself inserted, such as a reminder or a checkpoint.
    InsertedMessage,
    /// The message with the summary of a compaction.
    Summary,
}

impl ContextLineKind {
    /// Finds out which kind of line an object is.
    fn of(object: &Object<'_>, line_body: &LineBody) -> Self {
        if line_body.side {
            return Self::SideEntry;
        }
        let message = match &line_body.body {
            NewBody::Checkpoint { number: Some(number), .. } => return Self::Checkpoint { is_first: *number == 0 },
            NewBody::Message(message) => message,
            _ => return Self::SideEntry,
        };
        let text = first_text(&message.blocks);
        if object.text("role").as_deref() == Some(SYSTEM_PROMPT_ROLE) {
            Self::Prompt
        } else if message.role == Role::User && text == Some(COMPACTION_MARKER) {
            Self::Summary
        } else if message.role == Role::User && is_inserted(text) {
            Self::InsertedMessage
        } else {
            Self::Message(message.role)
        }
    }

    /// Whether an entry of the tree represents it.
    pub(super) const fn is_node(self) -> bool {
        !matches!(self, Self::Blank | Self::SideEntry)
    }

    /// Whether it is a message of the history.
    pub(super) const fn is_message(self) -> bool {
        matches!(self, Self::Message(_) | Self::InsertedMessage | Self::Summary)
    }

    /// Whether it is a message of the user or the assistant. A compaction keeps the last two of these messages.
    pub(super) const fn is_user_or_assistant(self) -> bool {
        matches!(self, Self::Message(Role::User | Role::Assistant) | Self::InsertedMessage | Self::Summary)
    }

    /// Whether every history begins with such lines.
    pub(super) const fn is_opening(self) -> bool {
        matches!(self, Self::Prompt | Self::Checkpoint { is_first: true })
    }
}

/// A hash for comparisons within one import. It is never stored.
pub(super) fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
