//! Dropped calls on a store, as opposed to calls on the records of a tenant.

use store_core::{ErrorKind, PageRequest, Silent, Store, TenantId};
use tokio::time::timeout;

use crate::{
    Contract, Failure, Given, Need, Verdict,
    call::{Calls, call},
    check::{expect, expect_eq, expect_kind},
    given::id,
    length::Length,
    probe::first_probe,
    sweep::{CALL_TIMEOUT, DropPointCounts, MAX_POLLS, poll_then_drop},
};

/// The calls on a store, except `close`.
fn calls<'a>(store: &'a dyn Store, tenant: &'a TenantId) -> Calls<'a> {
    let mut calls = vec![
        ("list_tenants", call(store.list_tenants(PageRequest::default()))),
        ("sync", call(store.sync())),
        ("delete_tenant", call(store.delete_tenant(tenant))),
    ];
    if let Some(inspector) = store.inspector() {
        calls.push(("verify", call(inspector.verify(&Silent))));
        calls.push(("repair", call(inspector.repair(false, &Silent))));
    }
    calls
}

/// Drops the call number `at` after this number of polls, and makes it again. Returns whether it ended before it was
/// dropped.
async fn drop_and_repeat(given: &Given, at: usize, polls: usize) -> Result<bool, Failure> {
    let (store, probe) = (given.store(), first_probe(given.contract()));
    let tenant: TenantId = id(&format!("t-{at}-{polls}"));
    probe.write(&given.tenant(tenant.as_str())?, "a").await?;
    let (name, dropped) = calls(&*store, &tenant).swap_remove(at);
    // A refusal counts as an end, because a store may not support `sync`.
    let ended = poll_then_drop(dropped, polls).await.map_or(true, |ended| ended.is_some());
    let (_, again) = calls(&*store, &tenant).swap_remove(at);
    let again = timeout(CALL_TIMEOUT, again).await.map_err(|_| Failure::new("the repeated call hangs"))?;
    expect(again.is_ok() || name == "sync", format!("the repeated call failed: {again:?}"))?;
    let beside = given.tenant(&format!("{tenant} beside"))?;
    let next = async {
        let new = given.tenant(tenant.as_str())?;
        expect_eq(probe.has(&new, "a").await?, name != "delete_tenant")?;
        expect(probe.has(&given.tenant("other")?, "kept").await?, "data of another tenant is gone")?;
        probe.write(&new, "b").await?;
        probe.write(&beside, "c").await?;
        // The dropped call must not remove a record that was written after it.
        expect(probe.has(&new, "b").await?, "data written after the call is gone")
    };
    timeout(CALL_TIMEOUT, next).await.map_err(|_| Failure::new("a lock is still held"))??;
    // The next round must begin with the same data as this one, because a check polls more often if there is more data.
    for done in [tenant.clone(), id(&format!("{tenant} beside"))] {
        store.delete_tenant(&done).await?;
    }
    Ok(ended)
}

/// A call on a store that is dropped at any await leaves nothing locked. When the call is made again, it succeeds. A
/// deletion has then removed its tenant and changed no other tenant.
pub(super) async fn a_dropped_call_on_a_store_leaves_nothing_locked(given: &Given) -> Verdict {
    first_probe(given.contract()).write(&given.tenant("other")?, "kept").await?;
    let (store, tenant, mut figures) = (given.store(), id("x"), DropPointCounts::default());
    let names: Vec<_> = calls(&*store, &tenant).into_iter().map(|(name, _)| name).collect();
    // This case runs for six contracts. Each of them tries a sixth of the numbers of polls in quick tests.
    let share_count = Length::choose(6, 1, 1);
    let share = Contract::ALL.iter().rev().position(|contract| *contract == given.contract());
    let is_own_share =
        |polls: &usize| *polls == 0 || share.is_some_and(|share| polls % share_count == share % share_count);
    for (at, name) in names.iter().enumerate() {
        for (points, polls) in (0..=MAX_POLLS).filter(is_own_share).enumerate() {
            expect(polls < MAX_POLLS - share_count, format!("`{name}` does not return"))?;
            let about = |failure: Failure| failure.about(format!("`{name}` after {polls} polls"));
            if drop_and_repeat(given, at, polls).await.map_err(about)? {
                figures.add(name, points)?;
                break;
            }
        }
    }
    figures.print_and_check(given, names.len())
}

/// If a `close` is dropped at any await, the next `close` completes it: after that every call is refused, and
/// acknowledged data is kept.
pub(super) async fn a_dropped_close_is_finished_by_the_next_one(given: &Given) -> Verdict {
    let (probe, mut figures) = (first_probe(given.contract()), DropPointCounts::default());
    for polls in 0..MAX_POLLS {
        let given = given.open_another_store().await?;
        probe.write(&given.stores()?, "a").await?;
        let store = given.store();
        let ended = poll_then_drop(call(store.close()), polls).await?.is_some();
        timeout(CALL_TIMEOUT, store.close()).await.map_err(|_| Failure::new("the next call does not return"))??;
        expect_kind(store.tenant(&id("default")), ErrorKind::Closed)?;
        drop(store);
        if given.fixture().lack(Need::Reopen).is_none() {
            given.reopen().await?;
            expect(probe.has(&given.stores()?, "a").await?, format!("the data is lost after {polls} polls"))?;
        }
        if ended {
            figures.add("close", polls)?;
            return figures.print_and_check(&given, 1);
        }
    }
    Err(Failure::new("`close` does not return"))
}
