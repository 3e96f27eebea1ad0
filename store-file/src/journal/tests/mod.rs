//! Tests of the journal on the simulated disk: a script of batches, cut or failed at every call.
//!
//! A [`Script`] says what is expected: what every log contains after each batch. A check says what it found wrong as a
//! text, so that `planted` can demand that it finds something.

mod crashes;
mod faults;
mod flips;
mod follow;
mod planted;
mod script;
mod threads;

use std::{collections::BTreeMap, sync::Arc};

use self::script::Script;
use super::{
    Batch, Durability, Failure, History, Journal, JournalConfig, Redone,
    planted::{Bug, Planted},
};
use crate::{
    files::Files,
    vfs::{
        FilePath, Kind, Open, Vfs, read_exact_at, replace,
        sim::{SimDisk, Survivors},
    },
};

/// What is wrong, or nothing.
type Found = Result<(), String>;

const ROOT: &str = "root";
/// So small that a few batches fill a half.
const HALF_BYTES: u64 = 2048;

fn path(text: &str) -> FilePath {
    FilePath::new(text).unwrap()
}

/// A store, as far as the journal is concerned: a file that says that there is a journal, and the journal.
struct Store {
    disk: SimDisk,
    journal: Journal,
}

impl Store {
    /// Opens a root, after whatever happened to it.
    fn open(disk: &SimDisk, durability: Durability, bug: Option<Bug>) -> store_core::Result<(Self, Redone)> {
        let planted = Planted(bug);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let is_known = disk.open(&path("meta"), Open::Read).is_ok();
        let history = if is_known { History::read_with(disk, ROOT, planted)? } else { None };
        let redone = history.as_ref().map(|history| history.redo_with(disk, planted)).transpose()?;
        let config = JournalConfig {
            root: ROOT.to_owned(),
            incarnation: 0,
            next: history.map_or(1, |history| history.last() + 1),
            durability,
            half_bytes: HALF_BYTES,
            in_background: false,
        };
        let files = Arc::new(Files::new(Arc::clone(&vfs), Open::Write, 2));
        let journal = Journal::start_with(vfs, files, (config, Box::new(|_| Ok(()))), planted)?;
        if !is_known {
            replace(disk, &path("meta"), b"x").map_err(|error| crate::error::io("meta", error))?;
        }
        Ok((Self { disk: disk.clone(), journal }, redone.unwrap_or_default()))
    }
}

/// How far a script came.
#[derive(Debug, Clone, Copy, Default)]
struct Ran {
    /// How many batches were acknowledged.
    acknowledged: usize,
    /// How many batches may be there: one more if the outcome of the last one is unknown.
    possible: usize,
}

/// Commits the batches of a script until one fails.
fn run(store: &Store, script: &Script, from: usize) -> (Ran, Option<Failure>) {
    let mut ran = Ran { acknowledged: from, possible: from };
    for batch in &script.batches[from..] {
        match store.journal.commit(batch) {
            Ok(_) => ran = Ran { acknowledged: ran.acknowledged + 1, possible: ran.acknowledged + 1 },
            Err(failure) => {
                ran.possible += usize::from(matches!(failure, Failure::Failed(_)));
                return (ran, Some(failure));
            }
        }
    }
    (ran, None)
}

/// What the logs contain.
fn contents(disk: &SimDisk) -> BTreeMap<FilePath, Vec<u8>> {
    let mut found = BTreeMap::new();
    collect(disk, &path("logs"), &mut found);
    found
}

fn collect(disk: &SimDisk, folder: &FilePath, found: &mut BTreeMap<FilePath, Vec<u8>>) {
    for entry in disk.list(folder).unwrap_or_default() {
        let path = folder.join(&entry.name).unwrap();
        if entry.kind == Kind::Folder {
            collect(disk, &path, found);
        } else {
            let file = disk.open(&path, Open::Read).unwrap();
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            read_exact_at(&*file, &mut bytes, 0).unwrap();
            found.insert(path, bytes);
        }
    }
}

/// Which state of the script the logs are in.
fn state(disk: &SimDisk, script: &Script, ran: Ran) -> Result<usize, String> {
    let found = contents(disk);
    let fits = (ran.acknowledged..=ran.possible).find(|number| script.states[*number] == found);
    fits.ok_or_else(|| {
        let other = script.states.iter().position(|state| *state == found);
        format!("{ran:?}, and the logs are as after batch {other:?}: {:?}", found.keys())
    })
}

/// Opens a root after a crash, and checks what the logs have.
fn reopened(disk: &SimDisk, script: &Script, ran: Ran, bug: Option<Bug>) -> Result<usize, String> {
    let (_, redone) = Store::open(disk, Durability::Sync, bug).map_err(|error| format!("refused: {error}"))?;
    if !redone.damaged.is_empty() {
        return Err(format!("damaged: {:?}", redone.damaged));
    }
    state(disk, script, ran)
}

/// The ways in which a power cut may leave a disk.
fn survivors(disk: &SimDisk, seeds: u64) -> Vec<Survivors> {
    let mut all =
        vec![Survivors::All, Survivors::Synced, Survivors::Contents, Survivors::Names, Survivors::AllButRenames];
    all.extend((0..seeds).map(Survivors::Random));
    let torn = disk.last_unsynced_write().unwrap_or(0);
    // Every byte of a frame, then every so many.
    all.extend((0..=torn).filter(|at| *at < 48 || at % 64 == 0 || torn - at < 16).map(Survivors::Torn));
    all
}
