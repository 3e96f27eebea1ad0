//! Tests of the model test: the model agrees with itself, and does not agree with broken stores.

use conformance_tests::{
    TestLength,
    model::{Bug, ModelFixture, ModelTest},
};

conformance_tests::model!(crate::fixture());

/// Bugs that random histories do not find. Most of them need several tasks, a call that is dropped while it waits,
/// several tenants, closed handles, unusual ids, long texts, a cursor of another list or from before a trim, a
/// subscription that begins between two events, or a call at an exact millisecond. Two bugs need larger
/// families of threads than these histories create. The bugs about documents and topics at the end need several tasks,
/// tenants or collections, other keys or sizes, or the part of an error. The last five need calls of erasures, which
/// these histories do not make.
const NOT_FOUND_AT_RANDOM: [Bug; 62] = [
    Bug::GuardOutsideTheLock,
    Bug::EventsVisibleLate,
    Bug::ClaimKept,
    Bug::RowClaimKept,
    Bug::InputsOneByOne,
    Bug::DetachBeforeDeletion,
    Bug::RefusalRollsBack,
    Bug::CaseFolded,
    Bug::IdsJoined,
    Bug::CursorUnbound,
    Bug::TrimmedCursorAccepted,
    Bug::NowStartsAtLastEvent,
    Bug::TenantByPrefix,
    Bug::DeletionFoldsCase,
    Bug::ClaimsBySuffix,
    Bug::SubscribesByPattern,
    Bug::DeletedTenantReturns,
    Bug::DedupeKeysTrimmed,
    Bug::LongTextsCut,
    Bug::DeletedTenantUsable,
    Bug::ClosedStoreUsable,
    Bug::IdentityOfTheBackend,
    Bug::IdentityOfTheOpening,
    Bug::HealthOfAClosedStore,
    Bug::HealthOfTheHost,
    Bug::HandlesEndWithTheStore,
    Bug::RowLeaseExpiresLate,
    Bug::RowPurgeIncludesItsTime,
    Bug::CommitSettlesInOwnStep,
    Bug::RepeatedDeletionDoesNothing,
    Bug::ChildrenIgnored,
    Bug::CascadeStopsEarly,
    Bug::ConflictNamesTheLast,
    Bug::RevisionsOfADeletedTenantReturn,
    Bug::DocumentGuardOutsideTheLock,
    Bug::DocumentsLoadedOneByOne,
    Bug::LoadUnlimited,
    Bug::LoadBytesUnlimited,
    Bug::DocumentChangesUnlimited,
    Bug::DocumentValueUnlimited,
    Bug::PrefixNotSkipped,
    Bug::LongBoundAccepted,
    Bug::DocumentCursorCounts,
    Bug::CollectionIgnored,
    Bug::KeysFolded,
    Bug::KeySegmentsJoined,
    Bug::NumbersEqualTheirText,
    Bug::LongKeysCut,
    Bug::DocumentCursorsOutliveTheirThread,
    Bug::ThreadOfDocumentCheckedEarly,
    Bug::CommitDocumentsUnguarded,
    Bug::FenceCoversAnyThread,
    Bug::NinthTopicAccepted,
    Bug::TopicsAreThreads,
    Bug::TopicsNotInTheContent,
    Bug::CommitForgetsTopics,
    Bug::TenantOfDocumentsUnlisted,
    Bug::PurgeIgnoresIds,
    Bug::InterruptForgetsNothing,
    Bug::NamedRowPurgeSparesClaims,
    Bug::RedactionKeepsCorrelation,
    Bug::RedactionKeepsKeys,
];

#[test]
fn random_histories_find_broken_stores() {
    let histories = ModelTest { histories: 1500, steps: 60, seed: 7, max_shrinks: 0 };
    let is_missed = |bug: &&Bug| histories.run(ModelFixture::with_bug(**bug)).is_ok();
    // Random histories contain no calls of the live channel, and no waits for work.
    let is_expected = |bug: &&Bug| !NOT_FOUND_AT_RANDOM.contains(bug) && !bug.finding_case().starts_with("live::");
    // Quick tests try every eighth bug, because each bug is also found by its own case.
    let bug_stride = TestLength::pick_by_env(8, 1, 1);
    let missed_bugs: Vec<_> = Bug::ALL.iter().filter(is_expected).step_by(bug_stride).filter(is_missed).collect();
    assert!(missed_bugs.is_empty(), "{missed_bugs:?}");
}
