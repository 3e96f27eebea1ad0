//! Cases that each backend runs about layers: one for each atomic step that the layers rely on. All cases of the layers
//! are in the areas `config` and `audit`.

mod steps;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! layer {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] layer
            steps: config_its_feed_and_its_audit_are_one_step ["CF-4", "CF-5", "AU-1"] [];
            steps: config_writers_at_the_same_time_all_have_entries ["CF-3", "CF-5"] [Race];
            steps: config_and_its_feed_survive_a_reopen ["CF-2", "CF-6", "AU-2"] [Reopen];
            steps: a_trimmed_feed_and_a_purged_audit_log_are_not_read_by_mistake ["CF-7", "AU-5"] [Time];
        }
    };
}

layer!(case_slice);
