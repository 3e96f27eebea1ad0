//! Lines that were imported from this format and are written again.

use store_core::{Body, Custom, Entry};

use super::envelope::with_fields;
use crate::{
    claude_code::{NAME, line_format::ClaudeCode, read::SIDECHAIN_KEY},
    export::line_of,
    json::{Object, json_string},
    lenient,
    provenance::IMPORT_LINE,
};

/// A line that was imported.
pub(super) struct ImportedLine {
    pub(super) bytes: Vec<u8>,
    /// The uuid that lines below it name as their parent.
    pub(super) uuid: Option<String>,
    /// The title of the session, if the line gives it one.
    pub(super) title: Option<String>,
    /// Whether characters were replaced, because fields had to be added to a line that is not valid JSON.
    pub(super) is_replaced: bool,
}

/// What is needed to write an imported line again, besides its entry.
pub(super) struct ImportedLineContext<'a> {
    /// The uuid that the line gets if it has none.
    pub(super) uuid: String,
    /// The uuid of the parent that the line gets together with its new uuid.
    pub(super) parent: Option<&'a str>,
    /// Whether this is the thread of a subagent that becomes a session of its own.
    pub(super) is_promoted: bool,
}

/// Returns the imported line of an entry. A line of the tree without a uuid gets one. If the thread of a subagent
/// becomes a session of its own, its lines become ordinary lines.
pub(super) fn imported_line(entry: &Entry, context: ImportedLineContext<'_>) -> Option<ImportedLine> {
    let bytes = line_of(&ClaudeCode::for_imported_lines(), entry)?;
    let changed = {
        let lenient = lenient::read(&bytes);
        match Object::parse(&lenient.text) {
            Some(object) => changed_line(entry, &object, context, !lenient.oddities.is_empty()),
            None => ChangedLine::default(),
        }
    };
    let ChangedLine { bytes: new_bytes, uuid, title, is_replaced } = changed;
    Some(ImportedLine { bytes: new_bytes.unwrap_or(bytes), uuid, title, is_replaced })
}

/// An imported line with its changes. `bytes` is absent if nothing changes.
#[derive(Default)]
struct ChangedLine {
    bytes: Option<Vec<u8>>,
    uuid: Option<String>,
    title: Option<String>,
    is_replaced: bool,
}

fn changed_line(entry: &Entry, object: &Object<'_>, context: ImportedLineContext<'_>, is_odd: bool) -> ChangedLine {
    let title = match object.text("type").as_deref() {
        Some("custom-title") => object.text("customTitle"),
        Some("ai-title") => object.text("aiTitle"),
        Some("agent-name") => object.text("agentName"),
        _ => None,
    };
    let mut fields = Vec::new();
    let mut uuid = object.text("uuid");
    if uuid.is_none() && !entry.side {
        let parent = context.parent.map_or_else(|| "null".to_owned(), |parent| json_string(parent).as_str().to_owned());
        fields.extend([("uuid", json_string(&context.uuid).as_str().to_owned()), ("parentUuid", parent)]);
        uuid = Some(context.uuid);
    }
    if context.is_promoted && object.bool("isSidechain") == Some(true) {
        fields.push(("isSidechain", "false".to_owned()));
    }
    if fields.is_empty() {
        return ChangedLine { uuid, title, ..ChangedLine::default() };
    }
    let bytes = with_fields(object, &fields).into_bytes();
    ChangedLine { bytes: Some(bytes), uuid, title, is_replaced: is_odd }
}

/// Whether an entry represents the line with the summary of the preceding compaction.
pub(crate) fn is_summary_line(entry: &Entry) -> bool {
    let origin = entry.origin.as_ref().filter(|origin| origin.format == NAME.name());
    let Some(raw) = origin.and_then(|origin| origin.raw.as_ref()) else { return false };
    Object::parse(&lenient::read(raw).text).is_some_and(|line| line.bool("isCompactSummary") == Some(true))
}

/// The subagent whose line a side entry contains.
pub(super) fn sidechain_of(entry: &Entry) -> Option<String> {
    match &*entry.body {
        Body::Custom(Custom { kind, data, .. }) if kind == IMPORT_LINE => {
            Object::parse(data.as_str())?.text(SIDECHAIN_KEY)
        }
        _ => None,
    }
}
