//! Cases about tenants (promises TN of the contract). They run for every contract.

mod cross_tenant;
mod isolation;
mod lifecycle;
mod name_leaks;
mod similar_names;

pub(crate) use self::name_leaks::all_error_texts;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! tenant {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] tenant
            isolation: tenants_see_only_their_own_records ["TN-1", "TN-2", "TN-4"] [];
            isolation: the_default_tenant_is_named_default ["TN-1"] [];
            cross_tenant: no_data_of_another_tenant_can_be_reached ["TN-1", "TN-2", "TN-4"] [];
            isolation: equal_ids_in_two_tenants_are_independent ["TN-2"] [];
            name_leaks: errors_never_name_a_tenant ["TN-3"] [];
            name_leaks: cursors_never_name_a_tenant ["TN-3"] [];
            lifecycle: tenants_are_listed_by_name ["TN-8", "PG-1", "PG-8"] [];
            lifecycle: deleting_a_tenant_removes_all_its_records ["TN-8"] [];
            lifecycle: a_deleted_tenant_stays_deleted_after_a_reopen ["TN-8"] [Reopen];
            lifecycle: writes_racing_with_a_tenant_deletion_leave_nothing ["TN-8"] [Race];
            lifecycle: maintenance_changes_only_its_own_tenant ["TN-7"] [Time];
        }
    };
}

tenant!(case_slice);
