//! Updates of threads.

use std::{sync::Arc, time::Duration};

use store_core::{
    ErrorKind, Expect, Json, NewThread, Result, Thread, ThreadFields, ThreadId, ThreadPatch, ThreadRunStore, Timestamp,
    Version,
};

use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_exactly_one, expect_kind, expect_kinds},
    given::{commit_with_message, id, run_concurrently},
};

fn json(text: &str) -> Json {
    Json::parse(text).expect("json")
}

fn patch_with_title(title: &str) -> ThreadPatch {
    ThreadPatch::default().with_title(title)
}

/// Creates a thread with a resource, a title, a parent and two metadata keys.
async fn create_thread_with_all_fields(given: &Given) -> Result<Thread, Failure> {
    given.create_empty_thread("parent").await?;
    let mut fields = ThreadFields::default();
    fields.resource_id = Some(id("r"));
    fields.parent_thread_id = Some(id("parent"));
    fields.title = Some("before".to_owned());
    fields.metadata = [("a".to_owned(), json("1")), ("b".to_owned(), json("2"))].into();
    Ok(given.threads()?.create_thread(NewThread::new(id("t")).with_fields(fields)).await?)
}

/// An update changes the fields that it names, and no other fields.
pub(super) async fn an_update_keeps_fields_that_it_does_not_name(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let before = create_thread_with_all_fields(given).await?;
    let mut wanted = before.clone();
    let mut clearing_patch = ThreadPatch::default();
    (clearing_patch.resource_id, clearing_patch.title) = (Some(None), Some(None));
    for patch in [patch_with_title("after"), ThreadPatch::default().with_parent(None), clearing_patch] {
        let updated_thread = threads.update_thread(&before.id, patch.clone(), Expect::Any).await?;
        if let Some(title) = patch.title {
            wanted.title = title;
        }
        if let Some(resource) = patch.resource_id {
            wanted.resource_id = resource;
        }
        if let Some(parent) = patch.parent_thread_id {
            wanted.parent_thread_id = parent;
        }
        (wanted.revision, wanted.updated_at) = (updated_thread.revision, updated_thread.updated_at);
        expect_eq(&updated_thread, &wanted)?;
        expect_eq(given.thread(&before.id).await?, updated_thread)?;
    }
    Ok(())
}

/// Metadata is changed by key: keys are set, replaced or removed, and other keys do not change. Removing a missing key
/// is not an error.
pub(super) async fn metadata_is_patched_key_by_key(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let before = create_thread_with_all_fields(given).await?;
    let mut patch = ThreadPatch::default().with_metadata("c", json("3")).with_metadata("b", json("null"));
    patch.metadata.insert("a".to_owned(), None);
    patch.metadata.insert("missing".to_owned(), None);
    let updated_thread = threads.update_thread(&before.id, patch, Expect::Any).await?;
    let wanted = [("b".to_owned(), json("null")), ("c".to_owned(), json("3"))].into();
    expect_eq(&updated_thread.metadata, &wanted)?;
    expect_eq(&updated_thread.title, &before.title)?;
    expect_eq(given.thread(&before.id).await?, updated_thread)
}

/// An update increases the revision by one and does not change the version. An update that changes nothing keeps the
/// revision, the version and the time of the thread.
pub(super) async fn an_update_without_effect_keeps_the_revision(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let before = create_thread_with_all_fields(given).await?;
    let mut patch_without_effect =
        patch_with_title("before").with_parent(Some(id("parent"))).with_metadata("a", json("1"));
    patch_without_effect.resource_id = Some(Some(id("r")));
    patch_without_effect.metadata.insert("missing".to_owned(), None);
    for patch in [ThreadPatch::default(), patch_without_effect] {
        let after = threads.update_thread(&before.id, patch, Expect::Version(before.revision)).await?;
        expect_eq(&after, &before)?;
        expect_eq(given.thread(&before.id).await?, before.clone())?;
    }
    let after = threads.update_thread(&before.id, patch_with_title("after"), Expect::Any).await?;
    expect_eq(after.revision, before.revision.plus(1))?;
    expect_eq(after.version, before.version)
}

