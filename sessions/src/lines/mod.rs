//! Formats whose lines form a tree. One file becomes one thread, and each line that is not blank becomes one entry.

mod agentstore;
mod bodies;
mod calls;
mod drafts;
mod first_pass;
mod ids;
mod session;
mod source_ids;

use std::collections::HashMap;

use store_core::{
    Body, Checkpoint, Entry, EntryId, JsonMap, Message, NewBody, Rewind, RewindTo, ThreadFields, ThreadId, Timestamp,
    UsageRecord,
};

pub(crate) use self::{
    agentstore::{AGENTSTORE, AgentstoreField},
    bodies::draft_body,
    first_pass::{FileOfThread, file_stem, run_first_pass, run_first_pass_on_file},
    ids::LineIds,
    source_ids::SourceIds,
};
use crate::{
    activity::Activity,
    compact::BitSet,
    issue::{IssueCode, Issues},
    json::Object,
    tree::{ParentField, ParentPolicy, Parents, PathOrder, Tree},
};

/// A format whose lines form a tree.
///
/// This module reads the lines (line ends, blank, torn and malformed lines, odd characters), assigns ids, finds
/// parents, keeps the raw bytes if [`encode`](Self::encode) does not reproduce the line, and gives a line without a
/// time that of the preceding line. The format says what a line is.
pub(crate) trait LineFormat: Send + Sync {
    /// What the import keeps of each line of the tree between the two passes. A file may have millions of lines, so
    /// this is only a few bytes. The format itself keeps data that only a few lines have.
    type LineData: Send + Sync;

    /// The name of the format, as in `ImportOrigin`.
    fn name(&self) -> &'static str;

    /// The name with which the kinds of entries begin, such as `pi` in `pi.custom`.
    fn kind_prefix(&self) -> &'static str;

    /// In the first pass: says what a line is, and what it refers to.
    fn parse_line(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) -> ParsedLine<Self::LineData>;

    /// Between the passes: says how parents are found for lines that do not name the id of another line.
    fn parent_policy(&mut self, tree: &Tree<Self::LineData>) -> ParentPolicy;

    /// Whether a line may name the id of a call as its parent.
    fn has_parents_by_call(&self) -> bool {
        false
    }

    /// Whether the thread gets every line of its file. If not, the file belongs to another thread, which gets the lines
    /// that are not JSON objects and the issues of the file.
    fn owns_file(&self) -> bool {
        true
    }

    /// Between the passes, after the parents were found: returns the parents that the nodes get instead of those that
    /// their lines name. `None` changes nothing.
    fn adjust_parents(&mut self, _tree: &mut Tree<Self::LineData>) -> Option<Parents> {
        None
    }

    /// Whether the program that writes the source would continue after a line with this data.
    fn can_be_head(&self, _data: &Self::LineData) -> bool {
        true
    }

    /// Between the passes: derives the data that depends on paths. `order` has parents before children. For a file that
    /// was imported before, the import calls this again, with the stored parents.
    fn derive_path_data(&mut self, _tree: &mut Tree<Self::LineData>, _order: &PathOrder) {}

    /// For a file that has grown since it was imported: learns which nodes are already stored.
    fn adopt_stored(&mut self, _tree: &mut Tree<Self::LineData>, _is_stored: &dyn Fn(usize) -> bool) {}

    /// Whether a node is a message of the context.
    fn is_message(&self, _data: &Self::LineData) -> bool {
        true
    }

    /// What is known of the thread after the first pass.
    fn thread_info(&self) -> ThreadInfo;

    /// The id that the line of a side entry names as its parent. If the parent comes later in the file, the side entry
    /// is stored after it.
    fn side_parent(&self, _line: &ObjectLine<'_>) -> Option<String> {
        None
    }

    /// Whether the messages of a node must be kept for later lines (`EarlierNodes::messages`).
    fn keeps_messages_of(&self, _at: usize) -> bool {
        false
    }

    /// The head, if the source names it.
    fn named_head(&self) -> Option<RewindTarget> {
        None
    }

