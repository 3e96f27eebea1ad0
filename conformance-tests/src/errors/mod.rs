//! Cases about errors and limits (promises ER of the contract). They run for every contract, except those in the inner
//! braces. These do not depend on the contract, and run only once, for threads.

mod document_refusals;
mod extreme;
mod long_ids;
mod messages;
mod outcomes;
mod refusals;
mod sizes;
mod smaller_limits;

pub(crate) use self::{
    outcomes::tenant_as_text,
    refusals::{create_records_and_make_refused_calls, create_sample_records},
    sizes::{RecordKind, WriteCall},
};

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! errors {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] errors
            outcomes: refused_calls_change_nothing ["ER-2"] [];
            outcomes: refused_calls_are_refused_again ["ER-2", "ER-5"] [];
            outcomes: refused_calls_leave_nothing_after_a_reopen ["ER-3"] [Reopen];
            sizes: texts_up_to_the_limit_are_kept ["ER-9", "ER-10"] [Limits];
            messages: outcomes_agree_with_the_table ["ER-1", "ER-5"] [];
            messages: errors_are_written_as_json ["ER-7", "ER-1"] [];
            messages: messages_are_short_and_lower_case ["ER-6"] [];
            messages: errors_show_no_secret ["ER-6"] [];
            messages: refusals_name_the_record_or_part_concerned ["ER-1"] [];
            {
                outcomes: an_unknown_outcome_can_be_resolved ["PR-20", "ER-5", "CM-17"] [Threads];
                outcomes: an_unknown_outcome_of_maintenance_can_be_resolved ["PR-20", "CM-42"] [Threads, Time];
                extreme: lists_handle_every_filter ["ER-8"] [Threads];
                extreme: logs_handle_every_window ["ER-8"] [Threads];
                extreme: commits_handle_every_argument ["ER-8"] [Threads];
                extreme: thread_changes_handle_every_argument ["ER-8"] [Threads];
                extreme: huge_arguments_are_refused ["ER-9"] [Threads];
                smaller_limits: a_record_larger_than_declared_is_refused ["ER-10", "ER-9", "PR-1"] [Threads, Limits];
                smaller_limits: a_commit_larger_than_declared_is_refused ["ER-10", "ER-9"] [Threads, Limits];
            }
        }
    };
}

errors!(case_slice);
