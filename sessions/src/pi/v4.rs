//! What version 4 adds. Each line has a kind and a number.
//!
//! - A fact is a line of the kind `fact`. It is not part of the tree: it sets the title of the session, or the label of
//!   an entry.
//! - A lane of pi is a named pointer to an entry of the tree, which pi calls the leaf of the lane. Each new entry of a
//!   lane becomes its leaf. This lane has nothing to do with the lane of an outbox row.

use std::collections::BTreeMap;

use store_core::{Custom, Label, NewBody};

use super::{
    LineData, message,
    read::{custom_of_line, label_text},
};
use crate::{
    issue::{IssueCode, Issues},
    lines::{ImpliedLabel, LinePosition, ObjectLine, note_bad_field},
    source::hex,
};

/// The lane whose leaf is the head.
pub(super) const MAIN_LANE: &str = "main";

/// The fields of a line that are not part of its body.
pub(super) const FIELDS_OUTSIDE_BODY: &[&str] = &["kind", "type", "id", "lane", "parentId", "seq", "timestamp"];

/// The lanes of a file, and how their leaves moved.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The changes of each lane, in file order.
    changes: BTreeMap<String, Vec<LeafChange>>,
}

/// A change of the leaf of a lane.
#[derive(Debug)]
struct LeafChange {
    line: u64,
    /// The id of the leaf. If it is absent, the lane is before the first entry.
    leaf: Option<String>,
}

impl Lanes {
    /// Notes what a line does to a lane.
    pub(super) fn read(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) {
        let object = &line.object;
        let leaf = match object.text("kind").as_deref() {
            Some("entry") => object.text("id").map(Some),
            Some("lane") if object.has("leafId") => object.text("leafId").map(Some),
            Some("lane") => Some(None),
            _ => None,
        };
        let Some((leaf, lane)) = leaf.zip(object.text("lane")) else { return };
        if object.raw("parentId") == Some("null") && self.leaf(&lane).flatten().is_some() {
            let detail = format!("the line says that it has no parent, although lane `{lane}` has a leaf");
            issues.add(line.number, IssueCode::NewRoot, detail, "it becomes a root");
        }
        let is_main = lane == MAIN_LANE;
        let changes = self.changes.entry(lane).or_default();
        if is_main {
            // Only the newest leaf of the main lane is needed.
            changes.clear();
        }
        changes.push(LeafChange { line: line.number, leaf });
    }

    /// The leaf of a lane. The outer `None` means that there is no such lane.
    fn leaf(&self, lane: &str) -> Option<Option<String>> {
        Some(self.changes.get(lane)?.last()?.leaf.clone())
    }

    /// The leaf of the main lane. The outer `None` means that the file has no main lane.
    pub(super) fn head(&self) -> Option<Option<String>> {
        self.leaf(MAIN_LANE)
    }

    /// The labels of the leaves of all other lanes. If the leaf of a lane has moved since the first `known_lines` lines
    /// were imported, its old leaf loses the label.
    pub(super) fn labels(&self, known_lines: u64) -> Vec<ImpliedLabel> {
        let mut labels = Vec::new();
        for (lane, changes) in self.changes.iter().filter(|(lane, _)| *lane != MAIN_LANE) {
            let known = changes.iter().take_while(|known| known.line <= known_lines).count();
            let old_leaf = known.checked_sub(1).and_then(|at| changes.get(at)).and_then(|change| change.leaf.as_ref());
            let Some(last) = changes.last() else { continue };
            let mut add = |leaf: &String, text: Option<String>| {
                // A lane may return to an entry that was its leaf before. The key of the new label must differ from
                // that of the earlier one, so it contains the number of visits.
                let visits = changes.iter().filter(|visit| visit.leaf.as_ref() == Some(leaf)).count();
                let key = key(&[lane, leaf, &visits.to_string(), text.as_ref().map_or("removed", |_| "set")]);
                labels.push(ImpliedLabel { key, line: last.line, target: leaf.clone(), text });
            };
            if let Some(old_leaf) = old_leaf.filter(|old_leaf| last.leaf.as_ref() != Some(*old_leaf)) {
                add(old_leaf, None);
            }
            if let Some(leaf) = &last.leaf {
                add(leaf, Some(format!("lane:{lane}")));
            }
        }
        labels
    }
}

/// A short text that is always the same for the same texts.
fn key(texts: &[&str]) -> String {
    use sha2::{Digest, Sha256};
    let mut digest = hex(&Sha256::digest(texts.join("\n")));
    digest.truncate(12);
    digest
}

/// Checks that the numbers of the lines have no gaps.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    last_number: u64,
}

impl Sequence {
    pub(super) fn check(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) {
        let expected = self.last_number.saturating_add(1);
        let found = line.object.number("seq").filter(|seq| *seq > 0);
        if found != Some(expected) {
            let found_text = found.map_or_else(|| "no number".to_owned(), |seq| format!("number {seq}"));
            let detail = format!("{found_text}; expected {expected}");
            issues.add(line.number, IssueCode::SequenceGap, detail, "read in the order of the file");
        }
        self.last_number = found.unwrap_or(expected);
    }
}

/// Makes the body of a line whose kind is not `entry`.
pub(super) fn side_body(
    line: &ObjectLine<'_>,
    position: &LinePosition<'_, LineData>,
    issues: &mut Issues,
) -> Result<NewBody, String> {
    let object = &line.object;
    let kind = object.text("kind").unwrap_or_default();
    let fact = object.text("fact");
    match (kind.as_str(), fact.as_deref()) {
        ("record", _) if object.text("type").as_deref() == Some("usage") => usage(line, position, issues),
        ("record", _) => {
            let name = object.text("type").ok_or("`type` is not a string")?;
            Ok(Custom::new(format!("pi.record.{name}"), object.without_fields(&["kind", "type", "seq", "timestamp"]))
                .into())
        }
        ("lane", _) => {
            let is_complete = object.text("lane").is_some() && object.raw("leafId").is_some();
            is_complete.then_some(()).ok_or("`lane` or `leafId` is missing")?;
            Ok(Custom::new("pi.lane", object.without_fields(&["kind", "seq"])).into())
        }
        ("fact", Some("label")) => {
            let target = object.text("targetId").ok_or("`targetId` is not a string")?;
            let entry = position.earlier_entry(&target);
            let entry = entry.ok_or_else(|| format!("`{target}` does not come before its label"))?;
            Ok(Label::new(entry, label_text(object)?).into())
        }
        ("fact", Some("name")) => Ok(Custom::new("pi.fact", object.without_fields(&["kind", "seq"])).into()),
        _ => {
            let detail = format!("the kind `{kind}`");
            issues.add(line.number, IssueCode::UnknownType, detail, "kept as a custom entry");
            Ok(custom_of_line(line, FIELDS_OUTSIDE_BODY))
        }
    }
}

/// Makes the body of a usage record. If the record repeats the usage of an entry, its tokens are counted only in that
/// entry.
fn usage(line: &ObjectLine<'_>, position: &LinePosition<'_, LineData>, issues: &mut Issues) -> Result<NewBody, String> {
    let object = &line.object;
    let mut record = message::usage_record(object).ok_or("`usage` is missing or wrong")?;
    let entry = object.text("entryId");
    let node = entry.as_deref().and_then(|id| position.earlier_node(id)).and_then(|at| position.tree.data(at));
    if node.is_some_and(|data| data.has_usage) {
        record.spent = None;
    } else if entry.is_some() && node.is_none() {
        note_bad_field(issues, line.number, "the record names an entry that does not come before it");
    }
    Ok(record.into())
}
