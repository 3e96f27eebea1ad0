//! Cases about traces (promises TR of the contract), which core derives from runs and implements over documents.

mod derived;
pub(crate) mod helpers;
mod list;
mod otlp;
mod put;
mod retention;
mod scenarios;

pub use self::scenarios::OTLP_SCENARIOS;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! trace {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] trace
            put: spans_are_loaded_as_they_were_put ["TR-1"] [Threads];
            put: a_repeated_put_changes_nothing ["TR-1"] [Threads];
            put: another_span_with_the_same_id_is_refused ["TR-1"] [Threads];
            put: spans_need_their_thread ["TR-1"] [Threads];
            put: spans_of_runs_are_apart ["TR-1"] [Threads];
            put: concurrent_puts_are_all_stored ["TR-1"] [Threads, Race];
            put: spans_survive_a_reopen ["TR-1"] [Threads, Reopen];
            derived: a_committed_run_has_a_trace ["TR-7"] [Threads];
            derived: what_is_not_known_is_absent ["TR-7"] [Threads];
            derived: a_trace_has_what_its_run_wrote ["TR-7"] [Threads];
            derived: put_spans_are_added_to_the_derived_ones ["TR-7"] [Threads];
            list: spans_are_listed_by_start_and_id ["TR-1", "PG-6"] [Threads];
            list: traces_are_listed_newest_first ["TR-8"] [Threads, Time];
            list: each_trace_is_listed_once ["TR-8"] [Threads, Time];
            list: traces_of_a_thread_and_an_agent_are_listed ["TR-8"] [Threads, Time];
            list: traces_of_a_time_are_listed ["TR-8"] [Threads, Time];
            list: traces_with_errors_are_listed ["TR-8"] [Threads, Time];
            list: an_earlier_span_moves_its_trace ["TR-8"] [Threads];
            list: a_cursor_belongs_to_one_list_of_traces ["TR-8", "PG-6"] [Threads, Time];
            list: a_trace_is_found_by_its_run ["TR-8"] [Threads];
            list: traces_go_with_their_thread ["TR-1", "DO-8"] [Threads];
            otlp: scenarios_of_the_conventions_come_back_equal ["TR-9"] [Threads];
            retention: old_traces_are_purged ["TR-6"] [Threads, Time];
            retention: the_newest_traces_stay ["TR-6"] [Threads, Time];
            retention: a_pinned_trace_stays ["TR-6"] [Threads, Time];
            retention: only_what_exists_is_pinned ["TR-6"] [Threads];
            retention: a_dry_purge_removes_no_span ["TR-6"] [Threads, Time];
            retention: a_pin_and_a_purge_exclude_each_other ["TR-6"] [Threads, Time, Race];
            retention: an_interrupted_purge_is_finished ["TR-6"] [Threads, Time];
            retention: a_purge_removes_what_deleted_threads_left ["TR-6"] [Threads];
        }
    };
}

trace!(case_slice);
