//! The values of the index, and reading them from the index, from a snapshot of it, or from the index with staged
//! changes.

mod documents;
mod events;
mod reads;
mod rows;

use store_core::{
    Error, Result,
    codec::{Codec, DecodeError},
};

pub(crate) use self::{
    documents::{CollectionRow, DocumentRow},
    events::{EventKeyRow, EventRow, PlaceRow},
    reads::{Rows, StoredLog},
    rows::{InputRow, LogRow, NodeRow, RunRow, ThreadRow},
};
use crate::{
    error,
    index::{Index, Key, Snapshot},
    log::Span,
};

/// Something that values of the index are read through.
pub(crate) trait Get {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The value of a key that is JSON, decoded.
    fn decoded<T: Row>(&self, what: &'static str, key: &Key) -> Result<Option<T>> {
        self.get(key.as_bytes())?.map(|bytes| read(what, &bytes)).transpose()
    }

    /// The value of a key that is packed bytes, decoded.
    fn unpacked<T>(&self, what: &'static str, key: &Key, decode: fn(&[u8]) -> Option<T>) -> Result<Option<T>> {
        self.get(key.as_bytes())?.map(|bytes| decode(&bytes).ok_or_else(|| damaged(what))).transpose()
    }
}

/// A value that is JSON.
pub(crate) trait Row: Codec + Clone + Send + 'static {}

impl<T: Codec + Clone + Send + 'static> Row for T {}

impl Get for Index {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Self::get(self, key)
    }
}

impl Get for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Self::get(self, key)
    }
}

/// A value that does not read as what it should be: the index is damaged, and can be rebuilt.
pub(crate) fn damaged(what: &'static str) -> Error {
    error::corrupt(format!("index, {what}"), None)
}

/// Reads a value that is JSON.
pub(crate) fn read<T: Codec>(what: &'static str, bytes: &[u8]) -> Result<T> {
    let text = std::str::from_utf8(bytes).map_err(|e| damaged(what).with_source(e))?;
    T::read(text).map_err(|e| damaged(what).with_source(e))
}

/// Where a payload stands.
pub(crate) fn payload_place(log: u64, span: Span) -> Vec<u8> {
    [&log.to_be_bytes() as &[u8], &span.encode()].concat()
}

fn read_payload_place(bytes: &[u8]) -> Option<(u64, Span)> {
    let (log, span) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*log), Span::decode(span)?))
}

/// As numbers in JSON.
impl Codec for Span {
    fn write(&self, out: &mut String) {
        vec![self.offset, u64::from(self.len), u64::from(self.crc)].write(out);
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        let error = || DecodeError::new("is not a span");
        let [offset, len, crc] = Vec::<u64>::read(raw)?.try_into().map_err(|_| error())?;
        let narrow = |number: u64| u32::try_from(number).map_err(|_| error());
        Ok(Self { offset, len: narrow(len)?, crc: narrow(crc)? })
    }
}
