//! The suite, and histories of many tasks at once.

conformance_tests::mailbox_store!(crate::fixture());
conformance_tests::mailbox_histories!(crate::fixture());
conformance_tests::document_store!(crate::document_fixture());
conformance_tests::layers!(crate::fixture());
