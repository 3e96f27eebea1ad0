//! Writes the lines of a thread in the order of its log.

use std::collections::{HashMap, HashSet};

use store_core::{BlockKind, Body, Compaction, Entry, EntryId, Label, Message, Role, Timestamp};

use super::{
    compaction,
    header::{ImportedHeader, quoted},
    line_encoder::{LineEncoder, LineIds, Place},
    losses::MessageLosses,
    message::{self, MessageContext, can_be_pi_message, moved_blocks_json},
};
use crate::{
    error::Result,
    export::{ExportFiles, ExportSource, Loss, Losses, MultiEntryMessages, loss_of_foreign_line},
    lines::{AGENTSTORE, AgentstoreField},
    pi::{V3, V4, v4::MAIN_LANE},
    provenance::Provenance,
};

/// Writes the lines of a thread.
pub(super) struct ThreadWriter<'a, 'b> {
    pub(super) source: &'a ExportSource<'a>,
    pub(super) out: &'a mut ExportFiles<'b>,
    multi_entry_messages: &'a MultiEntryMessages,
    pub(super) line_encoder: LineEncoder,
    /// The name of the format that is written.
    pub(super) format: &'static str,
    pub(super) header: Option<ImportedHeader>,
    pub(super) losses: Vec<Loss>,
    pub(super) ids: LineIds,
    /// The ids of last lines, where they differ from the ids of their entries. The children of an entry name its last
    /// line as their parent. For an entry without a line of the tree, this is the line that it would name itself, or
    /// `None` if it would be a root.
    last_lines: HashMap<EntryId, Option<String>>,
    /// For an entry that labels follow: the id of the line of the last label. In version 3, the children of the entry
    /// have this line as their parent.
    labels: HashMap<EntryId, String>,
    /// The id of the last line of the tree. In version 3, this line is the head.
    leaf: Option<String>,
    /// The leaf of the main lane, if a line of version 4 names the lane. The inner `None` is a lane without a leaf.
    pub(super) main_leaf: Option<Option<String>>,
    /// The names of tools by the ids of their calls.
    tool_names: HashMap<String, String>,
    /// The title that the lines so far give to the session.
    pub(super) title: Option<String>,
    /// The messages that were written as summaries of the compactions before them.
    summaries: HashSet<EntryId>,
}

