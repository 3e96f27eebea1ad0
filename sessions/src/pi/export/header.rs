//! Writes the header.

use store_core::{
    Body, Entry, JsonMap,
    codec::{Codec, ObjectWriter as Writer},
};

use super::{line_encoder::with_fields, writer::ThreadWriter};
use crate::{
    error::Result,
    export::{note_metadata, note_parent},
    json::{Object, json_string},
    lenient,
    parents::{AWAITED_PARENT_KEY, parent_of},
    provenance::IMPORT_LINE,
    time,
};

/// The header of the file that the thread was imported from.
#[derive(Debug)]
pub(super) struct ImportedHeader {
    pub(super) format: String,
    pub(super) line: u64,
    text: String,
}

/// The keys of metadata that an import takes from the header.
const HEADER_KEYS: &[&str] = &["session_id", "cwd", "version", AWAITED_PARENT_KEY];

impl ImportedHeader {
    /// Reads an entry that contains a header.
    fn read(entry: &Entry) -> Option<Self> {
        let origin = entry.origin.as_ref().filter(|origin| origin.format.starts_with("pi-v"))?;
        let is_line = matches!(&*entry.body, Body::Custom(custom) if custom.kind == IMPORT_LINE);
        let raw = origin.raw.as_ref().filter(|_| is_line)?;
        let text = lenient::read(raw).text.into_owned();
        let object = Object::parse(&text)?;
        let is_header =
            object.text("type").as_deref() == Some("session") || object.text("kind").as_deref() == Some("header");
        is_header.then(|| Self { format: origin.format.clone(), line: origin.line, text: text.clone() })
    }
}

impl ThreadWriter<'_, '_> {
    /// Reads all ids and the header of the imported file, and writes the header.
    pub(super) async fn write_header(&mut self) -> Result<()> {
        let mut pages = self.source.entries();
        while let Some(page) = pages.next().await? {
            for entry in &page {
                self.ids.used_ids.insert(entry.id.as_str().to_owned());
                if self.header.is_none() {
                    self.header = ImportedHeader::read(entry);
                }
            }
        }
        self.note_thread_losses();
        let header_of_same_version = self.header.as_ref().filter(|header| header.format == self.format);
        let folder = self.source.options.working_folder.as_ref();
        let line = match (header_of_same_version, folder) {
            (None, _) => self.make_header(),
            (Some(header), None) => header.text.clone(),
            (Some(header), Some(folder)) => match Object::parse(&header.text) {
                Some(object) => with_fields(&object, &[("cwd", quoted(&folder.to_string_lossy()))]),
                None => self.make_header(),
            },
        };
        self.out.write_line(line.as_bytes(), b"\n")
    }

    fn make_header(&self) -> String {
        let thread = self.source.thread;
        let imported = self.header.as_ref().and_then(|header| Object::parse(&header.text));
        let path_names = ["parentSession", "branchedFrom", "legacyParentSessionPath"];
        let parent_path = imported.and_then(|header| path_names.iter().find_map(|name| header.text(name)));
        let mut out = String::new();
        let mut line = Writer::open(&mut out);
        let (id, cwd) = (thread.id.as_str().to_owned(), self.source.working_folder());
        if self.line_encoder.is_v4 {
            line.field("kind", &"header".to_owned()).field("version", &4_u64).field("id", &id);
            line.field("createdAt", &thread.created_at).field("cwd", &cwd);
            match parent_of(thread) {
                Some(parent) => line.field("parentSessionId", &parent),
                None => line.maybe("legacyParentSessionPath", parent_path.as_ref()),
            };
            let metadata = self.other_metadata();
            line.maybe("metadata", Some(&metadata).filter(|metadata| !metadata.is_empty()));
        } else {
            line.field("type", &"session".to_owned()).field("version", &3_u64).field("id", &id);
            line.field("timestamp", &time::to_iso(thread.created_at)).field("cwd", &cwd);
            line.maybe("parentSession", parent_path.as_ref());
        }
        line.close();
        out
    }

    /// The metadata of the thread without those keys that an import takes from a header.
    fn other_metadata(&self) -> JsonMap {
        let mut metadata = self.source.thread.metadata.clone();
        metadata.retain(|key, _| !HEADER_KEYS.contains(&key.as_str()));
        metadata
    }

    /// Notes which fields of the thread are lost.
    fn note_thread_losses(&mut self) {
        let thread = self.source.thread;
        let is_same_version = self.header.as_ref().is_some_and(|header| header.format == self.format);
        let writes_metadata = self.line_encoder.is_v4 && !is_same_version;
        note_metadata(thread, |key| writes_metadata || HEADER_KEYS.contains(&key), &mut self.losses);
        if !self.line_encoder.is_v4 && self.header.is_none() {
            note_parent(thread, "the format names the file of a parent, not its id", &mut self.losses);
        }
    }
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    json_string(text).encode()
}
