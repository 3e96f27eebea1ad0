//! A tenant neither sees nor changes the records of another tenant.

use std::time::Duration;

use futures_util::future::try_join_all;
use store_core::{
    ClaimNumber, ClaimRequest, ClaimToken, Commit, CommitCoordinator, DeleteRequest, ErrorKind, Expect, Fence,
    IgnoreProgress, Interrupt, MailboxStore, NewDispatch, Purge, RunChange, RunStatus, Settlement, StateChange,
    TenantId, ThreadFields, ThreadId, Timestamp,
};

use super::similar_names::SIMILAR_TENANT_NAMES;
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, keyed_commit_with_message, message_entry},
    record_list::record_lists,
};

/// Each tenant sees exactly its own records in every list, however similar the names of the tenants are. Records with
/// equal ids in several tenants have no effect on each other.
pub(super) async fn tenants_see_only_their_own_records(given: &Given) -> Verdict {
    for records in &record_lists(given.contract()) {
        let own_ids = |at: usize| [format!("own-{at:02} {}", records.name()), format!("same {}", records.name())];
        let write = async |at: usize| records.write_all(&given.tenant(SIMILAR_TENANT_NAMES[at])?, &own_ids(at)).await;
        try_join_all((0..SIMILAR_TENANT_NAMES.len()).map(write)).await?;
        for (at, tenant) in SIMILAR_TENANT_NAMES.iter().enumerate() {
            let mut ids = records.ids(&given.tenant(tenant)?).await?;
            // This list may also contain the records that were written for another list.
            ids.retain(|id| id.ends_with(records.name()));
            expect_eq(ids, own_ids(at)).map_err(|f| f.about(format!("{tenant}: {}", records.name())))?;
        }
    }
    Ok(())
}

/// The default tenant has the name `default`. All handles with the same name reach the same records.
pub(super) async fn the_default_tenant_is_named_default(given: &Given) -> Verdict {
    expect_eq(TenantId::default_tenant().as_str(), "default")?;
    let records = crate::record_list::first_record_list(given.contract());
    records.write(&given.stores()?, "x").await?;
    expect(records.has(&given.tenant("default")?, "x").await?, "another handle does not find the record")?;
    expect(!records.has(&given.tenant("Default")?, "x").await?, "a tenant with another name finds the record")
}

/// Writes a record of each type that has an id, with the same ids in every tenant.
async fn write_record_of_each_type(given: &Given, tenant: &str) -> Verdict {
    if let Some(commits) = given.tenant(tenant)?.commits {
        let mut fields = ThreadFields::default();
        fields.resource_id = Some(id("resource"));
        let run = RunChange::new(id("run"), RunStatus::Running).with_agent(id("agent"));
        let commit = Commit::new(id("thread")).expecting(Expect::Absent).with_key(id("key")).creating(fields);
        let commit = commit.entry(message_entry("x").with_id(id("entry"))).with_run(run);
        let receipt = commits.commit(commit.with_state(StateChange::new().set("k", store_core::Json::null()))).await?;
        expect_eq((receipt.version.number(), receipt.deduplicated), (1, false))?;
    }
    let Some(mailbox) = given.tenant(tenant)?.mailbox else { return Ok(()) };
    let work = NewDispatch::new(id("thread"), id("run")).with_id(id("work")).with_dedupe_key(id("dedupe"));
    mailbox.enqueue(vec![work]).await?.into_iter().try_for_each(|answer| answer.map(drop))?;
    Ok(())
}

/// Two tenants may use the same ids, keys and claims for all records. The calls of one tenant have no effect on the
/// records of the other.
pub(super) async fn equal_ids_in_two_tenants_are_independent(given: &Given) -> Verdict {
    write_record_of_each_type(given, "acme").await?;
    write_record_of_each_type(given, "acme-corp").await?;
    let (first_tenant, second_tenant) = (given.tenant("acme")?, given.tenant("acme-corp")?);
    if let (Some(first), Some(second)) = (&first_tenant.commits, &second_tenant.commits) {
        check_threads_are_separate(&**first, &**second).await?;
    }
    if let (Some(first), Some(second)) = (&first_tenant.mailbox, &second_tenant.mailbox) {
        check_dispatches_are_separate(&**first, &**second).await?;
    }
    Ok(())
}

/// Checks that changes to a dispatch of one tenant do not change the dispatch with the same id in the other tenant.
async fn check_dispatches_are_separate(first: &dyn MailboxStore, second: &dyn MailboxStore) -> Verdict {
    let (dispatch_id, before) = (id("work"), second.load_dispatch(&id("work")).await?);
    let claim = ClaimRequest::new(id("w"), Duration::from_secs(1)).of_dispatch(id("work"));
    let claimed = expect_some(first.claim(claim).await?.claimed.pop(), "dispatch")?;
    let ack = || vec![(claimed.claim(), Settlement::Ack { result: None })];
    expect_kind(second.settle(ack()).await?.remove(0), ErrorKind::ClaimLost)?;
    first.settle(ack()).await?.remove(0)?;
    expect_eq(first.purge(Purge::new(Timestamp::MAX)).await?.removed, 1)?;
    first.interrupt(Interrupt::new(id("thread"))).await?;
    let dispatch_with_same_key =
        NewDispatch::new(id("thread"), id("run")).with_id(id("again")).with_dedupe_key(id("dedupe"));
    first.enqueue(vec![dispatch_with_same_key.clone()]).await?.remove(0)?;
    expect_kind(second.enqueue(vec![dispatch_with_same_key]).await?.remove(0), ErrorKind::AlreadyExists)?;
    expect_eq(second.load_dispatch(&dispatch_id).await?, before)
}

/// Checks that changes to a thread of one tenant do not change the thread with the same id in the other tenant.
async fn check_threads_are_separate(first: &dyn CommitCoordinator, second: &dyn CommitCoordinator) -> Verdict {
    let (thread, fence) = (id::<ThreadId>("thread"), |counter| {
        Fence::new(id("dispatch"), ClaimToken::new("token"), 0, ClaimNumber { incarnation: 0, counter })
    });
    let _receipt = first.commit(keyed_commit_with_message(&thread, "more", "x").fenced(fence(9))).await?;
    let receipt = second.commit(keyed_commit_with_message(&thread, "more", "other").fenced(fence(3))).await?;
    expect_eq((receipt.version.number(), receipt.deduplicated), (2, false))?;
    first.threads().delete_thread(&thread, DeleteRequest::default()).await?;
    first.threads().purge_deleted(&IgnoreProgress).await?;
    let threads = second.threads();
    expect_eq(threads.load_thread(&thread).await?.map(|found| found.version), Some(receipt.version))?;
    expect(threads.load_run(&id("run")).await?.is_some(), "the other tenant's run is gone")?;
    let repeat_receipt = second.commit(keyed_commit_with_message(&thread, "more", "other")).await?;
    expect(repeat_receipt.deduplicated, "the other tenant's key is gone")
}
