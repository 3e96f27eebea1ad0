//! Concurrent calls on a queue.

use std::{
    sync::Arc,
    task::{Context, Waker},
};

use store_core::{AppendPending, ErrorKind, Message, PendingUpdate};

use super::helpers::{ThreadQueue, input};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_exactly_one, expect_kind},
    given::{id, run_concurrently, run_two_concurrently},
};

/// All concurrent appends take effect, and the inputs of each caller are in the order in which it appended them.
pub(super) async fn concurrent_appends_lose_nothing(given: &Given) -> Verdict {
    let store = ThreadQueue::of(given, "t").store()?;
    let results = run_concurrently(8, |task| {
        let store = Arc::clone(&store);
        async move {
            for at in 0..25 {
                let pair = [input(&format!("{task} {at} 0")), input(&format!("{task} {at} 1"))];
                store.append_pending(AppendPending::new(id("t"), pair)).await?;
            }
            Ok::<_, store_core::Error>(())
        }
    });
    results.await.into_iter().collect::<store_core::Result<Vec<()>>>()?;
    let queue = ThreadQueue::of(given, "t").load().await?;
    expect_eq((queue.inputs.len(), queue.revision), (400, 200))?;
    for pair in queue.inputs.chunks(2) {
        expect_eq(pair[0].revision, pair[1].revision)?;
    }
    for task in 0..8 {
        let prefix = format!("{task} ");
        let own_inputs: Vec<_> = queue.inputs.iter().filter(|input| input.id.as_str().starts_with(&prefix)).collect();
        let wanted: Vec<_> = (0..25).flat_map(|at| [format!("{task} {at} 0"), format!("{task} {at} 1")]).collect();
        expect_eq(own_inputs.iter().map(|input| input.id.to_string()).collect::<Vec<_>>(), wanted)?;
    }
    Ok(())
}

/// Of several concurrent commits that consume the same input, exactly one succeeds.
pub(super) async fn an_input_is_consumed_once(given: &Given) -> Verdict {
    for round in 0..10 {
        let name = format!("t-{round}");
        let queue = ThreadQueue::with_inputs(given, &name, &["a", "b"]).await?;
        let (input, commits) = (queue.input_ref("a").await?, given.commits()?);
        let results = run_concurrently(6, |task| {
            let (commits, input) = (Arc::clone(&commits), input.clone());
            let commit = store_core::Commit::new(id(&name)).with_key(id(&format!("k-{task}"))).consuming([input]);
            async move { commits.commit(commit).await }
        });
        let (_, refused) = expect_exactly_one(results.await)?;
        for error in refused {
            expect_kind::<()>(Err(error), ErrorKind::AlreadyConsumed)?;
        }
        expect_eq(given.read_log(&id(&name)).await?.len(), 1)?;
        queue.expect_inputs("b").await?;
    }
    Ok(())
}

/// If an update or a retraction of an input races with a commit that consumes it, exactly one of the two succeeds.
pub(super) async fn an_update_and_a_consumption_exclude_each_other(given: &Given) -> Verdict {
    for round in 0..20 {
        let name = format!("t-{round}");
        let queue = ThreadQueue::with_inputs(given, &name, &["a"]).await?;
        let (input, commits, store) = (queue.input_ref("a").await?, given.commits()?, queue.store()?);
        let thread: store_core::ThreadId = id(&name);
        let commit = store_core::Commit::new(thread.clone()).with_key(id("k")).consuming([input]);
        let update = PendingUpdate::new(thread.clone(), id("a")).with_message(Message::user("new"));
        let (consume_result, change_result) =
            run_two_concurrently(async move { commits.commit(commit).await.map(drop) }, async move {
                if round % 2 == 0 {
                    store.update_pending(update).await.map(drop)
                } else {
                    store.retract_pending(&thread, &id("a")).await.map(drop)
                }
            })
            .await;
        expect(
            consume_result.is_ok() != change_result.is_ok(),
            format!("not exactly one succeeded: {consume_result:?}, {change_result:?}"),
        )?;
        let log_length = given.read_log(&id(&name)).await?.len();
        expect_eq(log_length, usize::from(consume_result.is_ok()))?;
        if let Err(error) = change_result {
            expect_kind::<()>(Err(error), ErrorKind::AlreadyConsumed)?;
        }
    }
    Ok(())
}

/// If the future of an append is dropped, the append takes effect in full before the next call, or never.
pub(super) async fn a_dropped_append_is_all_or_nothing(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a"]).await?;
    let mut wanted = 1;
    for round in 0..20_usize {
        let store = queue.store()?;
        let names = [format!("{round} 0"), format!("{round} 1")];
        {
            let mut call = store.append_pending(queue.append_request(names.iter().map(|name| input(name))));
            for _ in 0..round % 3 {
                if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        let count = queue.load().await?.inputs.len();
        expect(count == wanted || count == wanted + 2, format!("{count} inputs, expected {wanted} or two more"))?;
        queue.append(names.iter().map(|name| input(name))).await?;
        wanted += 2;
        expect_eq(queue.load().await?.inputs.len(), wanted)?;
    }
    Ok(())
}
