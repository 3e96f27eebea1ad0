//! The field `agentstore` of a line: the parts of an entry for which the format has no field. Claude Code ignores the
//! field.
//!
//! - On every line of the tree: whether it begins a branch.
//! - On a line with a message: the provenance, the metadata and the usage of the message.
//! - On a line of the type `system`: the body of an entry that is not a message for the model.
//! - On a line of the type `agentstore`: the body of a side entry.

use store_core::{Body, EntryId, JsonMap, Message, NewBody, Provenance, Usage, Visibility, codec::Codec};

use super::line_format::LineData;
use crate::{
    json::Object,
    lines::{LinePosition, draft_body},
};

/// The name of the field.
pub(super) const FIELD: &str = "agentstore";

/// The type of a line with a side entry.
pub(super) const SIDE_TYPE: &str = "agentstore";

/// The subtype of a `system` line with a body. Claude Code shows its `content`, and does not send it to the model.
pub(super) const BODY_SUBTYPE: &str = "informational";

/// The name of the field inside `agentstore` that says that a line begins a branch. The import then keeps the parent
/// that the line names.
pub(super) const FORK: &str = "fork";

/// Whether an export of this crate wrote that a line begins a branch.
pub(super) fn begins_branch(line: &Object<'_>) -> bool {
    line.object(FIELD).and_then(|field| field.bool(FORK)) == Some(true)
}

/// What a line with a message says beyond the fields of Claude Code.
#[derive(Debug, Default)]
pub(super) struct MessageFields {
    pub(super) provenance: Option<Provenance>,
    pub(super) metadata: JsonMap,
    pub(super) usage: Option<Usage>,
}

impl MessageFields {
    pub(super) fn of(line: &Object<'_>) -> Self {
        let Some(field) = line.object(FIELD) else { return Self::default() };
        Self {
            provenance: field.raw("provenance").and_then(|raw| Provenance::read(raw).ok()),
            metadata: field.raw("metadata").and_then(|raw| JsonMap::read(raw).ok()).unwrap_or_default(),
            usage: field.raw("usage").and_then(|raw| Usage::read(raw).ok()),
        }
    }

    /// Puts the fields into a message that was read from the line.
    pub(super) fn apply(self, message: &mut Message) {
        message.provenance = self.provenance.or(message.provenance.take());
        message.metadata.extend(self.metadata);
        message.usage = self.usage.or(message.usage.take());
    }
}

/// The body in a line, if an export of this crate wrote one.
pub(super) fn body_of(line: &Object<'_>, position: &LinePosition<'_, LineData>) -> Option<Result<NewBody, String>> {
    let body = Body::read(line.object(FIELD)?.raw("body")?).ok()?;
    // A message in a `system` line must not be sent to the model.
    let body = match body {
        Body::Message(message) if line.text("type").as_deref() == Some("system") => {
            Body::Message(message.with_visibility(Visibility::Aside))
        }
        body => body,
    };
    Some(draft_body(body, position))
}

/// The id of the line below which a side entry stands. This is the target of its body. If the body has no target, it is
/// the parent that the line names.
pub(super) fn side_parent(line: &Object<'_>) -> Option<String> {
    let field = line.object(FIELD)?;
    let target = match Body::read(field.raw("body")?).ok()? {
        Body::Label(label) => Some(label.target),
        Body::Rewind(rewind) => rewind.to,
        _ => None,
    };
    target.map(|target: EntryId| target.as_str().to_owned()).or_else(|| field.text("parent"))
}
