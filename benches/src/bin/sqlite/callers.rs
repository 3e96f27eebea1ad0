//! Measures callers of the mailbox, which wait for each answer. Each call is about one dispatch. Each dispatch has its
//! own thread. The dispatches are handled in waves: those of a wave are enqueued, then claimed, then acknowledged,
//! before the next wave begins.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use store_core::{
    ClaimRef, ClaimRequest, Json, MailboxStore, NewDispatch, Settlement, Store, TenantId, ThreadId, WorkerId,
};

use crate::Options;

/// A lease that does not expire during a measurement.
const LEASE: Duration = Duration::from_mins(10);

/// Returns a dispatch for a thread.
fn new_dispatch(thread: &str) -> Result<NewDispatch> {
    let payload = Json::parse(r#"{"task":"index the repository","branch":"main","files":1200}"#)?;
    Ok(NewDispatch::new(ThreadId::new(thread)?, "run".parse()?).with_payload(payload))
}

fn mailbox_of(store: &dyn Store) -> Result<Arc<dyn MailboxStore>> {
    store.tenant(&TenantId::default_tenant())?.mailbox.context("the store has no mailbox")
}

/// The call that all callers make at the moment.
#[derive(Debug, Clone, Copy)]
enum CallKind {
    Enqueue,
    Claim,
    Acknowledge,
}

/// What all callers share.
struct SharedState {
    mailbox: Arc<dyn MailboxStore>,
    /// The number of the next dispatch. Each call takes the next number, so that all callers together make one call for
    /// each dispatch of a wave.
    next_dispatch: AtomicUsize,
    /// The claims that are not settled yet. The oldest one is settled first.
    open_claims: Mutex<VecDeque<ClaimRef>>,
}

/// Measures how long the callers take for all dispatches: for the enqueues, the claims and the acknowledgements.
pub(crate) async fn measure(options: &Options, file: PathBuf) -> Result<[Duration; 3]> {
    let store = crate::open(file).await?;
    let shared = Arc::new(SharedState {
        mailbox: mailbox_of(&store)?,
        next_dispatch: AtomicUsize::new(0),
        open_claims: Mutex::default(),
    });
    let mut times = [Duration::ZERO; 3];
    for wave in options.waves() {
        for (time, call_kind) in times.iter_mut().zip([CallKind::Enqueue, CallKind::Claim, CallKind::Acknowledge]) {
            shared.next_dispatch.store(wave.start, Ordering::SeqCst);
            let start = Instant::now();
            let spawn_caller = |_| tokio::spawn(Arc::clone(&shared).run_caller(call_kind, wave.end));
            for caller in (0..options.callers).map(spawn_caller).collect::<Vec<_>>() {
                caller.await??;
            }
            *time += start.elapsed();
        }
    }
    store.close().await?;
    Ok(times)
}

impl SharedState {
    async fn run_caller(self: Arc<Self>, call_kind: CallKind, wave_end: usize) -> Result<()> {
        let worker = WorkerId::new("bench")?;
        loop {
            let number = self.next_dispatch.fetch_add(1, Ordering::SeqCst);
            if number >= wave_end {
                return Ok(());
            }
            match call_kind {
                CallKind::Enqueue => {
                    self.mailbox
                        .enqueue(vec![new_dispatch(&format!("thread-{number}"))?])
                        .await?
                        .pop()
                        .context("the enqueue got no answer")??;
                }
                CallKind::Claim => {
                    let mut claims = self.mailbox.claim(ClaimRequest::new(worker.clone(), LEASE)).await?;
                    let claim = claims.claimed.pop().context("no dispatch was claimed")?.claim();
                    self.open_claims().push_back(claim);
                }
                CallKind::Acknowledge => {
                    let claim = self.open_claims().pop_front().context("no dispatch is claimed")?;
                    let settlements = vec![(claim, Settlement::Ack { result: None })];
                    self.mailbox.settle(settlements).await?.pop().context("the settlement got no answer")??;
                }
            }
        }
    }

    fn open_claims(&self) -> MutexGuard<'_, VecDeque<ClaimRef>> {
        self.open_claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
