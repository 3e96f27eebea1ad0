//! F7 for a whole store on a real disk: changed bits in logs of 16 MiB, in the index and in all other files. What is
//! read is right, or is refused as damage (FI-4, FI-10).

use std::{
    collections::HashSet,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use conformance_tests::{Random, TestLength, seed_from_env};
use store_core::{Commit, Entry, EntryQuery, ErrorKind, Message, NewEntry, PageRequest, Result, Store};
use store_file::FileStore;

use crate::{
    folder::Place,
    play::rehearse,
    world::{config, shown_of, tenant, thread, wait},
};

/// The tenant of large threads, each with so many entries of so many bytes.
const LARGE: &str = "large";
const THREADS: usize = 32;
const ENTRIES: usize = 32;
const ENTRY_BYTES: usize = 16 << 10;

/// A root with 16 MiB in large threads, beside all that the script writes, and what is to be read there.
struct Written {
    place: Place,
    large: Vec<Vec<Arc<Entry>>>,
    small: Vec<String>,
}

fn id(number: usize) -> String {
    format!("t-{number}")
}

fn entries(store: &FileStore, number: usize) -> Result<Vec<Arc<Entry>>> {
    let threads = store.tenant(&tenant(LARGE))?.threads.unwrap();
    let query = EntryQuery::all().with_page(PageRequest::first(1000));
    Ok(wait(threads.list_entries(&thread(&id(number)), query))?.items)
}

/// What the tenants of the script show.
fn small(store: &FileStore) -> Result<Vec<String>> {
    let tenants = wait(store.list_tenants(PageRequest::first(1000)))?.items;
    let others = tenants.into_iter().filter(|name| name.as_str() != LARGE);
    others.map(|name| wait(shown_of(store.tenant(&name)?))).collect()
}

fn written() -> Written {
    let place = Place::new();
    let (clock, config) = config();
    let store = FileStore::open(place.root(), config).unwrap();
    rehearse(&store, &clock, drop);
    let commits = store.tenant(&tenant(LARGE)).unwrap().commits.unwrap();
    for number in 0..THREADS * ENTRIES {
        let text = format!("{number} ").repeat(ENTRY_BYTES);
        let commit = Commit::new(thread(&id(number % THREADS))).with_key(format!("k-{number}").parse().unwrap());
        let _ = wait(commits.commit(commit.entry(NewEntry::new(Message::user(&text[..ENTRY_BYTES]))))).unwrap();
    }
    let large = (0..THREADS).map(|number| entries(&store, number).unwrap()).collect();
    let small = small(&store).unwrap();
    wait(store.close()).unwrap();
    Written { place, large, small }
}

fn open(place: &Place) -> Result<FileStore> {
    FileStore::open(place.root(), config().1)
}

fn flip(file: &Path, bit: u64) {
    let file = File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << (bit % 8))], bit / 8).unwrap();
}

fn random_bit(file: &Path, random: &mut Random) -> u64 {
    let bytes = fs::metadata(file).unwrap().len();
    random.below(usize::try_from(bytes * 8).unwrap()) as u64
}

/// Whether something could be read: it is as it was written then, or else refused as damage.
fn is_read<T: PartialEq>(result: Result<T>, expected: &T, place: &str) -> bool {
    match result {
        Ok(found) => assert!(found == *expected, "{place}: a wrong value"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{place}: {error:?}");
            return false;
        }
    }
    true
}

