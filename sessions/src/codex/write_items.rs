//! Messages as items, in the form in which Codex writes them. The crate `providers` makes the items. Here they get the
//! layout that Codex reads.

use providers::{ItemWriter, Target};
use store_core::{Block, BlockKind, ContextMessage, EntryId, Media, Message, Timestamp, codec::ObjectWriter as Writer};

use super::origin;
use crate::{
    json::{Object, json_string},
    time,
};

/// The order of the fields of each type of item, as Codex writes them. Other fields follow.
const FIELD_ORDER: &[(&str, &[&str])] = &[
    ("message", &["type", "id", "role", "content"]),
    ("reasoning", &["type", "id", "summary", "content", "encrypted_content"]),
    ("function_call", &["type", "id", "name", "namespace", "arguments", "call_id"]),
    ("custom_tool_call", &["type", "id", "status", "call_id", "name", "input"]),
];

/// A loss of a message: its path in the message, its kind, its reason and its action.
pub(super) type MessageLoss = (String, &'static str, &'static str, &'static str);

/// The items of a message, and what is lost of it.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) list: Vec<String>,
    pub(super) losses: Vec<MessageLoss>,
}

/// Returns a line of a rollout, which is a session file of Codex.
pub(super) fn line(timestamp: Timestamp, kind: &str, payload: &str) -> String {
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    object.field("timestamp", &time::to_iso(timestamp)).field("type", &kind.to_owned());
    object.key("payload").push_str(payload);
    object.close();
    out
}

/// The target for the model that made a message, if this is a model of OpenAI Responses.
pub(super) fn responses_target(message: &Message) -> Option<Target> {
    let mut targets = origin::origins(message).into_iter().filter_map(Target::of_origin);
    targets.find(|target| target.provider.name() == "openai-responses")
}

/// Returns the item of a message that is exactly one item.
pub(super) fn only_item(message: &Message) -> Option<String> {
    let mut writer = ItemWriter::new();
    if let [Block { kind: BlockKind::ToolResult(result), .. }] = message.blocks.as_slice() {
        writer.expect_call(&result.tool_use_id);
    }
    let entry = EntryId::new("entry").ok()?;
    let mut items = write(&mut writer, (&entry, message), "").ok()?;
    items.list.pop().filter(|_| items.list.is_empty() && items.losses.is_empty())
}

/// Writes the next message of a history. `model` applies if no model of OpenAI Responses made the message.
pub(super) fn write(
    writer: &mut ItemWriter,
    (entry, message): (&EntryId, &Message),
    model: &str,
) -> store_core::Result<Items> {
    let target = match responses_target(message) {
        Some(target) => target,
        None => Target::new("openai-responses".parse()?, model),
    };
    let mut items = Items::default();
    let message = without_documents(message, &mut items);
    let is_synthetic = false;
    let written = writer.write(&ContextMessage::new(entry.clone(), is_synthetic, message), &target)?;
    for loss in written.losses {
        let reason = match loss.reason {
            std::borrow::Cow::Borrowed(reason) => reason,
            std::borrow::Cow::Owned(_) => "an item has another form",
        };
        let action = match loss.action.name() {
            "dropped" => "dropped",
            "moved" => "moved",
            _ => "replaced",
        };
        items.losses.push((loss.path, loss.kind.name(), reason, action));
    }
    for item in &written.items {
        if let Some(item) = Object::parse(item.as_str()) {
            items.add(&item);
        }
    }
    Ok(items)
}

