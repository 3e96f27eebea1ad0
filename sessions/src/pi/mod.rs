//! The format of pi, which OpenClaw also writes: a header, then one node of the tree in each line. In version 4, some
//! lines are not part of the tree.

mod blocks;
mod calls;
mod compaction;
mod edits;
mod export;
mod line;
mod message;
mod operations;
mod read;
mod v4;

use std::{collections::HashMap, path::Path, sync::Arc};

use async_trait::async_trait;
use store_core::{JsonMap, Origin, ThreadId, Timestamp, UsageRecord};

use self::{
    calls::RepeatedCalls,
    compaction::{Compactions, FirstKept},
    edits::Edits,
};
use crate::{
    activity::Activity,
    blocks::cut_to_1_kib,
    compact::{RangeMap, to_u32},
    detect::{Sample, SourceKind},
    error::{Error, Result},
    export::{ExportFiles, ExportSource, WrittenSession, write_unchanged},
    field_types::{FieldType, note_wrong_types},
    formats::{Format, FormatName, ToolFolders, ToolPlace},
    issue::{IssueCode, Issues},
    json::{Object, json_string},
    lines::{
        self, AGENTSTORE, AgentstoreField, BodyAndTime, EncodableEntry, ImpliedLabel, LineFormat, LineKind,
        LinePosition, ObjectLine, ParsedLine, RewindTarget, ThreadInfo, note_bad_field,
    },
    options::ImportOptions,
    session::FirstPassResult,
    source::Source,
    time,
    tree::{InheritedValues, ParentField, ParentPolicy, PathOrder, Tree},
};

const V1: FormatName = FormatName::new("pi-v1");
const V2: FormatName = FormatName::new("pi-v2");
const V3: FormatName = FormatName::new("pi-v3");
const V4: FormatName = FormatName::new("pi-v4");

/// The types of lines that are nodes of the tree even without an id. In version 1, no line has an id.
const NODE_TYPES: &[&str] =
    &["message", "compaction", "model_change", "thinking_level_change", "branch_summary", "custom", "custom_message"];

/// The types of the lines that pi prints with `--mode json`. They are not lines of a session file.
const EVENT_TYPES: &[&str] = &["agent_start", "turn_start", "message_start", "message_update", "message_end"];

/// The format, as the import and the export use it.
pub(crate) struct PiFormat;

#[async_trait]
impl Format for PiFormat {
    fn unversioned_name(&self) -> &'static str {
        "pi"
    }

    fn newest(&self) -> FormatName {
        V3
    }

    fn names(&self) -> &'static [FormatName] {
        &[V1, V2, V3, V4]
    }

    fn recognise(&self, sample: &Sample<'_>) -> Option<SourceKind> {
        let first = sample.first()?;
        if first.text("kind").as_deref() == Some("header") && first.number("version") == Some(4) {
            return Some(SourceKind::Known(V4));
        }
        let is_header = |line: &&Object<'_>| line.text("type").as_deref() == Some("session") && line.has("id");
        // Some writers put the title before the header.
        let header = sample.lines.iter().take(2).find(is_header)?;
        let is_event = |line: &Object<'_>| line.text("type").is_some_and(|kind| EVENT_TYPES.contains(&kind.as_str()));
        if sample.lines.iter().any(is_event) {
            return Some(SourceKind::Unsupported("pi events", "import the session file that pi wrote"));
        }
        Some(SourceKind::Known(match header.raw("version") {
            None | Some("null" | "1") => V1,
            Some("2") => V2,
            Some(_) => V3,
        }))
    }

    fn run_first_pass(&self, name: FormatName, path: &Path, options: &ImportOptions) -> Result<FirstPassResult> {
        lines::run_first_pass(Pi::new(name), Source::new(path.to_owned(), options.max_line), options)
    }

    async fn export(
        &self,
        name: FormatName,
        source: &ExportSource<'_>,
        files: &mut ExportFiles<'_>,
    ) -> Result<WrittenSession> {
        let file_name = export::file_name(source.thread);
        let unchanged = write_unchanged(source, Pi::new(name), (&file_name, files)).await?;
        if unchanged.is_none() && name != V3 && name != V4 {
            return Err(Error::NotExportable {
                thread: source.thread.id.as_str().to_owned(),
                format: name.name(),
                reason: "only a thread that was imported from it and has not changed since can be written in an old \
                         version of pi; any thread can be written as pi-v3 or pi-v4",
            });
        }
        let written = match unchanged {
            Some(written) => written,
            None => export::write(name == V4, source, files).await?,
        };
        // Version 4 keeps the lines of imported operations, so the runs that an import made of them are not lost.
        Ok(WrittenSession { agent_of_imported_runs: (name == V4).then_some(operations::AGENT), ..written })
    }

    async fn place(&self, source: &ExportSource<'_>, folders: &ToolFolders) -> Result<Option<ToolPlace>> {
        Ok(Some(export::place(source, folders)))
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
    /// Whether it was noted that the header is missing.
    has_noted_missing_header: bool,
    sparse_data: SparseData,
    /// The provider and model that apply to each line.
    origins: InheritedValues<Arc<Origin>>,
    lanes: v4::Lanes,
    sequence: v4::Sequence,
    operations: operations::Operations,
}

