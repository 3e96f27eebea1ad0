//! Blobs: large payloads outside of records, stored once for each tenant (BL).
//!
//! The bytes of a blob are an object. What is known about it, and which threads refer to it, are documents. So a commit
//! that refers to a blob, and a collection that removes it, exclude each other like any two writers of a document.

mod checksums;
mod collect;
mod commits;
mod erase;
mod inspect;
mod moved;
mod pending;
mod reads;
mod record;
mod rules;
mod store;

pub use self::{
    commits::{BlobOptions, SUGGESTED_MOVED_BYTES, with_blobs},
    inspect::{BlobCheckResult, check_blobs},
    record::{Blob, BlobHash, BlobRef, CollectBlobs, CollectedBlobs, MIN_GRACE, OpenedBlob, RemovedBlobs},
    rules::reference_changes,
    store::{BlobLayer, BlobStore, BlobStoreExt},
};
