//! The gate through which callers of this process write, so that a copy can keep them away.

use std::{
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    task::Poll,
};

use super::WriteHold;
use crate::{
    error::{Error, Result},
    sync::AtomicU64,
};

/// What a hold adds to the state. The lower half counts the writers.
const HOLD: u64 = 1 << 32;

/// The gate of a tenant that only one process can write to. Each write passes it, and a hold keeps writes away (VF-6).
#[derive(Debug, Default)]
pub struct WriteGate {
    state: AtomicU64,
}

/// A write that has passed the gate. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the write ends when it is dropped"]
pub struct WriteTicket(Arc<WriteGate>);

impl Drop for WriteTicket {
    fn drop(&mut self) {
        self.0.state.fetch_sub(1, Ordering::SeqCst);
    }
}

struct GateHold(Arc<WriteGate>);

impl Drop for GateHold {
    fn drop(&mut self) {
        self.0.state.fetch_sub(HOLD, Ordering::SeqCst);
    }
}

impl WriteGate {
    /// Lets a write begin.
    ///
    /// # Errors
    /// `Unavailable` while writes are held.
    pub fn enter(self: &Arc<Self>) -> Result<WriteTicket> {
        let before = self.state.fetch_add(1, Ordering::SeqCst);
        let ticket = WriteTicket(Arc::clone(self));
        if before >= HOLD {
            return Err(Error::unavailable("a copy reads the tenant: try again when it has ended"));
        }
        Ok(ticket)
    }

    /// Refuses writes from now on, waits until those that have begun end, and returns the hold.
    pub async fn hold(self: &Arc<Self>) -> WriteHold {
        self.state.fetch_add(HOLD, Ordering::SeqCst);
        let hold = GateHold(Arc::clone(self));
        poll_fn(|context| {
            if self.state.load(Ordering::SeqCst).is_multiple_of(HOLD) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        WriteHold::new(hold)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::{pin::pin, sync::Arc};

    use futures_util::{FutureExt, future::poll_immediate};

    use super::WriteGate;
    use crate::error::ErrorKind;

    #[test]
    fn a_hold_waits_for_writes_and_keeps_others_away() {
        let gate = Arc::<WriteGate>::default();
        let ticket = gate.enter().unwrap();
        let mut hold = pin!(gate.hold());
        assert!(poll_immediate(hold.as_mut()).now_or_never().flatten().is_none());
        assert_eq!(gate.enter().unwrap_err().kind(), ErrorKind::Unavailable);
        drop(ticket);
        let hold = poll_immediate(hold.as_mut()).now_or_never().flatten().unwrap();
        assert!(hold.is_exclusive());
        let second = gate.hold().now_or_never().unwrap();
        drop(hold);
        assert_eq!(gate.enter().unwrap_err().kind(), ErrorKind::Unavailable);
        drop(second);
        let _ticket = gate.enter().unwrap();
    }
}
