//! F10: logs with right sums and any text in them. Nothing panics, and what cannot be read is refused by name (FI-4).

#![expect(clippy::disallowed_methods, reason = "how long a test goes on is real time")]

use std::{
    panic,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use conformance_tests::{Random, TestLength, seed_from_env};
use store_core::{Cursor, ErrorKind, IgnoreProgress, PageRequest, Result, Store, ThreadQuery};
use store_file::{
    FileStore,
    testing::{FilePath, Kind, Open, SimDisk, Survivors, Vfs, add_checksum, read_small},
};

use crate::{
    plant::{self, Group},
    play::rehearse,
    reference::open,
    world::{config, shown, tenant, wait},
};

/// The log of a thread, an id, the outbox or the root.
struct Log {
    path: FilePath,
    header: String,
    groups: Vec<Group<Vec<u8>>>,
}

/// A disk with all that the script writes, and its logs.
fn written() -> (SimDisk, Vec<Log>) {
    let disk = SimDisk::new();
    let (clock, config) = config();
    let store = FileStore::open_on(Arc::new(disk.clone()), config).unwrap();
    rehearse(&store, &clock, drop);
    wait(store.close()).unwrap();
    let mut files = vec!["root.log".to_owned()];
    for folder in list(&disk, "tenants") {
        files.extend(list(&disk, &folder));
    }
    let logs = files.into_iter().map(|name| {
        let path = FilePath::new(name).unwrap();
        let bytes = read_small(&disk, &path, 1 << 20).unwrap().unwrap();
        let (header, groups) = plant::parse(std::str::from_utf8(&bytes).unwrap());
        let groups = groups.into_iter().map(|group| Group {
            lines: group.lines.into_iter().map(String::into_bytes).collect(),
            fields: group.fields,
        });
        Log { path, header, groups: groups.collect() }
    });
    let logs = logs.filter(|log| !log.groups.is_empty()).collect();
    (disk, logs)
}

fn list(disk: &SimDisk, folder: &str) -> Vec<String> {
    let entries = disk.list(&FilePath::new(folder).unwrap()).unwrap();
    let wanted = entries.into_iter().filter(|entry| entry.kind != Kind::Other);
    wanted.map(|entry| format!("{folder}/{}", entry.name)).collect()
}

/// What is put in the place of something else.
const PIECES: [&str; 26] = [
    "null",
    "true",
    "-1",
    "0",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e999",
    "-0.0",
    "\"\"",
    "\"a\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"id\":",
    "\"t\":\"entry\"",
    "[]",
    "{}",
    "[[[",
    "}}",
    ",",
    ":",
    "\"1970-01-01T00:00:00.000Z\"",
    "\"+262142-12-31T23:59:59.999Z\"",
    "\u{fffd}",
];

/// Changes a text somewhere; other texts are what it may be given parts of.
fn change(text: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    if text.is_empty() {
        return;
    }
    let from = random.below(text.len());
    let to = (from + random.below(24)).min(text.len());
    match random.below(8) {
        0 => text[from] ^= 1 << random.below(8),
        1 => drop(text.drain(from..to)),
        2 => drop(text.splice(from..from, (0..random.below(8)).map(|_| 32))),
        3 => drop(text.splice(from..to, PIECES[random.below(PIECES.len())].bytes())),
        4 => {
            let start = random.below(other.len().max(1)).min(other.len());
            let end = (start + random.below(200)).min(other.len());
            drop(text.splice(from..to, other[start..end].iter().copied()));
        }
        5 => {
            // A whole number, name or text, as far as quotation marks and commas tell.
            let is_end = |byte: &u8| b",:{}[]\"".contains(byte);
            let end = text[from..].iter().position(is_end).map_or(text.len(), |len| from + len);
            drop(text.splice(from..end, PIECES[random.below(PIECES.len())].bytes()));
        }
        6 => drop(text.splice(from..from, "[".repeat(1 << random.below(16)).bytes())),
        _ => drop(text.splice(from..from, "long ".repeat(1 << random.below(12)).bytes())),
    }
}

/// Changes groups: their texts, or which lines there are and where.
fn change_groups(groups: &mut Vec<Group<Vec<u8>>>, others: &[Group<Vec<u8>>], random: &mut Random) {
    let (group, other) = (random.below(groups.len()), &others[random.below(others.len())]);
    let other_line = || other.lines.first().map_or(other.fields.as_bytes(), Vec::as_slice);
    let lines = groups[group].lines.len();
    match random.below(8) {
        0 => drop(groups.remove(group)),
        1 => groups.insert(group, other.clone()),
        2 => {
            let with = random.below(groups.len());
            groups.swap(group, with);
        }
        3 => {
            let mut fields = groups[group].fields.clone().into_bytes();
            change(&mut fields, other.fields.as_bytes(), random);
            groups[group].fields = String::from_utf8_lossy(&fields).into_owned();
        }
        4 if lines > 0 => groups[group].lines[random.below(lines)] = other_line().to_vec(),
        5 if lines > 0 => {
            let line = groups[group].lines.remove(random.below(lines));
            let at = random.below(groups.len());
            groups[at].lines.push(line);
        }
        _ if lines > 0 => change(&mut groups[group].lines[random.below(lines)], other_line(), random),
        _ => {}
    }
}

/// A log with changes in it; nothing if it would be none.
fn changed(log: &Log, others: &[Group<Vec<u8>>], random: &mut Random) -> Option<Vec<u8>> {
    let (mut header, mut groups) = (log.header.clone(), log.groups.clone());
    if random.once_in(20) {
        let mut object = header.as_bytes()[..header.rfind(r#","crc":"#)?].to_vec();
        change(&mut object, others[0].fields.as_bytes(), random);
        object.push(b'}');
        header = String::from_utf8(add_checksum(&String::from_utf8_lossy(&object)).ok()?.0).ok()?;
    }
    for _ in 0..=random.below(4) {
        if !groups.is_empty() {
            change_groups(&mut groups, others, random);
        }
    }
    plant::encode(&header, &groups).ok()
}

/// Whether an answer is one, or a refusal that names damage.
fn answers<T>(result: Result<T>, what: &str) -> Option<T> {
    let allowed = [ErrorKind::Corrupt, ErrorKind::SchemaMismatch];
    result.map_err(|error| assert!(allowed.contains(&error.kind()), "{what}: {error:?}")).ok()
}

/// Opens what is on a disk and uses it in every way. Whether all of it could be read.
fn is_whole(disk: &SimDisk, with_calls: bool) -> bool {
    let Some((clock, store)) = answers(open(disk), "an opening") else { return false };
    let mut whole = store.opening().damaged.is_empty();
    whole &= answers(wait(shown(&store)), "what is shown").is_some();
    if with_calls {
        rehearse(&store, &clock, drop);
        answers(wait(shown(&store)), "what is shown later");
    }
    whole &= wait(store.inspector().unwrap().verify(&IgnoreProgress)).unwrap().findings.is_empty();
    wait(store.close()).unwrap();
    whole
}

/// Panics in the code of this crate and the core, whatever caught them.
type Panics = Arc<Mutex<Vec<String>>>;

fn watched() -> Panics {
    let panics = Panics::default();
    let (seen, before) = (Arc::clone(&panics), panic::take_hook());
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if place.contains("store-file/src") || place.contains("store-core/src") {
            seen.lock().unwrap().push(place);
        }
        before(info);
    }));
    panics
}

