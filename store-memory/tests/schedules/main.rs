//! The store in memory under a schedule checker, which decides at each lock and atomic which task runs next. It is
//! built only with `--cfg shuttle`, as `cargo xtask test` does.

#![cfg(shuttle)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot continue panics where it fails"
)]

mod check;
mod control;
mod given;
mod waiting;
mod work;
mod writers;
