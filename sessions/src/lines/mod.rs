//! Formats whose lines form a tree: one file, one thread, one entry for each line.

mod drafts;
mod ids;
mod session;
mod survey;

use std::collections::HashMap;

use store_core::{
    Body, Checkpoint, Entry, EntryId, JsonMap, Message, NewBody, Rewind, RewindTo, ThreadFields, ThreadId, Timestamp,
};

pub(crate) use self::{
    ids::{Ids, Row},
    survey::survey,
};
use crate::{
    issue::{Code, Issues},
    json::Object,
    tree::{Names, Parent, Tree},
};

/// A format whose lines form a tree.
///
/// The framework reads lines (line ends, blank, torn and malformed ones, odd characters), gives ids, finds parents,
/// keeps raw bytes where [`encode`](Self::encode) does not give the line back, and remembers times. The format says
/// what a line is.
pub(crate) trait LineFormat: Send + Sync {
    /// What is kept of each line of the tree between the passes.
    type Data: Send + Sync;

    /// The name, as origins have it.
    fn name(&self) -> &'static str;

    /// The name that kinds of entries begin with, as `pi` in `pi.custom`.
    fn family(&self) -> &'static str;

    /// First pass: what a line is, and what it refers to.
    fn sketch(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) -> Sketch<Self::Data>;

    /// Between the passes: how names of parents are understood.
    fn names(&mut self, tree: &Tree<Self::Data>) -> Names;

    /// Between the passes: what follows along paths. `order` has parents before children. Called again, with other
    /// parents, for a file that has grown.
    fn settle(&mut self, _tree: &mut Tree<Self::Data>, _order: &[usize]) {}

    /// What is known of the thread after the first pass.
    fn thread(&self) -> About;

    /// The line that a line beside the tree names as its parent.
    fn side_parent(&self, _line: &ObjectLine<'_>) -> Option<String> {
        None
    }

    /// Whether the messages of nodes are to be kept for later lines (`Earlier::messages`).
    fn keeps_messages(&self) -> bool {
        false
    }

    /// Second pass: the body of a line.
    fn draft(&self, line: &ObjectLine<'_>, place: &Place<'_, Self::Data>, issues: &mut Issues) -> Drafted;

    /// The line that the typed form gives; none if it gives none.
    fn encode(&self, entry: &Typed<'_>) -> Option<String>;
}

/// A line that is a JSON object.
#[derive(Debug)]
pub(crate) struct ObjectLine<'a> {
    /// From 1.
    pub(crate) number: u64,
    /// The object.
    pub(crate) object: Object<'a>,
}

/// What a line is, as the first pass sees it.
#[derive(Debug)]
pub(crate) struct Sketch<D> {
    /// Its own id.
    pub(crate) id: Option<String>,
    /// Where it hangs.
    pub(crate) parent: Parent,
    /// Its part in the file.
    pub(crate) part: Part<D>,
    /// Ids of calls in it.
    pub(crate) calls: Vec<String>,
    /// Ids of calls that it answers.
    pub(crate) results: Vec<String>,
}

/// The part of a line in its file.
#[derive(Debug)]
pub(crate) enum Part<D> {
    /// The header.
    Header,
    /// A node of the tree.
    Node(D),
    /// Beside the tree: it hangs below its parent, or else below the line before it.
    Side,
    /// Beside the tree: it moves the writer to the line with this id, or to before the first one.
    Rewind(Option<String>),
}

/// What is known of the thread after the first pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    /// The id that the file gives its session.
    pub(crate) id: Option<String>,
    /// The version that it names.
    pub(crate) version: Option<String>,
    /// The title.
    pub(crate) title: Option<String>,
    /// Its metadata.
    pub(crate) metadata: JsonMap,
    /// The thread that it comes from.
    pub(crate) parent: Option<ThreadId>,
    /// When it was made.
    pub(crate) at: Option<Timestamp>,
}

impl About {
    fn fields(&self) -> ThreadFields {
        let mut fields = ThreadFields::default();
        fields.title.clone_from(&self.title);
        fields.metadata.clone_from(&self.metadata);
        fields
    }
}

/// Where a line stands, for the second pass.
pub(crate) struct Place<'a, D> {
    /// The tree.
    pub(crate) tree: &'a Tree<D>,
    /// The line's position in the tree; of a line beside it the one that it hangs below.
    pub(crate) at: Option<usize>,
    /// The ids of all lines.
    pub(crate) ids: &'a Ids,
    /// What comes before it in the log.
    pub(crate) earlier: &'a Earlier,
}

impl<D> Place<'_, D> {
    /// What the format knows of this line.
    pub(crate) fn data(&self) -> Option<&D> {
        Some(&self.tree.get(self.at?)?.data)
    }

    /// The entry id of a node.
    pub(crate) fn id_of(&self, at: usize) -> Option<EntryId> {
        self.ids.of(self.tree.get(at)?.line).cloned()
    }

    /// The entry of the nearest line before this one in the log that gives itself this id.
    pub(crate) fn earlier(&self, given: &str) -> Option<EntryId> {
        self.id_of(self.earlier_node(given)?)
    }

    /// The same line's position in the tree.
    pub(crate) fn earlier_node(&self, given: &str) -> Option<usize> {
        self.earlier.by_given.get(given).copied()
    }
}

/// What comes before a line in the log.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// Nodes by the ids that lines give themselves: of a repeated id the nearest.
    pub(crate) by_given: HashMap<String, usize>,
    /// Messages of nodes that a later line needs.
    pub(crate) messages: HashMap<usize, Message>,
}

/// The typed form of a line.
#[derive(Debug)]
pub(crate) struct Drafted {
    /// The body.
    pub(crate) body: NewBody,
    /// Its time.
    pub(crate) time: Time,
}

/// The time of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// As the line says.
    At(Timestamp),
    /// Missing or unreadable: an issue.
    Bad,
    /// Left out by the rules of the format.
    Left,
}

/// An entry in its typed form, to be written as a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Typed<'a> {
    /// The id.
    pub(crate) id: &'a str,
    /// The id of the parent.
    pub(crate) parent: Option<&'a str>,
    /// Whether it lies beside the path.
    pub(crate) side: bool,
    /// The time.
    pub(crate) timestamp: Option<Timestamp>,
    /// The body.
    pub(crate) body: &'a Body,
}

impl<'a> Typed<'a> {
    /// A stored entry.
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

/// Notes a wrong field of a known shape.
pub(crate) fn bad_field(issues: &mut Issues, line: u64, detail: impl Into<String>) {
    issues.add(line, Code::BadField, detail, "kept raw");
}

/// The body that a draft will have in the log.
pub(crate) fn body_of(body: &NewBody) -> Option<Body> {
    Some(match body {
        NewBody::Message(message) => Body::Message(message.clone()),
        NewBody::Compaction(compaction) => Body::Compaction(compaction.clone()),
        NewBody::Usage(usage) => Body::Usage(usage.clone()),
        NewBody::Label(label) => Body::Label(label.clone()),
        NewBody::Custom(custom) => Body::Custom(custom.clone()),
        NewBody::Checkpoint { number: Some(number), label } => {
            Body::Checkpoint(Checkpoint::new(*number, label.clone()))
        }
        NewBody::Rewind(RewindTo::Entry(to)) => {
            let mut rewind = Rewind::default();
            rewind.to = Some(to.clone());
            Body::Rewind(rewind)
        }
        NewBody::Unknown { kind, data } => Body::Unknown { kind: kind.clone(), data: data.clone() },
        _ => return None,
    })
}
