//! A pause between two batches of long work.

use std::{future::poll_fn, task::Poll};

/// Lets other tasks run. The caller can stop here by dropping the future (PR-17).
pub(crate) async fn yield_now() {
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

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Waker},
    };

    use super::yield_now;

    #[test]
    fn a_pause_lets_other_tasks_run_once() {
        let mut pause = pin!(yield_now());
        let mut context = Context::from_waker(Waker::noop());
        assert!(pause.as_mut().poll(&mut context).is_pending());
        assert!(pause.as_mut().poll(&mut context).is_ready());
    }
}
