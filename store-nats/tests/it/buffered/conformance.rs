//! The suite through a write buffer in front of a store in memory (NB-1, NB-9, NB-11, NB-15).

conformance_tests::thread_run_store!(crate::buffered::fixture::fixture());
conformance_tests::commit_coordinator!(crate::buffered::fixture::fixture());
conformance_tests::pending_store!(crate::buffered::fixture::fixture());
conformance_tests::event_store!(crate::buffered::fixture::fixture());
conformance_tests::outbox_store!(crate::buffered::fixture::fixture());
conformance_tests::document_store!(crate::buffered::fixture::fixture());
conformance_tests::object_store!(crate::buffered::fixture::fixture());
conformance_tests::mailbox_store!(crate::buffered::fixture::with_mailbox());
conformance_tests::layers!(crate::buffered::fixture::fixture());
conformance_tests::model!(crate::buffered::fixture::fixture());

mod histories {
    use conformance_tests::history::{CommitAtomicity, EventOrder, GuardedCommits, LongLists, run};

    use crate::buffered::fixture::fixture;

    /// LC1. Tests CM-3, CM-5, CM-10, CM-17, CM-35 and PR-10.
    #[test]
    fn guarded_commits_are_linearizable() {
        println!("{}", run(GuardedCommits::default().run(fixture())));
    }

    /// LC5. Tests EV-3, EV-4, EV-13 to EV-17, EV-22 and PR-10.
    #[test]
    fn all_readers_see_the_same_order_of_events() {
        println!("{}", run(EventOrder::default().run(fixture())));
    }

    /// MT4. Tests EV-3, EV-11, EV-14, PG-4 and PG-8.
    #[test]
    fn long_lists_return_every_record_once() {
        println!("{}", run(LongLists::default().run(fixture())));
    }

    /// LC4. Tests CM-1, CM-23 and PR-10.
    #[test]
    fn no_reader_sees_part_of_a_commit() {
        println!("{}", run(CommitAtomicity::default().run(fixture())));
    }
}
