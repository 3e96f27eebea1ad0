//! Planted bugs of objects and blobs. The cases of both must find them.

mod blobs;
mod bug;
mod fixture;
mod objects;

pub use self::{bug::BlobBug, fixture::BlobBugFixture};
