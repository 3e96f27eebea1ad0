//! The second pass over one context file. A line that repeats an earlier file becomes a reference, and a new line
//! becomes an entry.

use std::collections::VecDeque;

use store_core::{
    Block, BlockKind, Compaction, Custom, ImportOrigin, Interval, Json, Message, NewBody, NewEntry, ParentRef,
    RewindTo, Role, Timestamp, context::SUMMARY_MARKER,
};

use super::{
    continuation::{self, Continuation},
    drafts::{EntryParts, index_of_line},
    encode,
    history::{PlacedFile, TreePosition},
    ids::FileLineIds,
    line,
    session::{KimiSession, ThreadLayout},
};
use crate::{
    error::Result,
    issue::Issues,
    json::{Object, json_string},
    lenient,
    provenance::IMPORT_LINE,
    session::Draft,
    source::Line,
};

/// The kind of a reference: an entry for a line that repeats an earlier file. It names the entry of the earlier line.
pub(super) const REFERENCE_KIND: &str = "kimi-cli.shared";

/// The time that an entry gets, and the queue to which its draft is added.
type TimeAndQueue<'a> = (Option<Timestamp>, &'a mut VecDeque<Draft>);

/// Creates the drafts of one context file, line by line.
pub(super) struct ContextDrafts<'a> {
    session: &'a KimiSession,
    /// The position of the file in the history.
    file: usize,
    ids: &'a FileLineIds,
    placed_file: &'a PlacedFile,
    /// The system messages of the file so far. A compaction with new instructions puts them into its replacement.
    instructions: Vec<Message>,
    /// The draft of the summary. It follows the references to the lines that the compaction keeps, so that an
    /// interrupted import never stores a summary with only some of these references.
    held_summary: Option<Draft>,
    /// Whether the entry that rewinds the thread was added.
    has_rewind: bool,
}

impl<'a> ContextDrafts<'a> {
    /// Begins the drafts of the file at this position of the history. Returns `None` if there is no such file.
    pub(super) fn new(session: &'a KimiSession, file: usize) -> Option<Self> {
        let (ids, placed_file) = (session.layout.ids.get(file)?, session.layout.history.files().get(file)?);
        Some(Self { session, file, ids, placed_file, instructions: Vec::new(), held_summary: None, has_rewind: false })
    }

