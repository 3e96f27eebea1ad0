//! Parents of threads: a parent must exist, and no thread is its own ancestor.

use std::sync::Arc;

use store_core::{
    ChildStrategy, Commit, DeleteRequest, Detail, ErrorKind, Expect, NewThread, ParentFilter, Result, ThreadFields,
    ThreadFilter, ThreadId, ThreadPatch,
};

use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_exactly_one, expect_kind},
    given::{id, message_entry, run_two_concurrently},
};

fn fields_with_parent(parent: &str) -> ThreadFields {
    let mut fields = ThreadFields::default();
    fields.parent_thread_id = Some(id(parent));
    fields
}

fn new_child(name: &str, parent: &str) -> NewThread {
    NewThread::new(id(name)).with_fields(fields_with_parent(parent))
}

fn patch_with_parent(parent: &str) -> ThreadPatch {
    ThreadPatch::default().with_parent(Some(id(parent)))
}

/// Creates `length` threads: `t-0`, its child `t-1`, the child `t-2` of that child, and so on.
async fn create_nested_threads(given: &Given, length: usize) -> Result<(), Failure> {
    given.create_empty_thread("t-0").await?;
    for at in 1..length {
        given.threads()?.create_thread(new_child(&format!("t-{at}"), &format!("t-{}", at - 1))).await?;
    }
    Ok(())
}

/// Checks that an error is `NotFound` and names this parent.
fn expect_names_parent(error: &store_core::Error, parent: &str) -> Verdict {
    match error.detail() {
        Detail::NotFound { what } => expect_eq(what.id.as_str(), parent),
        other => Err(Failure::new(format!("found {other:?}, wanted `NotFound`"))),
    }
}

/// If the parent of a thread does not exist, a creation, an update, and a commit that creates the thread are refused
/// with `NotFound`. The error names the parent, and nothing is created.
pub(super) async fn a_parent_must_exist(given: &Given) -> Verdict {
    let (threads, commits) = (given.threads()?, given.commits()?);
    let thread = given.create_empty_thread("t").await?;
    expect_names_parent(
        &expect_kind(threads.create_thread(new_child("c", "unknown")).await, ErrorKind::NotFound)?,
        "unknown",
    )?;
    let refused_update = threads.update_thread(&thread.id, patch_with_parent("unknown"), Expect::Any).await;
    expect_names_parent(&expect_kind(refused_update, ErrorKind::NotFound)?, "unknown")?;
    let commit = || Commit::new(id("c")).expecting(Expect::Absent).entry(message_entry("x"));
    let refused = commits.commit(commit().creating(fields_with_parent("unknown"))).await;
    expect_names_parent(&expect_kind(refused, ErrorKind::NotFound)?, "unknown")?;
    expect_eq(threads.load_thread(&id("c")).await?, None)?;
    expect_eq(given.thread(&thread.id).await?, thread)?;
    given.expect_accepted(commit().creating(fields_with_parent("t"))).await?;
    expect_eq(given.thread(&id("c")).await?.parent_thread_id, Some(id("t")))
}

/// If the thread of a commit already exists, the commit ignores the parent in `create`, even if that parent does not
/// exist.
pub(super) async fn a_commit_to_an_existing_thread_ignores_the_given_parent(given: &Given) -> Verdict {
    let thread = given.create_empty_thread("t").await?;
    let commit = Commit::new(id("t")).expecting(Expect::Version(thread.version)).entry(message_entry("x"));
    given.expect_accepted(commit.creating(fields_with_parent("unknown"))).await?;
    expect_eq(given.thread(&thread.id).await?.parent_thread_id, None)
}

