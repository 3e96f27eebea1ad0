//! The lines of the outbox.

use store_core::{
    Json, OutboxId,
    codec::{DecodeError, Fields},
    outbox::StoredOutboxRow,
};

use super::tagged;

/// A row of the outbox as it is now, with its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutboxLine {
    pub(crate) stored: StoredOutboxRow,
    pub(crate) payload: Json,
}

pub(crate) fn outbox(line: &OutboxLine) -> String {
    tagged("outbox", |object| {
        object.field("row", &line.stored).field("payload", &line.payload);
    })
}

pub(crate) fn outbox_state(stored: &StoredOutboxRow) -> String {
    tagged("outbox_state", |object| {
        object.field("row", stored);
    })
}

pub(crate) fn outbox_gone(ids: &Vec<OutboxId>) -> String {
    tagged("outbox_gone", |object| {
        object.field("rows", ids);
    })
}

/// The payload of a row of the outbox.
pub(crate) fn decode_payload(raw: &str) -> Result<Json, DecodeError> {
    Fields::parse(raw)?.take("payload")
}
