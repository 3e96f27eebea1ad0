//! Parts of the mailbox's indexes that claims can skip. Old versions of rows stay in an index as long as any
//! transaction may still see them, which makes searches slow. So claims do not search again where earlier claims found
//! nothing.
//!
//! If a writer adds a row to a part that claims may already skip, it sets the column `is_passed` of the row. If the
//! row is written shortly before a search, the search may not see the row, and the writer does not know of the search.
//! So claims never skip the last moments before a search. A row may stay invisible for longer, for example because a
//! transaction was suspended or rolled back. Such a row is found when all parts are searched, which happens from time
//! to time.

#![expect(clippy::disallowed_methods, reason = "the interval between full searches is real time")]

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sqlx::postgres::PgArguments;
use store_core::Result;

use crate::db::{add, signed};

/// How many milliseconds before a search do not count as searched. The search may miss rows that were written in this
/// time.
const VISIBILITY_LAG_MS: u64 = 750;
/// The minimum time between two searches of all parts.
const FULL_SCAN_INTERVAL: Duration = Duration::from_millis(500);
/// The minimum time between two searches of all parts, as a multiple of the time that one such search takes.
const FULL_SCAN_FACTOR: u32 = 20;

/// The times up to which nothing is left to find in each index. 0 means that no part of the index can be skipped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Watermarks {
    /// The server's time at the last search.
    at: u64,
    /// The watermark for threads with dispatches that become due.
    due: u64,
    /// The watermark for threads with leases.
    lease: u64,
    /// The watermarks for ready threads, one for each priority that has occurred.
    ready: BTreeMap<u8, u64>,
}

impl Watermarks {
    /// Adds the five arguments for the watermarks to those of a statement.
    pub(crate) fn add_to(&self, arguments: &mut PgArguments) -> Result<()> {
        add(arguments, (self.at > 0).then(|| signed(self.at)).transpose()?)?;
        add(arguments, signed(self.due)?)?;
        add(arguments, signed(self.lease)?)?;
        add(arguments, self.ready.keys().map(|priority| i16::from(*priority)).collect::<Vec<_>>())?;
        add(arguments, self.ready.values().map(|since| signed(*since)).collect::<Result<Vec<_>>>()?)
    }
}

/// For each kind of thread, whether a search found as many threads as its limit allows. If so, more may exist.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LimitReached {
    pub(crate) due: bool,
    pub(crate) leases: bool,
    pub(crate) ready: bool,
}

/// A search for dispatches to claim, and its result.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    /// The time of the search whose watermarks this search used, or 0 if it searched all parts.
    watermarks_at: u64,
    began: Instant,
    took: Duration,
    /// The server's time.
    pub(crate) clock: u64,
    pub(crate) limit_reached: LimitReached,
    /// The positions (priority and time) of the ready threads that were found, in order. Threads that were found in
    /// skipped parts are left out.
    pub(crate) ready: Vec<(u8, u64)>,
}

impl Search {
    /// Starts a search that skips these parts.
    pub(crate) fn new(watermarks: &Watermarks) -> Self {
        Self {
            watermarks_at: watermarks.at,
            began: Instant::now(),
            took: Duration::ZERO,
            clock: 0,
            limit_reached: LimitReached::default(),
            ready: Vec::new(),
        }
    }

    /// Ends the search.
    pub(crate) fn end(&mut self) {
        self.took = self.began.elapsed();
    }

    /// Returns the parts that the next search can skip, given those known before.
    fn watermarks(&self, known: &Watermarks) -> Watermarks {
        let visible_before = self.clock.saturating_sub(VISIBILITY_LAG_MS);
        // If the clock was set back, the known watermarks are useless. Otherwise they are kept, because a concurrent
        // search that ended first may have found out more.
        let is_full_scan = self.watermarks_at == 0 || self.watermarks_at > self.clock;
        let mut watermarks = if is_full_scan && known.at > self.clock { Watermarks::default() } else { known.clone() };
        watermarks.at = watermarks.at.max(self.clock);
        if !self.limit_reached.due {
            watermarks.due = visible_before;
        }
        if !self.limit_reached.leases {
            watermarks.lease = visible_before;
        }
        for (priority, _) in &self.ready {
            watermarks.ready.entry(*priority).or_default();
        }
        // The last priority that was found and the priorities after it were not searched completely.
        let last_priority = self.limit_reached.ready.then(|| self.ready.last().map_or(0, |(priority, _)| *priority));
        for (priority, since) in &mut watermarks.ready {
            let first_found = self.ready.iter().find(|(found, _)| found == priority).map(|(_, since)| *since);
            let if_none_found =
                if last_priority.is_some_and(|last| *priority >= last) { *since } else { visible_before };
            *since = first_found.map_or(if_none_found, |first| first.min(visible_before));
        }
        watermarks
    }
}

