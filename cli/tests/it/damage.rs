//! Damage: `verify` finds it and says where it is, and `repair` rebuilds only what can be derived.

use std::{fs, path::PathBuf};

use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use store_file::testing::{Position, encode_group, verified_checksum};

use crate::helpers::{TestStore, closed_pipe, value_at};

fn store_with_two_threads() -> TestStore {
    let store = TestStore::new();
    for text in ["one", "two", "three"] {
        store.append("damaged", text);
        store.append("sound", text);
    }
    store
}

pub(crate) fn damaged_log(store: &TestStore) -> PathBuf {
    let folder = fs::read_dir(store.path().join("tenants")).unwrap().next().unwrap().unwrap().path();
    let mut logs = fs::read_dir(folder).unwrap().map(|log| log.unwrap().path());
    logs.find(|log| log.file_name().unwrap().to_string_lossy().starts_with("damaged.")).unwrap()
}

/// Changes a bit of a line. The first line has the number 0.
pub(crate) fn flip_bit(log: PathBuf, line: usize) {
    let mut bytes = fs::read(&log).unwrap();
    let start: usize = bytes.split_inclusive(|byte| *byte == b'\n').take(line).map(<[u8]>::len).sum();
    bytes[start + 9] ^= 1;
    fs::write(log, bytes).unwrap();
}