/// What the header says.
#[derive(Debug, Default)]
struct Header {
    id: Option<String>,
    version: Option<String>,
    created_at: Option<Timestamp>,
    cwd: Option<String>,
    parent: Option<ThreadId>,
    /// The provider and model at the start, which version 1 names.
    origin: Option<Arc<Origin>>,
}

/// What the import keeps of each line between the two passes.
#[derive(Debug, Default)]
pub(crate) struct LineData {
    /// Whether it is a message of the context.
    is_message: bool,
    /// Whether it contains token counts.
    has_usage: bool,
}

/// What the import keeps of only a few lines between the two passes, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct SparseData {
    /// The provider and model that a line sets for itself and its descendants.
    new_origins: HashMap<u64, Arc<Origin>>,
    /// The lines of the JSON objects, by the numbers of the objects, where the header is 0.
    objects: RangeMap,
    compactions: Compactions,
    edits: Edits,
    calls: RepeatedCalls,
}

impl Pi {
    pub(crate) fn new(version: FormatName) -> Self {
        Self {
            version,
            header: None,
            object_count: 0,
            title: None,
            has_noted_missing_header: false,
            sparse_data: SparseData::default(),
            origins: InheritedValues::default(),
            lanes: v4::Lanes::default(),
            sequence: v4::Sequence::default(),
            operations: operations::Operations::default(),
        }
    }

    /// Whether the line is the header. The header is the first line, or the second line if the first is a title.
    fn is_header(&self, object: &Object<'_>) -> bool {
        let is_header = object.text("type").as_deref() == Some("session") || is_v4_header(object);
        is_header && self.header.is_none() && self.object_count <= 1
    }

