//! The first record of an exported rollout, and the record with the settings of a turn.

use store_core::{Entry, codec::ObjectWriter as Writer};

use super::NAME;
use crate::{
    export::ExportSource,
    json::{Object, json_string, parse_json_string},
    provenance::Provenance,
    time,
};

/// The session of one file.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) forked_from: Option<String>,
    pub(super) cwd: String,
    /// The header fields of the rollout that the thread was imported from.
    imported_fields: Vec<(String, String)>,
}

impl Session {
    pub(super) fn new(source: &ExportSource<'_>, id: String, first_entry: Option<&Entry>) -> Self {
        let imported_fields = first_entry.map(imported_header).unwrap_or_default();
        Self { id, forked_from: None, cwd: source.working_folder(), imported_fields }
    }

    /// The session as a fork of another one.
    pub(super) fn forked_from(mut self, id: Option<String>) -> Self {
        self.forked_from = id.or(self.forked_from);
        self
    }

    /// Writes the record. Its fields are those of the imported header, but with the id and the folder of this session.
    pub(super) fn record(&self, source: &ExportSource<'_>) -> String {
        let created_at = time::to_iso(source.thread.created_at);
        let mut fields: Vec<(String, String)> = Vec::new();
        let mut set = |name: &str, raw: String| match fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, value)) => *value = raw,
            None => fields.push((name.to_owned(), raw)),
        };
        let text = |text: &str| json_string(text).as_str().to_owned();
        set("id", text(&self.id));
        set("timestamp", text(&created_at));
        set("cwd", text(&self.cwd));
        set("originator", text("agentstore"));
        set("cli_version", text(env!("CARGO_PKG_VERSION")));
        set("source", text("cli"));
        set("model_provider", text("openai"));
        for (name, raw) in &self.imported_fields {
            set(name, raw.clone());
        }
        if self.imported_fields.iter().any(|(name, _)| name == "session_id") {
            set("session_id", text(&self.id));
        }
        set("id", text(&self.id));
        set("cwd", text(&self.cwd));
        if let Some(id) = &self.forked_from {
            set("forked_from_id", text(id));
        }
        let mut out = String::new();
        let mut object = Writer::open(&mut out);
        for (name, raw) in &fields {
            object.key(name).push_str(raw);
        }
        object.close();
        out
    }

    /// Writes the record with the settings of a turn.
    pub(super) fn turn_context(&self, model: &str) -> String {
        let mut out = String::new();
        let mut object = Writer::open(&mut out);
        object.field("cwd", &self.cwd).field("approval_policy", &"on-request".to_owned());
        object.key("sandbox_policy").push_str(r#"{"type":"read-only"}"#);
        object.field("model", &model.to_owned()).field("summary", &"auto".to_owned());
        object.close();
        out
    }
}

/// The id in the header of the rollout that the thread was imported from. `first_entry` is the first entry of the
/// thread.
pub(super) fn imported_id(first_entry: &Entry) -> Option<String> {
    let header = imported_header(first_entry);
    let (_, raw) = header.iter().rev().find(|(name, _)| name == "id")?;
    parse_json_string(raw)
}

/// The fields of the header, if the thread was imported from a rollout. `first_entry` is the first entry of the thread.
fn imported_header(first_entry: &Entry) -> Vec<(String, String)> {
    let origin = first_entry.origin.as_ref().filter(|origin| origin.format == NAME.name());
    let raw = origin.and_then(|origin| origin.raw.as_ref()).filter(|_| Provenance::read(first_entry).is_some());
    let text = raw.map(|raw| crate::lenient::read(raw).text.into_owned()).unwrap_or_default();
    let Some(object) = Object::parse(&text) else { return Vec::new() };
    let header = object.object("payload").unwrap_or(object);
    // In a paginated rollout, each record has a number. New records have none, so the new rollout is not paginated.
    let is_kept = |(name, raw): &(&str, &str)| *name != "history_mode" || *raw != "\"paginated\"";
    header.iter().filter(is_kept).map(|(name, raw)| (name.to_owned(), raw.to_owned())).collect()
}
