//! Limits on the title and the metadata of a thread.

use store_core::{Commit, ErrorKind, Expect, Json, NewThread, ThreadFields, ThreadPatch};

use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_kind},
    given::{id, message_entry},
};

/// Fields whose title has `bytes` bytes.
fn fields_with_title(bytes: usize) -> ThreadFields {
    let mut fields = ThreadFields::default();
    fields.title = Some("x".repeat(bytes));
    fields
}

/// Fields whose metadata is `{"k":"…"}` and has `bytes` bytes when it is written as JSON.
fn fields_with_metadata(bytes: usize) -> ThreadFields {
    let mut fields = ThreadFields::default();
    let value = "x".repeat(bytes - r#"{"k":""}"#.len());
    fields.metadata.insert("k".to_owned(), Json::of(&value).expect("json"));
    fields
}

/// Checks that a creation, an update and a commit accept the fields if `is_accepted` is true. Otherwise they must
/// refuse the fields with `LimitExceeded`.
async fn check_whether_accepted(given: &Given, name: &str, fields: ThreadFields, is_accepted: bool) -> Verdict {
    let (threads, commits) = (given.threads()?, given.commits()?);
    let creation_result = threads.create_thread(NewThread::new(id(name)).with_fields(fields.clone())).await.map(drop);
    let target = given.create_empty_thread(&format!("{name}-target")).await?;
    let mut patch = ThreadPatch::default();
    patch.title = Some(fields.title.clone());
    patch.metadata = fields.metadata.clone().into_iter().map(|(key, value)| (key, Some(value))).collect();
    let update_result = threads.update_thread(&target.id, patch, Expect::Any).await.map(drop);
    let commit = Commit::new(id(&format!("{name}-commit"))).expecting(Expect::Absent).entry(message_entry("x"));
    let commit_result = commits.commit(commit.creating(fields)).await.map(drop);
    for result in [creation_result, update_result, commit_result] {
        if is_accepted {
            result?;
        } else {
            expect_kind(result, ErrorKind::LimitExceeded)?;
        }
    }
    let exists = threads.load_thread(&id(name)).await?.is_some();
    expect_eq(exists, is_accepted).map_err(|failure: Failure| failure.about("whether the thread was created"))
}

/// A title of 1 KiB is accepted, and one byte more is refused. The limit counts bytes, not characters.
pub(super) async fn a_title_has_at_most_a_kibibyte(given: &Given) -> Verdict {
    check_whether_accepted(given, "at", fields_with_title(1024), true).await?;
    check_whether_accepted(given, "above", fields_with_title(1025), false).await?;
    let mut fields_with_wide_title = ThreadFields::default();
    fields_with_wide_title.title = Some("é".repeat(513));
    check_whether_accepted(given, "wide", fields_with_wide_title, false).await
}

/// Metadata of 64 KiB in total is accepted. More is refused. It is also refused if an update adds only one small key to
/// metadata that already has 64 KiB.
pub(super) async fn metadata_has_at_most_64_kibibytes(given: &Given) -> Verdict {
    check_whether_accepted(given, "at", fields_with_metadata(64 << 10), true).await?;
    check_whether_accepted(given, "above", fields_with_metadata((64 << 10) + 1), false).await?;
    let threads = given.threads()?;
    let before = given.thread(&id("at")).await?;
    let patch = ThreadPatch::default().with_metadata("more", Json::null());
    expect_kind(threads.update_thread(&id("at"), patch, Expect::Any).await, ErrorKind::LimitExceeded)?;
    expect_eq(given.thread(&id("at")).await?, before)
}

/// A store that was opened with smaller limits enforces them in the same way.
pub(super) async fn smaller_limits_are_enforced_in_the_same_way(given: &Given) -> Verdict {
    let small_store =
        &given.open_another_store_with_limits(|limits| (limits.text_bytes, limits.metadata_bytes) = (10, 20)).await?;
    check_whether_accepted(small_store, "at", fields_with_title(10), true).await?;
    check_whether_accepted(small_store, "above", fields_with_title(11), false).await?;
    check_whether_accepted(small_store, "full", fields_with_metadata(20), true).await?;
    check_whether_accepted(small_store, "too full", fields_with_metadata(21), false).await
}