    /// Between the passes: returns the runs and the queued input that the lines describe.
    fn take_activity(&mut self, _tree: &Tree<Self::LineData>) -> Activity {
        Activity::default()
    }

    /// In the second pass: the token counts in a line that the body of its entry cannot contain. They become a side
    /// entry of their own.
    fn separate_usage(&self, _line: &ObjectLine<'_>) -> Option<UsageRecord> {
        None
    }

    /// Labels that the lines imply. They become side entries after the last line. `known_lines` is the number of lines
    /// that were imported earlier.
    fn implied_labels(&self, _known_lines: u64) -> Vec<ImpliedLabel> {
        Vec::new()
    }

    /// In the second pass: returns the body and the time of a line.
    fn read_body_and_time(
        &self,
        line: &ObjectLine<'_>,
        position: &LinePosition<'_, Self::LineData>,
        issues: &mut Issues,
    ) -> BodyAndTime;

    /// Encodes the typed form as a line. Returns `None` if the format has no such line.
    fn encode(&self, entry: &EncodableEntry<'_>) -> Option<String>;
}

/// A line that is a JSON object.
#[derive(Debug)]
pub(crate) struct ObjectLine<'a> {
    /// The number of the line, from 1.
    pub(crate) number: u64,
    /// The object.
    pub(crate) object: Object<'a>,
}

/// What a line is, as the first pass sees it.
#[derive(Debug)]
pub(crate) struct ParsedLine<D> {
    /// The id that the line contains.
    pub(crate) id: Option<String>,
    /// What the line says about its parent.
    pub(crate) parent: ParentField,
    /// The kind of the line.
    pub(crate) kind: LineKind<D>,
    /// The ids of the calls in the line.
    pub(crate) calls: Vec<String>,
    /// The ids of the calls that the line answers.
    pub(crate) results: Vec<String>,
}

/// The kind of a line.
#[derive(Debug)]
pub(crate) enum LineKind<D> {
    /// The header.
    Header,
    /// A node of the tree.
    Node(D),
    /// A side entry. Its parent is the node that it names, or else the preceding node.
    Side,
    /// A line of another thread. It becomes no entry of this one.
    OfOtherThread,
    /// A side entry that moves the head of the source.
    Rewind(RewindTarget),
}

/// The place to which a line moves the head of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RewindTarget {
    /// Before the first line.
    Start,
    /// The nearest earlier line with this id.
    Named(String),
    /// The node at this position in the tree.
    Node(usize),
}

/// A label that no line contains, but that some lines imply together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImpliedLabel {
    /// A text that is the same in every import of the same lines, and that no other implied label has.
    pub(crate) key: String,
    /// The last of the lines that imply it.
    pub(crate) line: u64,
    /// The id of the line that gets the label.
    pub(crate) target: String,
    /// The label. If it is absent, the label is removed.
    pub(crate) text: Option<String>,
}

/// What is known of the thread after the first pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThreadInfo {
    /// The id of the session, as the file contains it.
    pub(crate) id: Option<String>,
    /// The version that the file names.
    pub(crate) version: Option<String>,
    /// The title.
    pub(crate) title: Option<String>,
    /// Its metadata.
    pub(crate) metadata: JsonMap,
    /// The parent of the thread.
    pub(crate) parent: Option<ThreadId>,
    /// When the session was created.
    pub(crate) created_at: Option<Timestamp>,
}

impl ThreadInfo {
    fn fields(&self) -> ThreadFields {
        let mut fields = ThreadFields::default();
        fields.title.clone_from(&self.title);
        fields.metadata.clone_from(&self.metadata);
        fields
    }
}

/// The position of a line, and what the second pass needs to know about other lines.
pub(crate) struct LinePosition<'a, D> {
    /// The tree.
    pub(crate) tree: &'a Tree<D>,
    /// The position of the line in the tree. For a side entry, it is the position of the preceding node.
    pub(crate) at: Option<usize>,
    /// The ids of all lines.
    pub(crate) ids: &'a LineIds<'a>,
    /// The nodes that come earlier in the log.
    pub(crate) earlier: &'a EarlierNodes,
}

