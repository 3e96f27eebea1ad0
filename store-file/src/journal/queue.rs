//! Group commit: the first caller that finds no leader writes what all of them have handed in.

use std::{io, sync::PoisonError};

use super::{Failure, Inner, batch::Batch};
use crate::mutex::guard;

/// A leader does not take more than about this many bytes at once.
const GROUP_BYTES: u64 = 4 << 20;

/// What waits, and what was answered.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Vec<(u64, Batch)>,
    answers: Vec<(u64, Result<u64, Failure>)>,
    has_leader: bool,
    /// The number of the next caller.
    callers: u64,
}

impl Queue {
    /// The first batches that wait, up to a number of bytes.
    fn take(&mut self) -> Vec<(u64, Batch)> {
        let mut bytes = 0;
        let count = self.waiting.iter().take_while(|(_, batch)| {
            let fits = bytes == 0 || bytes + batch.bytes() <= GROUP_BYTES;
            bytes += batch.bytes().max(1);
            fits
        });
        let count = count.count();
        let rest = self.waiting.split_off(count);
        std::mem::replace(&mut self.waiting, rest)
    }

    fn answer_of(&mut self, caller: u64) -> Option<Result<u64, Failure>> {
        let at = self.answers.iter().position(|(of, _)| *of == caller)?;
        Some(self.answers.swap_remove(at).1)
    }
}

/// What a leader has taken. However it ends, its group is answered and the next one can lead.
struct Lead<'a> {
    inner: &'a Inner,
    group: Vec<(u64, Batch)>,
    answers: Vec<(u64, Result<u64, Failure>)>,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        if answers.is_empty() {
            // The leader panicked. It is unknown how much it wrote.
            let panicked = || io::Error::other("the writer panicked");
            let _ = self.inner.poison(guard(&self.inner.writer), panicked());
            answers = self.group.iter().map(|(caller, _)| (*caller, Err(Failure::Failed(panicked())))).collect();
        }
        let mut queue = guard(&self.inner.queue);
        queue.answers.extend(answers);
        queue.has_leader = false;
        self.inner.answered.notify_all();
    }
}

impl Inner {
    /// Hands a batch in, and waits until it was written, by this thread or by another one.
    pub(super) fn wait_for(&self, batch: Batch) -> Result<u64, Failure> {
        let mut queue = guard(&self.queue);
        let caller = queue.callers;
        queue.callers += 1;
        queue.waiting.push((caller, batch));
        loop {
            if let Some(answer) = queue.answer_of(caller) {
                return answer;
            }
            if queue.has_leader {
                queue = self.answered.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.has_leader = true;
            let group = queue.take();
            drop(queue);
            let mut lead = Lead { inner: self, group, answers: Vec::new() };
            lead.answers = self.lead(&lead.group);
            drop(lead);
            queue = guard(&self.queue);
        }
    }

    /// Writes what was taken: together, or, if there is no space for all of it, one by one.
    fn lead(&self, group: &[(u64, Batch)]) -> Vec<(u64, Result<u64, Failure>)> {
        let batches: Vec<&Batch> = group.iter().map(|(_, batch)| batch).collect();
        let mut written = self.write(&batches);
        if matches!(written, Err(Failure::Full(_))) && batches.iter().all(|batch| batch.uses_reserve()) {
            // A quota may be full where the disk has space.
            let given_up = guard(&self.writer).reserve.give_up(&*self.vfs);
            written = given_up.map_err(Failure::Refused).and_then(|()| self.write(&batches));
        }
        if let (Err(Failure::Full(_)), true) = (&written, group.len() > 1) {
            return group.iter().map(|(caller, batch)| (*caller, self.write(&[batch]))).collect();
        }
        let answers = group.iter().map(|(caller, _)| (*caller, written.as_ref().copied().map_err(Failure::again)));
        answers.collect()
    }
}
