//! Cases about concurrent calls on a mailbox.

use std::{collections::BTreeSet, sync::Arc};

use store_core::{ClaimRequest, ErrorKind, MailboxStore, NewDispatch, Purge, Timestamp};

use super::helpers::{
    LEASE, ack, claim_request, counts_in_status_order, enqueue_all, expect_counts_in_status_order, keyed_dispatch,
    mailbox, new_dispatch,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_exactly_one, expect_kinds},
    given::{id, run_concurrently},
};

/// Of several concurrent enqueues with the same dedupe key, exactly one is accepted.
pub(super) async fn one_of_several_enqueues_with_the_same_key_is_accepted(given: &Given) -> Verdict {
    for round in 0..20 {
        let store = mailbox(given)?;
        let results = run_concurrently(8, |task| {
            let (store, key) = (Arc::clone(&store), format!("k{round}"));
            async move { store.enqueue(vec![keyed_dispatch("t", &format!("{key}-{task}"), &key)]).await?.remove(0) }
        });
        let (_, refused) = expect_exactly_one(results.await)?;
        expect_kinds(refused, ErrorKind::AlreadyExists)?;
    }
    expect_counts_in_status_order(given, [20, 0, 0, 0, 0, 0]).await
}

/// All concurrent enqueues take effect, and each caller gets the answers to its own dispatches.
pub(super) async fn concurrent_enqueues_all_take_effect(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    let results = run_concurrently(8, |task| {
        let store = Arc::clone(&store);
        async move {
            let drafts: Vec<NewDispatch> = (0..25).map(|at| new_dispatch("t", &format!("{task}-{at}"))).collect();
            let answers = store.enqueue(drafts).await?.into_iter().collect::<store_core::Result<Vec<_>>>()?;
            let has_own_answers =
                answers.iter().enumerate().all(|(at, answer)| answer.id.as_str() == format!("{task}-{at}"));
            Ok::<_, store_core::Error>((
                has_own_answers,
                answers.into_iter().map(|answer| answer.number).collect::<Vec<_>>(),
            ))
        }
    })
    .await;
    let mut numbers = BTreeSet::new();
    for result in results {
        let (has_own_answers, numbers_of_call) = result?;
        expect(has_own_answers && numbers_of_call.is_sorted(), "a call got the answers of another call")?;
        numbers.extend(numbers_of_call);
    }
    expect_eq(numbers.len(), 200)?;
    expect_counts_in_status_order(given, [200, 0, 0, 0, 0, 0]).await
}

/// Each finished dispatch is removed and counted by exactly one of several concurrent purges. Dispatches that are
/// enqueued at the same time are not removed.
pub(super) async fn concurrent_purges_remove_each_dispatch_once(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    for round in 0..20 {
        let names: Vec<_> = (0..10).map(|at| format!("{round}-{at}")).collect();
        enqueue_all(given, names.iter().map(|name| new_dispatch("t", name))).await?;
        for name in &names {
            store.cancel(&id(name)).await?;
        }
        let results = run_concurrently(4, |task| {
            let (store, queued) = (Arc::clone(&store), new_dispatch("t", &format!("{round}-by-{task}")));
            async move {
                store.enqueue(vec![queued]).await?.remove(0)?;
                store.purge(Purge::new(Timestamp::MAX)).await
            }
        });
        let removed =
            results.await.into_iter().map(|purged| purged.map(|purged| purged.removed)).sum::<Result<u64, _>>()?;
        expect_eq(removed, 10)?;
        expect_counts_in_status_order(given, [4 * (round + 1), 0, 0, 0, 0, 0]).await?;
    }
    Ok(())
}

/// Claims and acknowledges dispatches until none is left, and returns their ids. Fails if a second claim of a thread
/// succeeds while the thread has a claim.
async fn process_all(store: Arc<dyn MailboxStore>, worker: usize) -> Result<Vec<String>, Failure> {
    let mut acked_ids = Vec::new();
    let claim_request = || ClaimRequest::new(id(&format!("w{worker}")), LEASE).up_to(2);
    loop {
        let claims = store.claim(claim_request()).await?.claimed;
        let has_queued = store.count_dispatches(None).await?.queued > 0;
        if claims.is_empty() && !has_queued {
            return Ok(acked_ids);
        }
        for claimed in claims {
            tokio::task::yield_now().await;
            let other = store.claim(claim_request().of_thread(claimed.dispatch.thread.clone())).await?;
            expect_eq(other.claimed.len(), 0)?;
            let settled = store.settle(vec![(claimed.claim(), ack())]).await?.remove(0)?;
            acked_ids.push(settled.dispatch.to_string());
        }
        tokio::task::yield_now().await;
    }
}

/// If several workers claim concurrently, each dispatch is returned to exactly one of them, and no thread has two
/// claims at the same time.
pub(super) async fn a_dispatch_goes_to_one_claimant(given: &Given) -> Verdict {
    let drafts: Vec<_> = (0..120).map(|at| new_dispatch(&format!("t{}", at % 10), &format!("d{at}"))).collect();
    enqueue_all(given, drafts).await?;
    let store = mailbox(given)?;
    let results = run_concurrently(8, |worker| process_all(Arc::clone(&store), worker)).await;
    let mut acked_ids = results.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    expect_eq(acked_ids.len(), 120)?;
    acked_ids.sort();
    acked_ids.dedup();
    expect_eq(acked_ids.len(), 120)?;
    expect_eq(counts_in_status_order(&store.count_dispatches(None).await?), [0, 0, 120, 0, 0, 0])
}

/// If several claims run at the same time after a lease has expired, exactly one of them returns the dispatch.
pub(super) async fn one_of_several_claims_gets_a_dispatch_after_its_lease(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a").with_max_attempts(100)]).await?;
    let store = mailbox(given)?;
    for round in 0..20 {
        let results = run_concurrently(8, |_| {
            let store = Arc::clone(&store);
            async move { store.claim(claim_request()).await.map(|claims| claims.claimed.len()) }
        });
        let claimed_count: usize = results.await.into_iter().collect::<store_core::Result<Vec<_>>>()?.into_iter().sum();
        expect_eq(claimed_count, 1)?;
        expect_eq(super::helpers::load_dispatch(given, "a").await?.attempts, round)?;
        given.advance(LEASE).await;
    }
    Ok(())
}
