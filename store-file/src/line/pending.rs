//! The lines of pending input.

use std::collections::BTreeMap;

use store_core::{
    EntryId,
    codec::{DecodeError, Fields, ObjectWriter},
    pending::{QueueState, QueueWrite, StoredInput},
};

use super::{Line, tagged};

/// A change of the thread's queue, with the state of the queue after it. Inputs that are put stand in lines of their
/// own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueLine {
    pub(crate) state: QueueState,
    pub(crate) removed: Vec<EntryId>,
    pub(crate) ranks: Vec<(EntryId, u64)>,
}

impl QueueLine {
    pub(super) fn encode(&self) -> String {
        tagged("queue", |object| {
            object.field("queue", &self.state).field_unless_default("removed", &self.removed);
            if !self.ranks.is_empty() {
                let mut ranks = ObjectWriter::open(object.key("ranks"));
                for (id, rank) in &self.ranks {
                    ranks.field(id.as_str(), rank);
                }
                ranks.close();
            }
        })
    }

    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, DecodeError> {
        let ranks = fields.maybe::<BTreeMap<String, u64>>("ranks")?.unwrap_or_default().into_iter();
        let ranks: Option<Vec<_>> = ranks.map(|(id, rank)| Some((EntryId::new(id).ok()?, rank))).collect();
        Ok(Self {
            state: fields.take("queue")?,
            removed: fields.maybe("removed")?.unwrap_or_default(),
            ranks: ranks.ok_or_else(|| DecodeError::new("contains an invalid entry id"))?,
        })
    }
}

/// The lines of a change of a thread's queue; none if it does not change.
pub(crate) fn queue_lines(state: &QueueState, write: QueueWrite) -> Vec<Line> {
    if write.is_empty() {
        return Vec::new();
    }
    let QueueWrite { put, removed, ranks } = write;
    let inputs = put.into_iter().map(|stored| Line::Input(Box::new(stored)));
    inputs.chain([Line::Queue(QueueLine { state: state.clone(), removed, ranks })]).collect()
}

pub(super) fn input(stored: &StoredInput) -> String {
    tagged("input", |object| {
        object.field("rank", &stored.rank).field("input", &stored.input);
    })
}

pub(super) fn read_input(mut fields: Fields<'_>) -> Result<StoredInput, DecodeError> {
    Ok(StoredInput::new(fields.take("input")?, fields.take("rank")?))
}

/// The pending input of a line.
pub(crate) fn decode_input(raw: &str) -> Result<StoredInput, DecodeError> {
    read_input(Fields::parse(raw)?)
}