impl<'a, 'b> ThreadWriter<'a, 'b> {
    pub(super) fn new(
        is_v4: bool,
        source: &'a ExportSource<'a>,
        (out, multi_entry_messages): (&'a mut ExportFiles<'b>, &'a MultiEntryMessages),
    ) -> Self {
        Self {
            source,
            out,
            multi_entry_messages,
            line_encoder: LineEncoder::new(is_v4),
            format: if is_v4 { V4.name() } else { V3.name() },
            header: None,
            losses: Vec::new(),
            ids: LineIds::default(),
            last_lines: HashMap::new(),
            labels: HashMap::new(),
            leaf: None,
            main_leaf: None,
            tool_names: HashMap::new(),
            title: None,
            summaries: HashSet::new(),
        }
    }

    pub(super) async fn write_entry(&mut self, entry: &Entry) -> Result<()> {
        let origin = entry.origin.as_ref().filter(|origin| origin.format.starts_with("pi-v"));
        let is_same_version = origin.is_some_and(|origin| origin.format == self.format);
        let foreign_line_loss =
            loss_of_foreign_line(entry).filter(|(path, _)| origin.is_none() || path.is_empty() && !is_same_version);
        if let Some((path, loss)) = foreign_line_loss {
            Losses::new(&entry.id, &mut self.losses).add(path, loss);
        }
        if Provenance::read(entry).is_some() {
            return Ok(());
        }
        // An entry that an import added without a line is not written: an import of the exported lines adds it again.
        // An import of version 4 adds a label for each lane of pi. Such a label is written in version 3, which has no
        // lanes.
        let has_no_line = origin.is_some_and(|origin| origin.line == 0);
        if has_no_line && (is_same_version || !matches!(&*entry.body, Body::Label(_))) {
            return Ok(());
        }
        self.note_losses(entry);
        self.note_calls(entry);
        if self.summaries.contains(&entry.id) {
            let loss = ("summary", "it is the summary of the compaction before it", "moved");
            Losses::new(&entry.id, &mut self.losses).add("", loss);
            self.leave_out_of_tree(entry);
            return Ok(());
        }
        match origin.filter(|_| !has_no_line) {
            Some(origin) => self.write_line_of_pi(entry, &origin.format).await,
            None => self.write_body(entry).await,
        }
    }

    /// Writes an entry as a line that is made from its body.
    pub(super) async fn write_body(&mut self, entry: &Entry) -> Result<()> {
        match &*entry.body {
            Body::Message(message) if !entry.side && can_be_pi_message(message) => self.write_message(entry, message),
            Body::Message(message) => {
                if message.role == Role::System {
                    let loss = ("system", "the format has no system messages", "moved");
                    Losses::new(&entry.id, &mut self.losses).add("", loss);
                }
                self.write_custom(entry)
            }
            Body::Compaction(compaction) if !entry.side => self.write_compaction(entry, compaction, &[]).await,
            Body::Label(label) => self.write_label(entry, label),
            _ => self.write_custom(entry),
        }
    }

    /// The line that becomes the parent of the line of an entry.
    pub(super) fn parent_line(&self, entry: &Entry) -> Option<String> {
        let parent = entry.parent.as_ref()?;
        self.labels.get(parent).cloned().or_else(|| self.last_line(parent))
    }

    /// The last line of an entry, or of its nearest ancestor that has one.
    fn last_line(&self, entry: &EntryId) -> Option<String> {
        self.last_lines.get(entry).cloned().unwrap_or_else(|| Some(entry.as_str().to_owned()))
    }

    /// Notes that an entry has no line of the tree. The line of its parent then becomes the parent of its children.
    pub(super) fn leave_out_of_tree(&mut self, entry: &Entry) {
        let parent = self.parent_line(entry);
        self.last_lines.insert(entry.id.clone(), parent);
    }

    /// Writes a line of the tree.
    pub(super) fn write_tree_line(&mut self, place: Place<'_>, kind: &str, fields: &[(&str, &str)]) -> Result<()> {
        let line = self.line_encoder.tree_line(place, kind, fields);
        self.leaf = Some(place.id.to_owned());
        self.out.write_line(line.as_bytes(), b"\n")
    }

    /// Writes a line that was imported from the same version. `id` is its id if it is a line of the tree.
    pub(super) fn write_same_line(&mut self, bytes: &[u8], id: Option<&str>) -> Result<()> {
        if let Some(id) = id {
            self.leaf = Some(id.to_owned());
        }
        self.out.write_line(bytes, b"\n")
    }

    fn write_message(&mut self, entry: &Entry, message: &Message) -> Result<()> {
        let context = MessageContext { timestamp: entry.timestamp, tool_names: &self.tool_names };
        let mut losses = Losses::new(&entry.id, &mut self.losses);
        let encoded = message::encode(message, context, &mut MessageLosses::new(&mut losses, ""));
        if encoded.messages.len() > 1 {
            losses.add("/blocks", ("split", "a line of the format can contain only one result", "replaced"));
        }
        let mut parent = self.parent_line(entry);
        if !encoded.moved_blocks.is_empty() {
            let data = moved_blocks_json(entry.id.as_str(), &encoded.moved_blocks);
            let id = self.ids.make_id(&format!("{}/blocks", entry.id));
            let place = Place { id: &id, parent: parent.as_deref(), timestamp: entry.timestamp };
            self.write_tree_line(place, "custom", &[("customType", &custom_type("blocks")), ("data", &data)])?;
            parent = Some(id);
        }
        for (at, message) in encoded.messages.iter().enumerate() {
            let id = match at {
                0 => entry.id.as_str().to_owned(),
                _ => self.ids.make_id(&format!("{}/{at}", entry.id)),
            };
            let place = Place { id: &id, parent: parent.as_deref(), timestamp: entry.timestamp };
            self.write_tree_line(place, "message", &[("message", message)])?;
            parent = Some(id);
        }
        if encoded.messages.len() > 1 {
            self.last_lines.insert(entry.id.clone(), parent);
        }
        Ok(())
    }

    /// Writes a compaction. `other_fields` are further fields of the line that it was imported from.
    pub(super) async fn write_compaction(
        &mut self,
        entry: &Entry,
        compaction: &Compaction,
        other_fields: &[(&str, &str)],
    ) -> Result<()> {
        let context = MessageContext { timestamp: entry.timestamp, tool_names: &self.tool_names };
        let can_name_first_kept = !self.line_encoder.is_v4;
        let mut losses = Losses::new(&entry.id, &mut self.losses);
        let summary = compaction::summary_below(self.source, entry, compaction).await?;
        let input = compaction::CompactionInput {
            source: self.source,
            multi_entry_messages: self.multi_entry_messages,
            can_name_first_kept,
            context,
        };
        let compaction_fields =
            compaction::fields(&input, (entry, compaction), summary.as_deref(), &mut losses).await?;
        self.summaries.extend(summary.map(|summary| summary.id.clone()));
        let first_kept = compaction_fields.first_kept.as_ref().unwrap_or(&entry.id).as_str();
        let members = compaction_fields.json_members(first_kept);
        let mut fields: Vec<(&str, &str)> = members.iter().map(|(name, raw)| (*name, raw.as_str())).collect();
        if self.line_encoder.is_v4 {
            fields.retain(|(name, _)| *name != "firstKeptEntryId");
        }
        if other_fields.iter().all(|(name, _)| *name != "tokensBefore") {
            fields.push(("tokensBefore", "0"));
        }
        fields.extend(other_fields);
        let parent = self.parent_line(entry);
        let place = Place { id: entry.id.as_str(), parent: parent.as_deref(), timestamp: entry.timestamp };
        self.write_tree_line(place, "compaction", &fields)
    }

    pub(super) fn write_label(&mut self, entry: &Entry, label: &Label) -> Result<()> {
        let target = quoted(label.target.as_str());
        let text = label.text.as_deref().map(quoted);
        let mut fields = vec![("targetId", target.as_str())];
        fields.extend(text.as_deref().map(|text| ("label", text)));
        if self.line_encoder.is_v4 {
            fields.insert(0, ("fact", "\"label\""));
            if !entry.side {
                self.leave_out_of_tree(entry);
            }
            let line = self.line_encoder.side_line("fact", &fields);
            return self.out.write_line(line.as_bytes(), b"\n");
        }
        let parent = self.parent_line(entry);
        let place = Place { id: entry.id.as_str(), parent: parent.as_deref(), timestamp: entry.timestamp };
        self.write_tree_line(place, "label", &fields)?;
        // In version 3, a label is a line of the tree, and becomes the parent of the next children of its parent.
        if let Some(parent) = entry.parent.as_ref().filter(|_| entry.side) {
            self.labels.insert(parent.clone(), entry.id.as_str().to_owned());
        }
        Ok(())
    }

    /// Writes an entry for which pi has no line, in a form that an import reads back.
    fn write_custom(&mut self, entry: &Entry) -> Result<()> {
        let mut body = (*entry.body).clone();
        if let Body::Rewind(rewind) = &mut body {
            let to = rewind.to.as_ref().and_then(|to| self.last_line(to));
            rewind.to = to.and_then(|to| EntryId::new(to).ok());
        }
        let data = AgentstoreField::of_body(&body, entry.side);
        let parent = self.parent_line(entry);
        let place = Place { id: entry.id.as_str(), parent: parent.as_deref(), timestamp: entry.timestamp };
        let kind = custom_type(entry.kind().name());
        self.write_tree_line(place, "custom", &[("customType", &kind), ("data", &data)])
    }

    /// Writes the title and the head, if the lines so far do not give them.
    pub(super) fn write_end(&mut self) -> Result<()> {
        let thread = self.source.thread;
        let head = thread.head.as_ref().and_then(|head| self.last_line(self.multi_entry_messages.line_of(head)));
        let timestamp = thread.entry_times.map_or(thread.created_at, |(_, last)| last);
        if let Some(title) = thread.title.as_ref().filter(|title| self.title.as_ref() != Some(*title)) {
            self.write_title(&quoted(title), head.as_deref(), timestamp)?;
        }
        if self.line_encoder.is_v4 {
            if self.main_leaf.as_ref() == Some(&head) {
                return Ok(());
            }
            let leaf = head.as_deref().map_or_else(|| "null".to_owned(), quoted);
            let line = self.line_encoder.side_line("lane", &[("lane", &quoted(MAIN_LANE)), ("leafId", &leaf)]);
            return self.out.write_line(line.as_bytes(), b"\n");
        }
        if head == self.leaf {
            return Ok(());
        }
        let id = self.ids.make_id(&format!("{}/head.{}", thread.id, thread.version.number()));
        let place = Place { id: &id, parent: head.as_deref(), timestamp };
        let data = AgentstoreField::head();
        self.write_tree_line(place, "custom", &[("customType", &custom_type("head")), ("data", &data)])
    }

    fn write_title(&mut self, title: &str, head: Option<&str>, timestamp: Timestamp) -> Result<()> {
        if self.line_encoder.is_v4 {
            let line = self.line_encoder.side_line("fact", &[("fact", "\"name\""), ("name", title)]);
            return self.out.write_line(line.as_bytes(), b"\n");
        }
        let id = self.ids.make_id(&format!("{}/title", self.source.thread.id));
        self.write_tree_line(Place { id: &id, parent: head, timestamp }, "session_info", &[("name", title)])
    }

    /// Remembers the names of the tools that a message calls.
    fn note_calls(&mut self, entry: &Entry) {
        for block in entry.message().map(|message| message.blocks.as_slice()).unwrap_or_default() {
            if let BlockKind::ToolUse(call) = &block.kind {
                self.tool_names.insert(call.id.clone(), call.name.clone());
            }
        }
    }

    fn note_losses(&mut self, entry: &Entry) {
        let mut losses = Losses::new(&entry.id, &mut self.losses);
        if entry.run.is_some() {
            losses.add_no_field_for("/run", "run");
        }
        let is_label_of_newer_release = matches!(&*entry.body, Body::Label(label) if !label.extra.is_empty());
        if !entry.extra.is_empty() || is_label_of_newer_release {
            losses.add("", ("unknown_field", "the format has no field for what a newer release wrote", "dropped"));
        }
    }
}

/// The type of a line for an entry for which pi has no type, as JSON.
fn custom_type(name: &str) -> String {
    quoted(&format!("{AGENTSTORE}.{name}"))
}
