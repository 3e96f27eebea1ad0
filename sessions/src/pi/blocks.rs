//! Reads the content blocks of pi.

use store_core::{Block, BlockKind, Opaque, Thinking};

use crate::{
    blocks::{MessageBlocks, SourceCall},
    field_types::{FieldType, note_wrong_types},
    issue::{IssueCode, Issues},
    json::{Object, json_string, parse_json_array, parse_json_string},
};

/// The optional fields of blocks that are read.
const OPTIONAL_FIELDS: &[(&str, FieldType)] = &[
    ("textSignature", FieldType::Text),
    ("thinkingSignature", FieldType::Text),
    ("thoughtSignature", FieldType::Text),
    ("redacted", FieldType::Bool),
    ("mimeType", FieldType::Text),
];

/// The name of a call whose own name is missing.
const NO_NAME: &str = "unknown";

/// Reads `content`: text, a list of blocks, or null. `call_ids` are the ids that the calls get, or `None` if the
/// message may not contain calls.
pub(super) fn read_content(
    message: &Object<'_>,
    call_ids: Option<Vec<String>>,
    blocks: &mut MessageBlocks<'_>,
) -> Result<(), String> {
    let raw = message.raw("content").ok_or("`content` is missing")?;
    if raw == "null" {
        return Ok(());
    }
    if let Some(text) = parse_json_string(raw) {
        blocks.push_text(text);
        return Ok(());
    }
    let mut call_ids = call_ids.map(Vec::into_iter);
    for raw in parse_json_array(raw).ok_or("`content` is neither text nor a list")? {
        read_block(raw, &mut call_ids, blocks);
    }
    Ok(())
}

fn read_block(raw: &str, call_ids: &mut Option<std::vec::IntoIter<String>>, blocks: &mut MessageBlocks<'_>) {
    let Some(item) = Object::parse(raw) else { return blocks.push_unknown(raw) };
    note_wrong_types(blocks.issues, blocks.line, &item, OPTIONAL_FIELDS);
    match item.text("type").as_deref() {
        Some("text") => match item.text("text") {
            Some(text) => {
                blocks.push_text(text);
                attach_signature(item.text("textSignature"), blocks);
            }
            None => blocks.push_malformed(raw, "a text block without text"),
        },
        Some("thinking") => match item.text("thinking") {
            Some(text) => {
                let mut thinking = Thinking::new(text);
                thinking.signature = item.text("thinkingSignature");
                thinking.origin = thinking.signature.as_ref().map(|_| blocks.origin.clone());
                thinking.redacted = item.bool("redacted") == Some(true);
                blocks.list.push(Block::new(BlockKind::Thinking(thinking)));
            }
            None => blocks.push_malformed(raw, "a thinking block without text"),
        },
        Some("image") => blocks.push_image(raw, item.text("data"), item.text("mimeType")),
        Some("toolCall") if call_ids.is_some() => {
            let id = call_ids.as_mut().and_then(Iterator::next);
            let call = read_call(&item, id, blocks.line, blocks.issues);
            if blocks.push_call(raw, call).is_some() {
                attach_signature(item.text("thoughtSignature"), blocks);
            }
        }
        Some("toolCall") => blocks.push_malformed(raw, "a call outside of an assistant message"),
        _ => blocks.push_unknown(raw),
    }
}

/// Reads a call, and gives it the id `id`. It differs from the id in the file if the latter is empty or a duplicate.
fn read_call<'a>(item: &Object<'a>, id: Option<String>, line: u64, issues: &mut Issues) -> SourceCall<'a> {
    let id_in_file = item.text("id").unwrap_or_default();
    if let Some(id) = id.as_ref().filter(|id| **id != id_in_file) {
        let detail = match id_in_file.trim().is_empty() {
            true => format!("a call without an id, which gets the id `{id}`"),
            false => format!("a second call with the id `{id_in_file}`, which gets the id `{id}`"),
        };
        issues.add(
            line,
            IssueCode::BadField,
            detail,
            "results are matched to these calls in the order of the calls; the raw line is kept",
        );
    }
    let name = item.text("name").filter(|name| !name.trim().is_empty());
    if name.is_none() {
        let detail = format!("a call without a name, which gets the name `{NO_NAME}`");
        issues.add(line, IssueCode::BadField, detail, "the raw line is kept");
    }
    SourceCall { id, name: Some(name.unwrap_or_else(|| NO_NAME.to_owned())), arguments: item.raw("arguments") }
}

/// Attaches a signature of the provider to the last block.
fn attach_signature(signature: Option<String>, blocks: &mut MessageBlocks<'_>) {
    let origin = blocks.origin.clone();
    if let (Some(signature), Some(block)) = (signature, blocks.list.last_mut()) {
        block.opaque = Some(Opaque::new(origin, json_string(&signature)));
    }
}
