//! The producer, which enqueues dispatches and interrupts threads.

use std::time::Duration;

use agentstore::{Interrupt, InterruptKey, MailboxStore, NewDispatch, Outcome, RunId};
use anyhow::{Result, bail};
use conformance_tests::Random;
use tokio::time::sleep;

use crate::record::{DispatchName, Line, Log, LoggedAction, now, thread_id};

/// The number of dispatches that one call enqueues.
const BATCH: usize = 100;
/// The number of dispatches that are enqueued from one interrupt to the next.
const INTERRUPT_EVERY: usize = 2 * BATCH;
/// The number of unfinished dispatches per thread, on average, above which the producer pauses. It is small because
/// an interrupt supersedes all queued dispatches of its thread.
const WAITING: u64 = 4;
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Producer<'a> {
    pub(crate) mailbox: &'a dyn MailboxStore,
    pub(crate) log: &'a Log,
    pub(crate) threads: u32,
    pub(crate) interrupts: u32,
}

impl Producer<'_> {
    /// Enqueues these dispatches, and interrupts threads between the batches.
    pub(crate) async fn produce(&mut self, names: &[DispatchName], mut random: Random) -> Result<()> {
        for (batch, names) in names.chunks(BATCH).enumerate() {
            while self.waiting().await? > u64::from(self.threads) * WAITING {
                sleep(PAUSE).await;
            }
            self.enqueue(names).await?;
            if ((batch + 1) * BATCH).is_multiple_of(INTERRUPT_EVERY) {
                self.interrupt(u32::try_from(random.below(self.threads as usize))?).await?;
            }
        }
        Ok(())
    }

    /// Enqueues these dispatches, and records the answers.
    pub(crate) async fn enqueue(&self, names: &[DispatchName]) -> Result<()> {
        for names in names.chunks(BATCH) {
            let new: Vec<_> = names.iter().map(|name| self.dispatch(*name)).collect::<Result<_>>()?;
            let called = now();
            // If the call is repeated, a dispatch that was accepted before gets the first answer again (MB-3).
            let answers = retry(|| async {
                let answers = self.mailbox.enqueue(new.clone()).await?;
                answers.into_iter().collect::<agentstore::Result<Vec<_>>>()
            });
            let answers = answers.await?;
            let answered = now();
            let mut lines = Vec::new();
            for (name, answer) in names.iter().zip(answers) {
                let did =
                    LoggedAction::Enqueued { dispatch: *name, thread: name.job % self.threads, epoch: answer.epoch };
                lines.push(Line { called, answered, did });
            }
            self.log.append(&lines)?;
        }
        Ok(())
    }

    fn dispatch(&self, name: DispatchName) -> Result<NewDispatch> {
        let new = NewDispatch::new(thread_id(name.job % self.threads)?, RunId::new("soak")?);
        // The limit is so high that no dispatch becomes a dead letter.
        Ok(new.with_id(name.id()?).with_max_attempts(1_000))
    }

    async fn interrupt(&mut self, thread: u32) -> Result<()> {
        let key = InterruptKey::new(format!("i-{}", self.interrupts))?;
        let request = Interrupt::new(thread_id(thread)?).with_key(key);
        let called = now();
        let epoch = retry(|| self.mailbox.interrupt(request.clone())).await?.epoch;
        let did = LoggedAction::Interrupted { thread, epoch };
        self.log.append(&[Line { called, answered: now(), did }])?;
        self.interrupts += 1;
        Ok(())
    }

    /// Returns the number of dispatches that have not finished.
    pub(crate) async fn waiting(&self) -> Result<u64> {
        let counts = retry(|| self.mailbox.count_dispatches(None)).await?;
        Ok(counts.queued + counts.claimed)
    }
}

/// Repeats a call until its outcome is known. The call must be safe to repeat. Gives up after a minute of
/// errors.
pub(crate) async fn retry<T, F: Future<Output = agentstore::Result<T>>>(mut call: impl FnMut() -> F) -> Result<T> {
    for _ in 0..600 {
        match call().await {
            Err(error) if error.is_retryable() || error.outcome() == Outcome::Unknown => sleep(PAUSE * 5).await,
            answer => return Ok(answer?),
        }
    }
    bail!("the store has not answered for a minute")
}
