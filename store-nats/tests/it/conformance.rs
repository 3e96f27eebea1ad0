//! The conformance suite on one server, and the tests that record histories of many concurrent tasks.

conformance_tests::mailbox_store!(crate::fixture());
conformance_tests::live_channel!(crate::fixture());
conformance_tests::mailbox_histories!(crate::fixture());
conformance_tests::mailbox_copies!(crate::fixture());
