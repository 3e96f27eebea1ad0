//! Tenants see and touch nothing of each other.

use std::time::Duration;

use store_core::{
    ClaimNumber, ClaimRequest, ClaimToken, Commit, CommitCoordinator, ContextRequest, DeleteRequest, DispatchQuery,
    EntryQuery, ErrorKind, Expect, Fence, Interrupt, MailboxStore, NewDispatch, NewThread, PageRequest, Purge,
    RunChange, RunStatus, Settlement, Silent, StateChange, TenantId, ThreadFields, ThreadFilter, ThreadId, ThreadPatch,
    ThreadRunStore, Timestamp,
};

use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, said, say_keyed},
    probe::probes,
};

/// Names that are prefixes of each other, hold wildcards or separators, or differ in case or normalisation only.
pub(super) const TENANTS: [&str; 18] = [
    "acme",
    "acme-corp",
    "acm",
    "a",
    "a_",
    "a%",
    "%",
    "_",
    "*",
    ">",
    "a.b",
    "a/b",
    "..",
    "ACME",
    "é",
    "e\u{301}",
    "acme ",
    "default",
];

/// Each tenant, however its name resembles others, sees exactly its own records: by id and in every list; the same ids
/// in all of them do not meet.
pub(super) async fn tenants_see_only_their_own(given: &Given) -> Verdict {
    for probe in probes(given.contract()) {
        for (at, tenant) in TENANTS.iter().enumerate() {
            let own = vec![format!("own-{at:02}"), "same".to_owned()];
            probe.write_all(&given.tenant(tenant)?, &own).await?;
        }
        for (at, tenant) in TENANTS.iter().enumerate() {
            let stores = given.tenant(tenant)?;
            let wanted = vec![format!("own-{at:02}"), "same".to_owned()];
            expect_eq(probe.ids(&stores).await?, wanted).map_err(|f| f.about(format!("{tenant}: {}", probe.name())))?;
            for other in (0..TENANTS.len()).filter(|other| *other != at) {
                let found = probe.has(&stores, &format!("own-{other:02}")).await?;
                expect(!found, format!("{tenant} finds a record of {}", TENANTS[other]))?;
            }
        }
        for tenant in TENANTS {
            given.store().delete_tenant(&id(tenant)).await?;
        }
    }
    Ok(())
}

/// A handle that names no tenant is bound to `default`, and handles of one name reach the same records.
pub(super) async fn the_default_tenant_is_default(given: &Given) -> Verdict {
    expect_eq(TenantId::default_tenant().as_str(), "default")?;
    let probe = crate::probe::first(given.contract());
    probe.write(&given.stores()?, "x").await?;
    expect(probe.has(&given.tenant("default")?, "x").await?, "another handle does not find it")?;
    expect(!probe.has(&given.tenant("Default")?, "x").await?, "a tenant of another name finds it")
}

/// Writes everything that has an id in one tenant.
async fn fill(given: &Given, tenant: &str) -> Verdict {
    if let Some(commits) = given.tenant(tenant)?.commits {
        let mut fields = ThreadFields::default();
        fields.resource_id = Some(id("resource"));
        let run = RunChange::new(id("run"), RunStatus::Running).with_agent(id("agent"));
        let commit = Commit::new(id("thread")).expecting(Expect::Absent).with_key(id("key")).creating(fields);
        let commit = commit.entry(said("x").with_id(id("entry"))).with_run(run);
        let receipt = commits.commit(commit.with_state(StateChange::new().set("k", store_core::Json::null()))).await?;
        expect_eq((receipt.version.number(), receipt.deduplicated), (1, false))?;
    }
    let Some(mailbox) = given.tenant(tenant)?.mailbox else { return Ok(()) };
    let work = NewDispatch::new(id("thread"), id("run")).with_id(id("work")).with_dedupe_key(id("dedupe"));
    mailbox.enqueue(vec![work]).await?.into_iter().try_for_each(|answer| answer.map(drop))?;
    Ok(())
}

/// Nothing of a mailbox is reached from another tenant.
async fn no_dispatch_is_reached(mailbox: &dyn MailboxStore) -> Verdict {
    expect_eq(mailbox.load_dispatch(&id("work")).await?, None)?;
    expect_eq(mailbox.count_dispatches(None).await?.total(), 0)?;
    expect_eq(mailbox.list_dispatches(DispatchQuery::default()).await?.items.len(), 0)?;
    expect_eq(mailbox.list_ready_threads(PageRequest::default()).await?.items.len(), 0)?;
    let claim = ClaimRequest::new(id("w"), Duration::from_secs(1));
    expect_eq(mailbox.claim(claim.clone()).await?.claimed.len(), 0)?;
    expect_eq(mailbox.claim(claim.of_dispatch(id("work"))).await?.claimed.len(), 0)?;
    expect_kind(mailbox.cancel(&id("work")).await, ErrorKind::NotFound)?;
    expect_eq(mailbox.interrupt(Interrupt::new(id("thread"))).await?.superseded, 0)?;
    expect_eq(mailbox.purge(Purge::new(Timestamp::MAX)).await?.removed, 0)
}

