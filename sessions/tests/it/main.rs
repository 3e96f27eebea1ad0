//! Tests of imports and exports, with valid and damaged session files.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that cannot continue fails at that point"
)]

mod claude_code;
mod claude_code_compactions;
mod claude_code_entries;
mod claude_code_export;
mod claude_code_random;
mod claude_code_sources;
mod codex;
mod codex_bad_input;
mod codex_exports;
mod contexts;
mod conversions;
mod damaged_sources;
mod detection;
mod expectations;
mod exported_values;
mod exports;
mod growth;
mod helpers;
mod import_details;
mod kimi;
mod kimi_entries;
mod kimi_exports;
mod kimi_growth;
mod kimi_histories;
mod kimi_new_sessions;
mod kimi_random;
mod line_mutations;
mod mutations;
mod parents;
mod pi_cases;
mod pi_edits;
mod pi_exports;
mod pi_operations;
mod pi_reexports;
mod pi_v4;
mod repeated_imports;
mod reported_files;
mod session_files_of_other_projects;
mod thread_losses;
mod whole_messages;
