//! The producer, which enqueues dispatches and interrupts threads.

use std::time::Duration;

use agentstore::{Interrupt, InterruptKey, MailboxStore, NewDispatch, Outcome, RunId};
use anyhow::{Result, bail};
use conformance_tests::Random;
use tokio::time::sleep;

use crate::record::{DispatchName, Log, LogLine, LoggedAction, host_nanos, thread_id};

/// The number of dispatches that one call enqueues.
const BATCH_SIZE: usize = 100;
/// The number of dispatches that are enqueued from one interrupt to the next.
const DISPATCHES_PER_INTERRUPT: usize = 2 * BATCH_SIZE;
/// If there are more unfinished dispatches per thread than this, on average, the producer pauses. The number is small
/// because an interrupt supersedes all queued dispatches of its thread.
const MAX_UNFINISHED_PER_THREAD: u64 = 4;
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Producer<'a> {
    pub(crate) mailbox: &'a dyn MailboxStore,
    pub(crate) log: &'a Log,
    pub(crate) thread_count: u32,
    pub(crate) interrupt_count: u32,
}

impl Producer<'_> {
    /// Enqueues these dispatches, and interrupts threads between the batches.
    pub(crate) async fn enqueue_and_interrupt(&mut self, names: &[DispatchName], mut random: Random) -> Result<()> {
        for (batch_index, batch) in names.chunks(BATCH_SIZE).enumerate() {
            while self.count_unfinished().await? > u64::from(self.thread_count) * MAX_UNFINISHED_PER_THREAD {
                sleep(PAUSE).await;
            }
            self.enqueue(batch).await?;
            if ((batch_index + 1) * BATCH_SIZE).is_multiple_of(DISPATCHES_PER_INTERRUPT) {
                self.interrupt(u32::try_from(random.below(self.thread_count as usize))?).await?;
            }
        }
        Ok(())
    }

    /// Enqueues these dispatches, and records the answers.
    pub(crate) async fn enqueue(&self, names: &[DispatchName]) -> Result<()> {
        for batch in names.chunks(BATCH_SIZE) {
            let dispatches: Vec<_> = batch.iter().map(|name| self.new_dispatch(*name)).collect::<Result<_>>()?;
            let called = host_nanos();
            // If the call is repeated, the store gives the first answer again for each dispatch that it accepted before
            // (MB-3).
            let answers = retry(|| async {
                let answers = self.mailbox.enqueue(dispatches.clone()).await?;
                answers.into_iter().collect::<agentstore::Result<Vec<_>>>()
            });
            let answers = answers.await?;
            let answered = host_nanos();
            let mut lines = Vec::new();
            for (name, answer) in batch.iter().zip(answers) {
                let did = LoggedAction::Enqueued {
                    dispatch: *name,
                    thread: name.job % self.thread_count,
                    epoch: answer.epoch,
                };
                lines.push(LogLine { called, answered, did });
            }
            self.log.append(&lines)?;
        }
        Ok(())
    }

    fn new_dispatch(&self, name: DispatchName) -> Result<NewDispatch> {
        let dispatch = NewDispatch::new(thread_id(name.job % self.thread_count)?, RunId::new("soak")?);
        // The limit is so high that no dispatch becomes a dead letter.
        Ok(dispatch.with_id(name.id()?).with_max_attempts(1_000))
    }

    async fn interrupt(&mut self, thread: u32) -> Result<()> {
        let key = InterruptKey::new(format!("i-{}", self.interrupt_count))?;
        let request = Interrupt::new(thread_id(thread)?).with_key(key);
        let called = host_nanos();
        let epoch = retry(|| self.mailbox.interrupt(request.clone())).await?.epoch;
        let did = LoggedAction::Interrupted { thread, epoch };
        self.log.append(&[LogLine { called, answered: host_nanos(), did }])?;
        self.interrupt_count += 1;
        Ok(())
    }

    /// Returns the number of dispatches that have not finished.
    pub(crate) async fn count_unfinished(&self) -> Result<u64> {
        let counts = retry(|| self.mailbox.count_dispatches(None)).await?;
        Ok(counts.queued + counts.claimed)
    }
}

/// Repeats a call until its outcome is known. The call must be safe to repeat. Returns an error after a minute of
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