/// Nothing of another tenant can be read, counted, changed or deleted: every call answers as if it did not exist.
pub(super) async fn nothing_of_another_tenant_is_reached(given: &Given) -> Verdict {
    fill(given, "acme").await?;
    let (own, foreign) = (given.tenant("acme")?, given.tenant("acme-corp")?);
    let thread: &ThreadId = &id("thread");
    if let (Some(foreign), Some(own)) = (&foreign.threads, &own.threads) {
        no_thread_is_reached(&**foreign, thread).await?;
        expect_eq(own.load_thread(thread).await?.map(|found| found.revision.number()), Some(1))?;
    }
    if let (Some(foreign), Some(own)) = (&foreign.mailbox, &own.mailbox) {
        no_dispatch_is_reached(&**foreign).await?;
        expect_eq(own.count_dispatches(None).await?.queued, 1)?;
        expect_eq(own.load_epoch(thread).await?, 0)?;
    }
    Ok(())
}

/// Nothing of a thread is reached from another tenant.
async fn no_thread_is_reached(threads: &dyn ThreadRunStore, thread: &ThreadId) -> Verdict {
    expect_eq(threads.load_thread(thread).await?, None)?;
    expect_eq(threads.count_threads(&ThreadFilter::default()).await?, 0)?;
    expect_eq(threads.load_entry(thread, &id("entry")).await?, None)?;
    expect_eq(threads.list_entries(thread, EntryQuery::all()).await?.items.len(), 0)?;
    expect_eq(threads.load_run(&id("run")).await?, None)?;
    expect_kind(threads.load_context(thread, ContextRequest::head()).await, ErrorKind::NotFound)?;
    let patch = ThreadPatch::default().with_title("x");
    expect_kind(threads.update_thread(thread, patch, Expect::Any).await, ErrorKind::NotFound)?;
    expect_kind(threads.delete_thread(thread, DeleteRequest::default()).await, ErrorKind::NotFound)?;
    let below = ThreadPatch::default().with_parent(Some(thread.clone()));
    threads.create_thread(NewThread::new(id("own"))).await?;
    expect_kind(threads.update_thread(&id("own"), below, Expect::Any).await, ErrorKind::NotFound)?;
    expect_kind(threads.validate_parent(&id("own"), thread).await, ErrorKind::NotFound).map(drop)
}

/// Two tenants may use the same ids, keys and claims for everything: what one does has no effect on the other.
pub(super) async fn the_same_ids_have_no_effect_on_each_other(given: &Given) -> Verdict {
    fill(given, "acme").await?;
    fill(given, "acme-corp").await?;
    let (one, two) = (given.tenant("acme")?, given.tenant("acme-corp")?);
    if let (Some(first), Some(second)) = (&one.commits, &two.commits) {
        threads_do_not_meet(&**first, &**second).await?;
    }
    if let (Some(first), Some(second)) = (&one.mailbox, &two.mailbox) {
        dispatches_do_not_meet(&**first, &**second).await?;
    }
    Ok(())
}

/// What becomes of a dispatch in one tenant leaves that of the other as it is.
async fn dispatches_do_not_meet(first: &dyn MailboxStore, second: &dyn MailboxStore) -> Verdict {
    let (work, before) = (id("work"), second.load_dispatch(&id("work")).await?);
    let claim = ClaimRequest::new(id("w"), Duration::from_secs(1)).of_dispatch(id("work"));
    let held = expect_some(first.claim(claim).await?.claimed.pop(), "dispatch")?;
    let ack = || vec![(held.claim(), Settlement::Ack { result: None })];
    expect_kind(second.settle(ack()).await?.remove(0), ErrorKind::ClaimLost)?;
    first.settle(ack()).await?.remove(0)?;
    expect_eq(first.purge(Purge::new(Timestamp::MAX)).await?.removed, 1)?;
    first.interrupt(Interrupt::new(id("thread"))).await?;
    let again = NewDispatch::new(id("thread"), id("run")).with_id(id("again")).with_dedupe_key(id("dedupe"));
    first.enqueue(vec![again.clone()]).await?.remove(0)?;
    expect_kind(second.enqueue(vec![again]).await?.remove(0), ErrorKind::AlreadyExists)?;
    expect_eq(second.load_dispatch(&work).await?, before)
}

/// What becomes of a thread in one tenant leaves that of the other as it is.
async fn threads_do_not_meet(first: &dyn CommitCoordinator, second: &dyn CommitCoordinator) -> Verdict {
    let (thread, fence) = (id::<ThreadId>("thread"), |counter| {
        Fence::new(id("dispatch"), ClaimToken::new("token"), 0, ClaimNumber { incarnation: 0, counter })
    });
    let _far = first.commit(say_keyed(&thread, "more", "x").fenced(fence(9))).await?;
    let near = second.commit(say_keyed(&thread, "more", "other").fenced(fence(3))).await?;
    expect_eq((near.version.number(), near.deduplicated), (2, false))?;
    first.threads().delete_thread(&thread, DeleteRequest::default()).await?;
    first.threads().purge_deleted(&Silent).await?;
    let kept = second.threads();
    expect_eq(kept.load_thread(&thread).await?.map(|found| found.version), Some(near.version))?;
    expect(kept.load_run(&id("run")).await?.is_some(), "the other tenant's run is gone")?;
    let again = second.commit(say_keyed(&thread, "more", "other")).await?;
    expect(again.deduplicated, "the other tenant's key is gone")
}
