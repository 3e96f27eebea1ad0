//! What the benchmarks share: threads to measure with, times and medians, the table.
//!
//! # Layout
//! - `fill`: threads of a given length
//! - `rows`: interleaved samples, and what is too much
//! - `schema`: a store on PostgreSQL that is empty
//! - `bin/cost`: a long history beside a short one, a full store beside an empty one
//! - `bin/rates`: commits per second in PostgreSQL beside pgbench
//! - `bin/horizon`: the mailbox in PostgreSQL beside a long transaction
//! - `bin/sqlite`: the SQLite mailbox beside a bare table
//! - `bin/news`: from what one process wrote to another that has it
//! - `bin/opening`: opening a large store in each condition, syncs beside those of the bare disk
//!
//! Figures are compared on one machine, in one run: `cargo run --release -p benches --bin cost`.

mod fill;
mod rows;
mod schema;

pub use self::{
    fill::{Filled, compacted, fill, message},
    rows::{Kind, Row, Samples, median, print, print_heading, timed},
    schema::in_new_schema,
};
