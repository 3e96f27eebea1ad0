//! The suite through a write buffer in front of a store in memory (NB-1, NB-9, NB-11, NB-15).

use super::fixture::fixture;

conformance_tests::thread_run_store!(fixture());
conformance_tests::commit_coordinator!(fixture());
conformance_tests::pending_store!(fixture());
conformance_tests::event_store!(fixture());
conformance_tests::outbox_store!(fixture());
conformance_tests::document_store!(fixture());
conformance_tests::object_store!(fixture());
conformance_tests::mailbox_store!(fixture());
conformance_tests::layers!(fixture());
conformance_tests::model!(fixture(), in long 500);
conformance_tests::histories!(fixture());
