//! Drafts of the messages of a context, and which parts of a context become messages (CX-2, CX-3).

use std::sync::Arc;

use super::{ContextMessage, ContextPart};
use crate::{
    id::EntryId,
    log::{Block, Body, Compaction, Entry, Message, Role, Visibility},
};

/// The text of the first block of a message with a summary (CX-3).
pub const SUMMARY_MARKER: &str = "[summary of the earlier conversation]";

/// A message of a context that is being made.
#[derive(Debug, Clone)]
pub(super) struct MessageDraft {
    /// The entry that the message comes from.
    pub(super) entry: EntryId,
    /// Entries that were merged into the message (CX-17).
    pub(super) merged: Vec<EntryId>,
    /// The kind of the message.
    pub(super) kind: MessageKind,
    /// The message so far.
    pub(super) message: Message,
}

/// The kind of a message of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    /// A message of the log.
    Logged,
    /// A summary, or one of the messages that replace it.
    Summary,
    /// Synthetic results of calls for which no result was recorded.
    SyntheticResult,
}

impl MessageDraft {
    pub(super) const fn new(entry: EntryId, kind: MessageKind, message: Message) -> Self {
        Self { entry, merged: Vec::new(), kind, message }
    }

    pub(super) const fn role(&self) -> Role {
        self.message.role
    }
}

impl From<MessageDraft> for ContextMessage {
    fn from(draft: MessageDraft) -> Self {
        Self::new(draft.entry, draft.kind != MessageKind::Logged, draft.message)
    }
}

/// Turns a message of a finished context back into a draft. The context must have no repairs. So every message that
/// is not in the log belongs to a summary.
impl From<ContextMessage> for MessageDraft {
    fn from(message: ContextMessage) -> Self {
        let ContextMessage { entry, synthetic, message } = message;
        Self::new(entry, if synthetic { MessageKind::Summary } else { MessageKind::Logged }, message)
    }
}

/// Returns the messages of a part of a context. There are none if the part contains nothing for a model (CX-2).
pub(super) fn drafts_of_part(part: ContextPart, entry: Arc<Entry>) -> Vec<MessageDraft> {
    let Entry { id, body, .. } = Arc::unwrap_or_clone(entry);
    let (kind, messages) = match (part, Arc::unwrap_or_clone(body)) {
        (ContextPart::Entry(_), Body::Message(message)) => (MessageKind::Logged, vec![message]),
        (ContextPart::Summary(_), Body::Compaction(compaction)) => {
            (MessageKind::Summary, replacement_messages(compaction))
        }
        _ => return Vec::new(),
    };
    let sent_messages = messages.into_iter().filter(|message| message.visibility != Visibility::Aside);
    sent_messages.map(|message| MessageDraft::new(id.clone(), kind, message)).collect()
}

/// Returns the messages that replace the interval that a compaction covers: its replacement, or else its summary. There
/// are none if it has neither.
fn replacement_messages(compaction: Compaction) -> Vec<Message> {
    match compaction.replacement {
        Some(messages) => messages,
        None if compaction.summary.is_empty() => Vec::new(),
        None => {
            let marker = std::iter::once(Block::text(SUMMARY_MARKER));
            vec![Message::new(Role::User, marker.chain(compaction.summary).collect())]
        }
    }
}
