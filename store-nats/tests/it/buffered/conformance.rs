//! The suite through a write buffer in front of a store in memory (NB-1, NB-9, NB-11, NB-15).

conformance_tests::thread_run_store!(crate::buffered::fixture::fixture());
conformance_tests::commit_coordinator!(crate::buffered::fixture::fixture());
conformance_tests::pending_store!(crate::buffered::fixture::fixture());
conformance_tests::event_store!(crate::buffered::fixture::fixture());
conformance_tests::outbox_store!(crate::buffered::fixture::fixture());
conformance_tests::document_store!(crate::buffered::fixture::fixture());
conformance_tests::object_store!(crate::buffered::fixture::fixture());
conformance_tests::mailbox_store!(crate::buffered::fixture::fixture());
conformance_tests::layers!(crate::buffered::fixture::fixture());
conformance_tests::model!(crate::buffered::fixture::fixture(), in long 500);
conformance_tests::histories!(crate::buffered::fixture::fixture());
