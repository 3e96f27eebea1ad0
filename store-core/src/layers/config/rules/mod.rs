//! The rules for config records: what a change makes of a record, and what is written.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ConfigChange, ConfigContent, ConfigEntry, ConfigEntryKind, ConfigName, ConfigOp, ConfigRecord, ConfigSource,
    WrittenConfig, record::StoredConfig,
};
use crate::{
    codec::{Fields, ObjectWriter},
    document::{Document, DocumentChange, DocumentExpect, WrittenDocuments},
    error::{Error, Result},
    event::{NewEvent, Scope},
    id::{SegmentId, TopicId},
    json::Json,
    layers::{audit::audit_of_change, conflict_in, encoded, topic_of},
    limits::length,
};

/// Returns the topic of the feed.
pub(super) fn feed_topic() -> Result<TopicId> {
    TopicId::new("layer.config")
}

/// Returns the topic of the changes of one namespace.
pub(super) fn namespace_topic(namespace: &SegmentId) -> Result<TopicId> {
    topic_of("layer.config.namespace", namespace.as_str())
}

/// What a write of config records writes.
#[derive(Debug, Default)]
pub(super) struct ConfigPlan {
    /// The changes of the documents. Those of records that do not change are checks.
    pub(super) changes: Vec<DocumentChange>,
    /// The entries of the feed.
    pub(super) feed: Vec<NewEvent>,
    /// The audit records.
    pub(super) audits: Vec<NewEvent>,
    /// The records after the write, without the time of the write.
    records: Vec<(ConfigName, Option<StoredConfig>)>,
}

/// Refuses changes that can never be made.
///
/// # Errors
/// `Invalid`.
pub(super) fn check_changes(changes: &[ConfigChange]) -> Result<()> {
    if changes.is_empty() {
        return Err(Error::invalid("config", "there are no changes in the call"));
    }
    let mut names = BTreeSet::new();
    for (index, change) in changes.iter().enumerate() {
        if !names.insert(&change.name) {
            return Err(Error::invalid("config", "a record is named twice").in_part(format!("config[{index}]")));
        }
    }
    Ok(())
}

/// Plans a write: `found` are the documents of the changes, and `last` is the number of entries that the feed had
/// before they were loaded (CF-2 to CF-5).
///
/// # Errors
/// `Conflict` for an expectation that does not hold, `NotFound` for a change of a record that must exist.
pub(super) fn plan(changes: &[ConfigChange], found: &[Option<Document>], last: u64) -> Result<ConfigPlan> {
    let mut plan = ConfigPlan::default();
    for (index, (change, found)) in changes.iter().zip(found).enumerate() {
        plan.add(change, found.as_ref(), last).map_err(|e| e.in_part(format!("config[{index}]")))?;
    }
    Ok(plan)
}

impl ConfigPlan {
    fn add(&mut self, change: &ConfigChange, document: Option<&Document>, last: u64) -> Result<()> {
        let name = &change.name;
        let found = document.map(StoredConfig::from_document).transpose()?;
        let revision = found.as_ref().map(|stored| stored.revision);
        if !change.expect.holds(revision) {
            return Err(conflict_in(name.document()?, change.expect, revision));
        }
        let (before, extra) = found.map(|stored| (stored.content, stored.extra)).unzip();
        let extra = extra.unwrap_or_default();
        let after = content_after(&change.op, name, before.as_ref())?;
        // What was decided on must still be there when the write happens.
        let unchanged = document.map_or(DocumentExpect::Absent, |found| DocumentExpect::Revision(found.revision));
        let kind = match (&before, &after) {
            (before, after) if before == after => {
                self.changes.push(DocumentChange::check(name.document()?, unchanged));
                let kept =
                    after.clone().zip(revision).map(|(content, revision)| StoredConfig { revision, content, extra });
                self.records.push((name.clone(), kept));
                return Ok(());
            }
            (_, None) => ConfigEntryKind::Deleted,
            (None, Some(_)) => ConfigEntryKind::Created,
            (Some(_), Some(_)) => ConfigEntryKind::Updated,
        };
        let revision = last + length(self.feed.len()) + 1;
        let topics = [feed_topic()?, namespace_topic(&name.namespace)?].map(Scope::Topic);
        let entry = NewEvent::new(ConfigEntry::event_kind(kind)?, topics);
        self.feed.push(entry.with_payload(ConfigEntry::payload(name, revision)?));
        let [old, new] = [&before, &after].map(|content| content.as_ref().map(encoded).transpose());
        self.audits.extend(audit_of_change(change.audit.as_ref(), &name.resource()?, old?.as_ref(), new?.as_ref())?);
        let record = after.map(|content| StoredConfig { revision, content, extra });
        let write = match &record {
            Some(record) => DocumentChange::put(name.document()?, encoded(record)?),
            None => DocumentChange::delete(name.document()?),
        };
        self.changes.push(write.expecting(unchanged));
        self.records.push((name.clone(), record));
        Ok(())
    }

