//! Tests of imports and exports, with valid and damaged session files.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that cannot continue fails at that point"
)]

mod contexts;
mod detection;
mod expectations;
mod exports;
mod growth;
mod helpers;
mod kimi;
mod kimi_exports;
mod kimi_growth;
mod kimi_histories;
mod kimi_random;
mod kimi_rebuilt;
mod kimi_rules;
mod mutations;
mod other_projects;
mod parents;
mod rules;