    fn read_header(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) {
        let object = &line.object;
        let is_v4 = is_v4_header(object);
        self.version = match object.raw("version") {
            _ if is_v4 => V4,
            None | Some("null" | "1") => V1,
            Some("2") => V2,
            Some("3") => V3,
            Some(other) => {
                let detail = format!("version {other}; known are 1 to 3, and 4 with another header");
                issues.add(line.number, IssueCode::UnknownVersion, detail, "read as version 3; unknown parts are kept");
                V3
            }
        };
        let texts = ["id", "cwd", "provider", "modelId", "parentSession", "branchedFrom", "parentSessionId"];
        note_wrong_types(issues, line.number, object, &texts.map(|name| (name, FieldType::Text)));
        if let Some(Err(e)) = object.text("id").map(ThreadId::new) {
            note_bad_field(issues, line.number, format!("the session's id: {e}"));
        }
        let created_at = object.raw(if is_v4 { "createdAt" } else { "timestamp" }).and_then(time::read);
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
            parent: parent_of(object),
            origin: origin.map(Arc::new),
        });
    }

    fn line_data(&mut self, line: &ObjectLine<'_>) -> LineData {
        let object = &line.object;
        let mut data = LineData { is_message: false, has_usage: object.has("usage") };
        match object.text("type").as_deref() {
            Some("message") => {
                if let Some(message) = object.object("message") {
                    data.is_message = message::is_sent(&message);
                    data.has_usage |= message.has("usage");
                    self.sparse_data.calls.note(line.number, &message);
                }
            }
            Some("custom_message" | "branch_summary") => data.is_message = true,
            Some("model_change") => {
                self.sparse_data.new_origins.extend(read_origin(object).map(|origin| (line.number, Arc::new(origin))));
            }
            Some("compaction") => self.sparse_data.compactions.note(line.number, FirstKept::of(object)),
            Some("context_edit") => self.sparse_data.edits.note(line.number, object.text("targetId")),
            Some("session_info") => self.title = object.text("name").map(|name| cut_to_1_kib(&name)),
            _ => {}
        }
        data
    }

    /// Notes once that there is no header.
    fn note_missing_header(&mut self, line: u64, issues: &mut Issues) {
        if self.header.is_none() && !std::mem::replace(&mut self.has_noted_missing_header, true) {
            issues.add(
                line,
                IssueCode::MissingHeader,
                "the first line is not a header",
                "the thread gets the file's name",
            );
        }
    }

    /// What kind of line it is, if it is not the header.
    fn kind(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) -> LineKind<LineData> {
        let object = &line.object;
        let kind = object.text("type").unwrap_or_default();
        if self.version == V4 {
            self.sequence.check(line, issues);
            self.lanes.read(line, issues);
            let line_kind = object.text("kind");
            if line_kind.as_deref() == Some("record") {
                self.operations.read(line, issues);
            }
            if line_kind.as_deref() != Some("entry") {
                if object.text("fact").as_deref() == Some("name") {
                    self.title = object.text("name").map(|name| cut_to_1_kib(&name));
                }
                return LineKind::Side;
            }
        } else if kind == "session" {
            return LineKind::Side;
        } else if kind == "title" && self.header.is_none() {
            self.title = object.text("title").map(|title| cut_to_1_kib(title.trim()));
            return LineKind::Side;
        } else if self.object_count == 1 && !object.has("id") && !NODE_TYPES.contains(&kind.as_str()) {
            // A line before the header that is not a line of the tree.
            return LineKind::Side;
        }
        self.note_missing_header(line.number, issues);
        match agentstore_field(object) {
            Some(field) => match field.kind(object.text("parentId")) {
                LineKind::Node(_) => LineKind::Node(self.line_data(line)),
                other => other,
            },
            None => LineKind::Node(self.line_data(line)),
        }
    }
}

impl LineFormat for Pi {
    type LineData = LineData;