/// An update sets `updated_at` to store time and keeps `created_at`. An update that changes nothing keeps both.
pub(super) async fn an_update_renews_the_time(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let before = given.create_empty_thread("t").await?;
    given.advance(Duration::from_secs(5)).await;
    let unchanged = threads.update_thread(&before.id, ThreadPatch::default(), Expect::Any).await?;
    expect_eq(unchanged.updated_at, before.updated_at)?;
    let after = threads.update_thread(&before.id, patch_with_title("x"), Expect::Any).await?;
    expect_eq(after.created_at, before.created_at)?;
    expect(after.updated_at >= before.updated_at.saturating_add(Duration::from_secs(5)), "`updated_at` is too early")?;
    expect_eq(given.thread(&before.id).await?, after)
}

/// An update can state its time. The last activity of the thread moves to this time, but never back. A time after store
/// time is refused, and changes nothing.
pub(super) async fn an_update_can_state_its_time(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let now = given.create_empty_thread("now").await?.created_at;
    let (start, later) = (now.saturating_sub(Duration::from_secs(7200)), now.saturating_sub(Duration::from_secs(3600)));
    let mut draft = NewThread::new(id("t"));
    draft.at = Some(start);
    let created_thread = threads.create_thread(draft).await?;
    let updated_thread =
        threads.update_thread(&created_thread.id, patch_with_title("x").at(later), Expect::Any).await?;
    expect_eq((updated_thread.created_at, updated_thread.updated_at), (start, later))?;
    let twice_updated_thread =
        threads.update_thread(&created_thread.id, patch_with_title("y").at(start), Expect::Any).await?;
    expect_eq((twice_updated_thread.title.as_deref(), twice_updated_thread.updated_at), (Some("y"), later))?;
    for future_time in [now.saturating_add(Duration::from_secs(3600)), Timestamp::MAX] {
        let refused =
            threads.update_thread(&created_thread.id, patch_with_title("z").at(future_time), Expect::Any).await;
        expect_kind(refused, ErrorKind::Invalid)?;
    }
    expect_eq(given.thread(&created_thread.id).await?, twice_updated_thread)
}

/// An update is refused with `Conflict` if it expects another revision, or if it expects that the thread does not
/// exist.
pub(super) async fn a_stale_update_is_refused(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let created_thread = given.create_empty_thread("t").await?;
    let updated_thread = threads
        .update_thread(&created_thread.id, patch_with_title("x"), Expect::Version(created_thread.revision))
        .await?;
    let (number, generation) = (updated_thread.revision.number(), updated_thread.generation());
    let other_revisions = [number - 1, number + 1, 0, u64::MAX].map(|number| Version::new(number, generation, 0));
    let other_generations = [Version::new(number, generation + 1, 0), Version::new(number, generation, 1)];
    for stale in other_revisions.into_iter().chain(other_generations) {
        for patch in [patch_with_title("y"), ThreadPatch::default()] {
            let refused = threads.update_thread(&created_thread.id, patch, Expect::Version(stale)).await;
            expect_kind(refused, ErrorKind::Conflict)?;
        }
    }
    expect_kind(
        threads.update_thread(&created_thread.id, patch_with_title("y"), Expect::Absent).await,
        ErrorKind::Conflict,
    )?;
    expect_eq(given.thread(&created_thread.id).await?, updated_thread)
}

/// Of several concurrent updates that expect the same revision, exactly one succeeds. The others are refused with
/// `Conflict`.
pub(super) async fn one_of_several_concurrent_guarded_updates_succeeds(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let mut thread = given.create_empty_thread("t").await?;
    for round in 0..50 {
        let guard = Expect::Version(thread.revision);
        let update_results = run_concurrently(4, |at| {
            let (threads, patch) = (Arc::clone(&threads), patch_with_title(&format!("{round}-{at}")));
            async move { threads.update_thread(&id("t"), patch, guard).await }
        });
        let (succeeded, refused) = expect_exactly_one(update_results.await)?;
        expect_kinds(refused, ErrorKind::Conflict)?;
        expect_eq(succeeded.revision, thread.revision.plus(1))?;
        expect_eq(given.thread(&thread.id).await?, succeeded.clone())?;
        thread = succeeded;
    }
    Ok(())
}

