//! The suite, random operations on the store and on the model, and histories of many concurrent tasks.

conformance_tests::thread_run_store!(crate::fixture());
conformance_tests::commit_coordinator!(crate::fixture());
conformance_tests::pending_store!(crate::fixture());
conformance_tests::event_store!(crate::fixture());
conformance_tests::outbox_store!(crate::fixture());
conformance_tests::mailbox_store!(crate::fixture());
conformance_tests::live_channel!(crate::fixture());
conformance_tests::document_store!(crate::fixture());
conformance_tests::object_store!(crate::fixture());
conformance_tests::copies!(crate::fixture());
conformance_tests::model!(crate::fixture());
conformance_tests::histories!(crate::fixture());

/// Everything that follows when a store is opened again, by stores that are copied to a new one each time (VF-3, VF-4,
/// VF-6).
mod copied {
    use std::sync::Arc;

    use conformance_tests::copies::CopyingFixture;

    fn fixture() -> CopyingFixture {
        CopyingFixture::new(vec![Arc::new(crate::fixture())])
    }

    #[test]
    fn the_copy_agrees_with_the_model() {
        let test = conformance_tests::model::ModelTest::from_env();
        conformance_tests::model::model_test(fixture(), test.histories, test.steps);
    }
}
