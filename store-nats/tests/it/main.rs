//! The conformance suite, and tests of what this backend promises in addition, on a real server.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot continue panics where it fails, and tests of faults print what they did"
)]

mod access;
mod buffered;
mod cluster;
mod conformance;
mod damage;
mod erasure;
mod faults;
mod fixture;
mod garbage;
mod helpers;
mod ids;
mod key_authentication;
mod processes;
mod settings;

pub(crate) use self::fixture::fixture;