impl Items {
    fn add(&mut self, item: &Object<'_>) {
        let kind = item.text("type").unwrap_or_else(|| "message".to_owned());
        let mut fields: Vec<(&str, String)> = item.iter().map(|(name, raw)| (name, raw.to_owned())).collect();
        if kind == "message" {
            let Some(content) = self.content(item) else { return };
            set_field(&mut fields, "type", json_string("message").as_str());
            set_field(&mut fields, "content", &content);
            if item.text("role").as_deref() == Some("system") {
                set_field(&mut fields, "role", json_string("developer").as_str());
                self.add_loss("/role", ("role", "Codex leaves out the messages of other roles", "replaced"));
            }
        }
        let order = FIELD_ORDER.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, order)| order);
        let place_of = |name: &str| order.iter().position(|known| *known == name).unwrap_or(order.len());
        fields.sort_by_key(|(name, _)| place_of(name));
        let mut out = String::new();
        let mut object = Writer::open(&mut out);
        for (name, raw) in fields {
            object.key(name).push_str(&raw);
        }
        object.close();
        self.list.push(out);
    }

    fn add_loss(&mut self, path: &str, (kind, reason, action): (&'static str, &'static str, &'static str)) {
        self.losses.push((path.to_owned(), kind, reason, action));
    }

    /// The content of a message, as a list of parts that Codex reads. `None` if nothing is left of it.
    fn content(&mut self, item: &Object<'_>) -> Option<String> {
        let text_type = if item.text("role").as_deref() == Some("assistant") { "output_text" } else { "input_text" };
        let parts = match item.text("content") {
            Some(text) => vec![text_part(text_type, &text)],
            None => {
                let parts = item.list("content").unwrap_or_default();
                parts.into_iter().filter_map(|raw| self.part(raw, text_type)).collect()
            }
        };
        (!parts.is_empty()).then(|| format!("[{}]", parts.join(",")))
    }

    fn part(&mut self, raw: &str, text_type: &str) -> Option<String> {
        let part = Object::parse(raw)?;
        match part.text("type").as_deref() {
            Some("input_text" | "output_text" | "text") => Some(without_empty_annotations(&part)),
            Some("input_image") if part.text("image_url").is_some() => Some(raw.to_owned()),
            Some("refusal") => {
                self.add_loss("/blocks", ("refusal", "Codex has no mark for refusals", "replaced"));
                Some(text_part(text_type, &part.text("refusal").unwrap_or_default()))
            }
            _ => {
                self.add_loss("/blocks", ("unknown_block", "Codex cannot read a file with such a part", "dropped"));
                None
            }
        }
    }
}

fn set_field(fields: &mut Vec<(&str, String)>, name: &'static str, raw: &str) {
    match fields.iter_mut().find(|(known, _)| *known == name) {
        Some((_, value)) => raw.clone_into(value),
        None => fields.push((name, raw.to_owned())),
    }
}

fn text_part(kind: &str, text: &str) -> String {
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    object.field("type", &kind.to_owned()).field("text", &text.to_owned());
    object.close();
    out
}

/// Removes an empty list of annotations from a part. The API requires the list in some requests, but Codex never writes
/// it.
fn without_empty_annotations(part: &Object<'_>) -> String {
    let is_empty = part.raw("annotations") == Some("[]");
    part.without_fields(if is_empty { &["annotations"] } else { &[] }).as_str().to_owned()
}

/// Replaces documents by texts that name them: a rollout has texts and images only.
fn without_documents(message: &Message, items: &mut Items) -> Message {
    let mut message = message.clone();
    for (at, block) in message.blocks.iter_mut().enumerate() {
        replace_document(block, &format!("/blocks/{at}"), items);
        if let BlockKind::ToolResult(result) = &mut block.kind {
            for (inner, block) in result.blocks.iter_mut().enumerate() {
                replace_document(block, &format!("/blocks/{at}/tool_result/blocks/{inner}"), items);
            }
        }
    }
    message
}

fn replace_document(block: &mut Block, path: &str, items: &mut Items) {
    if let BlockKind::Document(media) = &block.kind {
        items.add_loss(path, ("unsupported_media", "a rollout has texts and images only", "replaced"));
        *block = Block::text(document_text(media));
    }
}

fn document_text(media: &Media) -> String {
    let title = media.title.as_ref().map(|title| format!(" `{title}`")).unwrap_or_default();
    let media_type = media.media_type.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
    format!("[document{title}{media_type}]")
}

/// The events that show an item to people: one for a message of the user, one for each text of an assistant.
pub(super) fn events(item: &str) -> Vec<String> {
    let Some(item) = Object::parse(item).filter(|item| item.text("type").as_deref() == Some("message")) else {
        return Vec::new();
    };
    let parts = item.list("content").unwrap_or_default();
    let parts: Vec<_> = parts.into_iter().filter_map(Object::parse).collect();
    let texts: Vec<String> = parts.iter().filter_map(|part| part.text("text")).collect();
    match item.text("role").as_deref() {
        Some("user") => {
            let images: Vec<String> = parts.iter().filter_map(|part| part.text("image_url")).collect();
            vec![user_event(&texts.join("\n"), &images)]
        }
        Some("assistant") => texts.iter().map(|text| agent_event(text)).collect(),
        _ => Vec::new(),
    }
}

fn user_event(text: &str, images: &Vec<String>) -> String {
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    object.field("type", &"user_message".to_owned()).field("message", &text.to_owned()).field("images", images);
    object.field("local_images", &Vec::<String>::new()).field("text_elements", &Vec::<String>::new());
    object.close();
    out
}

fn agent_event(text: &str) -> String {
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    object.field("type", &"agent_message".to_owned()).field("message", &text.to_owned());
    object.close();
    out
}
