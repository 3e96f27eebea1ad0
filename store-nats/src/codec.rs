//! The content of the messages in the log.

use std::collections::BTreeMap;

use store_core::{
    CursorKey, DispatchId, Error, IdSource, Result, ThreadId, Timestamp, UuidSource,
    codec::{Codec, DecodeError, Fields, ObjectWriter},
    mailbox::{DispatchBody, DispatchState, StoredDispatch, StoredInterrupt, StoredMailboxThread},
};

/// The format of the log. A newer format is refused (PR-18).
pub(crate) const FORMAT_VERSION: u64 = 1;

/// Refers to a large payload or result in the data stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataRef {
    /// The sequence number of its message.
    pub(crate) sequence: u64,
    pub(crate) bytes: u64,
}

impl Codec for DataRef {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("sequence", &self.sequence).field("bytes", &self.bytes);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self { sequence: fields.take("sequence")?, bytes: fields.take("bytes")? })
    }
}

/// Where the large parts of a dispatch are stored. `None` for a part that is small or does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LargeParts {
    pub(crate) payload: Option<DataRef>,
    pub(crate) result: Option<DataRef>,
}

impl LargeParts {
    /// Returns the references that are set.
    pub(crate) fn data(self) -> impl Iterator<Item = DataRef> {
        [self.payload, self.result].into_iter().flatten()
    }
}

/// The state of a dispatch after a decision. Its large parts are stored in messages of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DispatchRecord {
    pub(crate) stored: StoredDispatch,
    pub(crate) large_parts: LargeParts,
}

impl Codec for DispatchRecord {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("body", &self.stored.body).field("state", &self.stored.state);
        object.maybe("payload", self.large_parts.payload.as_ref()).maybe("result", self.large_parts.result.as_ref());
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let body = std::sync::Arc::new(fields.take::<DispatchBody>("body")?);
        let stored = StoredDispatch::new(body, fields.take::<DispatchState>("state")?);
        let large_parts = LargeParts { payload: fields.maybe("payload")?, result: fields.maybe("result")? };
        Ok(Self { stored, large_parts })
    }
}

/// A dispatch that is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemovedDispatch {
    pub(crate) id: DispatchId,
    /// The number of the dispatch. Ids can be used again, numbers cannot.
    pub(crate) number: u64,
}

impl Codec for RemovedDispatch {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("id", &self.id).field("number", &self.number);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self { id: fields.take("id")?, number: fields.take("number")? })
    }
}

/// The changes that decisions about a thread made. They are in one message, so that all of them apply or none (NA-10).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DecisionMessage {
    /// The name by which the process that wrote the decision recognises it.
    pub(crate) decision_name: String,
    /// The record of the thread after the decisions. `None` in a message without changes.
    pub(crate) thread_record: Option<StoredMailboxThread>,
    pub(crate) dispatches: Vec<DispatchRecord>,
    pub(crate) removed_dispatches: Vec<RemovedDispatch>,
    /// Interrupts by the epoch that they began. `None` for an interrupt that is removed.
    pub(crate) interrupts: BTreeMap<u64, Option<StoredInterrupt>>,
    /// Unreadable messages that are skipped: the thread continues as if they did not exist (MB-55).
    pub(crate) skipped_messages: Vec<u64>,
}

impl Codec for DecisionMessage {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object
            .field("v", &FORMAT_VERSION)
            .field("by", &self.decision_name)
            .maybe("mailbox", self.thread_record.as_ref());
        object.field_unless_default("rows", &self.dispatches).field_unless_default("removed", &self.removed_dispatches);
        let (mut kept_interrupts, mut removed_epochs) = (Vec::new(), Vec::new());
        for (epoch, interrupt) in &self.interrupts {
            match interrupt {
                Some(interrupt) => kept_interrupts.push(interrupt.clone()),
                None => removed_epochs.push(*epoch),
            }
        }
        object.field_unless_default("interrupts", &kept_interrupts).field_unless_default("forgotten", &removed_epochs);
        object.field_unless_default("without", &self.skipped_messages);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        check_version(&mut fields)?;
        let kept_interrupts: Vec<StoredInterrupt> = fields.maybe("interrupts")?.unwrap_or_default();
        let removed_epochs: Vec<u64> = fields.maybe("forgotten")?.unwrap_or_default();
        let kept_interrupts = kept_interrupts.into_iter().map(|interrupt| (interrupt.epoch, Some(interrupt)));
        Ok(Self {
            decision_name: fields.take("by")?,
            thread_record: fields.maybe("mailbox")?,
            dispatches: fields.maybe("rows")?.unwrap_or_default(),
            removed_dispatches: fields.maybe("removed")?.unwrap_or_default(),
            interrupts: kept_interrupts.chain(removed_epochs.into_iter().map(|epoch| (epoch, None))).collect(),
            skipped_messages: fields.maybe("without")?.unwrap_or_default(),
        })
    }
}

