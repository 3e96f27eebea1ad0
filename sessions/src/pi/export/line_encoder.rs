//! Encodes lines of versions 3 and 4: the fields of their types, and the fields around these.

use std::collections::HashSet;

use sha2::{Digest, Sha256};
use store_core::{Json, Timestamp, codec::ObjectWriter as Writer};

use crate::{json::Object, source::hex, time};

/// The place of a line in the tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) id: &'a str,
    pub(super) parent: Option<&'a str>,
    pub(super) timestamp: Timestamp,
}

/// Encodes the lines of a file, in one version of the format.
#[derive(Debug)]
pub(super) struct LineEncoder {
    pub(super) is_v4: bool,
    /// The number of the next line.
    next_number: u64,
}

impl LineEncoder {
    pub(super) const fn new(is_v4: bool) -> Self {
        Self { is_v4, next_number: 1 }
    }

    /// Takes the number of the next line.
    pub(super) fn next_seq(&mut self) -> u64 {
        let seq = self.next_number;
        self.next_number += 1;
        seq
    }

    /// A line of the tree. `fields` are the fields of its type: for each, the name and the value as JSON text.
    pub(super) fn tree_line(&mut self, place: Place<'_>, kind: &str, fields: &[(&str, &str)]) -> String {
        let Place { id, parent, timestamp } = place;
        let mut out = String::new();
        let mut line = Writer::open(&mut out);
        if self.is_v4 {
            line.field("kind", &"entry".to_owned());
        }
        line.field("type", &kind.to_owned()).field("id", &id.to_owned());
        if !self.is_v4 {
            write_parent(&mut line, parent);
            line.field("timestamp", &time::to_iso(timestamp));
        }
        for (name, raw) in fields {
            line.key(name).push_str(raw);
        }
        if self.is_v4 {
            write_parent(&mut line, parent);
            line.field("seq", &self.next_seq()).field("timestamp", &timestamp);
        }
        line.close();
        out
    }

    /// A line of version 4 that is not part of the tree.
    pub(super) fn side_line(&mut self, kind: &str, fields: &[(&str, &str)]) -> String {
        let mut out = String::new();
        let mut line = Writer::open(&mut out);
        line.field("kind", &kind.to_owned()).field("seq", &self.next_seq());
        for (name, raw) in fields {
            line.key(name).push_str(raw);
        }
        line.close();
        out
    }
}

fn write_parent(line: &mut Writer<'_>, parent: Option<&str>) {
    match parent {
        Some(parent) => line.field("parentId", &parent.to_owned()),
        None => line.field("parentId", &Json::null()),
    };
}

/// The object with other values for some fields. A field that it does not have is added.
pub(super) fn with_fields(object: &Object<'_>, fields: &[(&str, String)]) -> String {
    let mut out = String::new();
    let mut line = Writer::open(&mut out);
    for (name, raw) in object.iter() {
        let changed = fields.iter().find(|(changed, _)| *changed == name);
        line.key(name).push_str(changed.map_or(raw, |(_, raw)| raw));
    }
    for (name, raw) in fields.iter().filter(|(name, _)| object.raw(name).is_none()) {
        line.key(name).push_str(raw);
    }
    line.close();
    out
}

/// The ids that the lines and the entries of the thread have.
#[derive(Debug, Default)]
pub(super) struct LineIds {
    pub(super) used_ids: HashSet<String>,
}

impl LineIds {
    /// Makes an id that is not in use: the first digits of a hash of `text`, at least 8.
    pub(super) fn make_id(&mut self, text: &str) -> String {
        let digits = hex(&Sha256::digest(text));
        let shortest = (8..=digits.len()).filter_map(|length| digits.get(..length));
        let id = shortest.into_iter().find(|id| !self.used_ids.contains(*id)).unwrap_or(&digits).to_owned();
        self.used_ids.insert(id.clone());
        id
    }
}
