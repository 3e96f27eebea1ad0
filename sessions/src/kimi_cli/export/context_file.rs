//! Writes contexts as files: the messages that a model gets, and the checkpoints and sizes between them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use store_core::{
    Block, BlockKind, Body, Checkpoint, Compaction, ContextMessage, ContextRequest, Entry, EntryId, Message,
    RepairKind, Role, context::SUMMARY_MARKER,
};

use super::{
    adapt::{adapt, adapt_parts, adapt_prompt},
    file_lines::{CheckpointLine, FileLines, checkpoint_line, size_line},
    is_of_kimi_cli,
    log::{ThreadLog, WrittenEntries},
    restore::bytes_in_entry,
    wire_file::WireFileBuilder,
};
use crate::{
    error::Result,
    export::{ExportSource, Loss, Losses, MERGED},
    json::Object,
    kimi_cli::{
        encode,
        message::{COMPACTION_MARKER, first_text, is_inserted},
    },
};

/// Writes the contexts of a thread, one file for each.
pub(super) struct ContextsWriter<'a> {
    source: &'a ExportSource<'a>,
    log: &'a ThreadLog,
    pub(super) losses: Vec<Loss>,
    pub(super) written: WrittenEntries,
    /// The records of the messages that have no imported record.
    pub(super) wire: WireFileBuilder,
    /// The lines of the previous file.
    previous_lines: Vec<Vec<u8>>,
    /// The checkpoint that comes before the first message of the previous file, with its number.
    opening_checkpoint: Option<CheckpointLine>,
}

impl<'a> ContextsWriter<'a> {
    pub(super) fn new(source: &'a ExportSource<'a>, log: &'a ThreadLog) -> Self {
        Self {
            source,
            log,
            losses: Vec::new(),
            written: WrittenEntries::default(),
            wire: WireFileBuilder::default(),
            previous_lines: Vec::new(),
            opening_checkpoint: None,
        }
    }

    /// The lines of the context of an entry.
    pub(super) async fn lines_at(&mut self, at: &EntryId) -> Result<&[Vec<u8>]> {
        let request = ContextRequest::at(at.clone());
        let context = self.source.threads.load_context(&self.source.thread.id, request).await?.context;
        for repair in context.repairs {
            match repair.kind {
                RepairKind::MessagesMerged if self.written.ids.insert(repair.entry.clone()) => {
                    Losses::new(&repair.entry, &mut self.losses).add("", MERGED);
                }
                RepairKind::OrphanResultDropped | RepairKind::EarlierResultDropped => {
                    self.written.incomplete_entries.insert(repair.entry);
                }
                _ => {}
            }
        }
        let path = self.log.path(at);
        let lines = ContextFile::new(self, path, &context.messages).write(&context.messages);
        self.previous_lines = lines;
        Ok(&self.previous_lines)
    }
}

/// A context whose lines are being made.
struct ContextFile<'a, 'b> {
    writer: &'b mut ContextsWriter<'a>,
    path: Vec<Arc<Entry>>,
    /// The positions of the entries on the path.
    positions: HashMap<EntryId, usize>,
    /// The entries with messages in the context, except the instructions.
    entries_in_context: HashSet<EntryId>,
    /// The position after the compaction of the context. The checkpoints and sizes before it are in earlier files.
    first_position: usize,
    /// The compaction of the context, until the sizes that were recorded after it are added.
    pending_compaction: Option<EntryId>,
    /// The position of the next entry whose checkpoint or sizes have not been added.
    next_position: usize,
    lines: FileLines,
    /// Whether an import takes the lines of the messages that the compaction keeps as copies of earlier lines.
    kept_lines_are_copies: bool,
    /// The entries that the file contains, and what their lines have lost.
    written: Vec<EntryId>,
    losses: Vec<Loss>,
}