    const fn layout(&self) -> &'a ThreadLayout {
        &self.session.layout
    }

    fn compaction(&self) -> Option<&'a continuation::Compaction> {
        match self.placed_file.continuation.as_ref()? {
            Continuation::Compaction(compaction) => Some(compaction),
            Continuation::Rewind { .. } => None,
        }
    }

    /// Adds the drafts of a line to `ready`.
    pub(super) fn add_line(&mut self, line: Line, time: Option<Timestamp>, ready: &mut VecDeque<Draft>) -> Result<()> {
        let line_index = index_of_line(line.number);
        let Some(position) = self.layout().history.position(self.file, line_index) else { return Ok(()) };
        if let Some(Continuation::Rewind { shared_lines, .. }) = &self.placed_file.continuation
            && line_index == *shared_lines
        {
            // The file has this line of its own, so the rewind is final.
            let is_open = false;
            self.add_rewind(*shared_lines, is_open, (time, &mut *ready))?;
        }
        if line.is_blank() {
            return Ok(());
        }
        if position.original != (self.file, line_index) {
            ready.push_back(self.reference(line, &position, time)?);
        } else {
            let summary = self.compaction().filter(|compaction| compaction.summary_line == line_index);
            let draft = self.entry(line, &position, summary, time)?;
            if summary.is_some() {
                self.held_summary = Some(draft);
            } else {
                ready.push_back(draft);
            }
        }
        if self
            .compaction()
            .is_some_and(|compaction| line_index >= compaction.summary_line + compaction.kept_lines.len())
        {
            ready.extend(self.held_summary.take());
        }
        Ok(())
    }

    /// Adds the drafts that remain at the end of the file to `ready`.
    pub(super) fn add_remaining(&mut self, time: Option<Timestamp>, ready: &mut VecDeque<Draft>) -> Result<()> {
        if let Some(Continuation::Rewind { shared_lines, is_open }) = &self.placed_file.continuation {
            self.add_rewind(*shared_lines, *is_open, (time, &mut *ready))?;
        }
        ready.extend(self.held_summary.take());
        Ok(())
    }

    /// Adds, once, the entry that rewinds the thread to the end of the lines that the file repeats. The entry
    /// corresponds to no line.
    fn add_rewind(&mut self, shared_lines: usize, is_open: bool, out: TimeAndQueue<'_>) -> Result<()> {
        if std::mem::replace(&mut self.has_rewind, true) {
            return Ok(());
        }
        let next_parent = shared_lines
            .checked_sub(1)
            .and_then(|line_index| self.layout().history.position(self.file, line_index)?.next_parent);
        let to = self.layout().node_id(next_parent)?.map_or(RewindTo::Start, RewindTo::Entry);
        let origin = ImportOrigin::new(self.session.info.format, 0);
        let id = if is_open { self.ids.open_rewind(shared_lines) } else { self.ids.rewind(shared_lines) }?;
        let (time, ready) = out;
        let mut entry = NewEntry::new(to).with_id(id).with_parent(ParentRef::Root).with_origin(origin);
        entry.timestamp = time;
        ready.push_back(Draft { entry, bytes: 0 });
        Ok(())
    }

    fn reference(&self, line: Line, position: &TreePosition, time: Option<Timestamp>) -> Result<Draft> {
        let original = self.layout().line_id(position.original)?;
        let entry = original.map_or_else(Json::null, |id| json_string(id.as_str()));
        let data = Json::parse(&format!("{{\"entry\":{entry}}}")).unwrap_or_else(|_| Json::null());
        let parts = EntryParts {
            id: self
                .layout()
                .ids
                .get(self.file)
                .map_or_else(|| self.layout().wire_ids.reference(line.number), |ids| ids.reference(line.number))?,
            parent: self.layout().node_id(position.node.or(position.next_parent))?,
            side: true,
            body: Custom::new(REFERENCE_KIND, data).into(),
        };
        let fingerprint = |(file, line_index): (usize, usize)| {
            Some(self.session.contexts.get(file)?.line_data.get(line_index)?.fingerprint)
        };
        let is_equal = fingerprint(position.original) == fingerprint((self.file, index_of_line(line.number)));
        let mut draft = self.session.line_draft(parts, line, time, |_| None);
        if is_equal && let Some(origin) = &mut draft.entry.origin {
            origin.raw = None;
        }
        Ok(draft)
    }

    fn entry(
        &mut self,
        line: Line,
        position: &TreePosition,
        summary: Option<&continuation::Compaction>,
        time: Option<Timestamp>,
    ) -> Result<Draft> {
        let at = (self.file, index_of_line(line.number));
        let mut body = self.body(&line);
        self.note_failure(at, &mut body);
        if position.node.is_some()
            && let NewBody::Message(message) = &body
            && message.role == Role::System
        {
            self.instructions.push(message.clone());
        }
        if let (Some(summary), NewBody::Message(message)) = (summary, &body) {
            body = self.compaction_body(summary, message)?.into();
        }
        let parent = match position.node {
            Some(node) => self.layout().history.node(node).and_then(|node| node.parent),
            None => position.next_parent,
        };
        let (id, parent) = (self.ids.line(line.number)?, self.layout().node_id(parent)?);
        let parts = EntryParts { id, parent, side: position.node.is_none(), body };
        Ok(self.session.line_draft(parts, line, time, encode::encode_context_line))
    }

    fn body(&self, line: &Line) -> NewBody {
        let lenient = lenient::read(&line.bytes);
        let is_deep = lenient.oddities.contains(&crate::issue::IssueCode::DeepJson);
        match Object::parse(&lenient.text).filter(|_| !is_deep) {
            // The first pass has already noted the issues of the line.
            Some(object) => line::read(line.number, &object, &mut Issues::default()).body,
            None => Custom::new(IMPORT_LINE, Json::null()).into(),
        }
    }

    /// Sets whether a tool failed, if the wire file says so. It is more reliable than the text of the result.
    fn note_failure(&self, at: (usize, usize), body: &mut NewBody) {
        let Some(wire) = &self.session.wire else { return };
        let record = self.layout().wire_matches.record_of_line(at);
        let Some(is_error) = record.and_then(|record| wire.line_data.is_error(record)) else { return };
        if let NewBody::Message(message) = body
            && let Some(Block { kind: BlockKind::ToolResult(result), .. }) = message.blocks.first_mut()
        {
            result.is_error = Some(is_error);
        }
    }

    fn compaction_body(&self, found: &continuation::Compaction, message: &Message) -> Result<Compaction> {
        let mut compaction = Compaction::default();
        compaction.summary = message.blocks.iter().skip(1).cloned().collect();
        let (from, to) = found.covers;
        let ends = self.layout().node_id(Some(from))?.zip(self.layout().node_id(Some(to))?);
        compaction.covers = ends.map(|(from, to)| Interval::new(from, to));
        if found.has_new_instructions {
            let mut messages = self.instructions.clone();
            if !compaction.summary.is_empty() {
                let marker = std::iter::once(Block::text(SUMMARY_MARKER));
                messages.push(Message::new(Role::User, marker.chain(compaction.summary.iter().cloned()).collect()));
            }
            compaction.replacement = Some(messages);
        }
        Ok(compaction)
    }
}
