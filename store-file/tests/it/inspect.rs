//! Verify and repair: each damage is found and named, nothing is changed by looking, and only what follows from the
//! logs is made again (VF-1, VF-5).

use std::{fs, path::Path};

use store_core::{
    ChildStrategy, Commit, DeleteRequest, ErrorKind, Expect, IgnoreProgress, NewEntry, NewThread, Store, ThreadFields,
    ThreadQuery,
    inspect::{FindingKind, Inspection, RepairStatus},
    log::RewindTo,
};
use store_file::FileStore;

use crate::{
    damage::killed,
    folder::{Place, Tree, answers, commit, copy_tree, edit, fill, say, saying, thread, threads},
    plant::{LOG, RUN, THREAD, THREAD_ORDER, change_entry, change_index, change_row, rewrite, starts, text_of},
};

/// A closed root: `a` with a run, `b` with a rewind at its end, `c` below `a`; two threads were deleted.
async fn closed() -> (Place, Vec<String>) {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let first = text_of(&place.log("b"), 1, r#""id":""#);
    let back = NewEntry::new(RewindTo::Entry(first.parse().unwrap()));
    commit(&store, Commit::new(thread("b")).entry(back).with_key("back".parse().unwrap())).await.unwrap();
    let mut below = ThreadFields::default();
    below.parent_thread_id = Some(thread("a"));
    commit(&store, saying("c", "a child").expecting(Expect::Absent).creating(below)).await.unwrap();
    for id in ["d", "e"] {
        say(&store, id, "to be deleted").await.unwrap();
        threads(&store).delete_thread(&thread(id), DeleteRequest::default()).await.unwrap();
    }
    threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
    let expected = answers(&store).await.unwrap();
    store.close().await.unwrap();
    (place, expected)
}

async fn verify(store: &FileStore) -> Inspection {
    store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap()
}

async fn repair(store: &FileStore, dry_run: bool) -> Inspection {
    store.inspector().unwrap().repair(dry_run, &IgnoreProgress).await.unwrap()
}

/// What is found: kind, thread, place, and what a repair does.
type Found = Vec<(FindingKind, Option<String>, String, RepairStatus)>;

fn found(inspection: &Inspection) -> Found {
    let findings = inspection.findings.iter();
    findings.map(|f| (f.kind, f.thread.as_ref().map(ToString::to_string), f.place.clone(), f.repair)).collect()
}

/// All but the index and what an opening to write always writes.
fn kept(place: &Place) -> Tree {
    let mut tree = place.tree();
    tree.retain(|name, _| !["index", "journal.", "lock", "reserve"].iter().any(|other| name.starts_with(other)));
    tree
}

fn name(place: &Place, path: &Path) -> String {
    path.strip_prefix(place.root()).unwrap().to_str().unwrap().to_owned()
}

/// Plants one damage, and says what is to be found: kind, thread, place.
type Plant = fn(&Place) -> (FindingKind, Option<&'static str>, String);

/// A flipped bit in a group of a log.
fn flip(place: &Place, id: &'static str, group: usize) -> (FindingKind, Option<&'static str>, String) {
    let log = place.log(id);
    let start = starts(&log)[group];
    edit(&log, |bytes| bytes[start + 40] ^= 4);
    (FindingKind::Damaged, Some(id), format!("{}:{start}", name(place, &log)))
}

fn nobody(of: &str) -> String {
    of.chars().map(|character| if character == '-' { '-' } else { '0' }).collect()
}

/// Damage of what was accepted: nothing can make it again.
const LOST: [(&str, Plant); 13] = [
    ("a bit in the middle of a log", |place| flip(place, "a", 2)),
    ("a bit in the first group", |place| flip(place, "a", 0)),
    ("a bit in the last group", |place| flip(place, "a", 5)),
    ("a bit in the header", |place| {
        edit(&place.log("a"), |log| log[5] ^= 1);
        (FindingKind::Damaged, Some("a"), format!("{}:0", name(place, &place.log("a"))))
    }),
    ("a bit in the last fact of the root log", |place| {
        let log = place.root().join("root.log");
        let start = starts(&log)[1];
        edit(&log, |bytes| bytes[start + 40] ^= 4);
        (FindingKind::Damaged, None, format!("root.log:{start}"))
    }),
    ("a missing log", |place| {
        let log = place.log("b");
        fs::remove_file(&log).unwrap();
        (FindingKind::MissingLog, Some("b"), name(place, &log))
    }),
    ("a log without one of its groups", |place| {
        rewrite(&place.log("b"), |groups| drop(groups.remove(1)));
        (FindingKind::SequenceGap, Some("b"), "entry 2".to_owned())
    }),
    ("a number left out", |place| {
        change_entry(&place.log("b"), 3, r#""seq":3,"#, r#""seq":7,"#);
        (FindingKind::SequenceGap, Some("b"), "entry 3".to_owned())
    }),
    ("a parent that is not there", |place| {
        let parent = text_of(&place.log("b"), 3, r#""parent":""#);
        change_entry(&place.log("b"), 3, &parent, &nobody(&parent));
        (FindingKind::MissingParent, Some("b"), "entry 3".to_owned())
    }),
    ("a head that is not there", |place| {
        let head = text_of(&place.log("b"), 5, r#""to":""#);
        change_entry(&place.log("b"), 5, &head, &nobody(&head));
        (FindingKind::DanglingReference, Some("b"), "entry 5".to_owned())
    }),
    ("a run that names another thread", |place| {
        rewrite(&place.log("a"), |groups| {
            for line in groups.iter_mut().flat_map(|group| &mut group.lines) {
                *line = line.replace(r#""id":"r-1","thread":"a""#, r#""id":"r-1","thread":"z""#);
            }
        });
        (FindingKind::OrphanRun, Some("a"), "run `r-1`".to_owned())
    }),
    ("a log that others made shorter", |place| {
        let log = place.log("b");
        rewrite(&log, |groups| groups.truncate(3));
        (FindingKind::ForeignChange, Some("b"), name(place, &log))
    }),
    ("a log that others made longer", |place| {
        let log = place.log("b");
        let len = fs::metadata(&log).unwrap().len();
        edit(&log, |bytes| bytes.extend_from_slice(b"{\"t\":\"entry\"}\n"));
        (FindingKind::ForeignChange, Some("b"), format!("{}:{len}", name(place, &log)))
    }),
];

/// Things that belong to nothing: nobody needs them.
const ORPHANS: [(&str, Plant); 3] = [
    ("a log under another name", |place| {
        let log = place.log("a").with_file_name("copy.1.jsonl");
        fs::copy(place.log("a"), &log).unwrap();
        (FindingKind::OrphanFile, None, name(place, &log))
    }),
    ("a file that is no log", |place| {
        let file = place.log("a").with_file_name("notes.txt");
        fs::write(&file, b"mine").unwrap();
        (FindingKind::OrphanFile, None, name(place, &file))
    }),
    ("a file between the tenants", |place| {
        fs::write(place.root().join("tenants/notes.txt"), b"mine").unwrap();
        (FindingKind::OrphanFile, None, "tenants/notes.txt".to_owned())
    }),
];

/// Damage of the index: it follows from the logs.
const DERIVED: [(&str, Plant); 10] = [
    ("a place of no thread", |place| {
        change_index(&place.root(), THREAD_ORDER, |key, _| {
            let gone = [&key[..key.len() - 3], b"z\0\x01"].concat();
            key.ends_with(b"a\0\x01").then(|| (gone, Some(String::new())))
        });
        (FindingKind::StaleIndex, None, "index".to_owned())
    }),
    ("another head", |place| {
        let head = text_of(&place.log("a"), 6, r#""id":""#);
        change_row(&place.root(), THREAD, r#""id":"a""#, &head, &nobody(&head));
        (FindingKind::WrongHead, Some("a"), "head".to_owned())
    }),
    ("another number of leaves", |place| {
        change_row(&place.root(), THREAD, r#""id":"a""#, r#""leaves":1"#, r#""leaves":3"#);
        (FindingKind::WrongSum, Some("a"), "leaves".to_owned())
    }),
    ("another number of entries", |place| {
        change_row(&place.root(), THREAD, r#""id":"a""#, r#""version":6"#, r#""version":5"#);
        (FindingKind::SequenceGap, Some("a"), "version".to_owned())
    }),
    ("another time of its making", |place| {
        change_row(
            &place.root(),
            THREAD,
            r#""id":"a""#,
            r#""created_at":1763700000000"#,
            r#""created_at":1763700000001"#,
        );
        (FindingKind::StaleIndex, Some("a"), "index".to_owned())
    }),
    ("no row of the thread", |place| {
        change_index(&place.root(), THREAD, |key, value| value.contains(r#""id":"b""#).then(|| (key.to_vec(), None)));
        (FindingKind::StaleIndex, Some("b"), "index".to_owned())
    }),
    ("no row of the log", |place| {
        change_index(&place.root(), LOG, |key, value| value.contains(r#""thread":"b""#).then(|| (key.to_vec(), None)));
        (FindingKind::StaleIndex, Some("b"), format!("{}:0", name(place, &place.log("b"))))
    }),
    ("a row of a shorter log", |place| {
        let starts = starts(&place.log("b"));
        let text = fs::read_to_string(place.log("b")).unwrap();
        let sum = |end: usize| u32::from_str_radix(&text[end - 11..end - 3], 16).unwrap();
        let row = |end: usize| format!(r#""end":{end},"crc":{}"#, sum(end));
        change_row(&place.root(), LOG, r#""thread":"b""#, &row(starts[5]), &row(starts[3]));
        (FindingKind::StaleIndex, Some("b"), format!("{}:{}", name(place, &place.log("b")), starts[3]))
    }),
    ("a run without its thread", |place| {
        change_index(&place.root(), RUN, |key, value| {
            let key = [&key[..key.len() - 3], b"9\0\x01"].concat();
            let log = value.split([':', ',']).nth(1).unwrap();
            Some((key, Some(value.replacen(&format!(r#""log":{log}"#), r#""log":999"#, 1))))
        });
        (FindingKind::OrphanRun, None, "index, run `r-9`".to_owned())
    }),
    ("no run", |place| {
        change_index(&place.root(), RUN, |key, _| Some((key.to_vec(), None)));
        (FindingKind::WrongSum, Some("a"), "open runs".to_owned())
    }),
];

fn expect(planted: (FindingKind, Option<&str>, String), repair: RepairStatus) -> Found {
    let (kind, thread, place) = planted;
    vec![(kind, thread.map(str::to_owned), place, repair)]
}

/// What a store for reading finds changes not one byte, not even of the index.
async fn verified_for_reading(place: &Place) -> Inspection {
    let before = place.tree();
    let reader = FileStore::open(place.root(), place.config().read_only()).unwrap();
    let seen = verify(&reader).await;
    assert_eq!(repair(&reader, true).await, seen);
    reader.close().await.unwrap();
    assert!(place.tree() == before);
    seen
}

/// Shows VF-1: nothing is found in a store in which nothing is wrong, and all of it was read.
#[tokio::test]
async fn nothing_is_found_in_an_undamaged_store() {
    let (place, expected) = closed().await;
    let seen = verified_for_reading(&place).await;
    let store = place.open();
    for seen in [seen, verify(&store).await, repair(&store, true).await, repair(&store, false).await] {
        assert_eq!(seen.findings, []);
        assert_eq!((seen.tenants, seen.threads, seen.entries, seen.runs), (1, 3, 12, 1));
    }
    assert_eq!(answers(&store).await.unwrap(), expected);
}

/// Shows VF-1, VF-5: damage of accepted data and files of nobody are found and named once, and neither verify nor
/// repair changes a byte of what counts.
#[tokio::test]
async fn damage_that_cannot_be_repaired_is_named_and_left_unchanged() {
    let (whole, _) = closed().await;
    let lost = LOST.iter().map(|plant| (plant, RepairStatus::NeedsBackup));
    for ((what, plant), repairable) in lost.chain(ORPHANS.iter().map(|plant| (plant, RepairStatus::LeftAlone))) {
        let place = whole.copy();
        let expected = expect(plant(&place), repairable);
        assert_eq!(found(&verified_for_reading(&place).await), expected, "{what}, for reading");
        let before = kept(&place);
        let store = place.open();
        let read = format!("{:?}", answers(&store).await);
        for seen in
            [verify(&store).await, repair(&store, true).await, repair(&store, false).await, verify(&store).await]
        {
            assert_eq!(found(&seen), expected, "{what}");
        }
        assert_eq!(format!("{:?}", answers(&store).await), read, "{what}");
        say(&store, "c", "the others go on").await.unwrap();
        store.close().await.unwrap();
        let after = kept(&place);
        assert!(before.iter().all(|(name, file)| name.contains("/c.") || after.get(name) == Some(file)), "{what}");
    }
}

/// Shows VF-1, VF-5: what the index says wrongly is found, left by verify and by a dry run, and made again from the
/// logs, of which nothing changes.
#[tokio::test]
async fn data_derived_from_the_logs_is_rebuilt() {
    let (whole, expected) = closed().await;
    for (what, plant) in DERIVED {
        let place = whole.copy();
        let planted = plant(&place);
        let is_right = |seen: &Inspection, repair: RepairStatus| {
            let all = found(seen);
            assert_eq!(all[..1], expect(planted.clone(), repair), "{what}: {all:?}");
            assert!(all.iter().all(|(.., done)| *done == repair), "{what}: {all:?}");
        };
        is_right(&verified_for_reading(&place).await, RepairStatus::CanBeRebuilt);
        let before = kept(&place);
        let store = place.open();
        for seen in [verify(&store).await, repair(&store, true).await, verify(&store).await] {
            is_right(&seen, RepairStatus::CanBeRebuilt);
        }
        is_right(&repair(&store, false).await, RepairStatus::Rebuilt);
        assert_eq!(found(&verify(&store).await), [], "{what}");
        assert_eq!(answers(&store).await.unwrap(), expected, "{what}");
        store.close().await.unwrap();
        assert!(kept(&place) == before, "{what}");
        assert_eq!(found(&verified_for_reading(&place).await), [], "{what}");
        let store = place.open();
        assert_eq!(answers(&store).await.unwrap(), expected, "{what}");
        say(&store, "a", "it goes on").await.unwrap();
        say(&store, "b", "it goes on").await.unwrap();
        assert_eq!(found(&verify(&store).await), [], "{what}");
    }
}

/// Shows VF-1, VF-5: an index of an earlier time is found by a reader, and made again by whoever opens the root to
/// write, who says so.
#[tokio::test]
async fn an_outdated_index_is_found() {
    let (place, _) = closed().await;
    let old = place.around.path().join("old");
    copy_tree(&place.root().join("index"), &old);
    let store = place.open();
    say(&store, "a", "later").await.unwrap();
    let expected = answers(&store).await.unwrap();
    store.close().await.unwrap();
    fs::remove_dir_all(place.root().join("index")).unwrap();
    copy_tree(&old, &place.root().join("index"));
    let stale = |repair| expect((FindingKind::StaleIndex, None, "index".to_owned()), repair);
    assert_eq!(found(&verified_for_reading(&place).await), stale(RepairStatus::CanBeRebuilt));
    let before = kept(&place);
    let store = place.open();
    assert_eq!(found(&repair(&store, false).await), stale(RepairStatus::Rebuilt));
    assert_eq!(answers(&store).await.unwrap(), expected);
    store.close().await.unwrap();
    assert!(kept(&place) == before);
    assert_eq!(found(&verified_for_reading(&place).await), []);
    // Damaged files of the index are told as well.
    let journal = place.tree().into_keys().find(|name| name.starts_with("index/") && name.ends_with(".jnl")).unwrap();
    edit(&place.root().join(journal), |bytes| bytes.fill(0xff));
    let seen = verified_for_reading(&place).await;
    assert!(found(&seen).is_empty() || found(&seen) == stale(RepairStatus::CanBeRebuilt), "{seen:?}");
}

/// Shows VF-1: a damaged index is a note, and not a finding, if the root was not closed. A power cut may leave one, and
/// the next opening for writing makes it anew.
#[tokio::test]
async fn a_damaged_index_behind_a_crash_is_a_note() {
    let (place, expected) = killed().await;
    fs::write(place.root().join("index/damaged"), []).unwrap();
    let seen = verified_for_reading(&place).await;
    assert_eq!((found(&seen), seen.notes.len()), (vec![], 1), "{seen:?}");
    assert!(seen.notes[0].place == "index" && seen.notes[0].detail.contains("next opened"), "{:?}", seen.notes);
    let store = place.open();
    let seen = verify(&store).await;
    assert!(found(&seen).is_empty() && seen.notes[0].detail.contains("was rebuilt"), "{seen:?}");
    assert_eq!(answers(&store).await.unwrap(), expected);
    store.close().await.unwrap();
    assert_eq!(verified_for_reading(&place).await.notes, []);
}

/// Shows VF-1, FI-4: without an index damage is found in the same places, once, and nobody says of a thread that is
/// damaged from its first commit on that it does not exist.
#[tokio::test]
async fn damage_is_also_located_without_an_index() {
    let (whole, _) = closed().await;
    for (what, plant) in LOST.iter().take(2).chain(LOST.iter().skip(6).take(4)).chain(&LOST[3..4]) {
        let place = whole.copy();
        let mut expected = expect(plant(&place), RepairStatus::NeedsBackup);
        fs::remove_dir_all(place.root().join("index")).unwrap();
        if *what == "a bit in the header" {
            // Of a log without a header nobody can say whose it is.
            expected[0].1 = None;
        }
        let is_same = |seen: &Inspection| assert_eq!(found(seen), expected, "{what}");
        is_same(&verified_for_reading(&place).await);
        let before = kept(&place);
        let store = place.open();
        is_same(&verify(&store).await);
        is_same(&repair(&store, false).await);
        store.close().await.unwrap();
        assert!(kept(&place) == before, "{what}");
    }
}

/// Shows FI-4: of a thread that is damaged from its first commit on every call says where.
#[tokio::test]
async fn a_thread_damaged_from_its_beginning_is_not_reported_as_unknown() {
    let (whole, _) = closed().await;
    for (_, plant) in [LOST[1], LOST[3]] {
        let place = whole.copy();
        let (_, _, at) = plant(&place);
        is_not_unknown(&place, &at.replace(':', " at byte ")).await;
    }
}

async fn is_not_unknown(place: &Place, at: &str) {
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let store = place.open();
    let file = at.split(' ').next().unwrap();
    assert!(store.opening().damaged.iter().any(|damage| damage.contains(file)), "{:?}", store.opening());
    let all = threads(&store);
    let listed = all.list_threads(ThreadQuery::default()).await.unwrap().items;
    assert_eq!(listed.len(), 2);
    let mut below = ThreadFields::default();
    below.parent_thread_id = Some(thread("a"));
    let errors = [
        all.load_thread(&thread("a")).await.unwrap_err(),
        say(&store, "a", "x").await.unwrap_err(),
        all.create_thread(NewThread::new(thread("a"))).await.unwrap_err(),
        all.create_thread(NewThread::new(thread("n")).with_fields(below.clone())).await.unwrap_err(),
        commit(&store, saying("n", "x").creating(below)).await.unwrap_err(),
        all.validate_parent(&thread("b"), &thread("a")).await.unwrap_err(),
        all.delete_thread(&thread("a"), DeleteRequest::default()).await.unwrap_err(),
        store.log_path(&store_core::TenantId::default_tenant(), &thread("a")).unwrap_err(),
    ];
    for error in errors {
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().ends_with(at), "{error}");
    }
    let reject = DeleteRequest { children: ChildStrategy::Reject, ..DeleteRequest::default() };
    all.delete_thread(&thread("c"), reject).await.unwrap();
}

/// Shows VF-1, FI-16: damage in the middle of the root log is found where the root can be opened without reading it,
/// and keeps anybody from opening it who has to; so does a root log that is gone.
#[tokio::test]
async fn a_damaged_root_log_is_found() {
    let (whole, _) = closed().await;
    let place = whole.copy();
    let log = place.root().join("root.log");
    let start = starts(&log)[0];
    edit(&log, |bytes| bytes[start + 40] ^= 4);
    let (before, at) = (fs::read(&log).unwrap(), format!("root.log at byte {start}"));
    let damaged = expect((FindingKind::Damaged, None, at.clone()), RepairStatus::NeedsBackup);
    assert_eq!(found(&verified_for_reading(&place).await), damaged);
    // Without an index an opening needs the record.
    let bare = place.copy();
    fs::remove_dir_all(bare.root().join("index")).unwrap();
    for config in [bare.config(), bare.config().read_only()] {
        let error = FileStore::open(bare.root(), config).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(&at), "{error}");
    }
    let store = place.open();
    for seen in [verify(&store).await, repair(&store, false).await] {
        assert_eq!(found(&seen), damaged);
    }
    store.close().await.unwrap();
    assert_eq!(fs::read(&log).unwrap(), before);
    fs::remove_file(&log).unwrap();
    let error = place.try_open().unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("root.log"), "{error}");
}

/// Shows VF-1: a killed process leaves no damage, and a torn tail is told apart from it.
#[tokio::test]
async fn traces_of_a_killed_process_are_distinguished_from_damage() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let killed = place.copy();
    assert_eq!(found(&verified_for_reading(&killed).await), []);
    let log = killed.log("a");
    let torn = format!("{}:{}", name(&killed, &log), fs::metadata(&log).unwrap().len());
    edit(&log, |bytes| bytes.extend_from_slice(br#"{"t":"entry","seq":7"#));
    let torn = expect((FindingKind::TornTail, Some("a"), torn), RepairStatus::CanBeRebuilt);
    assert_eq!(found(&verified_for_reading(&killed).await), torn);
    assert_eq!(found(&repair(&killed.open(), false).await), []);
    fs::remove_file(killed.log("b")).unwrap();
    let missing = verified_for_reading(&killed).await;
    assert_eq!(missing.findings.len(), 1, "{missing:?}");
    assert_eq!(missing.findings[0].kind, FindingKind::MissingLog);
}

/// Shows VF-1, FI-15: what a holder writes meanwhile is no damage to a reader beside it.
#[tokio::test]
async fn writes_during_an_inspection_are_not_damage() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let reader = FileStore::open(place.root(), place.config().read_only()).unwrap();
    say(&store, "a", "later").await.unwrap();
    say(&store, "n", "new").await.unwrap();
    threads(&store).delete_thread(&thread("b"), DeleteRequest::default()).await.unwrap();
    threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
    assert_eq!(found(&verify(&reader).await), []);
}
