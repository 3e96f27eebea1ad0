//! The format of pi, versions 1 to 3, which OpenClaw also writes: a header, then one node of the tree in each line.

mod blocks;
mod compaction;
mod line;
mod message;
mod read;

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use store_core::{JsonMap, Origin, ThreadId, Timestamp};

use self::compaction::{Coverage, FirstKept};
use crate::{
    blocks::cut_to_1_kib,
    detect::{Detected, Sample},
    error::{Error, Result},
    export::{ExportFiles, ExportSource, Written, write_unchanged},
    formats::{Format, FormatName},
    issue::{IssueCode, Issues},
    json::{Object, json_string},
    lines::{
        self, BodyAndTime, EncodableEntry, LineFormat, LineKind, LinePosition, ObjectLine, ParsedLine, ThreadInfo,
        note_bad_field,
    },
    options::ImportOptions,
    session::SurveyOutcome,
    source::Source,
    time,
    tree::{ParentField, ParentNames, Tree},
};

const V1: FormatName = FormatName::new("pi-v1");
const V2: FormatName = FormatName::new("pi-v2");
const V3: FormatName = FormatName::new("pi-v3");

/// The types of the lines that pi prints with `--mode json`. They are not lines of a session file.
const EVENT_TYPES: &[&str] = &["agent_start", "turn_start", "message_start", "message_update", "message_end"];

/// The format, as the import and the export use it.
pub(crate) struct PiFormat;

#[async_trait]
impl Format for PiFormat {
    fn family(&self) -> &'static str {
        "pi"
    }

    fn newest(&self) -> FormatName {
        V3
    }

    fn names(&self) -> &'static [FormatName] {
        &[V1, V2, V3]
    }

    fn recognise(&self, sample: &Sample<'_>) -> Option<Detected> {
        let first = sample.first()?;
        if first.text("kind").as_deref() == Some("header") && first.number("version") == Some(4) {
            return Some(Detected::Unsupported("pi-v4", "pi v1 to v3 are read"));
        }
        let is_header = |line: &&Object<'_>| line.text("type").as_deref() == Some("session") && line.has("id");
        // Some writers put the title before the header.
        let header = sample.lines.iter().take(2).find(is_header)?;
        let is_event = |line: &Object<'_>| line.text("type").is_some_and(|kind| EVENT_TYPES.contains(&kind.as_str()));
        if sample.lines.iter().any(is_event) {
            return Some(Detected::Unsupported("pi events", "import the session file that pi wrote"));
        }
        Some(Detected::Known(match header.raw("version") {
            None | Some("null" | "1") => V1,
            Some("2") => V2,
            Some(_) => V3,
        }))
    }

    fn survey(&self, name: FormatName, path: &Path, options: &ImportOptions) -> Result<SurveyOutcome> {
        lines::survey(Pi::new(name), Source::new(path.to_owned(), options.max_line), options)
    }

    async fn export(
        &self,
        name: FormatName,
        source: &ExportSource<'_>,
        files: &mut ExportFiles<'_>,
    ) -> Result<Written> {
        let file_name = format!("{}.jsonl", source.thread.id);
        if let Some(written) = write_unchanged(source, &Pi::new(name), (&file_name, files)).await? {
            return Ok(written);
        }
        Err(Error::NotExportable {
            thread: source.thread.id.as_str().to_owned(),
            format: name.name(),
            reason: "a thread can be written in this format only if it was imported from it and has not changed since; \
                     any thread can be written as agent-core",
        })
    }
}

/// Reads pi sessions.
#[derive(Debug)]
pub(crate) struct Pi {
    version: FormatName,
    header: Option<Header>,
    /// The number of JSON objects so far, including the header. Version 1 refers to a line by this number.
    object_count: usize,
    title: Option<String>,
    keeps_messages: bool,
}

/// What the header says.
#[derive(Debug, Default)]
struct Header {
    id: Option<String>,
    version: Option<String>,
    created_at: Option<Timestamp>,
    cwd: Option<String>,
    parent: Option<String>,
    /// The provider and model at the start, which version 1 names.
    origin: Option<Arc<Origin>>,
}

