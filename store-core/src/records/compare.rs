//! The comparison of two tenants, record by record.

use std::fmt;

use serde::Serialize;

use super::{
    RecordList, RecordPort, StoredRecord,
    digest::{ListDigest, RunningDigest},
    objects::{self, OBJECTS, ObjectWalk},
    walk::RecordWalk,
};
use crate::{error::Result, limits::length, object::ObjectStore, progress::Progress};

/// More differences than this are only counted.
const MAX_LISTED: usize = 100;

/// How a record differs in the two stores of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// The target does not have the record.
    Missing,
    /// The target has another record under the key.
    Changed,
    /// Only the target has the record.
    Extra,
}

/// How many records differ, by how they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct DifferenceCounts {
    /// Those that the target does not have.
    pub missing: u64,
    /// Those of which the target has another one under the key.
    pub changed: u64,
    /// Those that only the target has.
    pub extra: u64,
}

impl DifferenceCounts {
    /// Returns the number of all records that differ.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.missing + self.changed + self.extra
    }
}

/// A record that is not the same in the two stores of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The list of the record.
    pub list: &'static str,
    /// The key of the record, its parts separated by spaces.
    pub key: String,
    /// How the record differs.
    pub kind: DifferenceKind,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            DifferenceKind::Missing => "is missing in the target",
            DifferenceKind::Changed => "is another one in the target",
            DifferenceKind::Extra => "is only in the target",
        };
        write!(f, "{} `{}` {what}", self.list, self.key)
    }
}

/// What a comparison has found so far.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) source: Vec<ListDigest>,
    pub(super) target: Vec<ListDigest>,
    pub(super) differences: Vec<Difference>,
    pub(super) counts: DifferenceCounts,
    pub(super) records: u64,
    pub(super) stopped: bool,
}

impl Comparison {
    fn note(&mut self, list: &'static str, key: &dyn fmt::Display, kind: DifferenceKind) {
        match kind {
            DifferenceKind::Missing => self.counts.missing += 1,
            DifferenceKind::Changed => self.counts.changed += 1,
            DifferenceKind::Extra => self.counts.extra += 1,
        }
        if self.differences.len() < MAX_LISTED {
            self.differences.push(Difference { list, key: key.to_string(), kind });
        }
    }
}

/// The two sides of a comparison.
pub(super) struct Sides<'a, T: ?Sized> {
    pub(super) source: &'a T,
    pub(super) target: &'a T,
    /// Whether the target may have records that the source does not have.
    pub(super) merge: bool,
}

impl<T: ?Sized> Clone for Sides<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Sides<'_, T> {}

/// Compares all records. `progress` can stop it.
pub(super) async fn compare_records(
    sides: Sides<'_, dyn RecordPort + '_>,
    progress: &dyn Progress,
) -> Result<Comparison> {
    let mut comparison = Comparison::default();
    for list in RecordList::ALL.iter().filter(|list| **list != RecordList::Numbers) {
        if !sides.source.holds(*list) || !sides.target.holds(*list) {
            continue;
        }
        compare_list(sides, *list, &mut comparison, progress).await?;
        if comparison.stopped {
            break;
        }
    }
    Ok(comparison)
}