impl<'a, 'b> ContextFile<'a, 'b> {
    fn new(writer: &'b mut ContextsWriter<'a>, path: Vec<Arc<Entry>>, messages: &[ContextMessage]) -> Self {
        let positions: HashMap<_, _> = path.iter().enumerate().map(|(at, entry)| (entry.id.clone(), at)).collect();
        let summaries = messages.iter().filter(|message| message.synthetic);
        let summaries = summaries.filter_map(|message| positions.get(&message.entry).copied());
        let is_compaction = |at: &usize| path.get(*at).is_some_and(|entry| matches!(&*entry.body, Body::Compaction(_)));
        let first = summaries.filter(is_compaction).max().map_or(0, |at| at + 1);
        Self {
            pending_compaction: first.checked_sub(1).and_then(|at| path.get(at)).map(|entry| entry.id.clone()),
            entries_in_context: messages.iter().map(|message| message.entry.clone()).collect(),
            lines: FileLines::after(std::mem::take(&mut writer.previous_lines)),
            writer,
            path,
            positions,
            first_position: first,
            next_position: first,
            kept_lines_are_copies: false,
            written: Vec::new(),
            losses: Vec::new(),
        }
    }

    fn write(mut self, messages: &[ContextMessage]) -> Vec<Vec<u8>> {
        let mut remaining_messages = messages;
        if let [prompt, after_prompt @ ..] = messages
            && self.add_prompt(prompt)
        {
            remaining_messages = after_prompt;
            // The loop below leaves out this message, so only `add_entries_before` can add the sizes after it.
            self.entries_in_context.remove(&prompt.entry);
        }
        if self.first_position > 0
            && let Some(checkpoint) = self.writer.opening_checkpoint.clone()
        {
            self.lines.push_checkpoint(checkpoint);
        }
        self.kept_lines_are_copies = self.lines.is_copy && self.keeps_two_messages(remaining_messages);
        for (at, message) in remaining_messages.iter().enumerate() {
            let position = self.positions.get(&message.entry).copied();
            if let Some(position) = position.filter(|_| !message.synthetic) {
                self.add_entries_before(position);
            }
            self.add_message(message);
            if remaining_messages.get(at + 1).is_none_or(|next| next.entry != message.entry)
                && let Some(position) = position.filter(|position| *position >= self.first_position)
            {
                self.add_sizes(&message.entry, Some(&message.message));
                self.next_position = self.next_position.max(position + 1);
            }
        }
        self.add_entries_before(self.path.len());
        let Self { writer, written, mut losses, lines, .. } = self;
        // The losses of an entry are noted with the first file that contains it.
        losses.retain(|loss| !loss.entry.as_ref().is_some_and(|entry| writer.written.ids.contains(entry)));
        writer.losses.append(&mut losses);
        writer.written.ids.extend(written);
        writer.wire.end_turn();
        writer.opening_checkpoint = lines.opening_checkpoint;
        lines.lines
    }

    /// Adds the checkpoints and sizes of the entries of the path up to this position.
    fn add_entries_before(&mut self, position: usize) {
        // The messages that the compaction keeps come before this position. kimi-cli writes nothing between them.
        if position >= self.first_position
            && let Some(compaction) = self.pending_compaction.take()
        {
            self.add_sizes(&compaction, None);
        }
        while self.next_position < position {
            let Some(entry) = self.path.get(self.next_position).map(Arc::clone) else { return };
            self.next_position += 1;
            if let Body::Checkpoint(checkpoint) = &*entry.body {
                self.add_checkpoint(&entry, checkpoint);
            }
            if !self.entries_in_context.contains(&entry.id) {
                self.add_sizes(&entry.id, None);
            }
        }
    }

    /// The losses of an entry that the file contains.
    fn losses_of<'c>(&'c mut self, entry: &'c EntryId) -> Losses<'c> {
        self.written.push(entry.clone());
        Losses::new(entry, &mut self.losses)
    }

    /// Adds a checkpoint. kimi-cli needs numbers that increase, as its own do.
    fn add_checkpoint(&mut self, entry: &Entry, checkpoint: &Checkpoint) {
        let lowest_number = if is_of_kimi_cli(entry) { checkpoint.number } else { self.lines.next_checkpoint };
        let number = checkpoint.number.max(lowest_number);
        let mut losses = self.losses_of(&entry.id);
        if checkpoint.label.is_some() {
            losses.add("/body/checkpoint/label", ("label", "the format has no field for it", "dropped"));
        }
        if number != checkpoint.number {
            let loss = ("checkpoint", "the numbers of a context increase", "replaced");
            losses.add("/body/checkpoint/number", loss);
        }
        let line = kimi_line(entry).filter(|_| number == checkpoint.number);
        self.lines.push_checkpoint((number, line.unwrap_or_else(|| checkpoint_line(number))));
    }

