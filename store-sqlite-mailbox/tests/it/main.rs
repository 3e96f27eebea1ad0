//! The mailbox in SQLite, seen from outside: the suite that every store passes, and what is this store's own.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot continue panics where it fails")]

mod conformance;
mod faults;
mod first_release;
mod fixture;

pub(crate) use self::fixture::fixture;
