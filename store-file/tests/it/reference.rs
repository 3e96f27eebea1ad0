//! What the script gives without any fault, and a store compared with it.

use std::sync::Arc;

use store_core::ManualClock;
use store_file::{FileStore, testing::SimDisk};

use crate::{
    play::{Played, rehearse},
    world::{config, shown, wait},
};

/// What the script gives without any fault: the answer to each call, and what the store shows before and after each.
pub(crate) struct Reference {
    pub(crate) answers: Vec<String>,
    pub(crate) shown: Vec<String>,
    /// How many calls of the disk it takes.
    pub(crate) calls: u64,
}

impl Reference {
    /// The whole script, with every call acknowledged.
    pub(crate) fn played(&self) -> Played {
        Played { acknowledged: self.answers.len(), open: Vec::new() }
    }
}

pub(crate) fn reference() -> Reference {
    let disk = SimDisk::new();
    let (clock, config) = config();
    let store = FileStore::open_on(Arc::new(disk.clone()), config).unwrap();
    let mut reference = Reference { answers: Vec::new(), shown: vec![wait(shown(&store)).unwrap()], calls: 0 };
    rehearse(&store, &clock, |answer| {
        reference.answers.push(answer);
        reference.shown.push(wait(shown(&store)).unwrap());
    });
    wait(store_core::Store::close(&store)).unwrap();
    reference.calls = disk.calls();
    reference
}

pub(crate) fn open(disk: &SimDisk) -> store_core::Result<(ManualClock, FileStore)> {
    let (clock, config) = config();
    FileStore::open_on(Arc::new(disk.clone()), config).map(|store| (clock, store))
}

/// How many calls of the script a store shows; else, because that is half of something, or more or less than it may be,
/// where it begins to be different.
pub(crate) fn found(store: &FileStore, played: &Played, reference: &Reference) -> Result<usize, String> {
    let shown = wait(shown(store)).map_err(|error| error.to_string())?;
    let last = played.acknowledged + if played.is_refused() { 0 } else { played.open.len() };
    let known = (played.acknowledged..=last).find(|calls| reference.shown[*calls] == shown);
    let nearest = reference.shown[played.acknowledged..=last].iter().max_by_key(|expected| same(&shown, expected));
    known.ok_or_else(|| difference(&shown, nearest.unwrap()))
}

/// How many bytes agree.
fn same(shown: &str, expected: &str) -> usize {
    shown.bytes().zip(expected.bytes()).take_while(|(left, right)| left == right).count()
}

fn difference(shown: &str, expected: &str) -> String {
    let same = same(shown, expected);
    let from = same.saturating_sub(150);
    let part = |text: &str| String::from_utf8_lossy(&text.as_bytes()[from..text.len().min(same + 100)]).into_owned();
    format!("it shows\n…{}…\nand not\n…{}…", part(shown), part(expected))
}
