//! The conformance suite on one server, and the tests that record histories of many concurrent tasks.

conformance_tests::mailbox_store!(crate::fixture());
conformance_tests::live_channel!(crate::fixture());
conformance_tests::mailbox_histories!(crate::fixture());
conformance_tests::mailbox_copies!(crate::fixture());

/// Everything that follows when a mailbox is opened again, by mailboxes that are copied to a new one each time (VF-3, VF-4,
/// VF-6).
pub(crate) mod copied {
    use std::sync::Arc;

    use conformance_tests::copies::CopyingFixture;

    pub(crate) fn fixture() -> CopyingFixture {
        CopyingFixture::new(vec![Arc::new(crate::fixture())])
    }

    conformance_tests::area_tests! { [MailboxStore crate::conformance::copied::fixture()] mailbox }
}
