//! The format of pi, versions 1 to 3, which OpenClaw also writes: a header, then one node of the tree in each line.

mod blocks;
mod compaction;
mod line;
mod message;
mod read;

use std::sync::Arc;

use store_core::{JsonMap, Origin, ThreadId, Timestamp};

use self::compaction::{Coverage, FirstKept};
use crate::{
    blocks::cut_to_1_kib,
    issue::{Code, Issues},
    json::{Object, quote},
    lines::{
        BodyAndTime, EncodableEntry, LineFormat, LineKind, LinePosition, ObjectLine, ParsedLine, ThreadInfo, bad_field,
    },
    options::FormatName,
    time,
    tree::{ParentField, ParentNames, Tree},
};

/// Reads pi sessions.
#[derive(Debug)]
pub(crate) struct Pi {
    version: FormatName,
    header: Option<Header>,
    /// The number of JSON objects so far, including the header. Version 1 refers to a line by this number.
    objects: usize,
    title: Option<String>,
    keeps_messages: bool,
}

/// What the header says.
#[derive(Debug, Default)]
struct Header {
    id: Option<String>,
    version: Option<String>,
    at: Option<Timestamp>,
    cwd: Option<String>,
    parent: Option<String>,
    /// The provider and model at the start, which version 1 names.
    origin: Option<Arc<Origin>>,
}

/// What the import keeps of a line between the two passes.
#[derive(Debug, Default)]
pub(crate) struct Data {
    /// The number of the JSON object in the file, where the header is 0.
    object: usize,
    /// The provider and model that the line sets for itself and the lines below it.
    new_origin: Option<Origin>,
    /// The provider and model that apply to the line.
    origin: Option<Arc<Origin>>,
    /// For a compaction: the first entry that it keeps.
    first_kept: Option<FirstKept>,
    /// For a compaction: what it covers on its path.
    coverage: Coverage,
}

impl Pi {
    pub(crate) const fn new(version: FormatName) -> Self {
        Self { version, header: None, objects: 0, title: None, keeps_messages: false }
    }

    fn header(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) {
        let object = &line.object;
        self.version = match object.raw("version") {
            None | Some("null" | "1") => FormatName::PiV1,
            Some("2") => FormatName::PiV2,
            Some("3") => FormatName::PiV3,
            Some(other) => {
                let detail = format!("version {other}; known are 1 to 3");
                issues.add(line.number, Code::UnknownVersion, detail, "read as version 3; unknown parts are kept");
                FormatName::PiV3
            }
        };
        if let Some(Err(e)) = object.text("id").map(ThreadId::new) {
            bad_field(issues, line.number, format!("the session's id: {e}"));
        }
        let at = object.raw("timestamp").and_then(time::read);
        if at.is_none() {
            issues.add(line.number, Code::BadTime, "the time cannot be read", "the session gets none");
        }
        let mut origin = object.text("provider").map(Origin::new);
        if let Some(origin) = &mut origin {
            origin.model = object.text("modelId");
        }
        self.header = Some(Header {
            id: object.text("id"),
            version: object.raw("version").map(str::to_owned),
            at,
            cwd: object.text("cwd"),
            parent: object.text("parentSession").or_else(|| object.text("branchedFrom")),
            origin: origin.map(Arc::new),
        });
    }

    fn data(&mut self, line: &ObjectLine<'_>) -> Data {
        let object = &line.object;
        let mut data = Data { object: self.objects - 1, ..Data::default() };
        match object.text("type").as_deref() {
            Some("model_change") => data.new_origin = model(object),
            Some("compaction") => data.first_kept = Some(FirstKept::of(object)),
            Some("session_info") => self.title = object.text("name").map(|name| cut_to_1_kib(&name)),
            _ => {}
        }
        data
    }
}

impl LineFormat for Pi {
    type Data = Data;

    fn name(&self) -> &'static str {
        self.version.name()
    }

    fn family(&self) -> &'static str {
        "pi"
    }

    fn parse_line(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) -> ParsedLine<Data> {
        let object = &line.object;
        let is_header = object.text("type").as_deref() == Some("session");
        let is_first = self.objects == 0;
        self.objects += 1;
        if is_first && is_header {
            self.header(line, issues);
            let (calls, results) = (Vec::new(), Vec::new());
            return ParsedLine { id: None, parent: ParentField::Root, kind: LineKind::Header, calls, results };
        }
        if is_first {
            issues.add(
                line.number,
                Code::MissingHeader,
                "the first line is not a header",
                "the thread gets the file's name",
            );
        }
        let is_chain = self.version == FormatName::PiV1;
        let id = object.text("id").filter(|_| !is_chain && !is_header);
        let parent = match object.raw("parentId") {
            _ if is_chain => ParentField::Missing,
            None => ParentField::Missing,
            Some(_) => object.text("parentId").map_or(ParentField::Root, ParentField::Named),
        };
        let kind = if is_header { LineKind::Side } else { LineKind::Node(self.data(line)) };
        let (calls, results) = message::calls(object);
        ParsedLine { id, parent, kind, calls, results }
    }

    fn parent_names(&mut self, _tree: &Tree<Data>) -> ParentNames {
        let root = self.header.as_ref().and_then(|header| header.id.clone());
        ParentNames { chain: self.version == FormatName::PiV1, root, ..ParentNames::default() }
    }

    fn derive_path_data(&mut self, tree: &mut Tree<Data>, order: &[usize]) {
        let start = self.header.as_ref().and_then(|header| header.origin.clone());
        for &at in order {
            let above = match tree.parent(at) {
                Some(parent) => tree.get(parent).and_then(|parent| parent.data.origin.clone()),
                None => start.clone(),
            };
            if let Some(data) = tree.data_mut(at) {
                data.origin = data.new_origin.clone().map(Arc::new).or(above);
            }
        }
        self.keeps_messages = compaction::resolve_coverage(tree, order);
    }

    fn thread_info(&self) -> ThreadInfo {
        let Some(header) = &self.header else {
            return ThreadInfo { title: self.title.clone(), ..ThreadInfo::default() };
        };
        let mut metadata = JsonMap::new();
        for (name, value) in [("session_id", &header.id), ("cwd", &header.cwd), ("version", &header.version)] {
            if let Some(value) = value {
                metadata.insert(name.to_owned(), quote(&cut_to_1_kib(value)));
            }
        }
        ThreadInfo {
            id: header.id.clone(),
            version: header.version.clone(),
            title: self.title.clone(),
            metadata,
            parent: header.parent.as_deref().and_then(session_of),
            at: header.at,
        }
    }

    fn keeps_messages(&self) -> bool {
        self.keeps_messages
    }

    fn draft(&self, line: &ObjectLine<'_>, position: &LinePosition<'_, Data>, issues: &mut Issues) -> BodyAndTime {
        read::draft(line, position, issues)
    }

    fn encode(&self, entry: &EncodableEntry<'_>) -> Option<String> {
        line::encode(entry, self.version == FormatName::PiV1)
    }
}

/// The provider and model of a `model_change` line.
fn model(object: &Object<'_>) -> Option<Origin> {
    let mut origin = Origin::new(object.text("provider")?);
    origin.model = object.text("modelId");
    Some(origin)
}

/// The id of the session in the file `…/<time>_<id>.jsonl`.
fn session_of(path: &str) -> Option<ThreadId> {
    let name = path.rsplit(['/', '\\']).next()?;
    let stem = name.strip_suffix(".jsonl").unwrap_or(name);
    ThreadId::new(stem.split_once('_').map_or(stem, |(_, id)| id)).ok()
}