impl<D> LinePosition<'_, D> {
    /// The format-specific data of this line.
    pub(crate) fn data(&self) -> Option<&D> {
        self.tree.data(self.at?)
    }

    /// The entry id of a node.
    pub(crate) fn id_of(&self, at: usize) -> Option<EntryId> {
        self.ids.of(self.tree.line(at)?)
    }

    /// The entry of the nearest line that contains `source_id` as its id and comes before this line in the log.
    pub(crate) fn earlier_entry(&self, source_id: &str) -> Option<EntryId> {
        self.id_of(self.earlier_node(source_id)?)
    }

    /// The position in the tree of the line that [`earlier_entry`](Self::earlier_entry) finds.
    pub(crate) fn earlier_node(&self, source_id: &str) -> Option<usize> {
        self.earlier.nearest(self.tree, source_id)
    }
}

/// The nodes that come earlier in the log than a line.
#[derive(Debug, Default)]
pub(crate) struct EarlierNodes {
    /// The nodes that come earlier in the log.
    nodes: BitSet,
    /// The messages of nodes, if later lines need them.
    pub(crate) messages: HashMap<usize, Message>,
    /// The replacements of compactions, if later lines need them.
    pub(crate) replacements: HashMap<usize, Vec<Message>>,
}

impl EarlierNodes {
    /// The nearest node whose line contains this id.
    fn nearest<D>(&self, tree: &Tree<D>, source_id: &str) -> Option<usize> {
        tree.nodes_with_id(source_id).into_iter().rfind(|at| self.nodes.contains(*at))
    }
}

/// The body and the time of a line.
#[derive(Debug)]
pub(crate) struct BodyAndTime {
    /// The body.
    pub(crate) body: NewBody,
    /// The time.
    pub(crate) time: LineTime,
}

/// The time of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineTime {
    /// The time that the line contains.
    At(Timestamp),
    /// Missing or unreadable, which is an issue.
    Invalid,
    /// Missing, which the format allows.
    NotGiven,
}

/// An entry in its typed form, to be written as a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodableEntry<'a> {
    /// The id.
    pub(crate) id: &'a str,
    /// The id of the parent.
    pub(crate) parent: Option<&'a str>,
    /// Whether it is a side entry.
    pub(crate) side: bool,
    /// The time.
    pub(crate) timestamp: Option<Timestamp>,
    /// The body.
    pub(crate) body: &'a Body,
}

impl<'a> EncodableEntry<'a> {
    /// The typed form of a stored entry.
    pub(crate) fn of(entry: &'a Entry) -> Self {
        Self {
            id: entry.id.as_str(),
            parent: entry.parent.as_ref().map(EntryId::as_str),
            side: entry.side,
            timestamp: Some(entry.timestamp),
            body: &entry.body,
        }
    }
}

/// Notes a wrong field in a line or a block of a known type.
pub(crate) fn note_bad_field(issues: &mut Issues, line: u64, detail: impl Into<String>) {
    issues.add(line, IssueCode::BadField, detail, "kept raw");
}

/// The body that a draft will have in the log, or `None` for a body whose line is always kept raw.
pub(crate) fn stored_body(body: &NewBody) -> Option<Body> {
    Some(match body {
        NewBody::Message(message) => Body::Message(message.clone()),
        NewBody::Compaction(compaction) => Body::Compaction(compaction.clone()),
        NewBody::Usage(usage) => Body::Usage(usage.clone()),
        NewBody::Label(label) => Body::Label(label.clone()),
        NewBody::Custom(custom) => Body::Custom(custom.clone()),
        NewBody::Checkpoint { number: Some(number), label } => {
            Body::Checkpoint(Checkpoint::new(*number, label.clone()))
        }
        NewBody::Rewind(RewindTo::Start) => Body::Rewind(Rewind::default()),
        NewBody::Rewind(RewindTo::Entry(to)) => {
            let mut rewind = Rewind::default();
            rewind.to = Some(to.clone());
            Body::Rewind(rewind)
        }
        NewBody::Unknown { kind, data } => Body::Unknown { kind: kind.clone(), data: data.clone() },
        _ => return None,
    })
}
