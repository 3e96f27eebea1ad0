//! Test S8 of docs/reliability.md: a call that is dropped and repeated with the same id has one effect (PR-11, PR-20,
//! MB-3).

use std::{future::Future, pin::pin, task::Poll};

use store_core::DispatchFilter;

use super::helpers::{Folder, enqueue, expect_no_findings, mailbox, new_dispatch, open, thread};

const CALLS: usize = 200;

/// Polls a call until it ends, but at most `polls` times, and drops it.
async fn poll_and_drop<F: Future>(call: F, polls: usize) {
    let mut call = pin!(call);
    let mut remaining_polls = polls;
    std::future::poll_fn(|context| {
        remaining_polls = remaining_polls.saturating_sub(1);
        if call.as_mut().poll(context).is_ready() || remaining_polls == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_enqueue_that_is_repeated_has_one_effect() {
    let folder = Folder::new();
    let store = open(&folder.file()).await;
    let mailbox = mailbox(&store);
    for at in 0..CALLS {
        let id = format!("d-{at}");
        poll_and_drop(mailbox.enqueue(vec![new_dispatch("t", &id)]), 1 + at % 3).await;
        enqueue(&*mailbox, new_dispatch("t", &id)).await;
        let counts = mailbox.count_dispatches(Some(&thread("t"))).await.unwrap();
        assert_eq!(counts.total(), at as u64 + 1);
    }
    let query = store_core::DispatchQuery::new(DispatchFilter::of_thread(thread("t")));
    let listed = mailbox.list_dispatches(query.with_page(store_core::PageRequest::first(1_000))).await.unwrap();
    assert_eq!(listed.items.len(), CALLS);
    // Dispatches of the same millisecond are listed by their ids.
    let mut numbers: Vec<_> = listed.items.iter().map(|found| found.number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=CALLS as u64), "a number is missing");
    expect_no_findings(&store).await;
    store_core::Store::close(&store).await.unwrap();
}
