//! Damage: it is found, named, and left as it is.

use std::{fs, path::PathBuf};

use crate::given::{Store, at};

fn logs(store: &Store) -> Vec<PathBuf> {
    let document = store.json(&["threads"]);
    let threads = at(&document, "/threads").as_array().unwrap();
    threads.iter().map(|thread| PathBuf::from(at(thread, "/log_file").as_str().unwrap())).collect()
}

fn two_threads() -> Store {
    let store = Store::new();
    for text in ["one", "two", "three"] {
        store.append("damaged", text);
        store.append("sound", text);
    }
    store
}

/// VF-1
#[test]
fn a_sound_store_is_read_as_a_whole() {
    let store = two_threads();
    let report = store.json(&["verify"]);
    for (sum, number) in [("/tenants", 1), ("/threads", 2), ("/entries", 6)] {
        assert_eq!(at(&report, sum), number, "{report}");
    }
    assert_eq!(at(&report, "/findings").as_array().unwrap().len(), 0);
    assert_eq!(at(&report, "/capabilities/survives"), "power");
    let said = store.run(&["verify"]).good();
    assert!(said.out.contains("nothing is wrong") && said.out.contains("survives a power cut"), "{}", said.out);
    store.run(&["repair", "--dry-run"]).good();
    store.run(&["repair"]).good();
}

/// VF-1, VF-5
#[test]
fn a_changed_byte_is_found_and_neither_verify_nor_repair_touches_it() {
    let store = two_threads();
    let log = logs(&store).into_iter().find(|log| log.to_string_lossy().contains("damaged")).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let name = log.file_name().unwrap().to_str().unwrap();
    for command in ["verify", "repair"] {
        let said = store.run(&[command]);
        assert_eq!((said.code, said.out.contains(name)), (1, true), "{command}: {said:?}");
        assert!(fs::read(&log).unwrap() == bytes, "{command}");
    }
    let document = store.run(&["verify", "--json"]).lines().remove(0);
    assert_eq!(at(&document, "/findings/0/repair"), "needs_backup");
    store.run(&["append", "sound", "--message", "four"]).good();
}