impl Written {
    /// Whether all of it could be read. What the opening reports may be missing: the end of a log that it set aside, a
    /// thread whose log is damaged from its first commit on. Whatever is there is as it was written.
    fn is_read(&self, store: &FileStore, place: &str) -> bool {
        let opening = store.opening();
        if !opening.set_aside.is_empty() || !opening.damaged.is_empty() {
            for (number, expected) in self.large.iter().enumerate() {
                is_read(entries(store, number).map(|found| expected.starts_with(&found)), &true, place);
            }
            let written: HashSet<&str> = self.small.iter().flat_map(|shown| shown.lines()).collect();
            let is_written = |shown: Vec<String>| {
                let mut entries = shown.iter().flat_map(|shown| shown.lines()).filter(|line| line.starts_with("Entry"));
                entries.all(|entry| written.contains(entry))
            };
            is_read(small(store).map(is_written), &true, place);
            return false;
        }
        let large = self.large.iter().enumerate();
        let unread = large.filter(|(number, expected)| !is_read(entries(store, *number), expected, place)).count();
        is_read(small(store), &self.small, place) && unread == 0
    }
}

/// Under an open store, in the logs.
#[test]
fn a_changed_bit_in_a_large_store_never_yields_a_wrong_value() {
    let (written, count) = (written(), TestLength::pick_by_env(60, 300, 10_000));
    let (store, mut random, mut refused) =
        (open(&written.place).unwrap(), Random::new(seed_from_env("AGENTSTORE_SEED")), 0);
    let log = |number| store.log_path(&tenant(LARGE), &thread(&id(number))).unwrap().unwrap();
    let logs: Vec<PathBuf> = (0..THREADS).map(log).collect();
    let bytes: u64 = logs.iter().map(|log| fs::metadata(log).unwrap().len()).sum();
    for _ in 0..count {
        let number = random.below(THREADS);
        let bit = random_bit(&logs[number], &mut random);
        flip(&logs[number], bit);
        let place = format!("bit {bit} of thread {number}");
        refused += u64::from(!is_read(entries(&store, number), &written.large[number], &place));
        flip(&logs[number], bit);
    }
    assert!(written.is_read(&store, "all bits as they were"));
    println!("{count} bits of {bytes} bytes: {refused} in what was read and refused, no wrong value");
    // The others are in what leads to entries, or follows them: who reads an entry does not need it.
    assert!(refused > count * 9 / 10);
}

/// Before an opening, in any file: logs of every kind, the index, what the root says of itself.
#[test]
fn a_changed_bit_in_any_file_never_yields_a_wrong_value() {
    let (written, count) = (written(), TestLength::pick_by_env(6, 20, 1_000));
    let files: Vec<String> =
        written.place.tree().into_iter().filter_map(|(name, (_, bytes))| bytes.map(|_| name)).collect();
    let (mut random, mut refused, mut unread, mut noticed) = (Random::new(seed_from_env("AGENTSTORE_SEED")), 0, 0, 0);
    for round in 0..count {
        let copy = written.place.copy();
        let name = &files[random.below(files.len())];
        let file = copy.root().join(name);
        if fs::metadata(&file).unwrap().len() == 0 {
            continue;
        }
        let bit = random_bit(&file, &mut random);
        flip(&file, bit);
        if round % 10 == 0 {
            // All logs are read again.
            fs::remove_dir_all(copy.root().join("index")).unwrap();
        }
        let place = format!("bit {bit} of {name} (round {round})");
        match open(&copy) {
            Ok(store) => {
                let opening = store.opening();
                noticed += u64::from(opening.unclean || !opening.damaged.is_empty() || opening.index_rebuilt);
                let whole = written.is_read(&store, &place);
                unread += u64::from(!whole);
                drop(store);
                if !whole && name.starts_with("index/") {
                    assert!(written.is_read(&open(&copy).unwrap(), &place), "{place}: the index is not made anew");
                }
            }
            Err(error) => {
                let kinds = [ErrorKind::Corrupt, ErrorKind::SchemaMismatch];
                assert!(kinds.contains(&error.kind()) && !name.starts_with("index/"), "{place}: {error:?}");
                refused += 1;
            }
        }
    }
    println!(
        "{count} bits in {} files: {refused} openings refused, {noticed} that noticed something, {unread} stores of \
         which something was refused as damage, no wrong value",
        files.len()
    );
    assert!(refused + unread + noticed > 0);
}
