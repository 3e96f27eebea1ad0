//! The planted bugs of objects and blobs: what each of them changes, and which case must find it.

use crate::model::bugs;

bugs! {
    /// A planted bug: a deliberate mistake in the objects of a store, or in its blobs.
    BlobBug:
    /// An object has at most 64 KiB.
    ObjectsAreShort = "object::an_object_is_read_as_it_was_uploaded",
    /// An unknown object is empty.
    UnknownObjectIsEmpty = "object::an_unknown_object_is_none",
    /// What was written is found before the upload is finished.
    UnfinishedIsFound = "object::an_unfinished_upload_is_not_there",
    /// An upload that is begun leaves an object.
    BegunUploadStays = "object::a_dropped_upload_leaves_nothing",
    /// All uploads have one buffer.
    UploadsShareABuffer = "object::concurrent_uploads_stay_apart",
    /// An object has at most 16 MiB.
    LongObjectsAreCut = "object::a_long_object_is_uploaded_and_read_in_parts",
    /// A reopen forgets objects.
    ReopenForgetsObjects = "object::objects_survive_a_reopen",
    /// As `ReopenForgetsObjects`.
    DropForgetsObjects = "object::objects_survive_without_closing",
    /// A part begins one byte late, unless it begins with the object.
    PartBeginsLate = "object::parts_of_an_object_are_read",
    /// A part that begins after the end has the last bytes.
    LatePartHasBytes = "object::a_part_after_the_end_is_empty",
    /// A page of objects has the last key first.
    ObjectsUnordered = "object::objects_are_listed_by_key_in_pages",
    /// A cursor that is refused begins the list again.
    ObjectCursorUnbound = "object::a_cursor_belongs_to_the_list_of_its_tenant",
    /// Of several objects, one is deleted.
    OneObjectIsDeleted = "object::deleted_objects_are_gone",
    /// Old objects are discarded with uploads.
    ObjectsAreDiscarded = "object::discarding_uploads_spares_objects",
    /// All tenants have the same objects.
    ObjectsAreShared = "object::objects_of_tenants_are_apart",
    /// As `ObjectsAreShared`.
    ObjectsOutliveTheirTenant = "object::objects_go_with_their_tenant",
    /// The objects of a closed store are listed as none.
    ClosedStoreListsObjects = "object::a_closed_store_refuses_objects",
    /// The length of a blob is forgotten.
    LengthForgotten = "blob::a_blob_is_read_as_it_was_put",
    /// Each put uploads its bytes.
    EachPutUploads = "blob::the_same_bytes_are_stored_once",
    /// A put that another one was faster than leaves its object. Uploads take a while, so that puts overlap.
    SlowPutLeavesItsObject = "blob::concurrent_puts_store_the_same_bytes_once",
    /// All tenants have the same blobs.
    BlobsAreShared = "blob::blobs_of_tenants_are_apart",
    /// What came before the error of a stream is stored.
    FailedStreamIsStored = "blob::a_stream_that_fails_stores_nothing",
    /// A reopen forgets blobs.
    ReopenForgetsBlobs = "blob::blobs_survive_a_reopen",
    /// The blobs of a deleted tenant stay.
    DeletedTenantKeepsBlobs = "blob::a_deleted_tenant_has_no_blobs",
    /// A page of blobs has the last hash first.
    BlobsUnordered = "blob::blobs_are_listed_by_hash_in_pages",
    /// Every blob is known as unused.
    EveryBlobIsUnused = "blob::what_is_known_about_a_blob_is_loaded",
    /// The end of a part is ignored.
    PartIsTheRest = "blob::a_part_of_a_blob_is_read",
    /// A part that cannot be is empty.
    ImpossiblePartIsEmpty = "blob::a_part_that_begins_after_the_end_is_refused",
    /// An unknown blob is empty.
    UnknownBlobIsEmpty = "blob::an_unknown_blob_is_not_found",
    /// Bytes are given out as they are found.
    BytesAreUnchecked = "blob::changed_bytes_are_corrupt",
    /// Bytes of a part are given out as they are found.
    PartsAreUnchecked = "blob::a_part_with_changed_bytes_is_corrupt",
    /// A blob without bytes is empty.
    MissingBytesAreNone = "blob::missing_bytes_are_corrupt",
    /// A verification finds nothing.
    VerifyFindsNothing = "blob::changed_and_missing_bytes_are_found",
    /// A verification says nothing of what was left.
    VerifyNotesNothing = "blob::what_interrupted_calls_left_is_no_damage",
    /// What was moved is not put back by reads.
    MovedIsNotPutBack = "blob::a_large_block_comes_back_as_it_was",
    /// As `MovedIsNotPutBack`.
    MovedKindsAreNotPutBack = "blob::every_kind_of_large_block_comes_back",
    /// No block is moved.
    NothingIsMoved = "blob::a_large_block_leaves_its_record",
    /// Blocks are moved although it is switched off.
    MovesAlways = "blob::moving_can_be_switched_off",
    /// Each upload leaves another object.
    UploadsLeaveObjects = "blob::equal_blocks_are_stored_once",
    /// As `MovedIsNotPutBack`, for budgets.
    BudgetCountsLittle = "blob::a_budget_counts_whole_messages",
    /// As `MovedIsNotPutBack`, for raw lines.
    RawLineIsNotPutBack = "blob::a_raw_line_comes_back",
    /// As `MovedIsNotPutBack`, for missing blobs.
    MissingBlockIsLeft = "blob::a_moved_block_whose_blob_is_missing_is_corrupt",
    /// Blobs that a commit names are not looked at.
    NamesAreIgnored = "blob::a_commit_that_names_a_missing_blob_is_refused",
    /// As `NamesAreIgnored`, for what is no hash.
    NoHashIsAccepted = "blob::a_commit_that_names_no_hash_is_refused",
    /// As `NamesAreIgnored`, for references.
    ReferencesAreForgotten = "blob::a_commit_refers_to_the_blobs_that_it_names",
    /// As `NamesAreIgnored`, for input.
    NamesOfInputAreIgnored = "blob::input_that_names_a_missing_blob_is_refused",
    /// As `MovedIsNotPutBack`, for input.
    InputIsNotPutBack = "blob::large_input_comes_back_as_it_was",
    /// As `NamesAreIgnored`, for the blobs of input.
    InputRefersToNothing = "blob::a_blob_of_pending_input_stays",
    /// A marked blob is removed at once.
    GraceIsIgnored = "blob::a_collection_leaves_a_blob_for_the_grace_time",
    /// A put does not take back a mark.
    PutKeepsTheMark = "blob::a_blob_that_is_put_again_stays",
    /// A touch does nothing.
    TouchDoesNothing = "blob::a_touched_blob_stays",
    /// As `NamesAreIgnored`, for collections.
    CollectionIgnoresThreads = "blob::a_blob_of_a_thread_stays",
    /// Nothing is removed.
    NothingIsRemoved = "blob::a_blob_goes_after_its_last_thread",
    /// As `NamesAreIgnored`, for marks.
    CommitKeepsTheMark = "blob::a_commit_takes_back_a_mark",
    /// As `NothingIsRemoved`.
    RemovedBlobsStay = "blob::a_removed_blob_can_be_put_again",
    /// As `NamesAreIgnored`, beside a collection.
    CommitIgnoresCollections = "blob::a_collection_and_a_commit_exclude_each_other",
    /// A dry run is a real one.
    DryRunRemoves = "blob::a_dry_collection_changes_nothing",
    /// A collection that is stopped does not say so.
    StopIsNotSaid = "blob::a_collection_can_be_stopped_and_repeated",
    /// A short grace time is made longer.
    ShortGraceIsLengthened = "blob::a_short_grace_time_is_refused",
    /// Leftovers are not removed.
    LeftoversStay = "blob::what_interrupted_calls_left_is_removed",
    /// Whatever nothing refers to is removed only by collections.
    UnreferencedStays = "blob::unreferenced_blobs_are_removed_at_once",
    /// As `NamesAreIgnored`, for erasures.
    ErasureKnowsNoBlobs = "blob::the_blobs_of_an_erased_thread_are_gone",
    /// What an erasure has noted is forgotten.
    ErasureForgetsItsNotes = "blob::an_interrupted_erasure_removes_the_blobs_later",
}

impl BlobBug {
    /// Whether the documents with which threads refer to blobs, and their checks, are left out.
    pub(super) const fn forgets_references(self) -> bool {
        matches!(
            self,
            Self::NamesAreIgnored
                | Self::NoHashIsAccepted
                | Self::ReferencesAreForgotten
                | Self::NamesOfInputAreIgnored
                | Self::InputRefersToNothing
                | Self::CollectionIgnoresThreads
                | Self::CommitKeepsTheMark
                | Self::CommitIgnoresCollections
                | Self::ErasureKnowsNoBlobs
                | Self::ErasureForgetsItsNotes
        )
    }

    /// Whether reads leave what was moved as it is stored.
    pub(super) const fn reads_what_is_stored(self) -> bool {
        matches!(
            self,
            Self::MovedIsNotPutBack
                | Self::MovedKindsAreNotPutBack
                | Self::BudgetCountsLittle
                | Self::RawLineIsNotPutBack
                | Self::MissingBlockIsLeft
                | Self::InputIsNotPutBack
        )
    }
}
