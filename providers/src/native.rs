//! The provider's own form of a block: the parts of the provider's JSON that the block does not hold. They are kept as
//! the block's opaque data.
//!
//! The data is `{"message"?: DIFF, "part"?: DIFF, "continues"?: true}` with `DIFF = {"marks"?: [FLAG], "set"?:
//! {POINTER: VALUE}, "unset"?: [POINTER]}`. A `DIFF` says how the provider's JSON differs from the JSON that is written
//! for the block by default.

use store_core::{Block, BlockKind, Json, Result, codec::Extra};

use crate::value::{Diff, Object, Value};

/// Flag: the form belongs to the provider's message that begins with the first block of the stored message. If that
/// block is opaque, it cannot hold the form. Then a later block holds the form, with this flag.
pub(crate) const HELD_FOR_FIRST_BLOCK: &str = "of first block";

/// The provider's own form of a block, as far as the block itself does not hold it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Native {
    /// If set, a message of the provider begins with the block, and this is its form. If `None`, a message begins here
    /// only if the block is the first of a stored message. It then has the default form.
    pub(crate) message: Option<FormDiff>,
    /// Whether the block belongs to the same message of the provider as the block before it, although it is the first
    /// of a stored message.
    pub(crate) continues: bool,
    /// The form of the block itself.
    pub(crate) part: FormDiff,
    /// Whether another tool wrote the data, in its own format.
    pub(crate) is_foreign: bool,
}

/// How a provider's JSON differs from the JSON that is written by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FormDiff {
    /// Differences with names of their own, such as `list`. Only this crate's module for the provider's API interprets
    /// them.
    pub(crate) flags: Vec<String>,
    /// The other differences, field by field.
    pub(crate) diff: Diff,
}

impl FormDiff {
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.flags.is_empty() && self.diff.is_empty()
    }

    fn to_value(&self) -> Value {
        let mut object = Object::default();
        if !self.flags.is_empty() {
            object.set("marks", Value::List(self.flags.iter().map(Value::text).collect()));
        }
        if !self.diff.set.is_empty() {
            let mut set = Object::default();
            for (pointer, value) in &self.diff.set {
                set.set(pointer.as_str(), value.clone());
            }
            object.set("set", set);
        }
        if !self.diff.unset.is_empty() {
            object.set("unset", Value::List(self.diff.unset.iter().map(Value::text).collect()));
        }
        object.into()
    }

    fn of(object: &Object) -> Self {
        let texts = |name: &str| {
            let items = object.list(name).unwrap_or_default().iter();
            items.filter_map(Value::as_text).map(str::to_owned).collect()
        };
        let set = object.object("set").into_iter().flat_map(Object::iter);
        let set = set.map(|(pointer, value)| (pointer.to_owned(), value.clone())).collect();
        Self { flags: texts("marks"), diff: Diff { set, unset: texts("unset") } }
    }
}

impl Native {
    /// Returns the opaque data, or `None` if the form is the default.
    pub(crate) fn to_json(&self) -> Result<Option<Json>> {
        let mut object = Object::default();
        if let Some(message) = &self.message {
            object.set("message", message.to_value());
        }
        if !self.part.is_empty() {
            object.set("part", self.part.to_value());
        }
        if self.continues {
            object.set("continues", Value::Bool(true));
        }
        if object.is_empty() { Ok(None) } else { Value::from(object).to_json().map(Some) }
    }

    /// Reads opaque data. Returns `None` for data of another shape, which this crate did not write.
    pub(crate) fn of(data: &Value) -> Option<Self> {
        let object = data.as_object()?;
        let is_ours = object.iter().all(|(name, _)| matches!(name, "message" | "part" | "continues"));
        is_ours.then(|| Self {
            message: object.object("message").map(FormDiff::of),
            continues: object.get("continues") == Some(&Value::Bool(true)),
            part: object.object("part").map(FormDiff::of).unwrap_or_default(),
            is_foreign: false,
        })
    }
}

/// Returns the unknown fields of a block and of its content, each with the JSON pointer of the object that has them.
pub(crate) fn unknown_fields(block: &Block) -> Vec<(&'static str, &Extra)> {
    let content = match &block.kind {
        BlockKind::Thinking(thinking) => Some(("/thinking", &thinking.extra)),
        BlockKind::Image(media) => Some(("/image", &media.extra)),
        BlockKind::Document(media) => Some(("/document", &media.extra)),
        BlockKind::Audio(media) => Some(("/audio", &media.extra)),
        BlockKind::Video(media) => Some(("/video", &media.extra)),
        BlockKind::ToolUse(call) => Some(("/tool_use", &call.extra)),
        BlockKind::ToolResult(result) => Some(("/tool_result", &result.extra)),
        _ => None,
    };
    content.into_iter().chain([("", &block.extra)]).collect()
}