    /// Adds the sizes of the context that were recorded after an entry, or else the size that its message names.
    fn add_sizes(&mut self, entry: &EntryId, message: Option<&Message>) {
        let sizes: Vec<_> =
            self.writer.log.context_sizes(entry).map(|(usage, size)| (Arc::clone(usage), size)).collect();
        if let Some(usage) = message.and_then(|message| message.usage.as_ref()).filter(|_| sizes.is_empty()) {
            self.lines.push(size_line(usage.tokens.context_size()));
        }
        for (usage, size) in sizes {
            self.written.push(usage.id.clone());
            self.lines.push(kimi_line(&usage).unwrap_or_else(|| size_line(size)));
        }
    }

    /// Adds the instructions at the beginning of a file. Returns false if the message is not instructions.
    fn add_prompt(&mut self, prompt: &ContextMessage) -> bool {
        if prompt.message.role != Role::System {
            return false;
        }
        if let Some(line) = self.unchanged_line(prompt) {
            self.written.push(prompt.entry.clone());
            self.lines.push(line);
            return true;
        }
        let adapted = adapt_prompt(&prompt.message, &mut self.losses_of(&prompt.entry));
        let Some(adapted) = adapted else { return false };
        match encode::encode_message(&adapted) {
            Some(line) => self.lines.push(line.into_bytes()),
            None => self.note_unwritten(&prompt.entry),
        }
        true
    }

    /// The line that a message was imported from, if the context contains the message unchanged.
    fn unchanged_line(&self, message: &ContextMessage) -> Option<Vec<u8>> {
        let entry = self.writer.log.nodes.get(&message.entry)?;
        let is_unchanged = !message.synthetic && entry.message() == Some(&message.message);
        kimi_line(entry).filter(|_| is_unchanged)
    }

    fn add_message(&mut self, message: &ContextMessage) {
        let Some(entry) = self.writer.log.nodes.get(&message.entry).map(Arc::clone) else { return };
        if message.synthetic {
            return match &*entry.body {
                Body::Compaction(compaction) => self.add_summary(message, &entry, compaction),
                _ => self.add_missing_results(message, &entry),
            };
        }
        if let Some(line) = self.unchanged_line(message) {
            self.written.push(entry.id.clone());
            self.lines.push_message(line);
            return self.add_record(&entry, &message.message);
        }
        let begins_turn = message.message.role == Role::User && !is_inserted(first_text(&message.message.blocks));
        if begins_turn
            && self.is_after_compaction(&entry)
            && !is_of_kimi_cli(&entry)
            && !self.writer.log.has_checkpoints
        {
            self.lines.push_next_checkpoint();
        }
        let mut losses = self.losses_of(&entry.id);
        if is_of_kimi_cli(&entry) && entry.origin.as_ref().is_some_and(|origin| origin.raw.is_some()) {
            losses.add("/origin/raw", ("raw", "kimi-cli does not read such a line", "replaced"));
        }
        for adapted in adapt(&message.message, &mut losses) {
            self.push_message(&entry.id, &adapted);
            self.add_record(&entry, &adapted);
        }
    }

    /// Whether an entry comes after the compaction of the context.
    fn is_after_compaction(&self, entry: &Entry) -> bool {
        self.positions.get(&entry.id).is_some_and(|position| *position >= self.first_position)
    }

    /// Whether the compaction keeps two messages of the user or the assistant, as a compaction of kimi-cli does.
    fn keeps_two_messages(&self, messages: &[ContextMessage]) -> bool {
        let position = |message: &&ContextMessage| self.positions.get(&message.entry).copied();
        let kept = messages.iter().filter(|message| !message.synthetic);
        let kept = kept.filter(|message| position(message).is_some_and(|position| position < self.first_position));
        kept.filter(|message| matches!(message.message.role, Role::User | Role::Assistant)).count() == 2
    }

