//! Tests of the public functions.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue fails at that point"
)]

mod accounting;
mod captures;
mod convert;
mod emptiness;
mod generated;
mod golden;
mod items;
mod round_trips;
mod rules;
