//! The suite against the model: whole, it passes every case; broken, the named case finds it.

mod checker;
mod planted;
mod random;

/// The model as the suite's own backend.
const fn fixture() -> conformance_tests::model::ModelFixture {
    conformance_tests::model::ModelFixture { bug: None }
}

conformance_tests::thread_run_store!(crate::fixture());
conformance_tests::commit_coordinator!(crate::fixture());
conformance_tests::pending_store!(crate::fixture());
conformance_tests::event_store!(crate::fixture());
