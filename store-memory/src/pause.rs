//! A point between two batches of long work.

use std::{future::poll_fn, task::Poll};

/// Lets others run, and the caller stop there by dropping the future (PR-17).
pub(crate) async fn pause() {
    let mut is_first = true;
    poll_fn(|context| {
        if !std::mem::take(&mut is_first) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