    fn name(&self) -> &'static str {
        self.version.name()
    }

    fn kind_prefix(&self) -> &'static str {
        "pi"
    }

    fn parse_line(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) -> ParsedLine<LineData> {
        let object = &line.object;
        let is_header = self.is_header(object);
        self.sparse_data.objects.push(to_u32(self.object_count), to_u32(line.number));
        self.object_count += 1;
        if is_header {
            self.read_header(line, issues);
            let (calls, results) = (Vec::new(), Vec::new());
            return ParsedLine { id: None, parent: ParentField::Root, kind: LineKind::Header, calls, results };
        }
        let kind = self.kind(line, issues);
        let texts = ["id", "lane", "leafId", "customType", "modelId", "name"].map(|name| (name, FieldType::Text));
        note_wrong_types(issues, line.number, object, &texts);
        let has_no_ids = self.version == V1;
        let is_second_header = object.text("type").as_deref() == Some("session") && self.version != V4;
        let id = object.text("id").filter(|_| !has_no_ids && !is_second_header);
        let parent = if has_no_ids { ParentField::Missing } else { ParentField::read(object, "parentId") };
        let message = object.object("message").filter(|_| !matches!(kind, LineKind::Side));
        let calls = message.as_ref().map(calls::source_call_ids).unwrap_or_default();
        let results = message.as_ref().and_then(calls::source_result_id).into_iter().collect();
        ParsedLine { id, parent, kind, calls, results }
    }

    fn has_parents_by_call(&self) -> bool {
        // OpenClaw writes lines that name a call as their parent.
        true
    }

    fn parent_policy(&mut self, _tree: &Tree<LineData>) -> ParentPolicy {
        let root = self.header.as_ref().and_then(|header| header.id.clone());
        // In version 4, a lane may begin with a new root.
        let reports_new_roots = matches!(self.version, V2 | V3);
        ParentPolicy {
            unstated_means_preceding: true,
            name_of_root: root,
            reports_new_roots,
            ..ParentPolicy::default()
        }
    }

    fn is_message(&self, data: &LineData) -> bool {
        data.is_message
    }

    fn derive_path_data(&mut self, tree: &mut Tree<LineData>, order: &PathOrder) {
        let first_origin = self.header.as_ref().and_then(|header| header.origin.clone());
        let new_origins = &self.sparse_data.new_origins;
        let changes = new_origins.keys().filter_map(|line| tree.position(*line)).collect();
        self.origins = InheritedValues::of(tree, order, &changes, &mut |at, inherited| {
            let new_origin = tree.line(at).and_then(|line| new_origins.get(&line).cloned());
            let inherited = if tree.parent(at).is_some() { inherited } else { first_origin.clone() };
            new_origin.or(inherited)
        });
        compaction::resolve_coverage(tree, order, &mut self.sparse_data);
        self.sparse_data.calls.resolve(tree, order);
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
            parent: header.parent.clone(),
            created_at: header.created_at,
        }
    }

    fn keeps_messages_of(&self, at: usize) -> bool {
        self.sparse_data.compactions.needs_message(at) || self.sparse_data.edits.needs_message(at)
    }

    fn read_body_and_time(
        &self,
        line: &ObjectLine<'_>,
        position: &LinePosition<'_, LineData>,
        issues: &mut Issues,
    ) -> BodyAndTime {
        read::read_body_and_time(line, position, self, issues)
    }

    fn side_parent(&self, line: &ObjectLine<'_>) -> Option<String> {
        match self.version {
            V4 if line.object.text("kind").as_deref() != Some("entry") => line.object.text("entryId"),
            _ => agentstore_field(&line.object).and_then(|_| line.object.text("parentId")),
        }
    }

    fn named_head(&self) -> Option<RewindTarget> {
        self.lanes.head().map(|to| to.map_or(RewindTarget::Start, RewindTarget::Named))
    }

    fn take_activity(&mut self, tree: &Tree<LineData>) -> Activity {
        self.operations.take_activity(tree)
    }

    fn separate_usage(&self, line: &ObjectLine<'_>) -> Option<UsageRecord> {
        let is_summary = matches!(line.object.text("type").as_deref(), Some("compaction" | "branch_summary"));
        if is_summary { message::usage_record(&line.object) } else { None }
    }

    fn implied_labels(&self, known_lines: u64) -> Vec<ImpliedLabel> {
        self.lanes.labels(known_lines)
    }

    fn encode(&self, entry: &EncodableEntry<'_>) -> Option<String> {
        // A line of version 4 has a lane and a number, which no entry contains.
        if self.version == V4 { None } else { line::encode(entry, self.version == V1) }
    }
}

/// The provider and model of a `model_change` line.
fn read_origin(object: &Object<'_>) -> Option<Origin> {
    let mut origin = Origin::new(object.text("provider")?);
    origin.model = object.text("modelId");
    Some(origin)
}

fn is_v4_header(object: &Object<'_>) -> bool {
    object.text("kind").as_deref() == Some("header") && object.number("version") == Some(4)
}

/// What an export of this crate wrote into a line of the type `custom`.
fn agentstore_field(object: &Object<'_>) -> Option<AgentstoreField> {
    let is_agentstore_type = object.text("customType")?.split_once('.').is_some_and(|(before, _)| before == AGENTSTORE);
    if !is_agentstore_type || object.text("type")? != "custom" {
        return None;
    }
    AgentstoreField::read(&object.object("data")?)
}

/// The session that the header names as its parent.
fn parent_of(header: &Object<'_>) -> Option<ThreadId> {
    if let Some(id) = header.text("parentSessionId") {
        return ThreadId::new(id).ok();
    }
    let paths = ["parentSession", "branchedFrom", "legacyParentSessionPath"];
    session_id_of_path(&paths.iter().find_map(|name| header.text(name))?)
}

/// The id of the session in the file `…/<time>_<id>.jsonl`.
fn session_id_of_path(path: &str) -> Option<ThreadId> {
    let name = path.rsplit(['/', '\\']).next()?;
    let stem = name.strip_suffix(".jsonl").unwrap_or(name);
    ThreadId::new(stem.split_once('_').map_or(stem, |(_, id)| id)).ok()
}
