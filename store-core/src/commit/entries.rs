//! Plans the new entries of a commit: finds the earlier entries that they refer to, and derives the data that is stored
//! with each new entry.

use std::collections::BTreeMap;

use super::view::LogView;
use crate::{
    codec::{Codec, Extra},
    error::{Error, Quoted, Result},
    id::{EntryId, IdSource},
    limits::{Limits, check_limit, length},
    log::{
        Body, ChangedMarks, Checkpoint, Compaction, CoveredDepths, Entry, EntryMarks, MarkSource, NewBody, NewEntry,
        Node, NodeSource, ParentRef, Rewind, RewindTo, node,
    },
    thread::StoredThread,
    time::Timestamp,
};

/// A new entry, as it will be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedEntry {
    /// The entry.
    pub entry: Entry,
    /// The node of the entry: its place in the tree of entries, derived from the entry and its parent.
    pub node: Node,
    /// The JSON of the entry.
    pub text: String,
}

/// The stored log of a thread, followed by those entries of the commit that have been planned so far.
pub(super) struct PlannedLog<'a, V: ?Sized> {
    view: &'a V,
    /// The sequence number of the first entry of the commit.
    first_new_seq: u64,
    planned: Vec<PlannedEntry>,
    /// The sequence numbers of the planned entries, by id.
    planned_seqs: BTreeMap<EntryId, u64>,
    pub(super) marks: ChangedMarks,
    /// The node of the thread's head before the commit.
    stored_head: Option<Node>,
    /// The head after the entries so far. It is the parent of the next entry if that entry names none.
    head: Option<Node>,
}

impl<V: LogView + ?Sized> NodeSource for PlannedLog<'_, V> {
    fn node(&self, seq: u64) -> Result<Node> {
        match seq.checked_sub(self.first_new_seq).and_then(|at| usize::try_from(at).ok()) {
            Some(at) => match self.planned.get(at) {
                Some(planned) => Ok(planned.node.clone()),
                None => Err(Error::corrupt(format!("entry {seq} of the log does not exist"))),
            },
            None => self.view.node(seq),
        }
    }
}

impl<'a, V: LogView + ?Sized> PlannedLog<'a, V> {
    pub(super) fn new(view: &'a V, thread: &StoredThread) -> Result<Self> {
        let head = thread.head_seq.map(|seq| view.node(seq)).transpose()?;
        Ok(Self {
            view,
            first_new_seq: thread.thread.version.number() + 1,
            planned: Vec::new(),
            planned_seqs: BTreeMap::new(),
            marks: ChangedMarks::default(),
            stored_head: head.clone(),
            head,
        })
    }

    pub(super) fn into_parts(self) -> (Vec<PlannedEntry>, BTreeMap<u64, EntryMarks>) {
        (self.planned, self.marks.into_map())
    }

