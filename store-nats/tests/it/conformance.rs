//! The conformance suite on one server, and the tests that record histories of many concurrent tasks.

conformance_tests::mailbox_store!(crate::fixture());
conformance_tests::live_channel!(crate::fixture());
conformance_tests::mailbox_histories!(crate::fixture());
conformance_tests::mailbox_copies!(crate::fixture());

/// Everything that follows when a mailbox is opened again, by mailboxes that are copied to a new one each time (VF-3,
/// VF-4, VF-6).
pub(crate) mod copied {
    use std::sync::Arc;

    use conformance_tests::{Gap, copies::CopyingFixture};

    pub(crate) fn fixture() -> CopyingFixture {
        // The clock of the fixture stands still, so that the new store begins with the same number.
        let case = "mailbox::claim_numbers_grow_across_tenant_deletion_and_reopen";
        let gap = Gap { case, reason: "a copy knows nothing of a tenant that was deleted" };
        CopyingFixture::new(vec![Arc::new(crate::fixture())]).with_gaps([gap])
    }

    conformance_tests::area_tests! { [MailboxStore crate::conformance::copied::fixture()] mailbox }
}
