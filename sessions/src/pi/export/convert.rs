//! Writes the lines of a thread that was imported from a version of pi.

use store_core::{Body, Entry};

use super::{
    header::quoted,
    line_encoder::{Place, with_fields},
    writer::ThreadWriter,
};
use crate::{
    error::Result,
    export::Losses,
    issue::IssueCode,
    json::Object,
    lenient::{self, LenientLine},
    lines::{EncodableEntry, LineFormat},
    pi::{
        Pi, V1, V2, V3, V4,
        v4::{FIELDS_OUTSIDE_BODY, MAIN_LANE},
    },
};

/// The fields of a compaction that follow from the body of its entry.
const COMPACTION_FIELDS: &[&str] = &["summary", "firstKeptEntryId", "firstKeptEntryIndex", "retainedTail"];

impl ThreadWriter<'_, '_> {
    /// Writes an entry that represents a line of pi. `format` is the version that it was imported from.
    pub(super) async fn write_line_of_pi(&mut self, entry: &Entry, format: &str) -> Result<()> {
        let raw = entry.origin.as_ref().and_then(|origin| origin.raw.clone());
        let line = match &raw {
            Some(raw) => lenient::read(raw),
            None => match encoded(entry, format) {
                Some(text) => LenientLine { text: text.into(), oddities: [].into() },
                None => return self.write_body(entry).await,
            },
        };
        let Some(object) = Object::parse(&line.text) else { return self.write_broken_line(entry, format) };
        let is_same_version = format == self.format;
        if is_header(&object) {
            let number = entry.origin.as_ref().map_or(0, |origin| origin.line);
            let is_first = self.header.as_ref().is_some_and(|header| header.line == number);
            return if is_first { Ok(()) } else { self.write_broken_line(entry, format) };
        }
        // A title of version 4 does not become a title in a file of version 3, so it is not noted.
        if is_same_version || object.text("type").as_deref() == Some("session_info") {
            self.note_title(&object);
        }
        if is_same_version {
            let text = line.text.as_ref();
            let bytes = raw.as_deref().filter(|_| is_json(&line)).unwrap_or(text.as_bytes());
            let has_lone_surrogate = raw.is_some() && line.oddities.contains(&IssueCode::LoneSurrogate);
            return self.write_line_of_same_version(entry, &object, (bytes, has_lone_surrogate));
        }
        self.convert(entry, &object, format == V4.name()).await
    }

    /// Writes a line that is not an entry of the tree in any version. Version 4 refuses such lines.
    fn write_broken_line(&mut self, entry: &Entry, format: &str) -> Result<()> {
        let raw = entry.origin.as_ref().and_then(|origin| origin.raw.as_ref());
        if let Some(raw) = raw.filter(|_| format == self.format && !self.line_encoder.is_v4) {
            return self.write_same_line(raw, None);
        }
        let loss = ("raw", "the bytes of a line that the format does not accept", "dropped");
        Losses::new(&entry.id, &mut self.losses).add("/origin/raw", loss);
        Ok(())
    }

    /// Writes a line of the same version. Its id, its parent and its number are changed if they differ from those of
    /// the entry.
    fn write_line_of_same_version(
        &mut self,
        entry: &Entry,
        object: &Object<'_>,
        (bytes, has_lone_surrogate): (&[u8], bool),
    ) -> Result<()> {
        let mut changes = Vec::new();
        let is_node = !entry.side;
        if is_node {
            if object.text("id").as_deref() != Some(entry.id.as_str()) {
                changes.push(("id", quoted(entry.id.as_str())));
            }
            let parent = self.parent_line(entry);
            let named_parent = object.text("parentId");
            // If the entry is a root and its line names a parent that is not in the file, that name is kept. A reader
            // takes such a line for a root anyway.
            let is_root = parent.is_none()
                && named_parent.as_ref().is_none_or(|named_parent| !self.ids.used_ids.contains(named_parent));
            if named_parent != parent && !is_root || object.raw("parentId").is_none() {
                changes.push(("parentId", parent.map_or_else(|| "null".to_owned(), |parent| quoted(&parent))));
            }
        }
        if self.line_encoder.is_v4 {
            let seq = self.line_encoder.next_seq();
            if object.number("seq") != Some(seq) {
                changes.push(("seq", seq.to_string()));
            }
            self.note_main_lane(entry, object);
        }
        // In version 3, every line that has an id counts as the leaf when it is imported.
        let is_leaf = is_node || !self.line_encoder.is_v4 && object.has("id");
        let id = is_leaf.then_some(entry.id.as_str());
        if changes.is_empty() {
            return self.write_same_line(bytes, id);
        }
        if has_lone_surrogate {
            let loss = ("lone_surrogate", "the id or the parent of the line changed", "replaced");
            Losses::new(&entry.id, &mut self.losses).add("", loss);
        }
        self.write_same_line(with_fields(object, &changes).as_bytes(), id)
    }

