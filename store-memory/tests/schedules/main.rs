//! The store in memory under a schedule checker, which decides at each lock and atomic which task runs next. It needs a
//! build with `--cfg shuttle`, which `cargo xtask test` makes.

#![cfg(shuttle)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot continue panics where it fails"
)]

mod check;
mod control;
mod test_store;
mod waiting;
mod work;
mod writers;
