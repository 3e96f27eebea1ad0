//! The store in memory, seen from outside: the suite that every store passes, and what is this store's own.

#![cfg(not(shuttle))]
#![expect(clippy::unwrap_used, reason = "a test that cannot continue panics where it fails")]

mod bounds;
mod conformance;
mod fixture;
mod race;

pub(crate) use self::fixture::fixture;
