//! The lines of a thread itself: the header of its log, its own fields, its state.

use std::collections::BTreeMap;

use store_core::{
    Json, JsonMap, ResourceId, TenantId, Thread, ThreadId, Timestamp,
    codec::{DecodeError, Extra, Fields, ObjectWriter},
    commit::StateWrite,
};

use super::tagged;

/// The header of a thread's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadHeader {
    pub(crate) tenant: TenantId,
    pub(crate) thread: ThreadId,
    pub(crate) generation: u64,
    pub(crate) at: Timestamp,
}

impl ThreadHeader {
    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        let mut object = ObjectWriter::open(&mut out);
        object.field("log", &"thread".to_owned()).field("v", &1_u64);
        object.field("tenant", &self.tenant).field("thread", &self.thread);
        object.field("generation", &self.generation).field("at", &self.at);
        object.close();
        out
    }

    pub(crate) fn decode(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        if fields.take::<String>("log")? != "thread" {
            return Err(DecodeError::new("is not the log of a thread").within("log"));
        }
        Ok(Self {
            tenant: fields.take("tenant")?,
            thread: fields.take("thread")?,
            generation: fields.take("generation")?,
            at: fields.take("at")?,
        })
    }
}

/// A thread's own fields: when it is made, and when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadLine {
    pub(crate) resource_id: Option<ResourceId>,
    pub(crate) parent_thread_id: Option<ThreadId>,
    pub(crate) title: Option<String>,
    pub(crate) metadata: JsonMap,
    pub(crate) created_at: Timestamp,
    pub(crate) revision: u64,
    /// Fields of a newer release.
    pub(crate) extra: Extra,
}

impl ThreadLine {
    pub(crate) fn of(thread: &Thread) -> Self {
        Self {
            resource_id: thread.resource_id.clone(),
            parent_thread_id: thread.parent_thread_id.clone(),
            title: thread.title.clone(),
            metadata: thread.metadata.clone(),
            created_at: thread.created_at,
            revision: thread.revision.number(),
            extra: thread.extra.clone(),
        }
    }

    pub(super) fn encode(&self) -> String {
        tagged("thread", |object| {
            object
                .maybe("resource_id", self.resource_id.as_ref())
                .maybe("parent_thread_id", self.parent_thread_id.as_ref())
                .maybe("title", self.title.as_ref())
                .field("metadata", &self.metadata)
                .field("created_at", &self.created_at)
                .field("revision", &self.revision)
                .extra(&self.extra);
        })
    }

    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            resource_id: fields.maybe("resource_id")?,
            parent_thread_id: fields.maybe("parent_thread_id")?,
            title: fields.maybe("title")?,
            metadata: fields.take("metadata")?,
            created_at: fields.take("created_at")?,
            revision: fields.take("revision")?,
            extra: fields.rest()?,
        })
    }
}

/// A change of the thread's state, with its revision and its size after the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateLine {
    pub(crate) write: StateWrite,
    pub(crate) revision: u64,
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
}

impl StateLine {
    pub(super) fn encode(&self) -> String {
        tagged("state", |object| {
            object.field("revision", &self.revision).field("keys", &self.keys).field("bytes", &self.bytes);
            if self.write.clear {
                object.field("clear", &true);
            }
            let set: BTreeMap<String, Json> =
                self.write.values.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect();
            let removed = self.write.values.iter().filter(|(_, value)| value.is_none());
            object.field("set", &set).field("remove", &removed.map(|(key, _)| key.clone()).collect::<Vec<_>>());
        })
    }

    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, DecodeError> {
        let set: BTreeMap<String, Json> = fields.take("set")?;
        let removed: Vec<String> = fields.take("remove")?;
        let set = set.into_iter().map(|(key, value)| (key, Some(value)));
        let values = set.chain(removed.into_iter().map(|key| (key, None))).collect();
        let clear = fields.maybe("clear")?.unwrap_or_default();
        Ok(Self {
            write: StateWrite { clear, values },
            revision: fields.take("revision")?,
            keys: fields.take("keys")?,
            bytes: fields.take("bytes")?,
        })
    }
}
