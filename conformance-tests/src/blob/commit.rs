//! Commits that refer to blobs.

use store_core::{BlobHash, Commit, ErrorKind, Expect, PageRequest, StateChange, reference_changes};

use super::helpers::{blobs, blobs_of_thread, commit_naming, commits, message_naming, put, refer};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, read_all_pages},
    log::entry_drafts::json,
};

/// A commit that names a blob that was never put is refused, and changes nothing. After the blob was put, it succeeds.
pub(super) async fn a_commit_that_names_a_missing_blob_is_refused(given: &Given) -> Verdict {
    let (commits, hash) = (commits(given)?, BlobHash::of(b"later"));
    let error = expect_kind(commits.commit(commit_naming("t", &hash)).await, ErrorKind::NotFound)?;
    expect(error.to_string().contains(hash.as_str()), format!("the error does not name the blob: {error}"))?;
    expect_eq(given.threads()?.load_thread(&id("t")).await?, None)?;
    put(given, b"later").await?;
    refer(given, "t", &hash).await?;
    expect_eq(given.read_log(&id("t")).await?.len(), 1)
}

/// A medium that names no hash is refused.
pub(super) async fn a_commit_that_names_no_hash_is_refused(given: &Given) -> Verdict {
    let commits = commits(given)?;
    for text in ["", "00", &"g".repeat(64), &"A".repeat(64), "../../etc/passwd"] {
        let commit = Commit::new(id("t")).with_key(id("k")).entry(store_core::NewEntry::new(message_naming(text)));
        let error = expect_kind(commits.commit(commit).await, ErrorKind::Invalid)?;
        expect_eq(error.part(), Some("entries[0]"))?;
    }
    expect_eq(given.threads()?.load_thread(&id("t")).await?, None)
}

/// The threads that refer to a blob, and the blobs that a thread refers to, are listed. A deleted thread refers to
/// none.
pub(super) async fn a_commit_refers_to_the_blobs_that_it_names(given: &Given) -> Verdict {
    let blobs = blobs(given)?;
    let (a, b) = (put(given, b"a").await?.hash, put(given, b"b").await?.hash);
    for (thread, hash) in [("t", &a), ("t", &b), ("u", &a), ("v", &a)] {
        refer(given, thread, hash).await?;
    }
    let mut both = vec![a.clone(), b.clone()];
    both.sort();
    expect_eq(blobs_of_thread(given, "t").await?, both)?;
    expect_eq(blobs_of_thread(given, "u").await?, [a.clone()])?;
    expect_eq(blobs_of_thread(given, "unknown").await?, [])?;
    super::helpers::delete_thread(given, "u").await?;
    let referrers = read_all_pages(PageRequest::first(2), |page| blobs.list_blob_referrers(&a, page)).await?;
    expect_eq(referrers, [id("t"), id("v")])?;
    let referrers = blobs.list_blob_referrers(&b, PageRequest::default()).await?;
    expect_eq(referrers.items, [id("t")])
}

/// A commit that is refused for another reason refers to nothing.
pub(super) async fn a_refused_commit_refers_to_nothing(given: &Given) -> Verdict {
    let (commits, hash) = (commits(given)?, put(given, b"a").await?.hash);
    given.create_empty_thread("t").await?;
    let stale = commit_naming("t", &hash).expecting(Expect::Absent);
    expect_kind(commits.commit(stale).await, ErrorKind::Conflict)?;
    expect_eq(blobs_of_thread(given, "t").await?, [])?;
    let referrers = blobs(given)?.list_blob_referrers(&hash, PageRequest::default()).await?;
    expect_eq(referrers.items, [])
}

/// A write of an application can refer to a blob for a thread, beside a value that names it. A blob that does not exist
/// refuses the write.
pub(super) async fn an_application_can_refer_to_a_blob(given: &Given) -> Verdict {
    let hash = put(given, b"a").await?.hash;
    let commit = |hash: &BlobHash| {
        let state = StateChange::new().set("report", json(&format!("\"{hash}\"")));
        let changes = reference_changes(&id("t"), hash)?;
        Ok::<_, store_core::Error>(Commit::new(id("t")).with_key(id("k")).with_state(state).with_documents(changes))
    };
    let missing = commit(&BlobHash::of(b"missing"))?;
    expect_kind(given.commits()?.commit(missing.clone()).await, ErrorKind::Conflict)?;
    expect_kind(commits(given)?.commit(missing).await, ErrorKind::Conflict)?;
    given.expect_accepted(commit(&hash)?).await?;
    expect_eq(blobs_of_thread(given, "t").await?, [hash])
}
