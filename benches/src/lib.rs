//! What the benchmarks share: threads of a given length, samples with their medians, and the table of
//! results.
//!
//! # Layout
//! - `filled_thread`: threads of a given length
//! - `rows`: samples taken alternately with little and with much data, and the table of their medians, which marks an
//!   operation that becomes too slow
//! - `schema`: an empty store on PostgreSQL
//! - `bin/cost`: a long history compared with a short one, a full store with an empty one
//! - `bin/rates`: commits per second in PostgreSQL compared with pgbench
//! - `bin/horizon`: the mailbox in PostgreSQL during a long transaction
//! - `bin/sqlite`: the SQLite mailbox compared with direct writes to SQLite
//! - `bin/news`: the time until a process receives what another process wrote
//! - `bin/copies`: a copy from files to PostgreSQL compared with COPY of the same rows
//! - `bin/buffer`: commits through a write buffer compared with messages that are only published
//! - `bin/opening`: the time and memory that it takes to open a large file store
//!
//! Figures can be compared only if one machine measured them in one run. To run a program, for example `cost`:
//! `cargo run --release -p benches --bin cost`.

mod filled_thread;
mod rows;
mod schema;

pub use self::{
    filled_thread::{FilledThread, create_compacted_thread, create_filled_thread, numbered_message},
    rows::{AllowedGrowth, Row, Samples, median, print_heading, print_rows, timed},
    schema::in_new_schema,
};
