//! The conformance suite and what NATS promises besides, on a real server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails, with its place")]

mod conformance;
mod fixture;

pub(crate) use self::fixture::fixture;
