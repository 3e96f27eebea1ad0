//! Objects: bytes of any length under a key, outside of records. Blobs are kept in them.

mod key;
mod store;

pub use self::{
    key::ObjectKey,
    store::{ByteStream, ObjectStore, ObjectUpload, StoredObject, byte_stream},
};
