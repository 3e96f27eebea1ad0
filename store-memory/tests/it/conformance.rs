//! The suite, random operations on the store and on the model, and histories of many concurrent tasks.

conformance_tests::thread_run_store!(crate::fixture());
conformance_tests::commit_coordinator!(crate::fixture());
conformance_tests::pending_store!(crate::fixture());
conformance_tests::event_store!(crate::fixture());
conformance_tests::mailbox_store!(crate::fixture());
conformance_tests::outbox_store!(crate::fixture());
conformance_tests::live_channel!(crate::fixture());
conformance_tests::document_store!(crate::fixture());
conformance_tests::object_store!(crate::fixture());
conformance_tests::copies!(crate::fixture());
conformance_tests::layers!(crate::fixture());
conformance_tests::model!(crate::fixture(), in long 2_000);
conformance_tests::histories!(crate::fixture());

mod more_histories {
    use conformance_tests::history::{AbandonedWork, run};

    /// M3: each claim and each settlement may be dropped at any poll.
    #[test]
    fn other_workers_finish_the_work_of_many_bad_workers() {
        println!("{}", run(AbandonedWork::with_many_workers().run(crate::fixture())));
    }
}

/// Everything that is about messages again, by a store that moves nearly every block to a blob (BL-3).
mod with_blobs {
    conformance_tests::area_tests! { [ThreadRunStore crate::with_blobs()] thread log context run }
    conformance_tests::area_tests! { [CommitCoordinator crate::with_blobs()] commit }
    conformance_tests::area_tests! { [PendingStore crate::with_blobs()] pending }
    conformance_tests::model!(crate::with_blobs(), in long 2_000);
}
