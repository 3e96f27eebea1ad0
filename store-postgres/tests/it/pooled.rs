//! The suite through a transaction pooler (PO-10).

conformance_tests::thread_run_store!(crate::fixture::pooled_fixture());
conformance_tests::commit_coordinator!(crate::fixture::pooled_fixture());
conformance_tests::pending_store!(crate::fixture::pooled_fixture());
conformance_tests::event_store!(crate::fixture::pooled_fixture());
conformance_tests::outbox_store!(crate::fixture::pooled_fixture());
conformance_tests::mailbox_store!(crate::fixture::pooled_fixture());
conformance_tests::live_channel!(crate::fixture::pooled_fixture());
conformance_tests::document_store!(crate::fixture::pooled_fixture());