/// If concurrent updates have no guard and name different metadata keys, all of them take effect. Each increases the
/// revision by one.
pub(super) async fn unguarded_updates_of_different_keys_all_take_effect(given: &Given) -> Verdict {
    let (threads, thread) = (given.threads()?, given.create_empty_thread("t").await?);
    let update_results = run_concurrently(8, |task| {
        let threads = Arc::clone(&threads);
        async move {
            for at in 0..20 {
                let patch = ThreadPatch::default().with_metadata(format!("{task}-{at}"), json("true"));
                threads.update_thread(&id("t"), patch, Expect::Any).await?;
            }
            Result::Ok(())
        }
    });
    update_results.await.into_iter().collect::<Result<Vec<_>>>()?;
    let after = given.thread(&thread.id).await?;
    expect_eq(after.metadata.len(), 160)?;
    expect_eq(after.revision, thread.revision.plus(160))
}

/// An update of an unknown thread is refused with `NotFound`, whatever it expects, and does not create the thread.
pub(super) async fn an_update_of_an_unknown_thread_is_refused(given: &Given) -> Verdict {
    let threads = given.threads()?;
    for expected in [Expect::Any, Expect::Absent, Expect::Version(Version::new(1, 1, 0))] {
        for patch in [ThreadPatch::default(), patch_with_title("x")] {
            expect_kind(threads.update_thread(&id("t"), patch, expected).await, ErrorKind::NotFound)?;
        }
    }
    expect_eq(threads.load_thread(&id("t")).await?, None)
}

/// No update makes the guard of a commit fail, and no commit makes the guard of an update fail.
pub(super) async fn updates_and_commits_do_not_affect_each_others_guards(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let thread = given.create_empty_thread("t").await?;
    threads.update_thread(&thread.id, patch_with_title("x"), Expect::Any).await?;
    let receipt = given.commit(commit_with_message(&thread.id, Expect::Version(thread.version), "a")).await?;
    let after = given.thread(&thread.id).await?;
    expect_eq((after.version, after.revision), (receipt.version, thread.revision.plus(1)))?;
    let guard = Expect::Version(thread.revision.plus(1));
    let updated_thread = threads.update_thread(&thread.id, patch_with_title("y"), guard).await?;
    expect_eq((updated_thread.version, updated_thread.head), (receipt.version, receipt.head))
}

/// Concurrent updates and commits of one thread all take effect. Each update increases the revision, and each commit
/// the version.
pub(super) async fn concurrent_updates_and_commits_all_take_effect(given: &Given) -> Verdict {
    let (threads, commits) = (given.threads()?, given.commits()?);
    let thread = given.create_empty_thread("t").await?;
    let write_results = run_concurrently(8, |task| {
        let (threads, commits): (Arc<dyn ThreadRunStore>, _) = (Arc::clone(&threads), Arc::clone(&commits));
        async move {
            for at in 0..15 {
                let (name, key): (ThreadId, _) = (id("t"), format!("{task}-{at}"));
                if task % 2 == 0 {
                    threads.update_thread(&name, patch_with_title(&key), Expect::Any).await?;
                } else {
                    let _receipt = commits.commit(crate::given::keyed_commit_with_message(&name, &key, "x")).await?;
                }
            }
            Result::Ok(())
        }
    });
    write_results.await.into_iter().collect::<Result<Vec<_>>>()?;
    let after = given.thread(&thread.id).await?;
    expect_eq((after.version, after.revision), (thread.version.plus(60), thread.revision.plus(60)))
}
