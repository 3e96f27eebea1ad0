//! Cases about dropped calls of a [`Store`], such as `delete_tenant`, `reclaim_space`, `repair` and `close`.

use store_core::{ErrorKind, IgnoreProgress, PageRequest, Progress, Store, TenantId};
use tokio::time::timeout;

use crate::{
    Contract, Failure, Given, Need, Verdict,
    call::{Calls, call},
    check::{expect, expect_eq, expect_kind},
    drop_points::{CALL_TIMEOUT, DropPointCounts, MAX_POLLS, poll_then_drop},
    given::id,
    record_list::first_record_list,
    test_length::TestLength,
};

/// Stops a call that does not know how long it takes: reclaiming the space of a mailbox may wait for minutes until
/// others let go of it. After three looks, a test has seen what such a call does.
#[derive(Debug)]
struct StopWaiting;

impl Progress for StopWaiting {
    fn advance(&self, done: u64, total: Option<u64>) -> bool {
        total.is_some() || done < 3
    }
}

/// The calls on a store, except `close`.
fn store_calls<'a>(store: &'a dyn Store, tenant: &'a TenantId) -> Calls<'a> {
    let mut calls = vec![
        ("list_tenants", call(store.list_tenants(PageRequest::default()))),
        ("sync", call(store.sync())),
        ("delete_tenant", call(store.delete_tenant(tenant))),
        ("reclaim_space", call(store.reclaim_space(&StopWaiting))),
    ];
    if let Some(inspector) = store.inspector() {
        calls.push(("verify", call(inspector.verify(&IgnoreProgress))));
        let dry_run = false;
        calls.push(("repair", call(inspector.repair(dry_run, &IgnoreProgress))));
    }
    calls
}

/// Drops the call at `index` in the list of [`store_calls`] after this number of polls, and makes it again. Returns
/// whether the first call ended before it was dropped.
async fn drop_and_repeat(given: &Given, index: usize, polls: usize) -> Result<bool, Failure> {
    let (store, records) = (given.store(), first_record_list(given.contract()));
    let tenant: TenantId = id(&format!("t-{index}-{polls}"));
    records.write(&given.tenant(tenant.as_str())?, "a").await?;
    let (name, first_call) = store_calls(&*store, &tenant).swap_remove(index);
    // A refusal counts as an end, because a store may not support `sync`.
    let has_ended = poll_then_drop(first_call, polls).await.map_or(true, |answer| answer.is_some());
    let (_, repeated_call) = store_calls(&*store, &tenant).swap_remove(index);
    let repeated_answer =
        timeout(CALL_TIMEOUT, repeated_call).await.map_err(|_| Failure::new("the repeated call hangs"))?;
    expect(repeated_answer.is_ok() || name == "sync", format!("the repeated call failed: {repeated_answer:?}"))?;
    let second_tenant = given.tenant(&format!("{tenant} beside"))?;
    let later_calls = async {
        let new_stores = given.tenant(tenant.as_str())?;
        expect_eq(records.has(&new_stores, "a").await?, name != "delete_tenant")?;
        expect(records.has(&given.tenant("other")?, "kept").await?, "data of another tenant is gone")?;
        records.write(&new_stores, "b").await?;
        records.write(&second_tenant, "c").await?;
        // The dropped call must not remove a record that was written after it.
        expect(records.has(&new_stores, "b").await?, "data written after the call is gone")
    };
    timeout(CALL_TIMEOUT, later_calls).await.map_err(|_| Failure::new("a lock is still held"))??;
    // Without this deletion, the data would grow with each round. `verify` and `repair` need more polls for more data.
    // So the number of polls after which they end would grow as well.
    for used_tenant in [tenant.clone(), id(&format!("{tenant} beside"))] {
        store.delete_tenant(&used_tenant).await?;
    }
    Ok(has_ended)
}

/// If a call on a store is dropped at any await, nothing stays locked. When the call is made again, it succeeds. If
/// the call is a deletion, it has then removed its tenant and changed no other tenant.
pub(super) async fn a_dropped_call_on_a_store_leaves_nothing_locked(given: &Given) -> Verdict {
    first_record_list(given.contract()).write(&given.tenant("other")?, "kept").await?;
    let (store, tenant, mut counts) = (given.store(), id("x"), DropPointCounts::default());
    let names: Vec<_> = store_calls(&*store, &tenant).into_iter().map(|(name, _)| name).collect();
    // This case runs for six contracts or more. In a quick test, it tries a sixth of the numbers of polls for each
    // contract, and all numbers for six contracts together.
    let share_count = TestLength::pick_by_env(6, 1, 1);
    let share = Contract::ALL.iter().rev().position(|contract| *contract == given.contract());
    let is_own_share =
        |polls: &usize| *polls == 0 || share.is_some_and(|share| polls % share_count == share % share_count);
    for (index, name) in names.iter().enumerate() {
        for (points, polls) in (0..=MAX_POLLS).filter(is_own_share).enumerate() {
            expect(polls < MAX_POLLS - share_count, format!("`{name}` does not return"))?;
            let about = |failure: Failure| failure.about(format!("`{name}` after {polls} polls"));
            if drop_and_repeat(given, index, polls).await.map_err(about)? {
                counts.add(name, points)?;
                break;
            }
        }
    }
    counts.print_and_check(given, names.len())
}

/// If a `close` is dropped at any await, the next `close` completes it: after that every call is refused, and
/// acknowledged data is kept.
pub(super) async fn a_dropped_close_is_finished_by_the_next_one(given: &Given) -> Verdict {
    let (records, mut counts) = (first_record_list(given.contract()), DropPointCounts::default());
    for polls in 0..MAX_POLLS {
        let given = given.open_another_store().await?;
        records.write(&given.stores()?, "a").await?;
        let store = given.store();
        let has_ended = poll_then_drop(call(store.close()), polls).await?.is_some();
        timeout(CALL_TIMEOUT, store.close()).await.map_err(|_| Failure::new("the next call does not return"))??;
        expect_kind(store.tenant(&id("default")), ErrorKind::Closed)?;
        drop(store);
        if given.fixture().why_unmet(Need::Reopen).is_none() {
            given.reopen().await?;
            expect(records.has(&given.stores()?, "a").await?, format!("the data is lost after {polls} polls"))?;
        }
        if has_ended {
            counts.add("close", polls)?;
            return counts.print_and_check(&given, 1);
        }
    }
    Err(Failure::new("`close` does not return"))
}