/// A parent that would make a thread its own ancestor, directly or through other threads, is refused with `Invalid`.
pub(super) async fn a_thread_is_never_its_own_ancestor(given: &Given) -> Verdict {
    let (threads, commits) = (given.threads()?, given.commits()?);
    create_nested_threads(given, 40).await?;
    for new_parent in ["t-0", "t-1", "t-2", "t-39"] {
        let refused = threads.update_thread(&id("t-0"), patch_with_parent(new_parent), Expect::Any).await;
        expect_kind(refused, ErrorKind::Invalid)?;
    }
    expect_kind(threads.create_thread(new_child("s", "s")).await, ErrorKind::Invalid)?;
    let commit_with_itself_as_parent =
        Commit::new(id("s")).expecting(Expect::Absent).entry(message_entry("x")).creating(fields_with_parent("s"));
    expect_kind(commits.commit(commit_with_itself_as_parent).await, ErrorKind::Invalid)?;
    expect_eq(given.thread(&id("t-0")).await?.parent_thread_id, None)?;
    expect_eq(threads.load_thread(&id("s")).await?, None)?;
    let updated_thread = threads.update_thread(&id("t-39"), patch_with_parent("t-0"), Expect::Any).await?;
    expect_eq(updated_thread.parent_thread_id, Some(id("t-0")))
}

/// Of two concurrent updates that together would create a cycle, exactly one succeeds.
pub(super) async fn two_concurrent_updates_create_no_cycle(given: &Given) -> Verdict {
    let threads = given.threads()?;
    for round in 0..40 {
        let (a, b) = (format!("a-{round}"), format!("b-{round}"));
        given.create_empty_thread(&a).await?;
        given.create_empty_thread(&b).await?;
        let update = |child: &str, parent: &str| {
            let (threads, child, patch) = (Arc::clone(&threads), id::<ThreadId>(child), patch_with_parent(parent));
            async move { threads.update_thread(&child, patch, Expect::Any).await }
        };
        let (first_result, second_result) = run_two_concurrently(update(&a, &b), update(&b, &a)).await;
        let (_updated, refused) = expect_exactly_one(vec![first_result, second_result])?;
        for error in refused {
            expect_kind::<()>(Err(error), ErrorKind::Invalid)?;
        }
        let parents =
            [given.thread(&id(&a)).await?, given.thread(&id(&b)).await?].map(|t| t.parent_thread_id.is_some());
        expect(parents[0] != parents[1], "both threads or neither have a parent")?;
    }
    Ok(())
}

/// Of three concurrent updates that together would create a longer cycle, exactly one is refused.
pub(super) async fn three_concurrent_updates_create_no_cycle(given: &Given) -> Verdict {
    let threads = given.threads()?;
    for round in 0..20 {
        let name = |at: usize| format!("t-{round}-{}", at % 3);
        for at in 0..3 {
            given.create_empty_thread(&name(at)).await?;
        }
        let results = crate::given::run_concurrently(3, |at| {
            let (threads, child, patch) =
                (Arc::clone(&threads), id::<ThreadId>(&name(at)), patch_with_parent(&name(at + 1)));
            async move { threads.update_thread(&child, patch, Expect::Any).await }
        });
        let refused: Vec<_> = results.await.into_iter().filter_map(Result::err).collect();
        expect_eq(refused.len(), 1)?;
        crate::check::expect_kinds(refused, ErrorKind::Invalid)?;
    }
    Ok(())
}

/// If a child is created while its parent is deleted, one of three things happens: the child has a parent that exists,
/// its creation is refused with `NotFound`, or the deletion treats it like the other children.
pub(super) async fn a_child_created_during_a_deletion_is_never_orphaned(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let strategies = [ChildStrategy::Detach, ChildStrategy::Cascade, ChildStrategy::Reject];
    for round in 0..60 {
        let (parent, name) = (format!("p-{round}"), format!("c-{round}"));
        given.create_empty_thread(&parent).await?;
        let request = DeleteRequest { children: strategies[round % 3], ..DeleteRequest::default() };
        let (child_draft, parent_id) = (new_child(&name, &parent), id::<ThreadId>(&parent));
        let (first_handle, second_handle) = (Arc::clone(&threads), Arc::clone(&threads));
        let creation = async move { first_handle.create_thread(child_draft).await };
        let deletion = async move { second_handle.delete_thread(&parent_id, request).await };
        let (creation_result, deletion_result) = run_two_concurrently(creation, deletion).await;
        let child = threads.load_thread(&id(&name)).await?;
        let parent_exists = threads.load_thread(&id(&parent)).await?.is_some();
        expect_eq(parent_exists, deletion_result.is_err())?;
        let parent_of_child = child.as_ref().and_then(|thread| thread.parent_thread_id.clone());
        expect(parent_of_child.is_none() || parent_exists, "a child has a parent that does not exist")?;
        match creation_result {
            Err(error) => drop(expect_kind::<()>(Err(error), ErrorKind::NotFound)?),
            Ok(_) => expect(child.is_some() || request.children == ChildStrategy::Cascade, "a child is lost")?,
        }
    }
    Ok(())
}