/// What the import keeps of a line between the two passes.
#[derive(Debug, Default)]
pub(crate) struct LineData {
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
        Self { version, header: None, object_count: 0, title: None, keeps_messages: false }
    }

    fn read_header(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) {
        let object = &line.object;
        self.version = match object.raw("version") {
            None | Some("null" | "1") => V1,
            Some("2") => V2,
            Some("3") => V3,
            Some(other) => {
                let detail = format!("version {other}; known are 1 to 3");
                issues.add(line.number, IssueCode::UnknownVersion, detail, "read as version 3; unknown parts are kept");
                V3
            }
        };
        if let Some(Err(e)) = object.text("id").map(ThreadId::new) {
            note_bad_field(issues, line.number, format!("the session's id: {e}"));
        }
        let created_at = object.raw("timestamp").and_then(time::read);
        if created_at.is_none() {
            issues.add(line.number, IssueCode::BadTime, "the time cannot be read", "the session gets none");
        }
        let mut origin = object.text("provider").map(Origin::new);
        if let Some(origin) = &mut origin {
            origin.model = object.text("modelId");
        }
        self.header = Some(Header {
            id: object.text("id"),
            version: object.raw("version").map(str::to_owned),
            created_at,
            cwd: object.text("cwd"),
            parent: object.text("parentSession").or_else(|| object.text("branchedFrom")),
            origin: origin.map(Arc::new),
        });
    }

    fn line_data(&mut self, line: &ObjectLine<'_>) -> LineData {
        let object = &line.object;
        let mut data = LineData { object: self.object_count - 1, ..LineData::default() };
        match object.text("type").as_deref() {
            Some("model_change") => data.new_origin = read_origin(object),
            Some("compaction") => data.first_kept = Some(FirstKept::of(object)),
            Some("session_info") => self.title = object.text("name").map(|name| cut_to_1_kib(&name)),
            _ => {}
        }
        data
    }
}

impl LineFormat for Pi {
    type LineData = LineData;

    fn name(&self) -> &'static str {
        self.version.name()
    }

    fn family(&self) -> &'static str {
        "pi"
    }

    fn parse_line(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) -> ParsedLine<LineData> {
        let object = &line.object;
        let is_header = object.text("type").as_deref() == Some("session");
        let is_first = self.object_count == 0;
        self.object_count += 1;
        if is_first && is_header {
            self.read_header(line, issues);
            let (calls, results) = (Vec::new(), Vec::new());
            return ParsedLine { id: None, parent: ParentField::Root, kind: LineKind::Header, calls, results };
        }
        if is_first {
            issues.add(
                line.number,
                IssueCode::MissingHeader,
                "the first line is not a header",
                "the thread gets the file's name",
            );
        }
        let is_chain = self.version == V1;
        let id = object.text("id").filter(|_| !is_chain && !is_header);
        let parent = match object.raw("parentId") {
            _ if is_chain => ParentField::Missing,
            None => ParentField::Missing,
            Some(_) => object.text("parentId").map_or(ParentField::Root, ParentField::Named),
        };
        let kind = if is_header { LineKind::Side } else { LineKind::Node(self.line_data(line)) };
        let (calls, results) = message::call_and_result_ids(object);
        ParsedLine { id, parent, kind, calls, results }
    }

    fn parent_names(&mut self, _tree: &Tree<LineData>) -> ParentNames {
        let root = self.header.as_ref().and_then(|header| header.id.clone());
        ParentNames { chain: self.version == V1, root, ..ParentNames::default() }
    }

    fn derive_path_data(&mut self, tree: &mut Tree<LineData>, order: &[usize]) {
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
                metadata.insert(name.to_owned(), json_string(&cut_to_1_kib(value)));
            }
        }
        ThreadInfo {
            id: header.id.clone(),
            version: header.version.clone(),
            title: self.title.clone(),
            metadata,
            parent: header.parent.as_deref().and_then(session_id_of_path),
            created_at: header.created_at,
        }
    }

    fn keeps_messages(&self) -> bool {
        self.keeps_messages
    }

    fn read_body_and_time(
        &self,
        line: &ObjectLine<'_>,
        position: &LinePosition<'_, LineData>,
        issues: &mut Issues,
    ) -> BodyAndTime {
        read::read_body_and_time(line, position, issues)
    }

    fn encode(&self, entry: &EncodableEntry<'_>) -> Option<String> {
        line::encode(entry, self.version == V1)
    }
}

/// The provider and model of a `model_change` line.
fn read_origin(object: &Object<'_>) -> Option<Origin> {
    let mut origin = Origin::new(object.text("provider")?);
    origin.model = object.text("modelId");
    Some(origin)
}

/// The id of the session in the file `…/<time>_<id>.jsonl`.
fn session_id_of_path(path: &str) -> Option<ThreadId> {
    let name = path.rsplit(['/', '\\']).next()?;
    let stem = name.strip_suffix(".jsonl").unwrap_or(name);
    ThreadId::new(stem.split_once('_').map_or(stem, |(_, id)| id)).ok()
}
