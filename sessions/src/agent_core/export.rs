//! Writes any thread as Agent Core JSONL: lines in the order of the log, and a last line that names the head if a
//! reader would otherwise take another entry for the head.

use std::{borrow::Cow, collections::HashMap};

use store_core::{BlockKind, Body, Entry, EntryId, Role, Thread};

use super::{
    NAME, encode, encode_head, encode_result,
    losses::{note_entry, note_thread},
};
use crate::{
    error::Result,
    export::{
        ExportFiles, ExportSource, Loss, Losses, MultiEntryMessages, WrittenSession, file_name_part,
        loss_of_foreign_line,
    },
    json::{Object, json_string},
    lines::EncodableEntry,
    provenance::Provenance,
};

/// Writes the thread, and returns what was lost.
pub(super) async fn write(source: &ExportSource<'_>, out: &mut ExportFiles<'_>) -> Result<WrittenSession> {
    let thread = source.thread;
    out.start(&format!("{}.jsonl", file_name_part(thread.id.as_str())))?;
    let mut writer =
        ThreadWriter { out, losses: Vec::new(), id_of_last_line: HashMap::new(), implied_head: None, has_root: false };
    note_thread(thread, &mut writer.losses);
    let multi_entry_messages = MultiEntryMessages::find(source, thread.head.as_ref(), is_of_agent_core).await?;
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        for entry in &page {
            if let Some(entry) = multi_entry_messages.entry_to_write(source, entry, &mut writer.losses).await? {
                writer.write_entry(&entry)?;
            }
        }
    }
    writer.write_head(thread, thread.head.as_ref().map(|head| multi_entry_messages.line_of(head)))?;
    Ok(WrittenSession::with_losses(writer.losses))
}

/// Whether an entry was imported from this format.
fn is_of_agent_core(entry: &Entry) -> bool {
    entry.origin.as_ref().is_some_and(|origin| origin.format == NAME.name())
}

struct ThreadWriter<'a, 'b> {
    out: &'a mut ExportFiles<'b>,
    losses: Vec<Loss>,
    /// For each entry whose last line has another id than the entry: the id of that line, which the children of the
    /// entry name as their parent.
    id_of_last_line: HashMap<EntryId, String>,
    /// The entry that a reader of the lines written so far would take for the head.
    implied_head: Option<EntryId>,
    /// Whether a line of a root has been written.
    has_root: bool,
}

/// Inserts fields at the beginning of a JSON object.
fn with_fields<'a>(line: &'a str, fields: &str) -> Cow<'a, str> {
    match line.trim_start().strip_prefix('{') {
        Some(rest) if !fields.is_empty() => Cow::Owned(format!("{{{fields}{rest}")),
        _ => Cow::Borrowed(line),
    }
}

impl ThreadWriter<'_, '_> {
    fn write_entry(&mut self, entry: &Entry) -> Result<()> {
        let origin = entry.origin.as_ref();
        let is_agent_core = is_of_agent_core(entry);
        // An entry that an import added without a line is not written: an import of the exported lines adds it again.
        if is_agent_core && origin.is_some_and(|origin| origin.line == 0) {
            return Ok(());
        }
        let loss_of_line = loss_of_foreign_line(entry).filter(|_| !is_agent_core);
        if let Some((path, what)) = loss_of_line {
            Losses::new(&entry.id, &mut self.losses).add(path, what);
        }
        // The entry with the provenance of the files has no line.
        if Provenance::read(entry).is_some() {
            return Ok(());
        }
        self.track_implied_head(entry);
        if let Some(raw) = origin.filter(|_| is_agent_core).and_then(|origin| origin.raw.as_ref()) {
            return self.write_raw(entry, raw);
        }
        note_entry(entry, is_agent_core, &mut self.losses);
        match entry.message() {
            Some(message) if message.role == Role::Tool && !entry.side => self.write_results(entry, message),
            _ => {
                let parent = self.parent_line_id(entry);
                let body = self.with_line_ids(&entry.body);
                let encodable = EncodableEntry { parent: parent.as_deref(), body: &body, ..EncodableEntry::of(entry) };
                encode(&encodable).map_or(Ok(()), |line| self.write_line(entry, &line))
            }
        }
    }