/// If an update removes the parent of a thread while that parent is deleted with `Cascade`, one of two things happens:
/// the update takes effect first and the thread stays, or the thread is deleted and the update is refused with
/// `NotFound`.
pub(super) async fn a_detached_child_is_not_deleted_with_its_parent(given: &Given) -> Verdict {
    let threads = given.threads()?;
    for round in 0..60 {
        let (parent, name) = (format!("p-{round}"), format!("c-{round}"));
        given.create_empty_thread(&parent).await?;
        threads.create_thread(new_child(&name, &parent)).await?;
        let request = DeleteRequest { children: ChildStrategy::Cascade, ..DeleteRequest::default() };
        let (child_id, parent_id) = (id::<ThreadId>(&name), id::<ThreadId>(&parent));
        let (first_handle, second_handle) = (Arc::clone(&threads), Arc::clone(&threads));
        let without_parent = ThreadPatch::default().with_parent(None);
        let detachment = async move { first_handle.update_thread(&child_id, without_parent, Expect::Any).await };
        let deletion = async move { second_handle.delete_thread(&parent_id, request).await };
        let (detachment_result, deletion_result) = run_two_concurrently(detachment, deletion).await;
        deletion_result?;
        let child_exists = threads.load_thread(&id(&name)).await?.is_some();
        match detachment_result {
            Ok(_) => expect(child_exists, "a detached child was deleted with its parent")?,
            Err(error) => {
                expect_kind::<()>(Err(error), ErrorKind::NotFound)?;
                expect(!child_exists, "a child remains, but could not be detached")?;
            }
        }
    }
    Ok(())
}

/// `validate_parent` returns the same error as an update would, or none, and changes nothing.
pub(super) async fn validate_parent_answers_as_an_update_would(given: &Given) -> Verdict {
    let threads = given.threads()?;
    create_nested_threads(given, 4).await?;
    let names = ["t-0", "t-1", "t-2", "t-3", "unknown"];
    for (thread, parent) in names.iter().flat_map(|a| names.map(|b| (*a, b))) {
        let before = threads.load_thread(&id(thread)).await?;
        let validation_result = threads.validate_parent(&id(thread), &id(parent)).await;
        expect_eq(threads.load_thread(&id(thread)).await?, before.clone())?;
        let update_result = threads.update_thread(&id(thread), patch_with_parent(parent), Expect::Any).await;
        let validation_error = validation_result.as_ref().err().map(store_core::Error::kind);
        let update_error = update_result.as_ref().err().map(store_core::Error::kind);
        expect_eq(validation_error, update_error)
            .map_err(|failure| failure.about(format!("{thread} below {parent}")))?;
        if let (Ok(_), Some(before)) = (update_result, before) {
            let restored_parent = ThreadPatch::default().with_parent(before.parent_thread_id);
            threads.update_thread(&id(thread), restored_parent, Expect::Any).await?;
        }
    }
    Ok(())
}

/// The filter `parent: Root` finds the threads without a parent. The filter `parent: Of` finds the children of a
/// thread, but not the children of these children.
pub(super) async fn children_are_listed_without_grandchildren(given: &Given) -> Verdict {
    create_nested_threads(given, 3).await?;
    given.threads()?.create_thread(new_child("other", "t-0")).await?;
    given.create_empty_thread("alone").await?;
    for (parent, wanted) in [
        (ParentFilter::Root, vec!["alone", "t-0"]),
        (ParentFilter::Of(id("t-0")), vec!["other", "t-1"]),
        (ParentFilter::Of(id("t-1")), vec!["t-2"]),
        (ParentFilter::Of(id("t-2")), vec![]),
        (ParentFilter::Of(id("unknown")), vec![]),
    ] {
        let mut filter = ThreadFilter::default();
        filter.parent = Some(parent);
        expect_eq(super::list::matching_ids(given, filter).await?, wanted)?;
    }
    Ok(())
}
