//! Places in the mailbox that claims have passed. A row that is dead stays in the indexes as long as anybody's
//! transaction may still see it: claims do not look again where nothing was.
//!
//! What comes to a place that was passed is flagged by whoever writes it, unless it was written shortly before and not
//! seen yet: so far back everything is looked at each time. What stays unseen for longer, as a transaction that was
//! hung up or rolled back, is found when all places are looked at, from time to time.

#![expect(clippy::disallowed_methods, reason = "when everything was looked at last")]

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sqlx::postgres::PgArguments;
use store_core::Result;

use crate::db::{add, signed};

/// So long before a look nothing counts as passed, in milliseconds: what was written by then is there to be seen.
const UNSEEN_MS: u64 = 750;
/// So often everything is looked at, at most.
const WHOLE: Duration = Duration::from_millis(500);
/// So many times what a look at everything took lies between two of them, at least.
const SHARE: u32 = 20;

/// Up to which times nothing is left. None was passed at the time 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Passed {
    /// The server's time at the last look.
    at: u64,
    /// Threads of which something becomes due.
    due: u64,
    /// Leases.
    lease: u64,
    /// Threads that are ready, for each priority that there was.
    ready: BTreeMap<u8, u64>,
}

impl Passed {
    /// The five arguments that say it.
    pub(crate) fn add_to(&self, arguments: &mut PgArguments) -> Result<()> {
        add(arguments, (self.at > 0).then(|| signed(self.at)).transpose()?)?;
        add(arguments, signed(self.due)?)?;
        add(arguments, signed(self.lease)?)?;
        add(arguments, self.ready.keys().map(|priority| i16::from(*priority)).collect::<Vec<_>>())?;
        add(arguments, self.ready.values().map(|since| signed(*since)).collect::<Result<Vec<_>>>()?)
    }
}

/// Of what there may be more: as many were found as may be at once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Full {
    pub(crate) due: bool,
    pub(crate) lapsed: bool,
    pub(crate) ready: bool,
}

/// A look for something to claim, and what it found.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    /// Up to when it passed anything; 0 if it looked at everything.
    passed_at: u64,
    began: Instant,
    took: Duration,
    /// The server's time.
    pub(crate) clock: u64,
    pub(crate) full: Full,
    /// Priorities and times of those that were found at places that were not passed, in order.
    pub(crate) ready: Vec<(u8, u64)>,
}

impl Search {
    /// One that passes these.
    pub(crate) fn new(passed: &Passed) -> Self {
        Self {
            passed_at: passed.at,
            began: Instant::now(),
            took: Duration::ZERO,
            clock: 0,
            full: Full::default(),
            ready: Vec::new(),
        }
    }

    /// It is over.
    pub(crate) fn end(&mut self) {
        self.took = self.began.elapsed();
    }

    /// What the next one can pass, after what was known.
    fn passed(&self, known: &Passed) -> Passed {
        let seen = self.clock.saturating_sub(UNSEEN_MS);
        // A clock that was set back makes what is known good for nothing. Another one that ended first may know more.
        let is_whole = self.passed_at == 0 || self.passed_at > self.clock;
        let mut passed = if is_whole && known.at > self.clock { Passed::default() } else { known.clone() };
        passed.at = passed.at.max(self.clock);
        if !self.full.due {
            passed.due = seen;
        }
        if !self.full.lapsed {
            passed.lease = seen;
        }
        for (priority, _) in &self.ready {
            passed.ready.entry(*priority).or_default();
        }
        // Of the last priority, and those behind it, not all was looked at.
        let last = self.full.ready.then(|| self.ready.last().map_or(0, |(last, _)| *last));
        for (priority, since) in &mut passed.ready {
            let first = self.ready.iter().find(|(found, _)| found == priority).map(|(_, since)| *since);
            let nothing = if last.is_some_and(|last| *priority >= last) { *since } else { seen };
            *since = first.map_or(nothing, |first| first.min(seen));
        }
        passed
    }
}