/// Changes the groups of a log and writes them with correct checksums. Each commit of the log must have one entry.
pub(crate) fn rewrite_groups(log: PathBuf, change: impl FnOnce(&mut Vec<String>)) {
    let text = fs::read_to_string(&log).unwrap();
    let (header, lines) = text.split_once('\n').unwrap();
    // A group ends with its commit line. The first group has more lines than the others: one is for the thread.
    let mut groups: Vec<String> = Vec::new();
    for line in lines.lines() {
        match groups.last_mut().filter(|group| !group.contains(r#"{"t":"commit","#)) {
            Some(group) => *group = format!("{group}\n{line}"),
            None => groups.push(line.to_owned()),
        }
    }
    change(&mut groups);
    let mut bytes = format!("{header}\n").into_bytes();
    let mut position = Position { offset: bytes.len() as u64, crc: verified_checksum(header.as_bytes()).unwrap() };
    for group in groups {
        let (lines, commit) = group.rsplit_once('\n').unwrap();
        let fields = &commit[r#"{"t":"commit","v":2,"#.len()..commit.rfind(r#","batch":"#).unwrap()];
        let lines: Vec<&str> = lines.lines().collect();
        position = encode_group(&mut bytes, position, 1, &lines, &format!("{{{fields}}}")).unwrap().end;
    }
    fs::write(log, bytes).unwrap();
}

/// Changes a row of the index. `change` gets the old row, or an empty text if there is none, and returns the new row.
fn change_row(store: &TestStore, key: &[u8], change: impl Fn(&str) -> String) {
    let database = Database::builder(store.path().join("index")).open().unwrap();
    let rows = database.keyspace("rows", KeyspaceCreateOptions::default).unwrap();
    let old = rows.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap()).unwrap_or_default();
    let new = change(&old);
    assert_ne!(old, new);
    rows.insert(key, new).unwrap();
    database.persist(PersistMode::SyncAll).unwrap();
}

const THREAD_ROW_KEY: &[u8] = b"\x01default\0\x01damaged\0\x01";

/// Returns the accepted data: the bytes of every log. The index and the files that change whenever the store is opened
/// for writing are left out.
fn accepted_data(store: &TestStore) -> Vec<(PathBuf, Vec<u8>)> {
    let tenants = fs::read_dir(store.path().join("tenants")).unwrap().map(|tenant| tenant.unwrap().path());
    let mut logs: Vec<_> =
        tenants.flat_map(|tenant| fs::read_dir(tenant).unwrap().map(|log| log.unwrap().path())).collect();
    logs.push(store.path().join("root.log"));
    logs.sort();
    logs.into_iter().map(|log| (log.clone(), fs::read(log).unwrap())).collect()
}

/// Tests VF-1: `verify` reads every tenant, thread and entry, and finds nothing wrong in a sound store.
#[test]
fn verify_reads_all_of_a_sound_store() {
    let store = store_with_two_threads();
    let report = store.json(&["verify"]);
    for (total, number) in [("/tenants", 1), ("/threads", 2), ("/entries", 6)] {
        assert_eq!(value_at(&report, total), number, "{report}");
    }
    assert_eq!(value_at(&report, "/findings").as_array().unwrap().len(), 0);
    assert_eq!(value_at(&report, "/capabilities/survives"), "power");
    let response = store.run(&["verify"]).expect_success();
    assert!(
        response.out.contains("nothing is wrong") && response.out.contains("survives a power cut"),
        "{}",
        response.out
    );
    store.run(&["repair", "--dry-run"]).expect_success();
    store.run(&["repair"]).expect_success();
}

/// One kind of planted damage: its name, how it is planted, and the finding: its `kind`, a part of its `place`, and its
/// `repair`.
type PlantedDamage = (&'static str, fn(&TestStore), &'static str, &'static str, &'static str);

const PLANTED_DAMAGE: [PlantedDamage; 13] = [
    ("a bit flip in the middle", |store| flip_bit(damaged_log(store), 4), "damaged", "damaged.", "needs_backup"),
    ("a bit flip in the first group", |store| flip_bit(damaged_log(store), 2), "damaged", "damaged.", "needs_backup"),
    ("a bit flip in the header", |store| flip_bit(damaged_log(store), 0), "damaged", ".jsonl:0", "needs_backup"),
    ("a root log bit flip", |store| flip_bit(store.path().join("root.log"), 1), "damaged", "root.log:", "needs_backup"),
    ("a missing log", |store| fs::remove_file(damaged_log(store)).unwrap(), "missing_log", "damaged.", "needs_backup"),
    (
        "a missing group",
        |store| rewrite_groups(damaged_log(store), |groups| drop(groups.remove(1))),
        "sequence_gap",
        "entry 2",
        "needs_backup",
    ),
    (
        "a missing parent",
        |store| {
            rewrite_groups(damaged_log(store), |groups| {
                groups[1] = groups[1].replace(r#""parent":"0"#, r#""parent":"9"#)
            })
        },
        "missing_parent",
        "entry 2",
        "needs_backup",
    ),
    (
        "a wrong head",
        |store| change_row(store, THREAD_ROW_KEY, |row| row.replace(r#""head":"0"#, r#""head":"9"#)),
        "wrong_head",
        "head",
        "can_be_rebuilt",
    ),
    (
        "a wrong count of leaves",
        |store| change_row(store, THREAD_ROW_KEY, |row| row.replace(r#""leaves":1"#, r#""leaves":2"#)),
        "wrong_sum",
        "leaves",
        "can_be_rebuilt",
    ),
    (
        "a run without its thread",
        |store| {
            let row = r#"{"log":999,"span":[0,1,1],"thread":"gone","status":"running","created_at":1}"#;
            change_row(store, b"\x05default\0\x01r-9\0\x01", |_| row.to_owned());
        },
        "orphan_run",
        "index, run `r-9`",
        "can_be_rebuilt",
    ),
    (
        "an outdated index",
        |store| {
            let (index, old) = (store.path().join("index"), store.sibling_path("old"));
            copy_folder(&index, &old);
            store.append("damaged", "later");
            fs::remove_dir_all(&index).unwrap();
            fs::rename(old, index).unwrap();
        },
        "stale_index",
        "index",
        "can_be_rebuilt",
    ),
    (
        "a log without a thread",
        |store| {
            fs::write(damaged_log(store).with_file_name("other.1.jsonl"), fs::read(damaged_log(store)).unwrap())
                .unwrap()
        },
        "orphan_file",
        "other.1.jsonl",
        "left_alone",
    ),
    (
        "a torn tail after a clean close",
        |store| {
            fs::write(damaged_log(store), [fs::read(damaged_log(store)).unwrap(), b"torn".to_vec()].concat()).unwrap()
        },
        "foreign_change",
        "damaged.",
        "needs_backup",
    ),
];

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Tests VF-1 and VF-5: `verify` finds each kind of damage and names its place. `repair` rebuilds what is derived, and
/// changes no accepted data.
#[test]
fn all_damage_is_found_and_derived_data_is_repaired() {
    for (damage_name, plant, kind, place, repair) in PLANTED_DAMAGE {
        let store = store_with_two_threads();
        store.append("gone", "hi");
        store.run(&["delete", "gone", "--yes"]).expect_success();
        // The next write removes the data that the deletion left.
        store.append("sound", "four");
        plant(&store);
        let data_before = accepted_data(&store);
        let response = store.run(&["verify"]);
        assert_eq!(response.code, 1, "{damage_name}: {response:?}");
        assert!(
            response.out.contains(&kind.replace('_', " ")) && response.out.contains(place),
            "{damage_name}: {response:?}"
        );
        assert!(response.out.contains("1 finding"), "{damage_name}: {response:?}");
        let verify_output = store.run(&["verify", "--json"]);
        let document = verify_output.documents().remove(0);
        assert_eq!((verify_output.code, value_at(&document, "/findings/0/kind")), (1, &kind.into()), "{damage_name}");
        assert_eq!(value_at(&document, "/findings/0/repair"), repair, "{damage_name}");
        assert!(
            value_at(&document, "/findings/0/place").as_str().unwrap().contains(place),
            "{damage_name}: {document}"
        );
        assert!(accepted_data(&store) == data_before, "{damage_name}");
        let can_be_rebuilt = repair == "can_be_rebuilt";
        let code = i32::from(!can_be_rebuilt);
        let dry_run_output = store.run(&["repair", "--dry-run", "--json"]);
        assert_eq!(
            (dry_run_output.code, value_at(&dry_run_output.documents()[0], "/findings/0/repair")),
            (code, &repair.into()),
            "{damage_name}"
        );
        let repair_output = store.run(&["repair", "--yes", "--json"]);
        let expected_repair = if can_be_rebuilt { "rebuilt" } else { repair };
        assert_eq!(
            (repair_output.code, value_at(&repair_output.documents()[0], "/findings/0/repair")),
            (code, &expected_repair.into()),
            "{damage_name}"
        );
        assert_eq!(store.run(&["verify"]).code, code, "{damage_name}");
        assert!(accepted_data(&store) == data_before, "{damage_name}");
        store.run(&["append", "sound", "--message", "five"]).expect_success();
    }
}

/// Tests VF-1: the exit code reports the damage, even if the reader has closed the output.
#[test]
fn verify_fails_on_damage_even_if_its_output_is_not_read() {
    let store = store_with_two_threads();
    flip_bit(damaged_log(&store), 2);
    for args in [&["verify"][..], &["verify", "--json"]] {
        assert_eq!(store.run_with_stdout(args, closed_pipe()).code, 1, "{args:?}");
    }
    assert_eq!(store.run_with_stdout(&["threads"], closed_pipe()).code, 0);
}

#[test]
fn a_repair_asks_for_confirmation() {
    let store = store_with_two_threads();
    change_row(&store, THREAD_ROW_KEY, |row| row.replace(r#""leaves":1"#, r#""leaves":2"#));
    let response = store.run_with_input(&["repair"], "n\n");
    assert!(
        response.code == 1 && response.err.contains("Repair 1 finding?") && response.err.contains("nothing was done"),
        "{response:?}"
    );
    assert_eq!(store.run(&["verify"]).code, 1);
    assert_eq!(store.run_with_input(&["repair"], "y\n").code, 0);
    store.run(&["verify"]).expect_success();
}

/// Tests VF-1: a command that must read a damaged root log to open the store says where the damage is, and does not
/// open the store.
#[test]
fn damage_in_the_middle_of_the_root_log_is_located() {
    let store = store_with_two_threads();
    for id in ["x", "y"] {
        store.append(id, "hi");
        store.run(&["delete", id, "--yes"]).expect_success();
    }
    let data_before = accepted_data(&store);
    flip_bit(store.path().join("root.log"), 1);
    let response = store.run(&["verify"]);
    assert!(response.code == 1 && response.out.contains("root.log at byte "), "{response:?}");
    // Without an index, the records must be read to open the store.
    fs::remove_dir_all(store.path().join("index")).unwrap();
    store.run(&["verify"]).expect_failure(1, &["root.log at byte "]);
    let error = store.run(&["verify", "--json"]);
    assert_eq!((error.code, value_at(&error.error(), "/kind")), (1, &"corrupt".into()));
    flip_bit(store.path().join("root.log"), 1);
    assert!(accepted_data(&store) == data_before);
    store.run(&["verify"]).expect_success();
}

/// Tests FI-4: a store whose journal is lost is refused with advice, and `repair --accept-lost-journal` opens it.
#[test]
fn a_store_without_its_journal_is_opened_on_request() {
    let store = store_with_two_threads();
    for name in ["journal.0", "journal.1"] {
        fs::remove_file(store.path().join(name)).unwrap();
    }
    fs::remove_dir_all(store.path().join("index")).unwrap();
    let data_before = accepted_data(&store);
    store.run(&["repair", "--yes"]).expect_failure(1, &["the journal", "--accept-lost-journal"]);
    store.run(&["repair", "--accept-lost-journal"]).expect_failure(2, &["--yes"]);
    assert!(accepted_data(&store) == data_before);
    let response = store.run(&["repair", "--yes", "--accept-lost-journal"]);
    assert!(response.code == 1 && response.out.contains("is lost"), "{response:?}");
    store.run(&["verify"]).expect_success();
    store.append("sound", "five");
}
