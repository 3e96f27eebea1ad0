//! Runs the suite on the model. Without a bug the model passes every case, and each planted bug is found by the case
//! that it names.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot continue panics where it fails, and prints what it did"
)]

mod case_list;
mod checker;
mod histories;
mod matrix;
mod planted;
mod random;
mod report;

/// Returns a fixture that opens the model without a bug.
const fn fixture() -> conformance_tests::model::ModelFixture {
    conformance_tests::model::ModelFixture { bug: None }
}

conformance_tests::thread_run_store!(crate::fixture());
conformance_tests::commit_coordinator!(crate::fixture());
conformance_tests::pending_store!(crate::fixture());
conformance_tests::event_store!(crate::fixture());
conformance_tests::mailbox_store!(crate::fixture());
conformance_tests::outbox_store!(crate::fixture());
conformance_tests::live_channel!(crate::fixture());
conformance_tests::document_store!(crate::fixture());
conformance_tests::layers!(crate::fixture());
