//! The suite, random histories beside the model, and histories of many tasks at once.

conformance_tests::thread_run_store!(crate::fixture());
conformance_tests::commit_coordinator!(crate::fixture());
conformance_tests::pending_store!(crate::fixture());
conformance_tests::event_store!(crate::fixture());
conformance_tests::mailbox_store!(crate::fixture());
conformance_tests::outbox_store!(crate::fixture());
conformance_tests::live_channel!(crate::fixture());
conformance_tests::document_store!(crate::fixture());
conformance_tests::object_store!(crate::fixture());
conformance_tests::model!(crate::fixture(), in long 2_000);
conformance_tests::histories!(crate::fixture());
