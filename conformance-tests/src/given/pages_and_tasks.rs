//! Helpers that read all pages of a list, and that run tasks at the same time.

use std::{future::Future, sync::Arc};

use store_core::{Page, PageRequest};
use tokio::sync::Barrier;

use crate::check::Failure;

/// Reads every page of a list, and returns all its records.
///
/// # Errors
/// If a page cannot be read, or if the list does not end.
pub async fn read_all_pages<T, F, Fut>(first: PageRequest, mut list: F) -> Result<Vec<T>, Failure>
where
    F: FnMut(PageRequest) -> Fut,
    Fut: Future<Output = store_core::Result<Page<T>>>,
{
    const MAX_PAGES: usize = 100_000;
    let (mut records, mut request) = (Vec::new(), first.clone());
    for _ in 0..MAX_PAGES {
        let page = list(request).await?;
        records.extend(page.items);
        match page.next {
            Some(cursor) => request = first.after(cursor),
            None => return Ok(records),
        }
    }
    Err(Failure::new("the list does not end"))
}

/// Starts `tasks` tasks at the same time and returns their results, in the order of the tasks. `make_task` makes the
/// task with the given number.
///
/// # Panics
/// If a task panics. The case then fails.
pub async fn run_concurrently<T, F, Fut>(tasks: usize, make_task: F) -> Vec<T>
where
    F: Fn(usize) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let barrier = Arc::new(Barrier::new(tasks));
    let start_task = |number| {
        let (barrier, task) = (Arc::clone(&barrier), make_task(number));
        tokio::spawn(async move {
            barrier.wait().await;
            task.await
        })
    };
    let handles: Vec<_> = (0..tasks).map(start_task).collect();
    let mut results = Vec::with_capacity(tasks);
    for handle in handles {
        results.push(handle.await.expect("the task does not panic"));
    }
    results
}

/// Starts two different tasks at the same time and returns their results.
///
/// # Panics
/// If a task panics. The case then fails.
pub async fn run_two_concurrently<A, B>(one: A, two: B) -> (A::Output, B::Output)
where
    A: Future<Output: Send + 'static> + Send + 'static,
    B: Future<Output: Send + 'static> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(2));
    let second_barrier = Arc::clone(&barrier);
    let first = tokio::spawn(async move {
        barrier.wait().await;
        one.await
    });
    let second = tokio::spawn(async move {
        second_barrier.wait().await;
        two.await
    });
    (first.await.expect("the task does not panic"), second.await.expect("the task does not panic"))
}
