//! The rows of documents and of their collections.

use store_core::{Timestamp, document::DocumentState};

use crate::log::Span;

/// Where the value of a document stands, its revision and its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DocumentRow {
    pub(crate) log: u64,
    pub(crate) span: Span,
    pub(crate) state: DocumentState,
}

impl DocumentRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let DocumentState { revision, created_at, updated_at } = self.state;
        let mut out = self.log.to_be_bytes().to_vec();
        out.extend_from_slice(&self.span.encode());
        for number in [revision, created_at.as_millis(), updated_at.as_millis()] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (log, rest) = number(bytes)?;
        let (span, rest) = rest.split_at_checked(Span::BYTES)?;
        let (revision, rest) = number(rest)?;
        let (created_at, rest) = number(rest)?;
        let (updated_at, rest) = number(rest)?;
        let time = |millis| Timestamp::from_millis(millis).ok();
        let state = DocumentState { revision, created_at: time(created_at)?, updated_at: time(updated_at)? };
        rest.is_empty().then_some(Self { log, span: Span::decode(span)?, state })
    }
}

/// The log that the documents of a collection are written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CollectionRow {
    pub(crate) log: u64,
    /// How often the log of the collection was rewritten. The id of the log contains it.
    pub(crate) rewrites: u64,
}

impl CollectionRow {
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.log.to_be_bytes(), self.rewrites.to_be_bytes()].concat()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (log, rest) = number(bytes)?;
        let (rewrites, rest) = number(rest)?;
        rest.is_empty().then_some(Self { log, rewrites })
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), rest))
}
