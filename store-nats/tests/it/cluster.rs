//! The conformance suite on a cluster of three servers, and the tests that record histories of many concurrent tasks.

conformance_tests::mailbox_store!(crate::fixture::cluster_fixture());
conformance_tests::live_channel!(crate::fixture::cluster_fixture());
conformance_tests::mailbox_histories!(crate::fixture::cluster_fixture());