    /// Adds the records of a message whose line was added. It adds none if an import takes the line for a copy, or if
    /// the message has imported records. All other messages need records: an import finds the records of a call by the
    /// id of the call and by their order, so in place of a missing record it would take that of another call.
    fn add_record(&mut self, entry: &Entry, message: &Message) {
        let has_record = is_of_kimi_cli(entry) && !self.writer.written.ids.contains(&entry.id);
        if !has_record && !self.is_copy_of(entry) {
            self.writer.wire.add(message, entry.timestamp);
        }
    }

    /// Whether an import takes the line of this entry for a copy. The line must be the last one so far.
    fn is_copy_of(&self, entry: &Entry) -> bool {
        self.lines.is_copy || (self.kept_lines_are_copies && !self.is_after_compaction(entry))
    }

    fn push_message(&mut self, entry: &EntryId, message: &Message) {
        match encode::encode_message(message) {
            Some(line) => self.lines.push_message(line.into_bytes()),
            None => self.note_unwritten(entry),
        }
    }

    fn note_unwritten(&mut self, entry: &EntryId) {
        self.losses_of(entry).add("", ("message", "the format has no such message", "dropped"));
    }

    /// Adds results for the calls without one. Every provider that kimi-cli knows refuses such calls.
    fn add_missing_results(&mut self, message: &ContextMessage, entry: &Entry) {
        if self.writer.written.answered_entries.insert(entry.id.clone()) {
            let loss = ("open_call", "kimi-cli cannot continue after a call without a result", "replaced");
            Losses::new(&entry.id, &mut self.writer.losses).add("", loss);
        }
        let mut ignored = Vec::new();
        for adapted in adapt(&message.message, &mut Losses::new(&entry.id, &mut ignored)) {
            self.push_message(&entry.id, &adapted);
            if !self.is_copy_of(entry) {
                self.writer.wire.add(&adapted, entry.timestamp);
            }
        }
    }

    /// Adds a summary, or a message that replaces one.
    fn add_summary(&mut self, message: &ContextMessage, entry: &Entry, compaction: &Compaction) {
        let is_first_message = !self.lines.has_message;
        let blocks = match message.message.blocks.as_slice() {
            [first, rest @ ..] if is_summary(&message.message, first) => Some(rest),
            _ => None,
        };
        let problem = match blocks {
            Some(_) if is_first_message => None,
            Some(_) => Some("the format has a summary only before all other messages"),
            None => Some("the format has a summary only as one message"),
        };
        let mut losses = self.losses_of(&entry.id);
        if let Some(reason) = problem {
            losses.add("/body/compaction", ("compaction", reason, "replaced"));
        }
        if let Some(line) = kimi_line(entry).filter(|_| blocks.is_some()) {
            return self.lines.push_message(line);
        }
        if !compaction.extra.is_empty() {
            losses.add("/body/compaction", ("unknown_field", "the format has no field for it", "dropped"));
        }
        let adapted = match blocks {
            Some(blocks) => {
                let parts = adapt_parts(blocks, "/body/compaction/summary", &mut losses);
                let marker = std::iter::once(Block::text(COMPACTION_MARKER));
                vec![Message::new(Role::User, marker.chain(parts).collect())]
            }
            None => adapt(&message.message, &mut losses),
        };
        for adapted in adapted {
            self.push_message(&entry.id, &adapted);
        }
    }
}

/// Whether a message of a context is a summary, whose first block says so.
fn is_summary(message: &Message, first: &Block) -> bool {
    message.role == Role::User && matches!(&first.kind, BlockKind::Text(text) if text == SUMMARY_MARKER)
}

/// The line from which an entry was imported, if kimi-cli reads it.
fn kimi_line(entry: &Entry) -> Option<Vec<u8>> {
    let line = bytes_in_entry(entry).filter(|_| is_of_kimi_cli(entry))?;
    let is_readable = std::str::from_utf8(&line).is_ok_and(|text| Object::parse(text).is_some());
    is_readable.then_some(line)
}
