//! Cases about objects (promises BL of the contract): bytes of any length, in which blobs are kept.

pub(crate) mod helpers;
mod list;
mod part;
mod upload;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! object {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] object
            upload: an_object_is_read_as_it_was_uploaded ["BL-6"] [];
            upload: an_unknown_object_is_none ["BL-6"] [];
            upload: an_unfinished_upload_is_not_there ["BL-6"] [];
            upload: a_dropped_upload_leaves_nothing ["BL-6"] [];
            upload: concurrent_uploads_stay_apart ["BL-6"] [Race];
            upload: a_long_object_is_uploaded_and_read_in_parts ["BL-6"] [];
            upload: objects_survive_a_reopen ["BL-6"] [Reopen];
            upload: objects_survive_without_closing ["BL-6"] [Reopen];
            part: parts_of_an_object_are_read ["BL-6"] [];
            part: a_part_after_the_end_is_empty ["BL-6"] [];
            list: objects_are_listed_by_key_in_pages ["BL-6", "PG-1"] [];
            list: a_cursor_belongs_to_the_list_of_its_tenant ["BL-6", "PG-6"] [];
            list: deleted_objects_are_gone ["BL-6"] [];
            list: discarding_uploads_spares_objects ["BL-6"] [Time];
            list: objects_of_tenants_are_apart ["BL-6", "TN-1"] [];
            list: objects_go_with_their_tenant ["BL-6", "TN-8"] [];
            list: a_closed_store_refuses_objects ["BL-6", "PR-8"] [];
        }
    };
}

object!(case_slice);