async fn compare_list(
    sides: Sides<'_, dyn RecordPort + '_>,
    list: RecordList,
    comparison: &mut Comparison,
    progress: &dyn Progress,
) -> Result<()> {
    let mut walks = [sides.source, sides.target].map(|port| RecordWalk::new(port, list, None));
    let [from, to] = &mut walks;
    let (mut left, mut right) = (Side::read(from).await?, Side::read(to).await?);
    let mut digests = [RunningDigest::default(), RunningDigest::default()];
    let [left_digest, right_digest] = &mut digests;
    while left.is_some() || right.is_some() {
        let order = match (&left, &right) {
            (Some(left), Some(right)) => left.key.cmp(&right.key),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        if order.is_eq()
            && let (Some(left), Some(right)) = (&left, &right)
            && left.text != right.text
        {
            comparison.note(list.name(), &left.key, DifferenceKind::Changed);
        }
        if order.is_le()
            && let Some(here) = &left
        {
            left_digest.add_record(&here.record, &here.text);
            comparison.records += 1;
            if order.is_lt() {
                comparison.note(list.name(), &here.key, DifferenceKind::Missing);
            }
            left = Side::read(from).await?;
        }
        if order.is_ge()
            && let Some(here) = &right
        {
            right_digest.add_record(&here.record, &here.text);
            if order.is_gt() && !sides.merge {
                comparison.note(list.name(), &here.key, DifferenceKind::Extra);
            }
            right = Side::read(to).await?;
        }
        if comparison.records.is_multiple_of(1_000) && !progress.advance(comparison.records, None) {
            comparison.stopped = true;
            return Ok(());
        }
    }
    let [source, target] = digests.map(|digest| digest.finish(list.name()));
    comparison.source.extend(source);
    comparison.target.extend(target);
    Ok(())
}

/// The next record of one side.
struct Side {
    key: super::RecordKey,
    text: String,
    record: StoredRecord,
}

impl Side {
    async fn read(walk: &mut RecordWalk<'_>) -> Result<Option<Self>> {
        let record = walk.next().await?;
        Ok(record.map(|record| Self { key: record.key(), text: record.canonical(), record }))
    }
}

/// Compares all objects.
pub(super) async fn compare_objects(sides: Sides<'_, dyn ObjectStore + '_>, comparison: &mut Comparison) -> Result<()> {
    let mut walks = [sides.source, sides.target].map(ObjectWalk::new);
    let [from, to] = &mut walks;
    let (mut left, mut right) = (from.next().await?, to.next().await?);
    let mut digests = [RunningDigest::default(), RunningDigest::default()];
    let [left_digest, right_digest] = &mut digests;
    while left.is_some() || right.is_some() {
        let order = match (&left, &right) {
            (Some(left), Some(right)) => left.key.cmp(&right.key),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        let mut hashes = [None, None];
        if order.is_le()
            && let Some(here) = &left
        {
            let hash = objects::hash(sides.source, &here.key).await?;
            left_digest.add(here.key.as_str(), &hash);
            comparison.records += 1;
            if order.is_lt() {
                comparison.note(OBJECTS, &here.key, DifferenceKind::Missing);
            }
            hashes[0] = Some(hash);
            left = from.next().await?;
        }
        if order.is_ge()
            && let Some(here) = &right
        {
            let hash = objects::hash(sides.target, &here.key).await?;
            right_digest.add(here.key.as_str(), &hash);
            if order.is_gt() && !sides.merge {
                comparison.note(OBJECTS, &here.key, DifferenceKind::Extra);
            }
            hashes[1] = Some(hash);
            if order.is_eq() && hashes[0] != hashes[1] {
                comparison.note(OBJECTS, &here.key, DifferenceKind::Changed);
            }
            right = to.next().await?;
        }
    }
    let [source, target] = digests.map(|digest| digest.finish(OBJECTS));
    comparison.source.extend(source);
    comparison.target.extend(target);
    Ok(())
}

/// The lists whose keys name something that the stores must not both have, if a copy is merged into other data.
const IDENTITIES: [RecordList; 9] = [
    RecordList::Threads,
    RecordList::Runs,
    RecordList::Documents,
    RecordList::Scopes,
    RecordList::Events,
    RecordList::EventKeys,
    RecordList::Outbox,
    RecordList::Mailboxes,
    RecordList::Dispatches,
];

/// Returns a record that has the key of another record in the other store.
pub(super) async fn first_collision(
    source: &dyn RecordPort,
    target: &dyn RecordPort,
) -> Result<Option<(RecordList, String)>> {
    for list in IDENTITIES {
        let (mut from, mut to) = (RecordWalk::new(source, list, None), RecordWalk::new(target, list, None));
        let (mut left, mut right) = (from.next().await?, to.next().await?);
        while let (Some(here), Some(there)) = (&left, &right) {
            match here.key().cmp(&there.key()) {
                std::cmp::Ordering::Equal if here.canonical() != there.canonical() => {
                    return Ok(Some((list, here.key().to_string())));
                }
                std::cmp::Ordering::Equal => {
                    left = from.next().await?;
                    right = to.next().await?;
                }
                std::cmp::Ordering::Less => left = from.next().await?,
                std::cmp::Ordering::Greater => right = to.next().await?,
            }
        }
    }
    Ok(None)
}

/// Returns a record of a tenant, if there is any.
pub(super) async fn any_record(port: &dyn RecordPort) -> Result<Option<(RecordList, String)>> {
    for list in RecordList::ALL.iter().filter(|list| **list != RecordList::Numbers) {
        if let Some(record) = RecordWalk::new(port, *list, None).next().await? {
            return Ok(Some((*list, record.key().to_string())));
        }
    }
    Ok(None)
}

/// Returns how many records a list has.
pub(super) async fn count(port: &dyn RecordPort, list: RecordList) -> Result<u64> {
    let (mut walk, mut count) = (RecordWalk::new(port, list, None), 0);
    loop {
        match walk.next_page().await? {
            records if records.is_empty() => return Ok(count),
            records => count += length(records.len()),
        }
    }
}