/// What the claims of a tenant have passed.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    passed: Passed,
    /// When everything is to be looked at again.
    whole_at: Option<Instant>,
}

impl Places {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next claim can pass: nothing, if it is to look at everything.
    pub(crate) fn for_claim(&self) -> Passed {
        let state = self.state();
        let is_whole = state.whole_at.is_none_or(|at| at <= Instant::now());
        if is_whole { Passed::default() } else { state.passed.clone() }
    }

    /// What whoever waits for the next claim can pass.
    pub(crate) fn known(&self) -> Passed {
        self.state().passed.clone()
    }

    /// A claim that looked so was written.
    pub(crate) fn tell(&self, search: &Search) {
        let mut state = self.state();
        if search.passed_at == 0 {
            state.whole_at = Some(Instant::now() + WHOLE.max(search.took * SHARE));
        }
        state.passed = search.passed(&state.passed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Full, Passed, Places, Search, UNSEEN_MS};

    const NOW: u64 = 1_000_000;
    const ALL: Full = Full { due: false, lapsed: false, ready: false };
    const SOME: Full = Full { due: true, lapsed: true, ready: true };

    fn search(ready: &[(u8, u64)], full: Full) -> Search {
        Search { clock: NOW, ready: ready.to_vec(), full, ..Search::new(&Passed::default()) }
    }

    fn known(ready: &[(u8, u64)]) -> Passed {
        Passed { at: NOW - 10, due: 5, lease: 6, ready: ready.iter().copied().collect() }
    }

    #[test]
    fn nothing_is_passed_that_may_not_have_been_seen() {
        let passed = search(&[(1, NOW - 1), (2, NOW - 5_000)], ALL).passed(&Passed::default());
        let seen = NOW - UNSEEN_MS;
        assert_eq!((passed.at, passed.due, passed.lease), (NOW, seen, seen));
        assert_eq!(passed.ready, [(1, seen), (2, NOW - 5_000)].into());
    }

    #[test]
    fn a_priority_of_which_nothing_is_left_is_passed_until_now() {
        assert_eq!(search(&[], ALL).passed(&known(&[(3, 7)])).ready, [(3, NOW - UNSEEN_MS)].into());
    }

    #[test]
    fn what_was_not_looked_at_is_not_passed() {
        let passed = search(&[(2, 100), (2, 200)], SOME).passed(&known(&[(1, 7), (2, 8), (4, 9)]));
        assert_eq!(passed.ready, [(1, NOW - UNSEEN_MS), (2, 100), (4, 9)].into());
        assert_eq!((passed.due, passed.lease), (5, 6));
        assert_eq!(search(&[], SOME).passed(&known(&[(1, 7)])).ready, [(1, 7)].into());
    }

    #[test]
    fn a_clock_that_was_set_back_makes_it_begin_anew() {
        let ahead = Passed { at: NOW + 1, ..known(&[(1, NOW)]) };
        assert_eq!(search(&[(2, 3)], ALL).passed(&ahead).ready, [(2, 3)].into());
    }

    #[test]
    fn who_ends_late_takes_nothing_back_that_others_passed() {
        let known = Passed { at: NOW + 5, ..known(&[(1, NOW - 900)]) };
        let late = Search { passed_at: NOW - 10, ..search(&[], ALL) };
        let passed = late.passed(&known);
        assert_eq!((passed.at, passed.ready), (NOW + 5, [(1, NOW - UNSEEN_MS)].into()));
    }

    #[test]
    fn everything_is_looked_at_first_and_then_again() {
        let places = Places::default();
        assert_eq!(places.for_claim(), Passed::default());
        places.tell(&search(&[], ALL));
        assert_eq!(places.for_claim().at, NOW);
        places.state().whole_at = Some(std::time::Instant::now());
        assert_eq!((places.for_claim(), places.known().at), (Passed::default(), NOW));
    }
}
