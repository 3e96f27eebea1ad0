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

/// Makes tests of the histories that need no mailbox. The ids are those of `conformance_tests::histories!`.
macro_rules! histories_without_mailbox {
    ($fixture:expr) => {
        mod histories {
            use conformance_tests::history::{CommitAtomicity, EventOrder, GuardedCommits, LongLists, run};

            /// LC1. Tests CM-3, CM-5, CM-10, CM-17, CM-35, PR-10 and NB-2.
            #[test]
            fn guarded_commits_are_linearizable() {
                println!("{}", run(GuardedCommits::default().run($fixture)));
            }

            /// LC5. Tests EV-3, EV-4, EV-13 to EV-17, EV-22 and PR-10.
            #[test]
            fn all_readers_see_the_same_order_of_events() {
                println!("{}", run(EventOrder::default().run($fixture)));
            }

            /// MT4. Tests EV-3, EV-11, EV-14, PG-4 and PG-8.
            #[test]
            fn long_lists_return_every_record_once() {
                println!("{}", run(LongLists::default().run($fixture)));
            }

            /// LC4. Tests CM-1, CM-23 and PR-10.
            #[test]
            fn no_reader_sees_part_of_a_commit() {
                println!("{}", run(CommitAtomicity::default().run($fixture)));
            }
        }
    };
}

histories_without_mailbox!(crate::buffered::fixture::fixture());

/// The same with two nodes that take turns (NB-1, NB-3).
mod on_two_nodes {
    conformance_tests::area_tests! { [ThreadRunStore crate::buffered::fixture::two_nodes()] thread log context run }
    conformance_tests::area_tests! { [CommitCoordinator crate::buffered::fixture::two_nodes()] commit }
    conformance_tests::area_tests! { [PendingStore crate::buffered::fixture::two_nodes()] pending }
    conformance_tests::area_tests! { [EventStore crate::buffered::fixture::two_nodes()] event }
    conformance_tests::area_tests! { [OutboxStore crate::buffered::fixture::two_nodes()] outbox }
    conformance_tests::area_tests! { [DocumentStore crate::buffered::fixture::two_nodes()] document }
    conformance_tests::model!(crate::buffered::fixture::two_nodes());
    histories_without_mailbox!(crate::buffered::fixture::two_nodes());
}