    /// Returns the answer to the caller. `found` are the documents before the write; `written` is the answer of the
    /// store, if something was written.
    pub(super) fn answer(
        self,
        found: &[Option<Document>],
        written: Option<&WrittenDocuments>,
    ) -> Result<WrittenConfig> {
        let now = written.map(|written| written.time);
        let record = |(name, stored): (ConfigName, Option<StoredConfig>), found: Option<&Document>| {
            let StoredConfig { revision, content, .. } = stored?;
            let created_at = found.map(|found| found.created_at).or(now).unwrap_or_default();
            let kept = found.map(|found| found.updated_at).unwrap_or_default();
            let is_changed = found.is_none_or(|found| revision_of(found) != Some(revision));
            let updated_at = if is_changed { now.unwrap_or_default().max(kept) } else { kept };
            Some(ConfigRecord { name, content, revision, created_at, updated_at })
        };
        let records =
            self.records.into_iter().zip(found).map(|(stored, found)| record(stored, found.as_ref())).collect();
        let feed = written.map(|written| &written.events).into_iter().flatten().take(self.feed.len());
        Ok(WrittenConfig { records, entries: feed.map(ConfigEntry::from_event).collect::<Result<_>>()? })
    }
}

fn revision_of(document: &Document) -> Option<u64> {
    StoredConfig::from_document(document).ok().map(|stored| stored.revision)
}

/// Returns what a record contains after a change; none if it does not exist then.
///
/// # Errors
/// `NotFound` if the record must exist and does not.
pub(super) fn content_after(
    op: &ConfigOp,
    name: &ConfigName,
    before: Option<&ConfigContent>,
) -> Result<Option<ConfigContent>> {
    let existing = || before.cloned().ok_or_else(|| Error::not_found("config record", name.to_string()));
    let content = match (op, before) {
        (ConfigOp::Delete, _) => return Ok(None),
        (ConfigOp::Put(content), _) => content.clone(),
        (ConfigOp::Seed(value), None) => ConfigContent::new(value.clone()).from_source(ConfigSource::Builtin),
        (ConfigOp::Seed(value), Some(before)) if before.source == ConfigSource::Builtin => {
            ConfigContent { value: value.clone(), ..before.clone() }
        }
        // A user made the record, so a release does not replace it.
        (ConfigOp::Seed(_), Some(before)) => before.clone(),
        (ConfigOp::Override(overrides), _) => ConfigContent { overrides: overrides.clone(), ..existing()? },
        (ConfigOp::Hide(hidden), _) => ConfigContent { hidden: *hidden, ..existing()? },
    };
    Ok(Some(content))
}

/// Returns `value` changed by a merge patch (RFC 7396). What the patch does not name keeps its spelling.
///
/// # Errors
/// `LimitExceeded` if the result is nested too deeply.
pub(super) fn merge(value: &Json, patch: &Json) -> Result<Json> {
    let mut out = String::new();
    write_merged(Some(value.as_str()), patch.as_str(), &mut out)?;
    Json::parse(&out)
}

fn write_merged(value: Option<&str>, patch: &str, out: &mut String) -> Result<()> {
    if !patch.starts_with('{') {
        out.push_str(patch);
        return Ok(());
    }
    let parse = |raw| Fields::parse(raw).map_err(|_| Error::invalid("config", "a value cannot be read"));
    // Of a repeated key the last value counts, as for most readers of JSON.
    let patches: BTreeMap<_, _> = parse(patch)?.into_pairs().collect();
    let values = parse(value.filter(|value| value.starts_with('{')).unwrap_or("{}"))?;
    let (mut object, mut names) = (ObjectWriter::open(out), BTreeSet::new());
    for (name, value) in values.into_pairs() {
        match patches.get(&name) {
            None => object.key(&name).push_str(value),
            Some(&"null") => {}
            Some(patch) => write_merged(Some(value), patch, object.key(&name))?,
        }
        names.insert(name);
    }
    for (name, patch) in patches.iter().filter(|(name, patch)| **patch != "null" && !names.contains(*name)) {
        write_merged(None, patch, object.key(name))?;
    }
    object.close();
    Ok(())
}

#[cfg(test)]
mod tests;
