//! The suite through a transaction pooler (PO-10): what commits, and what waits. All of it runs there if
//! `AGENTSTORE_TEST_POSTGRES_URL` names the pooler.

conformance_tests::commit_coordinator!(crate::fixture::pooled());
conformance_tests::event_store!(crate::fixture::pooled());
conformance_tests::live_channel!(crate::fixture::pooled());
