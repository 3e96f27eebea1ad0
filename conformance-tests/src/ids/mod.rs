//! Cases about ids and values (the promises ID of `docs/contract.md`). They run for each trait that stores records,
//! with the records of that trait. The cases in the inner braces of the list would do the same for every trait, so they
//! run only once, for `Contract::ThreadRunStore`.

mod corpus;
mod enum_names;
mod id_arguments;
mod storage;
mod text;
mod validation;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! ids {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] ids
            validation: ids_are_validated_when_created ["ID-1"] [];
            validation: generated_ids_sort_in_order ["ID-6"] [];
            validation: ids_and_times_are_plain_json ["ID-8"] [];
            validation: json_values_are_validated_when_created ["ID-10", "ER-9"] [];
            storage: unusual_ids_are_stored_unchanged ["ID-2", "ID-3", "ID-4"] [];
            storage: unusual_ids_survive_a_reopen ["ID-2", "ID-3"] [Reopen];
            storage: unusual_ids_work_as_tenant_names ["ID-3", "ID-4", "TN-4"] [];
            storage: unusual_ids_work_everywhere ["ID-2", "ID-3", "ID-4", "ID-7"] [];
            storage: pairs_of_tenant_and_record_never_collide ["ID-4", "TN-4"] [];
            enum_names: stored_names_never_change ["ID-12"] [];
            enum_names: unknown_names_of_closed_enums_are_refused ["ID-12"] [];
            {
                storage: pairs_of_thread_and_entry_never_collide ["ID-4"] [Threads];
                storage: equal_ids_of_different_types_do_not_collide ["ID-7"] [Threads];
                text: any_text_round_trips ["ID-9"] [Threads];
                text: json_round_trips_byte_for_byte ["ID-10"] [Threads];
                text: unknown_fields_blocks_and_kinds_are_kept ["ID-11"] [Threads];
                text: an_unknown_kind_with_a_known_name_keeps_the_log_readable ["ID-11", "ER-8"] [Threads];
                text: an_unknown_block_with_a_known_name_keeps_the_log_readable ["ID-11", "ER-8"] [Threads];
            }
        }
    };
}

ids!(case_slice);