    fn stored_marks(&self) -> StoredMarks<'a, V> {
        StoredMarks { view: self.view, first_new_seq: self.first_new_seq }
    }

    /// Plans one more entry, and updates the head and the counters of the thread.
    pub(super) fn plan_entry(
        &mut self,
        thread: &mut StoredThread,
        draft: &NewEntry,
        ids: &dyn IdSource,
        limits_and_time: (&Limits, Timestamp),
    ) -> Result<()> {
        let (limits, time) = limits_and_time;
        let seq = self.first_new_seq + length(self.planned.len());
        let id = match &draft.id {
            Some(id) => id.clone(),
            None => EntryId::new(ids.next_id())?,
        };
        if self.find_seq(&id)?.is_some() {
            return Err(Error::already_exists("entry", &id));
        }
        let parent = self.parent_node(&draft.parent)?;
        let (body, target) = self.stored_body(&draft.body, parent.as_ref())?;
        let node = self.derive_node(seq, parent.as_ref(), draft, (&body, target))?;
        let entry = Entry {
            id: id.clone(),
            seq,
            parent: parent.map(|parent| self.id_of(parent.seq)).transpose()?,
            side: node.side,
            timestamp: draft.timestamp.unwrap_or(time),
            run: draft.run.clone(),
            step: draft.step,
            origin: draft.origin.clone(),
            body: body.into(),
            extra: Extra::default(),
        };
        let text = entry.encode();
        check_limit("record bytes", length(text.len()), limits.record_bytes)?;
        self.marks.apply_entry(&self.stored_marks(), thread, &entry, &node)?;
        self.head = match thread.head_seq {
            Some(head) if head == seq => Some(node.clone()),
            Some(head) => Some(self.node(head)?),
            None => None,
        };
        self.planned_seqs.insert(id, seq);
        self.planned.push(PlannedEntry { entry, node, text });
        Ok(())
    }

    fn find_seq(&self, id: &EntryId) -> Result<Option<u64>> {
        match self.planned_seqs.get(id) {
            Some(&seq) => Ok(Some(seq)),
            None => self.view.entry(id),
        }
    }

    fn id_of(&self, seq: u64) -> Result<EntryId> {
        let planned = seq.checked_sub(self.first_new_seq).and_then(|at| self.planned.get(usize::try_from(at).ok()?));
        planned.map_or_else(|| self.view.entry_id(seq), |planned| Ok(planned.entry.id.clone()))
    }

    /// Returns the node of an entry that must exist.
    fn existing_node(&self, what: &'static str, id: &EntryId) -> Result<Node> {
        match self.find_seq(id)? {
            Some(seq) => self.node(seq),
            None => Err(Error::invalid(what, format!("entry {} does not exist", Quoted(id.as_str())))),
        }
    }

    /// Returns the parent of an entry (EN-3, EN-4).
    fn parent_node(&self, parent: &ParentRef) -> Result<Option<Node>> {
        match parent {
            ParentRef::Head => Ok(self.head.clone()),
            ParentRef::Root => Ok(None),
            ParentRef::Entry(id) => {
                let node = self.existing_node("parent", id)?;
                if node.side {
                    return Err(Error::invalid("parent", format!("entry {} is a side entry", Quoted(id.as_str()))));
                }
                Ok(Some(node))
            }
        }
    }

    /// Returns the body as it will be stored, and the sequence number of the entry that a label or a rewind names.
    fn stored_body(&self, draft: &NewBody, parent: Option<&Node>) -> Result<(Body, Option<u64>)> {
        Ok(match draft {
            NewBody::Message(message) => (Body::Message(message.clone()), None),
            NewBody::Compaction(compaction) => (Body::Compaction(compaction.clone()), None),
            NewBody::Checkpoint { number, label } => {
                let number = number.map_or_else(|| next_checkpoint_number(parent), Ok)?;
                (Body::Checkpoint(Checkpoint::new(number, label.clone())), None)
            }
            NewBody::Usage(usage) => (Body::Usage(usage.clone()), None),
            NewBody::Label(label) => {
                let target = self.existing_node("label", &label.target)?;
                (Body::Label(label.clone()), Some(target.seq))
            }
            NewBody::Rewind(to) => {
                let target = self.rewind_target(to)?;
                let to = target.map(|seq| self.id_of(seq)).transpose()?;
                (Body::Rewind(Rewind { to, extra: Extra::default() }), target)
            }
            NewBody::Custom(custom) => (Body::Custom(custom.clone()), None),
            NewBody::Decision(decision) => (Body::Decision(decision.clone()), None),
            NewBody::Unknown { kind, data } => (Body::Unknown { kind: kind.clone(), data: data.clone() }, None),
        })
    }

    /// Returns the sequence number of the entry that a rewind makes the head (EN-7, EN-22, EN-30), or none if it moves
    /// the head in front of the first entry.
    fn rewind_target(&self, to: &RewindTo) -> Result<Option<u64>> {
        let checkpoint_parent = |checkpoint: Option<Node>, name: &str| match checkpoint {
            Some(checkpoint) => Ok(checkpoint.parent),
            None => Err(Error::not_found("checkpoint", name)),
        };
        match to {
            RewindTo::Start => Ok(None),
            RewindTo::Entry(id) => {
                let node = self.existing_node("rewind", id)?;
                if node.side {
                    return Err(Error::invalid("rewind", format!("entry {} is a side entry", Quoted(id.as_str()))));
                }
                Ok(Some(node.seq))
            }
            RewindTo::Checkpoint(number) => checkpoint_parent(
                self.nearest_checkpoint(|node| Ok(node.checkpoint_number == Some(*number)))?,
                &number.to_string(),
            ),
            RewindTo::Label(name) => {
                let is_named = |node: &Node| Ok(self.view.marks(node.seq)?.label.as_ref() == Some(name));
                checkpoint_parent(self.nearest_checkpoint(is_named)?, name)
            }
            RewindTo::Snapshot(name) => {
                checkpoint_parent(self.view.snapshot(name)?.map(|seq| self.view.node(seq)).transpose()?, name)
            }
        }
    }

    /// Returns the last checkpoint on the path of `stored_head` for which `is_wanted` is true.
    fn nearest_checkpoint(&self, is_wanted: impl Fn(&Node) -> Result<bool>) -> Result<Option<Node>> {
        let mut next_seq = self.stored_head.as_ref().and_then(|head| head.checkpoint);
        while let Some(seq) = next_seq {
            let checkpoint = self.view.node(seq)?;
            if is_wanted(&checkpoint)? {
                return Ok(Some(checkpoint));
            }
            next_seq = match checkpoint.parent {
                Some(parent) => self.view.node(parent)?.checkpoint,
                None => None,
            };
        }
        Ok(None)
    }

    /// Derives the node of a new entry.
    fn derive_node(
        &self,
        seq: u64,
        parent: Option<&Node>,
        draft: &NewEntry,
        body_and_target: (&Body, Option<u64>),
    ) -> Result<Node> {
        let (body, target) = body_and_target;
        let side = draft.is_side();
        let mut node = Node {
            seq,
            parent: parent.map(|parent| parent.seq),
            side,
            depth: parent.map_or(0, |parent| parent.depth) + u64::from(!side),
            jump: None,
            compaction: parent.and_then(|parent| parent.compaction),
            checkpoint: parent.and_then(|parent| parent.checkpoint),
            checkpoint_number: parent.and_then(|parent| parent.checkpoint_number),
            origin: parent.and_then(|parent| parent.origin),
            context_size: parent.map(|parent| self.context_size(parent)).transpose()?.flatten(),
            covers: None,
            target,
            extra: Extra::default(),
        };
        if let Body::Compaction(compaction) = body {
            node.covers = Some(self.covered_depths(compaction, parent)?);
        }
        if let Body::Usage(usage) = body {
            // A side entry gets the size too, because a caller can load the context of the side entry itself.
            node.context_size = usage.context_size.or(node.context_size);
        }
        if side {
            return Ok(node);
        }
        node.jump = parent.map(|parent| node::jump_pointer_below(self, parent)).transpose()?.flatten();
        match body {
            Body::Compaction(_) => {
                node.compaction = Some(seq);
                node.context_size = None;
                // The origin (provider and model) in a compaction only repeats that of an earlier message. So if
                // `node.origin` already points to a message, it stays.
                let origin_node = node.origin.map(|origin| self.node(origin)).transpose()?;
                if body.origin().is_some() && origin_node.is_none_or(|origin_node| origin_node.covers.is_some()) {
                    node.origin = Some(seq);
                }
            }
            Body::Checkpoint(checkpoint) => {
                node.checkpoint = Some(seq);
                node.checkpoint_number = Some(checkpoint.number);
            }
            Body::Message(message) => {
                let size = message.usage.as_ref().map(|usage| usage.tokens.context_size()).filter(|&size| size > 0);
                node.context_size = size.or(node.context_size);
                node.origin = body.origin().map(|_| seq).or(node.origin);
            }
            _ => {}
        }
        Ok(node)
    }

    fn context_size(&self, node: &Node) -> Result<Option<u64>> {
        let marks = self.marks.load(&self.stored_marks(), node.seq)?;
        Ok(marks.context_size.or(node.context_size))
    }

    /// Returns the depths that a compaction covers (EN-24).
    fn covered_depths(&self, compaction: &Compaction, parent: Option<&Node>) -> Result<CoveredDepths> {
        let Some(covers) = &compaction.covers else { return Ok(CoveredDepths::new(0, 0)) };
        let (from, to) =
            (self.existing_node("compaction", &covers.from)?, self.existing_node("compaction", &covers.to)?);
        let refusal = |reason| Err(Error::invalid("compaction", reason));
        let Some(parent) = parent else { return refusal("it covers entries that are not on its path") };
        for end in [&from, &to] {
            if end.side || !node::is_on_path(self, parent, end.seq, end.depth)? {
                return refusal("it covers entries that are not on its path");
            }
        }
        if from.depth > to.depth {
            return refusal("`from` comes after `to`");
        }
        let depths = CoveredDepths::new(from.depth, to.depth);
        let earlier_compactions = node::compactions(self, parent)?;
        if earlier_compactions
            .iter()
            .filter_map(|node| node.covers.as_ref())
            .any(|other| depths.overlaps_partially(other))
        {
            return refusal("it partly overlaps an earlier compaction on its path");
        }
        Ok(depths)
    }
}

/// Returns the number that a new checkpoint below `parent` gets if its draft has none (EN-21).
fn next_checkpoint_number(parent: Option<&Node>) -> Result<u64> {
    let next = parent.and_then(|node| node.checkpoint_number).map_or(Some(0), |number| number.checked_add(1));
    next.ok_or_else(|| Error::invalid("checkpoint", "the previous checkpoint has the highest possible number"))
}

/// The marks of stored entries. The entries of the commit, from `first_new_seq` on, have no stored marks yet.
struct StoredMarks<'a, V: ?Sized> {
    view: &'a V,
    first_new_seq: u64,
}

impl<V: LogView + ?Sized> MarkSource for StoredMarks<'_, V> {
    fn marks(&self, seq: u64) -> Result<EntryMarks> {
        if seq < self.first_new_seq { self.view.marks(seq) } else { Ok(EntryMarks::default()) }
    }
}
