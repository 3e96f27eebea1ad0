//! Makes the disk that a power cut leaves.

use std::collections::BTreeMap;

use super::{
    FilePath,
    state::{Change, Inode, State, Write},
};

/// A disk writes in pieces of this size: one write survives piece by piece.
const SECTOR: usize = 512;

/// What of the changes that no sync covers survives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survivors {
    /// Everything.
    All,
    /// Nothing.
    Synced,
    /// Any part, drawn from this seed: each write by sectors, each change of a name by itself, in any combination.
    Random(u64),
    /// Everything, of the last write only its first bytes.
    Torn(usize),
    /// All bytes, and no change of a name.
    Contents,
    /// All changes of names, and no bytes.
    Names,
    /// Everything but renames.
    AllButRenames,
}

/// Pseudo-random bits (splitmix64). Each seed always gives one and the same sequence.
struct Coins(u64);

impl Coins {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    const fn toss(&mut self) -> bool {
        self.next() & 1 == 0
    }
}

/// The last write without a sync, by its place in the order of changes, and its length.
pub(super) fn last_write(state: &State) -> Option<(u64, usize)> {
    let writes = state.inodes.iter().flat_map(|inode| &inode.pending);
    let bytes = writes.filter_map(|write| match write {
        Write::Bytes { order, bytes, .. } => Some((*order, bytes.len())),
        Write::Length { .. } => None,
    });
    bytes.max()
}

/// The disk after a power cut: what survives is durable, what does not was never there.
pub(super) fn image(state: &State, survivors: Survivors) -> State {
    let mut coins = Coins(match survivors {
        Survivors::Random(seed) => seed,
        _ => 0,
    });
    let torn = last_write(state).map(|(order, _)| order);
    let names = names(state, survivors, &mut coins);
    let mut inodes = Vec::with_capacity(state.inodes.len());
    for inode in &state.inodes {
        let mut bytes = inode.durable.clone();
        for write in &inode.pending {
            match survivors {
                Survivors::Synced | Survivors::Names => {}
                Survivors::Random(_) => by_sectors(write, &mut bytes, &mut coins),
                Survivors::Torn(keep) if Some(write.order()) == torn => shortened(write, keep).apply(&mut bytes),
                _ => write.apply(&mut bytes),
            }
        }
        inodes.push(Inode { folder: inode.folder, now: bytes.clone(), durable: bytes, ..Inode::default() });
    }
    State { inodes, durable_names: names.clone(), names, ..State::default() }
}

fn names(state: &State, survivors: Survivors, coins: &mut Coins) -> BTreeMap<FilePath, usize> {
    let mut names = state.durable_names.clone();
    for change in &state.changes {
        let survives = match survivors {
            Survivors::All | Survivors::Torn(_) | Survivors::Names => true,
            Survivors::Synced | Survivors::Contents => false,
            Survivors::Random(_) => coins.toss(),
            Survivors::AllButRenames => !matches!(change, Change::Rename { .. }),
        };
        if survives {
            change.apply(&mut names);
        }
    }
    // A name whose folder is lost is lost with it.
    let all = names.clone();
    names.retain(|path, _| {
        let mut above = path.parent();
        while !above.as_str().is_empty() {
            if !all.contains_key(&above) {
                return false;
            }
            above = above.parent();
        }
        true
    });
    names
}

fn shortened(write: &Write, keep: usize) -> Write {
    match write {
        Write::Bytes { order, offset, bytes } => {
            Write::Bytes { order: *order, offset: *offset, bytes: bytes.iter().copied().take(keep).collect() }
        }
        Write::Length { .. } => write.clone(),
    }
}

/// Applies some sectors of a write. One tossed whole in half of the cases, so that whole writes come and go too.
fn by_sectors(write: &Write, target: &mut Vec<u8>, coins: &mut Coins) {
    let Write::Bytes { order, offset, bytes } = write else {
        if coins.toss() {
            write.apply(target);
        }
        return;
    };
    let whole = coins.toss().then(|| coins.toss());
    let mut at = *offset;
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (sector, later) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
        if whole.unwrap_or_else(|| coins.toss()) {
            Write::Bytes { order: *order, offset: at, bytes: sector.to_vec() }.apply(target);
        }
        at += sector.len();
        rest = later;
    }
}
