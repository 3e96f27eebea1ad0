//! Kills workers and drops their handler, and counts the charges.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue panics at that line")]
#![expect(clippy::print_stdout, reason = "tests of faults print figures")]

mod faults;
mod outcomes;
mod process;
mod store;
