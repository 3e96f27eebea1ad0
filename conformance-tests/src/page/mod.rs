//! Cases about pages and cursors (promises PG of the contract). They run for every contract.

mod cursor;
mod limit;
mod walk;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! page {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] page
            limit: no_page_exceeds_its_limit ["PG-1"] [];
            limit: a_page_limit_out_of_range_is_refused ["PG-1"] [];
            limit: finding_nothing_returns_an_empty_page ["PG-2"] [];
            walk: orders_are_total ["PG-8", "PG-11", "PG-4"] [];
            walk: a_walk_with_writes_between_pages_skips_and_repeats_nothing ["PG-3", "PG-4"] [];
            walk: a_walk_during_writes_returns_each_record_once ["PG-3", "PG-4"] [Race];
            cursor: a_cursor_has_at_most_a_kibibyte ["PG-6"] [];
            cursor: the_limit_may_change_between_pages ["PG-6"] [];
            cursor: a_cursor_is_bound_to_its_list ["PG-6"] [];
            cursor: a_cursor_is_bound_to_its_tenant ["PG-6", "TN-5"] [];
            cursor: a_forged_cursor_is_refused ["PG-7"] [];
            cursor: an_old_cursor_shows_nothing_of_a_deleted_tenant ["PG-7", "TN-8"] [];
            cursor: a_cursor_of_another_store_is_refused ["PG-7"] [];
            cursor: a_cursor_stays_valid_after_a_reopen ["PG-12"] [Reopen];
        }
    };
}

page!(case_slice);
