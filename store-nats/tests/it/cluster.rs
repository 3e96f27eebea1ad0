//! The suite, and histories of many concurrent tasks, on a cluster of three servers.

conformance_tests::mailbox_store!(crate::fixture::clustered());
conformance_tests::live_channel!(crate::fixture::clustered());
conformance_tests::mailbox_histories!(crate::fixture::clustered());
