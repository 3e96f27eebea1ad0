//! Cases about tenants (promises TN of the contract). They run for every contract.

mod apart;
mod isolation;
mod life;
mod names;
mod words;

pub(crate) use self::words::everything_said;

/// Passes the list of the cases of this area to the macro `$then`. Each item of the list has the file, the case, the
/// promises of the contract that the case shows, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! tenant {
    ($then:ident $($with:tt)*) => {
        $crate::$then! { [$($with)*] tenant
            isolation: tenants_see_only_their_own ["TN-1", "TN-2", "TN-4"] [];
            isolation: the_default_tenant_is_named_default ["TN-1"] [];
            apart: no_data_of_another_tenant_can_be_reached ["TN-1", "TN-2", "TN-4"] [];
            isolation: the_same_ids_have_no_effect_on_each_other ["TN-2"] [];
            words: errors_never_name_a_tenant ["TN-3"] [];
            words: cursors_never_name_a_tenant ["TN-3"] [];
            life: tenants_are_listed_by_name ["TN-8", "PG-1", "PG-8"] [];
            life: deleting_a_tenant_removes_all_its_records ["TN-8"] [];
            life: a_deleted_tenant_stays_deleted_after_a_reopen ["TN-8"] [Reopen];
            life: writes_racing_with_a_tenant_deletion_leave_nothing ["TN-8"] [Race];
            life: maintenance_touches_its_tenant_only ["TN-7"] [Time];
        }
    };
}

tenant!(case_slice);
