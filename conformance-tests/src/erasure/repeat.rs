//! Erasures that are repeated, stopped, or run beside other calls.

use std::sync::atomic::{AtomicU64, Ordering};

use store_core::{ChildStrategy, DeleteRequest, EraseResource, Expect, IgnoreProgress, Progress};

use super::helpers::{ADA, ADA_TOO, BOB, by_admin, erase, erasure, expect_gone, plant};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq},
    given::{id, keyed_commit_with_message, run_two_concurrently},
};

/// A repetition finds nothing, and is no error. An unknown thread is none, either.
pub(super) async fn an_erasure_can_be_repeated(given: &Given) -> Verdict {
    plant(given, &[ADA]).await?;
    expect(erase(given, ADA.name).await?.entries > 0, "nothing was erased")?;
    for thread in [ADA.name, "unknown"] {
        expect_eq(erase(given, thread).await?, store_core::Erased::default())?;
    }
    let request = EraseResource::new(id("ada"), by_admin());
    let erased = erasure(given)?.erase_resource(request.clone(), &IgnoreProgress).await?;
    expect_eq((erased.threads.len(), erased.profile_values), (0, 1))?;
    let again = erasure(given)?.erase_resource(request, &IgnoreProgress).await?;
    expect_eq(again, store_core::Erased::default())
}

/// Of a thread that was deleted before, what the deletion left is erased: events, rows of the outbox, dispatches, and
/// entries of layers.
pub(super) async fn what_a_deletion_left_is_erased(given: &Given) -> Verdict {
    let stores = plant(given, &[ADA, BOB]).await?;
    let request = DeleteRequest { children: ChildStrategy::Cascade, expect: Expect::Any };
    given.threads()?.delete_thread(&id(ADA.name), request).await?;
    let erased = erase(given, ADA.name).await?;
    let dispatches = if stores.mailbox.is_some() { 4 } else { 0 };
    expect_eq((erased.threads.len(), erased.dispatches, erased.outbox_rows), (0, dispatches, 2))?;
    // Which runs the thread had is not known any more.
    expect_eq((erased.events, erased.documents, erased.profile_values), (3, 3, 1))
}

/// Stops after so many steps.
#[derive(Debug)]
struct After(AtomicU64);

impl Progress for After {
    fn advance(&self, _done: u64, _total: Option<u64>) -> bool {
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

/// A stopped erasure says so and has no audit record. A repetition ends it.
pub(super) async fn a_stopped_erasure_goes_on(given: &Given) -> Verdict {
    plant(given, &[ADA, ADA_TOO]).await?;
    let request = EraseResource::new(id("ada"), by_admin());
    let stopped = erasure(given)?.erase_resource(request.clone(), &After(AtomicU64::new(1))).await?;
    expect_eq((stopped.stopped, stopped.threads.len()), (true, 2))?;
    let audit = given.fixture().audit(&given.stores()?)?;
    let about = store_core::ResourceFilter::Exact(store_core::AuditResource::of(["resource", "ada"])?);
    let query = store_core::AuditQuery::new().about(about);
    expect_eq(audit.list_audit(query.clone()).await?.items.len(), 0)?;
    let rest = erasure(given)?.erase_resource(request, &IgnoreProgress).await?;
    expect_eq((rest.stopped, rest.threads.len()), (false, 2))?;
    expect_gone(given, &ADA).await?;
    expect_gone(given, &ADA_TOO).await?;
    expect_eq(audit.list_audit(query).await?.items.len(), 1)
}

/// After a reopen nothing of an erased thread is back.
pub(super) async fn an_erased_thread_stays_erased_after_a_reopen(given: &Given) -> Verdict {
    plant(given, &[ADA, ADA_TOO]).await?;
    let request = EraseResource::new(id("ada"), by_admin());
    erasure(given)?.erase_resource(request, &IgnoreProgress).await?;
    given.reopen().await?;
    expect_gone(given, &ADA).await?;
    expect_gone(given, &ADA_TOO).await
}

/// Space is reclaimed while others write, and nothing of them is lost.
pub(super) async fn space_is_reclaimed_beside_other_calls(given: &Given) -> Verdict {
    let stores = plant(given, &[ADA, BOB]).await?;
    let bob = super::ErasureSubject::read_everything(&stores, &[&BOB]).await?.matches(BOB.marker).count();
    erase(given, ADA.name).await?;
    given.create_empty_thread("t").await?;
    let commits = given.commits()?;
    let writes = async move {
        for number in 0..20 {
            let commit = keyed_commit_with_message(&id("t"), &format!("key-{number}"), &number.to_string());
            let _receipt = commits.commit(commit).await?;
        }
        Ok::<_, store_core::Error>(())
    };
    let store = given.store();
    let reclaim = async move { store.reclaim_space(&IgnoreProgress).await };
    let (reclaimed, written) = run_two_concurrently(reclaim, writes).await;
    expect_eq(reclaimed?.stopped, false)?;
    written?;
    expect_eq(given.thread(&id("t")).await?.version.number(), 20)?;
    expect_eq(given.read_log(&id("t")).await?.len(), 20)?;
    let after = super::ErasureSubject::read_everything(&stores, &[&BOB]).await?.matches(BOB.marker).count();
    expect_eq(after, bob)
}