fn check_version(fields: &mut Fields<'_>) -> Result<(), DecodeError> {
    match fields.take::<u64>("v")? {
        ..=FORMAT_VERSION => Ok(()),
        _ => Err(DecodeError::new("was written by a newer release")),
    }
}

/// The record of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TenantRecord {
    /// The incarnation of the tenant. It is higher than those of earlier tenants with this name.
    pub(crate) incarnation: u64,
    /// Whether the tenant was deleted. If so, no message of this incarnation has an effect any more.
    pub(crate) is_deleted: bool,
}

impl Codec for TenantRecord {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("v", &FORMAT_VERSION).field("incarnation", &self.incarnation);
        object.field_unless_default("deleted", &u64::from(self.is_deleted));
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        check_version(&mut fields)?;
        let is_deleted = fields.maybe::<u64>("deleted")?.is_some_and(|deleted| deleted != 0);
        Ok(Self { incarnation: fields.take("incarnation")?, is_deleted })
    }
}

/// Reserves an id that a caller chose. Only the thread for which it is reserved may enqueue a dispatch with this id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdReservation {
    pub(crate) thread: ThreadId,
    /// The thread for which the id was reserved before. It equals `thread` if the id is being freed. In that case no
    /// thread may enqueue under the id.
    pub(crate) previous_thread: Option<ThreadId>,
}

impl IdReservation {
    /// The record of an id of `thread` that is being freed.
    pub(crate) fn being_freed(thread: ThreadId) -> Self {
        Self { previous_thread: Some(thread.clone()), thread }
    }

    pub(crate) fn is_being_freed(&self) -> bool {
        self.previous_thread.as_ref() == Some(&self.thread)
    }
}

impl Codec for IdReservation {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("v", &FORMAT_VERSION).field("thread", &self.thread).maybe("from", self.previous_thread.as_ref());
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        check_version(&mut fields)?;
        Ok(Self { thread: fields.take("thread")?, previous_thread: fields.maybe("from")? })
    }
}

/// The data shared by all processes that have a store open (NA-9).
#[derive(Clone)]
pub(crate) struct StoreMetadata {
    pub(crate) cursor_key: CursorKey,
    /// The id of the streams. Empty if an earlier release made them.
    pub(crate) id: String,
}

impl StoreMetadata {
    /// Generates new shared data, and returns it in encoded form.
    pub(crate) fn generate() -> Result<String> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|e| Error::unavailable("random bytes are not available").with_source(e))?;
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut text = String::new();
        let mut object = ObjectWriter::open(&mut text);
        object.field("v", &FORMAT_VERSION).field("cursors", &hex).field("id", &UuidSource.next_id());
        object.close();
        Ok(text)
    }

    pub(crate) fn parse(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        check_version(&mut fields)?;
        let hex: String = fields.take("cursors")?;
        let mut key = [0; 32];
        for (index, byte) in key.iter_mut().enumerate() {
            let digits = hex.get(2 * index..2 * index + 2).ok_or_else(|| DecodeError::new("is not a key"))?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| DecodeError::new("is not a key"))?;
        }
        Ok(Self { cursor_key: CursorKey::new(key), id: fields.maybe("id")?.unwrap_or_default() })
    }
}

/// Parses a time set by tests.
pub(crate) fn parse_test_time(raw: &str) -> Option<Timestamp> {
    raw.parse().ok().and_then(|millis| Timestamp::from_millis(millis).ok())
}
