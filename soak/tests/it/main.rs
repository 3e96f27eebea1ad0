//! Runs the soak test, in a short form unless `AGENTSTORE_TEST_LENGTH` is `long`: PR-3, PR-4, MB-18, MB-29, MB-33,
//! MB-34, CM-31, WK-1, WK-4, WK-6.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot continue panics where it fails, and prints what it found"
)]

mod soak;