/// Goes on for a time: `AGENTSTORE_RANDOM_SECONDS`, or so long.
fn go_on(quick: u64, full: u64, mut round: impl FnMut(&mut Random)) -> u64 {
    let given = std::env::var("AGENTSTORE_RANDOM_SECONDS").ok().and_then(|given| given.parse().ok());
    let lasts = Duration::from_secs(given.unwrap_or(TestLength::pick_by_env(quick, full, 600)));
    let seed = seed_from_env("AGENTSTORE_SEED");
    println!("AGENTSTORE_SEED={seed}");
    let (mut random, begun, mut rounds) = (Random::new(seed), Instant::now(), 0);
    while begun.elapsed() < lasts {
        round(&mut random);
        rounds += 1;
    }
    rounds
}

/// Shows FI-4.
#[test]
fn any_text_in_a_log_is_read_or_refused() {
    let panics = watched();
    let (whole, logs) = written();
    let all: Vec<_> = logs.iter().flat_map(|log| log.groups.iter().cloned()).collect();
    let (mut opened, mut good) = (0, 0);
    let rounds = go_on(4, 60, |random| {
        let log = &logs[random.below(logs.len())];
        let Some(bytes) = changed(log, &all, random) else { return };
        let disk = whole.after_crash(Survivors::All);
        let file = disk.open(&log.path, Open::Write).unwrap();
        file.truncate(0).unwrap();
        file.write_at(&bytes, 0).unwrap();
        opened += 1;
        good += u64::from(is_whole(&disk, random.once_in(8)));
        let panics = panics.lock().unwrap();
        assert!(panics.is_empty(), "round {opened}: {panics:?} with {}", String::from_utf8_lossy(&bytes));
    });
    println!("{rounds} changed logs, {opened} of them opened: {good} without a fault");
    assert!(good > 0 && good < opened);
}

/// Shows PG-4.
#[test]
fn any_text_used_as_a_cursor_is_refused_or_continues_a_list() {
    let (disk, _) = written();
    let (_, store) = open(&disk).unwrap();
    let threads = store.tenant(&tenant("default")).unwrap().threads.unwrap();
    let list = |page: PageRequest| wait(threads.list_threads(ThreadQuery::default().with_page(page)));
    let good = list(PageRequest::first(2)).unwrap().next.unwrap();
    let own = list(PageRequest::first(1000)).unwrap().items;
    let mut refused = 0;
    let rounds = go_on(1, 5, |random| {
        let mut text = good.as_str().as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            change(&mut text, good.as_str().as_bytes(), random);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        match list(PageRequest::first(2).after(Cursor::from_text(text.clone()))) {
            Ok(page) => assert!(page.items.iter().all(|thread| own.contains(thread)), "{text}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{text}");
                refused += 1;
            }
        }
    });
    println!("{rounds} cursors, {refused} of them refused");
    assert!(refused > 0);
}
