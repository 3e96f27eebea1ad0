//! Tests the example from outside: the suite that every store passes, and the guide that quotes the example.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue panics at that line")]

mod claims;
mod conformance;
mod fixture;
mod gaps;
mod guide;

pub(crate) use self::fixture::{document_fixture, fixture};