    /// Notes the leaf of the main lane after a line. The id in the line may differ from that of its entry.
    fn note_main_lane(&mut self, entry: &Entry, object: &Object<'_>) {
        if object.text("lane").as_deref() == Some(MAIN_LANE) {
            match object.text("kind").as_deref() {
                Some("entry") => self.main_leaf = Some(Some(entry.id.as_str().to_owned())),
                Some("lane") => self.main_leaf = Some(object.text("leafId")),
                _ => {}
            }
        }
    }

    fn note_title(&mut self, object: &Object<'_>) {
        let is_title =
            object.text("type").as_deref() == Some("session_info") || object.text("fact").as_deref() == Some("name");
        if is_title {
            self.title = object.text("name");
        }
    }

    /// Writes a line of another version.
    async fn convert(&mut self, entry: &Entry, object: &Object<'_>, from_v4: bool) -> Result<()> {
        if from_v4 {
            let loss = ("raw", "version 3 has no lanes, and no numbers of lines", "dropped");
            Losses::new(&entry.id, &mut self.losses).add("/origin/raw", loss);
        }
        let kind = object.text("type").unwrap_or_default();
        let is_entry = !from_v4 || object.text("kind").as_deref() == Some("entry");
        let has_kind = |name: &str| is_entry && kind == name;
        let body = &*entry.body;
        let fields: Vec<_> = object.iter().filter(|(name, _)| !is_outside_body(name, from_v4)).collect();
        match body {
            _ if entry.side || !is_entry || kind.is_empty() => self.write_body(entry).await,
            Body::Label(label) => self.write_label(entry, label),
            Body::Compaction(compaction) if has_kind("compaction") => {
                let other_fields: Vec<_> =
                    fields.into_iter().filter(|(name, _)| !COMPACTION_FIELDS.contains(name)).collect();
                self.write_compaction(entry, compaction, &other_fields).await
            }
            _ if self.line_encoder.is_v4 && has_kind("session_info") => {
                self.leave_out_of_tree(entry);
                let fields: Vec<_> = std::iter::once(("fact", "\"name\"")).chain(fields).collect();
                let line = self.line_encoder.side_line("fact", &fields);
                self.out.write_line(line.as_bytes(), b"\n")
            }
            _ if self.line_encoder.is_v4 && has_kind("custom_message") => {
                let role = std::iter::once(("role", "\"custom\""));
                let time = entry.timestamp.as_millis().to_string();
                let fields: Vec<_> = role.chain(fields).chain([("timestamp", time.as_str())]).collect();
                let message = object_of(&fields);
                self.write_converted(entry, "message", &[("message", &message)])
            }
            _ => {
                let message = object.object("message").filter(|_| has_kind("message"));
                let is_hook = |message: &Object<'_>| message.text("role").as_deref() == Some("hookMessage");
                let renamed = message.filter(is_hook);
                let renamed = renamed.map(|message| with_fields(&message, &[("role", "\"custom\"".to_owned())]));
                let renamed = renamed.as_deref();
                let message = |(name, raw)| (name, renamed.filter(|_| name == "message").unwrap_or(raw));
                let fields: Vec<_> = fields.into_iter().map(message).collect();
                self.write_converted(entry, &kind, &fields)
            }
        }
    }

    fn write_converted(&mut self, entry: &Entry, kind: &str, fields: &[(&str, &str)]) -> Result<()> {
        let parent = self.parent_line(entry);
        let place = Place { id: entry.id.as_str(), parent: parent.as_deref(), timestamp: entry.timestamp };
        self.write_tree_line(place, kind, fields)
    }
}

/// Whether a field describes the line itself, and is not part of the body of its entry.
fn is_outside_body(name: &str, is_v4: bool) -> bool {
    let only_v4 = ["kind", "lane", "seq"];
    FIELDS_OUTSIDE_BODY.contains(&name) && (is_v4 || !only_v4.contains(&name))
}

fn object_of(fields: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut object = store_core::codec::ObjectWriter::open(&mut out);
    for (name, raw) in fields {
        object.key(name).push_str(raw);
    }
    object.close();
    out
}

fn is_header(object: &Object<'_>) -> bool {
    object.text("type").as_deref() == Some("session") || object.text("kind").as_deref() == Some("header")
}

/// Whether the bytes of a line are JSON for pi, which reads bytes that are not UTF-8 and lone surrogates.
fn is_json(line: &LenientLine<'_>) -> bool {
    !line.oddities.contains(&IssueCode::ControlCharacter) && !line.oddities.contains(&IssueCode::MalformedLine)
}

/// The line of an entry that was imported without its bytes, encoded from the body; `None` if the format is not version
/// 1, 2 or 3 of pi.
fn encoded(entry: &Entry, format: &str) -> Option<String> {
    let version = [V1, V2, V3].into_iter().find(|version| version.name() == format)?;
    Pi::new(version).encode(&EncodableEntry::of(entry))
}