/// The parts of the mailbox that the claims of a tenant can skip.
#[derive(Debug, Default)]
pub(crate) struct ScanState(Mutex<ScanStateFields>);

#[derive(Debug, Default)]
struct ScanStateFields {
    watermarks: Watermarks,
    /// When all parts must be searched again.
    full_scan_at: Option<Instant>,
}

impl ScanState {
    fn state(&self) -> MutexGuard<'_, ScanStateFields> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the next claim can skip: nothing if it must search all parts.
    pub(crate) fn watermarks_for_claim(&self) -> Watermarks {
        let state = self.state();
        let is_full_scan = state.full_scan_at.is_none_or(|at| at <= Instant::now());
        if is_full_scan { Watermarks::default() } else { state.watermarks.clone() }
    }

    /// Returns what a caller that waits for the next claim can skip.
    pub(crate) fn known_watermarks(&self) -> Watermarks {
        self.state().watermarks.clone()
    }

    /// Updates the watermarks after a search whose claims were written.
    pub(crate) fn record(&self, search: &Search) {
        let mut state = self.state();
        if search.watermarks_at == 0 {
            state.full_scan_at = Some(Instant::now() + FULL_SCAN_INTERVAL.max(search.took * FULL_SCAN_FACTOR));
        }
        state.watermarks = search.watermarks(&state.watermarks);
    }
}

#[cfg(test)]
mod tests {
    use super::{LimitReached, ScanState, Search, VISIBILITY_LAG_MS, Watermarks};

    const NOW: u64 = 1_000_000;
    const COMPLETE: LimitReached = LimitReached { due: false, leases: false, ready: false };
    const LIMITED: LimitReached = LimitReached { due: true, leases: true, ready: true };

    fn search(ready: &[(u8, u64)], limit_reached: LimitReached) -> Search {
        Search { clock: NOW, ready: ready.to_vec(), limit_reached, ..Search::new(&Watermarks::default()) }
    }

    fn known(ready: &[(u8, u64)]) -> Watermarks {
        Watermarks { at: NOW - 10, due: 5, lease: 6, ready: ready.iter().copied().collect() }
    }

    #[test]
    fn the_watermark_stays_below_positions_that_a_search_may_not_have_seen() {
        let watermarks = search(&[(1, NOW - 1), (2, NOW - 5_000)], COMPLETE).watermarks(&Watermarks::default());
        let visible_before = NOW - VISIBILITY_LAG_MS;
        assert_eq!((watermarks.at, watermarks.due, watermarks.lease), (NOW, visible_before, visible_before));
        assert_eq!(watermarks.ready, [(1, visible_before), (2, NOW - 5_000)].into());
    }

    #[test]
    fn the_watermark_of_an_empty_priority_advances_to_the_visible_time() {
        assert_eq!(search(&[], COMPLETE).watermarks(&known(&[(3, 7)])).ready, [(3, NOW - VISIBILITY_LAG_MS)].into());
    }

    #[test]
    fn the_watermark_does_not_pass_positions_that_were_not_searched() {
        let watermarks = search(&[(2, 100), (2, 200)], LIMITED).watermarks(&known(&[(1, 7), (2, 8), (4, 9)]));
        assert_eq!(watermarks.ready, [(1, NOW - VISIBILITY_LAG_MS), (2, 100), (4, 9)].into());
        assert_eq!((watermarks.due, watermarks.lease), (5, 6));
        assert_eq!(search(&[], LIMITED).watermarks(&known(&[(1, 7)])).ready, [(1, 7)].into());
    }

    #[test]
    fn a_clock_that_was_set_back_resets_the_watermark() {
        let ahead = Watermarks { at: NOW + 1, ..known(&[(1, NOW)]) };
        assert_eq!(search(&[(2, 3)], COMPLETE).watermarks(&ahead).ready, [(2, 3)].into());
    }

    #[test]
    fn a_search_that_ends_late_does_not_lower_the_watermark() {
        let known = Watermarks { at: NOW + 5, ..known(&[(1, NOW - 900)]) };
        let late = Search { watermarks_at: NOW - 10, ..search(&[], COMPLETE) };
        let watermarks = late.watermarks(&known);
        assert_eq!((watermarks.at, watermarks.ready), (NOW + 5, [(1, NOW - VISIBILITY_LAG_MS)].into()));
    }

    #[test]
    fn the_first_claim_and_one_after_each_interval_search_all_parts() {
        let scan_state = ScanState::default();
        assert_eq!(scan_state.watermarks_for_claim(), Watermarks::default());
        scan_state.record(&search(&[], COMPLETE));
        assert_eq!(scan_state.watermarks_for_claim().at, NOW);
        scan_state.state().full_scan_at = Some(std::time::Instant::now());
        assert_eq!((scan_state.watermarks_for_claim(), scan_state.known_watermarks().at), (Watermarks::default(), NOW));
    }
}
