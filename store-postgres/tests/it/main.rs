//! The conformance suite, and tests of what this backend promises in addition, on a real server.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue panics where it fails"
)]

mod buffered;
mod caller;
mod claim_order;
mod conformance;
mod copies;
mod deletions;
mod enqueues;
mod fast_path;
mod faults;
mod fixture;
mod inspect;
mod notifications;
mod pooled;
mod processes;
mod server_messages;
mod tenants;
mod thread_positions;
mod url;

pub(crate) use self::fixture::fixture;
