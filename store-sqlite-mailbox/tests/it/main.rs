//! Tests of the mailbox in SQLite through its public API: the suite that every store must pass, and tests of its own.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot continue panics where it fails")]

mod conformance;
mod erasure;
mod faults;
mod first_release;
mod fixture;

pub(crate) use self::fixture::fixture;
