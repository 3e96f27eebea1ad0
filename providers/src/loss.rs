//! Losses: the parts of a context that a body lacks, or has in another form.

use std::{borrow::Cow, fmt};

use serde::Serialize;
use store_core::EntryId;

/// A part of the context that the body lacks, or has in another form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// The entry that the part comes from.
    pub entry: EntryId,
    /// The JSON pointer of the part in the context, for example `/messages/3/blocks/0/thinking/signature`. Everything
    /// below it is lost, too.
    pub path: String,
    /// What is lost.
    pub kind: LossKind,
    /// Why the target cannot hold it.
    pub reason: Cow<'static, str>,
    /// What is in the body in its place.
    pub action: Action,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {} (entry {}): {}, {}",
            self.kind.name(),
            self.path,
            self.entry,
            self.reason,
            self.action.name()
        )
    }
}

macro_rules! enum_with_names {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum $type { $($(#[$variant_doc])* $variant,)* }

        impl $type {
            /// Returns the name that is written in JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

enum_with_names! {
    /// The kinds of losses.
    LossKind {
        /// Thinking of a model.
        Thinking = "thinking",
        /// The proof of a provider that its model made a block.
        Signature = "signature",
        /// Thinking that the provider has encrypted.
        Redacted = "redacted",
        /// Reasoning that the provider has encrypted.
        EncryptedReasoning = "encrypted_reasoning",
        /// The provider's own id of an item.
        ItemId = "item_id",
        /// The id of a call.
        ToolId = "tool_id",
        /// The mark that a tool failed.
        IsError = "is_error",
        /// Media in the result of a tool.
        MediaInResult = "media_in_result",
        /// Media that the target does not take.
        UnsupportedMedia = "unsupported_media",
        /// Citations and annotations of a text.
        Citations = "citations",
        /// A mark for the provider's cache.
        CacheControl = "cache_control",
        /// A call of a tool that the provider runs itself, or its result.
        ServerTool = "server_tool",
        /// The text of a call that has no JSON arguments.
        CustomToolInput = "custom_tool_input",
        /// The phase of an answer.
        Phase = "phase",
        /// The mark that a text is a refusal.
        Refusal = "refusal",
        /// The probabilities of tokens.
        Logprobs = "logprobs",
        /// The id of an audio answer.
        AudioId = "audio_id",
        /// The name of an author or a file.
        Name = "name",
        /// The position of a system message.
        SystemPosition = "system_position",
        /// A result that was made because none was recorded.
        MadeResult = "made_result",
        /// A result without a call.
        OrphanResult = "orphan_result",
        /// A turn that ended in an error or was aborted.
        FailedTurn = "failed_turn",
        /// Arguments that are not JSON.
        BadArguments = "bad_arguments",
        /// Content that the target refuses because it is empty.
        Empty = "empty",
        /// Messages that became one.
        Merged = "merged",
        /// Half of a surrogate pair in a text.
        LoneSurrogate = "lone_surrogate",
        /// A block that only its own provider understands.
        UnknownBlock = "unknown_block",
        /// Details of a result for people, which no model gets.
        Details = "details",
        /// A field that the target does not have.
        Field = "field",
    }
}

enum_with_names! {
    /// What the body has in place of the lost part.
    Action {
        /// Nothing.
        Dropped = "dropped",
        /// A text that says the same.
        Text = "text",
        /// The same part, at another position.
        Moved = "moved",
        /// Another value.
        Replaced = "replaced",
        /// A value that the context does not have.
        Made = "made",
    }
}

impl LossKind {
    /// Returns whether the lost part is only for people. No model gets such parts, so the history that the target gets
    /// is the same without them.
    #[must_use]
    pub const fn is_for_people_only(self) -> bool {
        matches!(self, Self::Details)
    }

    /// Returns the kind for a field of a provider's own form, by the name of the field.
    pub(crate) fn of_field(name: &str) -> Self {
        match name {
            "cache_control" | "prompt_cache_breakpoint" => Self::CacheControl,
            "citations" | "annotations" => Self::Citations,
            "logprobs" => Self::Logprobs,
            "refusal" => Self::Refusal,
            "id" => Self::ItemId,
            "phase" => Self::Phase,
            "name" => Self::Name,
            "signature" | "thoughtSignature" => Self::Signature,
            "encrypted_content" => Self::EncryptedReasoning,
            "audio" => Self::AudioId,
            _ => Self::Field,
        }
    }
}

/// The position of a block in a context.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    pub(crate) entry: EntryId,
    /// The JSON pointer of the block.
    pub(crate) path: String,
}

impl Position {
    /// Returns the position of a part of the block. `pointer` is relative to the block.
    pub(crate) fn below(&self, pointer: &str) -> Self {
        Self { entry: self.entry.clone(), path: format!("{}{pointer}", self.path) }
    }
}

/// The losses of one compilation, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Losses(Vec<Loss>);

impl Losses {
    pub(crate) fn add(
        &mut self,
        position: &Position,
        kind: LossKind,
        action: Action,
        reason: impl Into<Cow<'static, str>>,
    ) {
        let Position { entry, path } = position.clone();
        self.0.push(Loss { entry, path, kind, reason: reason.into(), action });
    }

    pub(crate) fn into_list(self) -> Vec<Loss> {
        self.0
    }
}