    /// Writes the raw bytes of a line that was imported from this format. A line without an id or a parent got them
    /// from its place in the imported file. They are inserted, because its place in this file may be another.
    fn write_raw(&mut self, entry: &Entry, raw: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(raw).ok();
        let Some((text, object)) = text.and_then(|text| Some((text, Object::parse(text)?))) else {
            return self.out.write_line(raw, b"\n");
        };
        let mut inserted_fields = String::new();
        match object.text("id") {
            Some(id) if id == entry.id.as_str() => {}
            Some(id) => {
                self.id_of_last_line.insert(entry.id.clone(), id);
            }
            None => inserted_fields += &format!("\"id\":{},", json_string(entry.id.as_str())),
        }
        if let Some(parent) = self.parent_line_id(entry).filter(|_| object.raw("parentId").is_none()) {
            inserted_fields += &format!("\"parentId\":{},", json_string(&parent));
        }
        self.write_line(entry, &with_fields(text, &inserted_fields))
    }

    /// Writes a line. Each root after the first gets an explicit `parentId` of null. Without it, a reader of a file in
    /// which no line names a parent would take each line for the child of the line before it.
    fn write_line(&mut self, entry: &Entry, line: &str) -> Result<()> {
        let is_root = entry.parent.is_none() && !entry.side;
        let is_later_root = is_root && std::mem::replace(&mut self.has_root, true);
        let names_parent = Object::parse(line).is_some_and(|object| object.raw("parentId").is_some());
        let line = with_fields(line, if is_later_root && !names_parent { "\"parentId\":null," } else { "" });
        self.out.write_line(line.as_bytes(), b"\n")
    }

    /// Remembers which entry a reader would take for the head after the line of this entry.
    fn track_implied_head(&mut self, entry: &Entry) {
        match &*entry.body {
            Body::Rewind(rewind) => self.implied_head.clone_from(&rewind.to),
            _ if entry.side => {}
            _ => self.implied_head = Some(entry.id.clone()),
        }
    }

    /// Returns the body with the references that the export needs. A rewind to an entry names the last line of that
    /// entry. A compaction names the last line of the last entry that it covers.
    fn with_line_ids<'b>(&self, body: &'b Body) -> Cow<'b, Body> {
        let last_line_id = |id: &EntryId| EntryId::new(self.id_of_last_line.get(id)?).ok();
        let mut body = Cow::Borrowed(body);
        let new_id = match &*body {
            Body::Rewind(rewind) => rewind.to.as_ref().and_then(last_line_id),
            Body::Compaction(compaction) => compaction.covers.as_ref().and_then(|covers| last_line_id(&covers.to)),
            _ => None,
        };
        let Some(new_id) = new_id else { return body };
        match body.to_mut() {
            Body::Rewind(rewind) => rewind.to = Some(new_id),
            Body::Compaction(compaction) => {
                if let Some(covers) = &mut compaction.covers {
                    covers.to = new_id;
                }
            }
            _ => {}
        }
        body
    }

    fn parent_line_id(&self, entry: &Entry) -> Option<String> {
        let parent = entry.parent.as_ref()?;
        Some(self.id_of_last_line.get(parent).cloned().unwrap_or_else(|| parent.as_str().to_owned()))
    }

    /// Writes one line for each result. Each line is the parent of the next.
    fn write_results(&mut self, entry: &Entry, message: &store_core::Message) -> Result<()> {
        let results = message.blocks.iter().filter_map(|block| match &block.kind {
            BlockKind::ToolResult(result) => Some(result),
            _ => None,
        });
        let mut parent = self.parent_line_id(entry);
        let mut id = entry.id.as_str().to_owned();
        for (at, result) in results.enumerate() {
            if at > 0 {
                parent = Some(std::mem::replace(&mut id, format!("{}.{at}", entry.id)));
            }
            let encodable = EncodableEntry { id: &id, parent: parent.as_deref(), ..EncodableEntry::of(entry) };
            self.write_line(entry, &encode_result(&encodable, result))?;
        }
        if id != entry.id.as_str() {
            self.id_of_last_line.insert(entry.id.clone(), id);
        }
        Ok(())
    }

    /// Writes a line that names the head, if a reader would take another entry for it.
    fn write_head(&mut self, thread: &Thread, head: Option<&EntryId>) -> Result<()> {
        let Some(head) = head.filter(|head| Some(*head) != self.implied_head.as_ref()) else {
            return Ok(());
        };
        let id = format!("{head}#head.{}", thread.version.number());
        let parent = self.id_of_last_line.get(head).cloned().unwrap_or_else(|| head.as_str().to_owned());
        let body = Body::Unknown { kind: String::new(), data: store_core::Json::null() };
        let timestamp = thread.entry_times.map(|(_, last)| last);
        let encodable = EncodableEntry { id: &id, parent: Some(&parent), side: true, timestamp, body: &body };
        let line = encode_head(&encodable);
        self.out.write_line(line.as_bytes(), b"\n")
    }
}
