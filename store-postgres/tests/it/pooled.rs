//! The suite through a transaction pooler (PO-10).

conformance_tests::thread_run_store!(crate::fixture::pooled());
conformance_tests::commit_coordinator!(crate::fixture::pooled());
conformance_tests::pending_store!(crate::fixture::pooled());
conformance_tests::event_store!(crate::fixture::pooled());
conformance_tests::outbox_store!(crate::fixture::pooled());
conformance_tests::mailbox_store!(crate::fixture::pooled());
conformance_tests::live_channel!(crate::fixture::pooled());
