//! Tests of the store in memory through its public API: the suite that every store must pass, and tests of its own.

#![cfg(not(shuttle))]
#![expect(clippy::unwrap_used, reason = "a test that cannot continue panics where it fails")]

mod bounds;
mod conformance;
mod copies;
mod documents;
mod fixture;
mod race;

pub(crate) use self::fixture::{fixture, with_blobs};
