//! Damage, planted in a root that nobody has open: changed bits, logs written again with right sums, index rows.

use std::{fs, path::Path};

use fjall::{Database, KeyspaceCreateOptions};
use store_core::Result;
use store_file::testing::{Position, encode_group, verified_checksum};

use crate::folder::edit;

/// The thread of an id, the log of a number, the places of threads in lists and the run of an id, as sorts of keys of
/// the index.
pub(crate) const THREAD: u8 = 1;
pub(crate) const LOG: u8 = 2;
pub(crate) const THREAD_ORDER: u8 = 4;
pub(crate) const RUN: u8 = 5;

/// A group of a log: its lines, its own fields, and up to where the log was durable before it.
#[derive(Debug, Clone)]
pub(crate) struct Group<L = String> {
    pub(crate) lines: Vec<L>,
    pub(crate) fields: String,
}

/// Where the groups of a log start, and where it ends.
pub(crate) fn starts(log: &Path) -> Vec<usize> {
    let text = fs::read_to_string(log).unwrap();
    let mut starts = Vec::new();
    let (mut at, mut begins) = (0, false);
    for line in text.split_inclusive('\n') {
        if begins {
            starts.push(at);
        }
        begins = at == 0 || line.starts_with(r#"{"t":"commit","#);
        at += line.len();
    }
    starts.push(at);
    starts
}

/// Writes a log again with other groups and right sums.
pub(crate) fn rewrite(log: &Path, change: impl FnOnce(&mut Vec<Group>)) {
    edit(log, |bytes| {
        let (header, mut groups) = parse(std::str::from_utf8(bytes).unwrap());
        change(&mut groups);
        *bytes = encode(&header, &groups).unwrap();
    });
}

/// The header of a log, with its line feed, and its groups.
pub(crate) fn parse(log: &str) -> (String, Vec<Group>) {
    let mut lines = log.split_inclusive('\n');
    let header = lines.next().unwrap().to_owned();
    let (mut groups, mut open) = (Vec::new(), Vec::new());
    for line in lines.map(|line| line.trim_end_matches('\n').to_owned()) {
        match line.strip_prefix(r#"{"t":"commit","v":2"#) {
            Some(fields) => {
                let own = &fields[..fields.rfind(r#","batch":"#).unwrap()];
                groups.push(Group {
                    lines: std::mem::take(&mut open),
                    fields: format!("{{{}}}", own.trim_start_matches(',')),
                });
            }
            None => open.push(line),
        }
    }
    (header, groups)
}

/// A log of these groups, with right sums.
pub(crate) fn encode<L: AsRef<[u8]>>(header: &str, groups: &[Group<L>]) -> Result<Vec<u8>> {
    let mut bytes = header.as_bytes().to_vec();
    let mut at =
        Position { offset: header.len() as u64, crc: verified_checksum(header.trim_end().as_bytes()).unwrap() };
    for group in groups {
        at = encode_group(&mut bytes, at, 1, &group.lines, &group.fields)?.end;
    }
    Ok(bytes)
}

/// Changes a text in the line of an entry, in whatever group it is.
pub(crate) fn change_entry(log: &Path, seq: u64, from: &str, to: &str) {
    rewrite(log, |groups| {
        let start = format!(r#"{{"t":"entry","seq":{seq},"#);
        let mut lines = groups.iter_mut().flat_map(|group| &mut group.lines);
        let line = lines.find(|line| line.starts_with(&start)).unwrap();
        assert!(line.contains(from), "{line}");
        *line = line.replace(from, to);
    });
}

/// The text behind `name` in the line of an entry, up to the next quotation mark.
pub(crate) fn text_of(log: &Path, seq: u64, name: &str) -> String {
    let text = fs::read_to_string(log).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!(r#"{{"t":"entry","seq":{seq},"#))).unwrap();
    line.split(name).nth(1).unwrap().split('"').next().unwrap().to_owned()
}

/// Changes the index: `change` gets all rows of a sort, and says what to put and (without a value) to remove.
pub(crate) fn change_index(root: &Path, sort: u8, change: impl Fn(&[u8], &str) -> Option<(Vec<u8>, Option<String>)>) {
    let database = Database::builder(root.join("index")).open().unwrap();
    let rows = database.keyspace("rows", KeyspaceCreateOptions::default).unwrap();
    let all: Vec<_> = rows.prefix([sort]).map(|row| row.into_inner().unwrap()).collect();
    let changes: Vec<_> =
        all.iter().filter_map(|(key, value)| change(key, std::str::from_utf8(value).unwrap())).collect();
    assert!(!changes.is_empty(), "nothing is changed");
    for (key, value) in changes {
        match value {
            Some(value) => rows.insert(key, value).unwrap(),
            None => rows.remove(key).unwrap(),
        }
    }
    database.persist(fjall::PersistMode::SyncAll).unwrap();
}

/// Replaces a text in the row of a thread or a log of the index.
pub(crate) fn change_row(root: &Path, sort: u8, of: &str, from: &str, to: &str) {
    change_index(root, sort, |key, value| {
        let changed = value.replace(from, to);
        (value.contains(of) && changed != value).then(|| (key.to_vec(), Some(changed)))
    });
}
