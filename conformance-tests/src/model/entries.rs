//! New entries: which parents they get, and what they may refer to (EN-3 to EN-7, EN-16, EN-21 to EN-25).

use std::sync::Arc;

use serde_json::json;
use store_core::{
    Block, BlockKind, Body, Checkpoint, Compaction, Entry, EntryId, Error, Message, NewBody, NewEntry, ParentRef,
    Result, Rewind, RewindTo, Timestamp, check_limit, codec::Codec,
};

use super::{bug::Bug, commit::Environment, model_data::record_from_json, state, tree::LogTree};

/// A log to which a commit is appending entries.
#[derive(Debug)]
pub(super) struct LogDraft<'a> {
    /// The log before the commit.
    stored: &'a [Arc<Entry>],
    /// The log with the entries that were appended so far.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The parent of the next entry, unless that entry names another one.
    head: Option<EntryId>,
}

impl<'a> LogDraft<'a> {
    pub(super) fn new(stored: &'a [Arc<Entry>]) -> Self {
        Self { stored, entries: stored.to_vec(), head: LogTree::new(stored).head() }
    }

    /// Appends one entry.
    pub(super) fn append(&mut self, draft: &NewEntry, at: Timestamp, env: &Environment<'_>) -> Result<()> {
        let id = match &draft.id {
            Some(id) => id.clone(),
            None => EntryId::new(env.id_source.next_id())?,
        };
        if LogTree::new(&self.entries).find(&id).is_some() {
            return Err(Error::already_exists("entry", &id));
        }
        let parent = self.resolve_parent(&draft.parent)?;
        let body = self.stored_body(&draft.body, parent.as_ref(), env)?;
        let mut entry: Entry = record_from_json(&json!({
            "seq": self.entries.len() + 1, "id": id, "side": draft.is_side(),
            "timestamp": draft.timestamp.unwrap_or(at), "body": {"custom": {"kind": "x", "data": null}},
        }))?;
        entry.parent = parent;
        entry.run.clone_from(&draft.run);
        entry.step = draft.step;
        entry.origin.clone_from(&draft.origin);
        entry.body = Arc::new(body);
        check_limit("record bytes", entry.encode().len() as u64, env.limits.record_bytes)?;
        match &*entry.body {
            Body::Rewind(rewind) => self.head.clone_from(&rewind.to),
            _ if entry.side => {}
            _ => self.head = Some(id),
        }
        self.entries.push(Arc::new(entry));
        Ok(())
    }

    /// Returns the entry to which the part `what` of a draft refers. Returns an error if there is no such entry.
    fn find_entry(&self, what: &'static str, id: &EntryId) -> Result<&Arc<Entry>> {
        let found = LogTree::new(&self.entries).find(id);
        found.ok_or_else(|| Error::invalid(what, format!("entry {} does not exist", quoted(id))))
    }

    /// Like [`Self::find_entry`], but also returns an error if the entry is a side entry.
    fn find_non_side_entry(&self, what: &'static str, id: &EntryId) -> Result<&Arc<Entry>> {
        let entry = self.find_entry(what, id)?;
        if entry.side { Err(Error::invalid(what, format!("{} is a side entry", quoted(id)))) } else { Ok(entry) }
    }

    fn resolve_parent(&self, parent: &ParentRef) -> Result<Option<EntryId>> {
        match parent {
            ParentRef::Head => Ok(self.head.clone()),
            ParentRef::Root => Ok(None),
            ParentRef::Entry(id) => self.find_non_side_entry("parent", id).map(|entry| Some(entry.id.clone())),
        }
    }

    fn stored_body(&self, body: &NewBody, parent: Option<&EntryId>, env: &Environment<'_>) -> Result<Body> {
        Ok(match body {
            NewBody::Message(message) => Body::Message(stored_message(message, env.bug)),
            NewBody::Compaction(compaction) => {
                self.check_covered_interval(compaction, parent)?;
                Body::Compaction(compaction.clone())
            }
            NewBody::Checkpoint { number, label } => {
                let next = match env.bug {
                    Some(Bug::CheckpointsCountTheLog) => Some(self.count_checkpoints()),
                    _ => LogTree::new(&self.entries).next_checkpoint(parent),
                };
                let number = number.or(next).ok_or_else(|| Error::invalid("checkpoint", "there is no next number"))?;
                Body::Checkpoint(Checkpoint::new(number, label.clone()))
            }
            NewBody::Usage(usage) => Body::Usage(usage.clone()),
            NewBody::Label(label) => {
                self.find_entry("label", &label.target)?;
                Body::Label(label.clone())
            }
            NewBody::Rewind(to) => {
                let mut rewind = Rewind::default();
                rewind.to = self.head_after_rewind(to)?;
                Body::Rewind(rewind)
            }
            NewBody::Custom(custom) => {
                let mut custom = custom.clone();
                if env.bug == Some(Bug::NumbersRewritten) {
                    custom.data = state::rewrite_numbers(&custom.data)?;
                }
                Body::Custom(custom)
            }
            NewBody::Decision(decision) => Body::Decision(decision.clone()),
            NewBody::Unknown { kind, data } => Body::Unknown { kind: kind.clone(), data: data.clone() },
            _ => return Err(Error::invalid("body", "the model does not know this kind")),
        })
    }

