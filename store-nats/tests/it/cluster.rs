//! The suite, and histories of many tasks at once, on a cluster of three.

conformance_tests::mailbox_store!(crate::fixture::clustered());
conformance_tests::live_channel!(crate::fixture::clustered());
conformance_tests::mailbox_histories!(crate::fixture::clustered());
