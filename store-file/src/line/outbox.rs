//! The lines of the outbox.

use store_core::{
    Json,
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

pub(super) fn outbox(line: &OutboxLine) -> String {
    tagged("outbox", |object| {
        object.field("row", &line.stored).field("payload", &line.payload);
    })
}

/// The payload of a row of the outbox.
pub(crate) fn decode_payload(raw: &str) -> Result<Json, DecodeError> {
    Fields::parse(raw)?.take("payload")
}
