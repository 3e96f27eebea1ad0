//! The rows of logs, threads, runs, entries and pending inputs.

use store_core::{
    EntryId, Run, RunId, RunPhase, TenantId, ThreadId, Timestamp,
    codec::{Codec, DecodeError, Fields, ObjectWriter},
    log::Node,
    thread::StoredThread,
};

use crate::log::{Position, Span};

/// What is known of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogRow {
    pub(crate) tenant: TenantId,
    pub(crate) thread: ThreadId,
    pub(crate) generation: u64,
    /// Up to where the index covers the log.
    pub(crate) end: Position,
}

impl Codec for LogRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("tenant", &self.tenant).field("thread", &self.thread).field("generation", &self.generation);
        object.field("end", &self.end.offset).field("crc", &self.end.crc);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self {
            tenant: fields.take("tenant")?,
            thread: fields.take("thread")?,
            generation: fields.take("generation")?,
            end: Position { offset: fields.take("end")?, crc: fields.take("crc")? },
        })
    }
}

/// A thread and the number of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadRow {
    pub(crate) log: u64,
    pub(crate) stored: StoredThread,
}

impl Codec for ThreadRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("log", &self.log).field("stored", &self.stored);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self { log: fields.take("log")?, stored: fields.take("stored")? })
    }
}

/// Where a run stands, and what its places in lists are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunRow {
    pub(crate) log: u64,
    pub(crate) span: Span,
    pub(crate) thread: ThreadId,
    pub(crate) status: RunPhase,
    pub(crate) parent_run: Option<RunId>,
    pub(crate) created_at: Timestamp,
}

impl RunRow {
    pub(crate) fn of(log: u64, span: Span, run: &Run) -> Self {
        Self {
            log,
            span,
            thread: run.thread.clone(),
            status: run.status.phase(),
            parent_run: run.parent_run.clone(),
            created_at: run.created_at,
        }
    }
}

impl Codec for RunRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("log", &self.log).field("span", &self.span);
        object.field("thread", &self.thread).field("status", &self.status);
        object.maybe("parent_run", self.parent_run.as_ref()).field("created_at", &self.created_at);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self {
            log: fields.take("log")?,
            span: fields.take("span")?,
            thread: fields.take("thread")?,
            status: fields.take("status")?,
            parent_run: fields.maybe("parent_run")?,
            created_at: fields.take("created_at")?,
        })
    }
}

/// Where an entry stands, its id and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeRow {
    pub(crate) span: Span,
    pub(crate) id: EntryId,
    pub(crate) node: Node,
}

impl NodeRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.span.encode().to_vec();
        let id = self.id.as_str().as_bytes();
        // An id has at most 256 bytes, and at least one.
        out.push(u8::try_from(id.len() - 1).unwrap_or(u8::MAX));
        out.extend_from_slice(id);
        out.extend_from_slice(self.node.encode().as_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (span, rest) = bytes.split_at_checked(Span::BYTES)?;
        let (len, rest) = rest.split_first()?;
        let (id, node) = rest.split_at_checked(usize::from(*len) + 1)?;
        Some(Self {
            span: Span::decode(span)?,
            id: EntryId::new(std::str::from_utf8(id).ok()?).ok()?,
            node: Node::read(std::str::from_utf8(node).ok()?).ok()?,
        })
    }
}

/// Where a pending input stands, and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputRow {
    pub(crate) span: Span,
    pub(crate) id: EntryId,
}

impl InputRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.span.encode(), self.id.as_str().as_bytes()].concat()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (span, id) = bytes.split_at_checked(Span::BYTES)?;
        Some(Self { span: Span::decode(span)?, id: EntryId::new(std::str::from_utf8(id).ok()?).ok()? })
    }
}
