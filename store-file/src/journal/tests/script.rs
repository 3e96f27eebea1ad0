//! Batches of everything that a batch can do, and what they come to.

use std::collections::{BTreeMap, BTreeSet};

use super::{super::LogName, Batch, path};
use crate::vfs::FilePath;

/// Batches, and what the logs contain after each of them: `states[n]` after the first `n`.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) batches: Vec<Batch>,
    pub(super) states: Vec<BTreeMap<FilePath, Vec<u8>>>,
    logs: BTreeMap<usize, LogName>,
    next: u64,
    ever: BTreeSet<usize>,
}

/// The places of logs: in folders of one and two steps.
const PLACES: [&str; 6] = ["logs/a", "logs/b", "logs/t/c", "logs/t/d", "logs/u/v/e", "logs/f"];

impl Script {
    /// A script of so many batches. Each seed always gives one and the same script.
    pub(super) fn new(seed: u64, batches: usize) -> Self {
        let mut script = Self { states: vec![BTreeMap::new()], next: 1, ..Self::default() };
        let mut coins = seed;
        for number in 0..batches {
            script.add(number, &mut coins);
        }
        script
    }

    fn add(&mut self, number: usize, coins: &mut u64) {
        let mut state = self.states.last().unwrap().clone();
        let mut batch = Batch::default();
        let count = 1 + roll(coins, 3);
        for part in 0..count {
            let place = roll(coins, PLACES.len());
            match self.logs.get(&place) {
                // Each place is dropped now and then, and made again under another number.
                Some(log) if roll(coins, 6) == 0 => {
                    batch.drop_log(log);
                    state.remove(&log.path);
                    self.logs.remove(&place);
                }
                Some(log) => append(&mut batch, &mut state, log, (number, part, roll(coins, 400))),
                None => {
                    let log = LogName { number: self.next, path: path(PLACES[place]) };
                    self.next += 1;
                    batch.make(&log);
                    state.insert(log.path.clone(), Vec::new());
                    append(&mut batch, &mut state, &log, (number, part, roll(coins, 60)));
                    self.logs.insert(place, log);
                    self.ever.insert(place);
                }
            }
        }
        self.batches.push(batch);
        self.states.push(state);
    }
}

fn append(
    batch: &mut Batch,
    state: &mut BTreeMap<FilePath, Vec<u8>>,
    log: &LogName,
    (number, part, len): (usize, usize, usize),
) {
    let content = state.get_mut(&log.path).unwrap();
    let line = format!("{number}.{part} {}\n", "x".repeat(len));
    batch.append(log, content.len() as u64, line.clone().into_bytes());
    content.extend_from_slice(line.as_bytes());
}

fn roll(coins: &mut u64, below: usize) -> usize {
    *coins = coins.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*coins >> 33).unwrap() % below
}
