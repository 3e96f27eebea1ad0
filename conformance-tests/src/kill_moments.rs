//! The moments at which a test kills processes that end by themselves after an unknown time.

use std::time::Duration;

use crate::random::Random;

/// The first limit of the moments.
const FIRST_LIMIT: Duration = Duration::from_millis(200);
/// The smallest limit. A process that has just begun does not end before it.
const MIN_LIMIT: Duration = Duration::from_millis(1);

/// Chooses when to kill each process of a test, at random moments before a limit. The limit follows the time that the
/// processes take on this machine: it shrinks after a process that ended before its kill, and grows after one that was
/// killed. So most processes are killed, at any moment of their work, however fast or busy the machine is.
#[derive(Debug, Clone)]
pub struct KillMoments {
    random: Random,
    limit: Duration,
    rounds: usize,
}

impl KillMoments {
    /// The moments of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), limit: FIRST_LIMIT, rounds: 0 }
    }

    /// How many processes were reported.
    #[must_use]
    pub const fn rounds(&self) -> usize {
        self.rounds
    }

    /// How long the next process works before it is killed.
    #[must_use]
    pub fn delay(&mut self) -> Duration {
        let micros = usize::try_from(self.limit.as_micros()).unwrap_or(usize::MAX).max(1);
        Duration::from_micros(self.random.below(micros) as u64)
    }

    /// Reports whether the process was killed before it ended.
    pub fn report(&mut self, is_killed: bool) {
        self.rounds += 1;
        // With these factors, one of seven processes ends by itself.
        self.limit = if is_killed { self.limit * 21 / 20 } else { (self.limit * 3 / 4).max(MIN_LIMIT) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::KillMoments;

    #[test]
    fn most_processes_are_killed_whatever_time_they_take() {
        for process_time in [1, 20, 5_000].map(Duration::from_millis) {
            let (mut moments, mut killed, mut late) = (KillMoments::new(1), 0, 0);
            while killed < 200 {
                let delay = moments.delay();
                let is_killed = delay < process_time;
                moments.report(is_killed);
                killed += usize::from(is_killed);
                late += usize::from(is_killed && delay > process_time / 2);
            }
            assert!(moments.rounds() < 300, "{process_time:?}: {moments:?}");
            assert!(late > 40, "{process_time:?}: {late} kills in the second half");
        }
    }
}
