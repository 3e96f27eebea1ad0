//! Tests of rounds that overlap: what the second one reads.

use std::sync::Arc;

use super::{Direction, Index, Key, Staged};
use crate::{codec::Get, index::Changes, journal::Batch, planned::Planned, recent::Recent, walk::Walk};

/// When the index gets the changes of the first round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    /// Before the second round is planned, as if there were no rounds side by side.
    WithoutOverlap,
    Before,
    InTheMiddle,
    After,
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// A row, or a place in one of three lists.
    fn key(&mut self) -> String {
        match self.below(4) {
            0 => format!("row{}", self.below(30)),
            list => format!("list{list}{:03}", self.below(200)),
        }
    }

    fn list(&mut self) -> Key {
        Key::from_bytes(format!("list{}", 1 + self.below(3)).as_bytes())
    }
}

fn key(text: &str) -> Key {
    Key::from_bytes(text.as_bytes())
}

/// Reads and changes at random. What was read.
fn steps(staged: &mut Staged<'_>, random: &mut Random, seen: &mut Vec<String>) {
    for number in 0..60 {
        let name = random.key();
        match random.below(7) {
            0 => staged.put(key(&name), if name.starts_with("row") { format!("{number}") } else { String::new() }),
            1 => staged.delete(key(&name)),
            2 => seen.push(format!("{name}: {:?}", staged.get(name.as_bytes()).unwrap())),
            3 => seen.push(format!("{:?}", staged.keys(&random.list()).unwrap())),
            4 | 5 => {
                // As a queue is read: from its first key on, which goes.
                let (list, mut after) = (random.list(), None);
                for _ in 0..random.below(60) {
                    let Some(next) = staged.next(&list, after, Direction::Forward).unwrap() else { break };
                    seen.push(String::from_utf8(next.clone()).unwrap());
                    if random.below(2) == 0 {
                        staged.delete(Key::from_bytes(&next));
                    }
                    after = Some(next);
                }
            }
            _ => {
                let (list, direction) = (random.list(), [Direction::Forward, Direction::Backward]);
                let direction = direction[usize::try_from(random.below(2)).unwrap()];
                let after = name.as_bytes().starts_with(list.as_bytes()).then(|| name.clone().into_bytes());
                seen.push(format!("{name}: {:?}", staged.next(&list, after, direction).unwrap()));
            }
        }
    }
}

fn two_rounds(seed: u64, applied: Applied) -> Vec<String> {
    let (index, mut random, mut seen) = (Index::in_memory(), Random(seed), Vec::new());
    let mut changes = Changes::default();
    (0..random.below(400)).for_each(|_| changes.put(random.key(), "x"));
    index.apply(&changes).unwrap();
    let mut first = Staged::with_recent(&index, Recent::default(), None);
    steps(&mut first, &mut random, &mut seen);
    let (changes, scopes, recent) = first.into_parts();
    let planned = Arc::new(Planned::new((changes, scopes), (Batch::default(), 1)));
    let apply = |now: Applied| {
        if now == applied {
            index.apply(&planned.changes).unwrap();
        }
    };
    apply(Applied::WithoutOverlap);
    apply(Applied::Before);
    let previous = (applied != Applied::WithoutOverlap).then(|| Arc::clone(&planned));
    let mut second = Staged::with_recent(&index, recent, previous);
    steps(&mut second, &mut random, &mut seen);
    apply(Applied::InTheMiddle);
    steps(&mut second, &mut random, &mut seen);
    apply(Applied::After);
    let (changes, _, recent) = second.into_parts();
    index.apply(&changes).unwrap();
    let mut third = Staged::with_recent(&index, recent, None);
    steps(&mut third, &mut random, &mut seen);
    seen
}

/// Shows CM-1 of rounds side by side: the second one sees the first one whole, whether or not the index has it.
#[test]
fn a_round_sees_the_one_before_it_at_any_time() {
    for seed in 0..300 {
        let expected = two_rounds(seed, Applied::WithoutOverlap);
        for applied in [Applied::Before, Applied::InTheMiddle, Applied::After] {
            assert_eq!(two_rounds(seed, applied), expected, "{applied:?} with seed {seed}");
        }
    }
}