    fn count_checkpoints(&self) -> u64 {
        self.entries.iter().filter(|entry| matches!(*entry.body, Body::Checkpoint(_))).count() as u64
    }

    /// Returns the head after a rewind. Checkpoints are searched for in the log as it was before the commit.
    fn head_after_rewind(&self, to: &RewindTo) -> Result<Option<EntryId>> {
        let tree = LogTree::new(self.stored);
        let path = tree.path(tree.head().as_ref());
        let nearest =
            |name: &str, is_match: &dyn Fn(&Entry) -> bool| match path.iter().rev().find(|entry| is_match(entry)) {
                Some(checkpoint) => Ok(checkpoint.parent.clone()),
                None => Err(Error::not_found("checkpoint", name)),
            };
        match to {
            RewindTo::Start => Ok(None),
            RewindTo::Entry(id) => self.find_non_side_entry("rewind", id).map(|entry| Some(entry.id.clone())),
            RewindTo::Checkpoint(number) => nearest(
                &number.to_string(),
                &|entry| matches!(&*entry.body, Body::Checkpoint(body) if body.number == *number),
            ),
            RewindTo::Label(name) => nearest(name, &|entry| tree.checkpoint_name(entry).as_ref() == Some(name)),
            RewindTo::Snapshot(name) => {
                let snapshots = tree.snapshots();
                let newest =
                    snapshots.iter().filter(|snapshot| snapshot.name == *name).max_by_key(|snapshot| snapshot.seq);
                let newest = newest.ok_or_else(|| Error::not_found("checkpoint", name))?;
                Ok(tree.find(&newest.entry).and_then(|entry| entry.parent.clone()))
            }
        }
    }

    /// Refuses a compaction that covers entries outside its own path. Also refuses one that overlaps an earlier
    /// interval, unless one of the two intervals contains the other (EN-24).
    fn check_covered_interval(&self, compaction: &Compaction, parent: Option<&EntryId>) -> Result<()> {
        let Some(covers) = &compaction.covers else { return Ok(()) };
        let refuse = |reason: &str| Err(Error::invalid("compaction", reason));
        let path = LogTree::new(&self.entries).path(parent);
        let Some((from, to)) = covered_range(&path, compaction) else {
            return refuse("it covers entries that are not on its path");
        };
        if covers.from != covers.to && to < from {
            return refuse("`from` comes after `to`");
        }
        for earlier in &path {
            let Body::Compaction(other) = &*earlier.body else { continue };
            let Some((other_from, other_to)) = covered_range(&path, other) else { continue };
            let are_apart = to < other_from || other_to < from;
            let is_inside_other = other_from <= from && to <= other_to;
            let contains_other = from <= other_from && other_to <= to;
            if !(are_apart || is_inside_other || contains_other) {
                return refuse("it overlaps an earlier compaction");
            }
        }
        Ok(())
    }
}

/// Returns the id in backticks, cut to at most 64 bytes (ER-6).
fn quoted(id: &EntryId) -> String {
    let mut text = id.to_string();
    while text.len() > 64 {
        text.pop();
    }
    format!("`{text}`")
}

/// Returns the indexes of the first and the last entry of a path that a compaction covers. Returns `None` if the
/// compaction has no `covers`, or if one of the two entries is not on the path.
pub(super) fn covered_range(path: &[&Arc<Entry>], compaction: &Compaction) -> Option<(usize, usize)> {
    let covers = compaction.covers.as_ref()?;
    let index_of = |id: &EntryId| path.iter().position(|entry| entry.id == *id);
    Some((index_of(&covers.from)?, index_of(&covers.to)?))
}

/// Returns the message as the store keeps it, which is unchanged unless a planted bug changes it.
fn stored_message(message: &Message, bug: Option<Bug>) -> Message {
    let mut message = message.clone();
    let texts = message.blocks.iter_mut().filter_map(|Block { kind, .. }| match kind {
        BlockKind::Text(text) => Some(text),
        _ => None,
    });
    match bug {
        Some(Bug::NulStripped) => texts.for_each(|text| text.retain(|character| character != '\0')),
        Some(Bug::LongTextsCut) => texts.for_each(|text| text.truncate(usize::from(u16::MAX))),
        _ => {}
    }
    message
}
