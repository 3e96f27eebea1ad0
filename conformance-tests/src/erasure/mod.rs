//! Cases about erasure (promises PV of the contract), which core implements over the other contracts.

mod helpers;
mod others;
mod repeat;
mod subject;
mod thread;

pub use self::subject::ErasureSubject;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! erasure {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] erasure
            thread: no_reader_sees_anything_of_an_erased_thread ["PV-1"] [Threads];
            thread: dispatches_are_erased ["PV-1"] [Threads];
            thread: outbox_rows_are_erased_whatever_their_status ["PV-1", "OB-14"] [Threads];
            thread: events_of_the_thread_and_its_runs_are_erased ["PV-1"] [Threads];
            thread: events_in_topics_lose_their_content ["PV-1", "EV-28"] [Threads];
            thread: replay_streams_of_the_thread_are_removed ["PV-1"] [Threads];
            thread: records_made_from_erased_events_lose_their_bytes ["PV-1"] [Threads];
            thread: named_replay_streams_are_removed ["PV-1"] [Threads];
            thread: layers_keep_no_entry_of_an_erased_thread ["PV-1"] [Threads];
            thread: audit_records_lose_their_values ["PV-1", "PV-4"] [Threads];
            thread: profiles_of_the_thread_are_removed ["PV-1"] [Threads];
            thread: descendants_are_erased ["PV-1"] [Threads];
            thread: children_of_another_resource_stay ["PV-1"] [Threads];
            thread: an_erasure_is_audited_without_content ["PV-4"] [Threads];
            others: nothing_else_changes ["PV-1"] [Threads];
            others: a_resource_is_erased_with_its_profile ["PV-2"] [Threads];
            others: a_dry_run_counts_what_is_erased ["PV-2"] [Threads];
            repeat: an_erasure_can_be_repeated ["PV-2"] [Threads];
            repeat: what_a_deletion_left_is_erased ["PV-1", "PV-2"] [Threads];
            repeat: a_stopped_erasure_goes_on ["PV-2"] [Threads];
            repeat: an_erased_thread_stays_erased_after_a_reopen ["PV-1"] [Threads, Reopen];
            repeat: space_is_reclaimed_beside_other_calls ["PV-3"] [Threads, Race];
        }
    };
}

erasure!(case_slice);
