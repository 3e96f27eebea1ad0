//! The format Agent Core JSONL: one JSON object in each line, and no header. The field `parentId` makes the lines a
//! tree.

mod calls;
mod export;
mod line;
mod losses;
mod migrated;
mod read;

use std::{collections::HashMap, path::Path, sync::Arc};

use async_trait::async_trait;
use store_core::{Origin, Timestamp};

use self::{
    calls::{CallsOfLine, KnownCalls},
    line::{encode, encode_head, encode_result},
};
use crate::{
    detect::{Sample, SourceKind},
    error::Result,
    export::{ExportFiles, ExportSource, WrittenSession, file_name_part, write_unchanged},
    field_types::{FieldType, note_wrong_types},
    formats::{Format, FormatName},
    issue::Issues,
    json::Object,
    lines::{
        self, BodyAndTime, EncodableEntry, LineFormat, LineKind, LinePosition, ObjectLine, ParsedLine, ThreadInfo,
    },
    options::ImportOptions,
    session::FirstPassResult,
    source::Source,
    time,
    tree::{InheritedValues, ParentField, ParentPolicy, PathOrder, Tree},
};

const NAME: FormatName = FormatName::new("agent-core");

/// The format, as the import and the export use it.
pub(crate) struct AgentCoreFormat;

#[async_trait]
impl Format for AgentCoreFormat {
    fn newest(&self) -> FormatName {
        NAME
    }

    fn names(&self) -> &'static [FormatName] {
        &[NAME]
    }

    fn has_tool(&self) -> bool {
        false
    }

    fn recognise(&self, sample: &Sample<'_>) -> Option<SourceKind> {
        sample.holds_for_most_lines(is_line).then_some(SourceKind::Known(NAME))
    }

    fn run_first_pass(&self, _name: FormatName, path: &Path, options: &ImportOptions) -> Result<FirstPassResult> {
        lines::run_first_pass(AgentCore::default(), Source::new(path.to_owned(), options.max_line), options)
    }

    async fn export(
        &self,
        _name: FormatName,
        source: &ExportSource<'_>,
        files: &mut ExportFiles<'_>,
    ) -> Result<WrittenSession> {
        let file_name = format!("{}.jsonl", file_name_part(source.thread.id.as_str()));
        if let Some(written) = write_unchanged(source, AgentCore::default(), (&file_name, files)).await? {
            return Ok(written);
        }
        export::write(source, files).await
    }
}

/// Whether a line has the type and the id of a line of this format.
fn is_line(line: &Object<'_>) -> bool {
    let types = ["user", "assistant", "tool", "tool_result", "system", "metadata"];
    line.text("type").is_some_and(|kind| types.contains(&kind.as_str()))
        && line.has("id")
        && line.object("message").is_none()
}

/// The types of the lines that are messages of the context.
const MESSAGE_TYPES: &[&str] = &["user", "assistant", "tool_result"];

pub(crate) const METADATA_KIND: &str = "agent-core.metadata";
pub(crate) const TOOL_KIND: &str = "agent-core.tool";

/// Reads and writes Agent Core JSONL.
#[derive(Debug, Default)]
pub(crate) struct AgentCore {
    has_parents: bool,
    created_at: Option<Timestamp>,
    calls: KnownCalls,
    /// The providers and models that `metadata` lines set, by the numbers of these lines.
    new_origins: HashMap<u64, Arc<Origin>>,
    /// The provider and model that apply to each line.
    origins: InheritedValues<Arc<Origin>>,
}

/// What the import keeps of a line between the two passes.
#[derive(Debug, Default)]
pub(crate) struct LineData {
    /// How the line is related to calls.
    role: CallRole,
    /// Whether it is a message of the context.
    is_message: bool,
}

/// How a line is related to calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum CallRole {
    /// The line contains a list of calls, is a result that names its call, or is not related to calls.
    #[default]
    Other,
    /// A `tool` line. It is a note that a declared call ran, or it is the call itself.
    Tool {
        /// Whether the line names the id of the call. If not, the id is made from the line.
        has_call_id: bool,
    },
    /// A result that names no call.
    ResultWithoutId,
}

impl LineFormat for AgentCore {
    type LineData = LineData;

    fn name(&self) -> &'static str {
        NAME.name()
    }

    fn kind_prefix(&self) -> &'static str {
        "agent-core"
    }

    fn parse_line(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) -> ParsedLine<LineData> {
        let object = &line.object;
        let parent = ParentField::read(object, "parentId");
        self.has_parents |= parent != ParentField::Missing;
        if self.created_at.is_none() {
            self.created_at = object.raw("timestamp").and_then(time::read);
        }
        note_wrong_types(issues, line.number, object, &[("id", FieldType::Text)]);
        let id = object.text("id");
        let CallsOfLine { role, calls, results, made_id } = calls::read_calls(line, id.as_deref());
        let kind = match read::agentstore_field(object) {
            Some(agentstore_field) => agentstore_field.kind(object.text("parentId")),
            None => {
                self.calls.note(line.number, calls.iter().chain(&made_id));
                self.new_origins.extend(new_origin(object).map(|origin| (line.number, Arc::new(origin))));
                let is_message = object.text("type").is_some_and(|kind| MESSAGE_TYPES.contains(&kind.as_str()));
                LineKind::Node(LineData { role, is_message })
            }
        };
        ParsedLine { id, parent, kind, calls, results }
    }

    fn has_parents_by_call(&self) -> bool {
        true
    }

    fn parent_policy(&mut self, _tree: &Tree<LineData>) -> ParentPolicy {
        self.calls.sort();
        ParentPolicy {
            unstated_means_preceding: !self.has_parents,
            reports_new_roots: self.has_parents,
            ..ParentPolicy::default()
        }
    }

    fn derive_path_data(&mut self, tree: &mut Tree<LineData>, order: &PathOrder) {
        let changes = self.new_origins.keys().filter_map(|line| tree.position(*line)).collect();
        self.origins = InheritedValues::of(tree, order, &changes, &mut |at, inherited| {
            tree.line(at).and_then(|line| self.new_origins.get(&line).cloned()).or(inherited)
        });
    }

    fn is_message(&self, data: &LineData) -> bool {
        data.is_message
    }

    fn thread_info(&self) -> ThreadInfo {
        ThreadInfo { created_at: self.created_at, ..ThreadInfo::default() }
    }

    fn side_parent(&self, line: &ObjectLine<'_>) -> Option<String> {
        line.object.text("parentId")
    }

    fn read_body_and_time(
        &self,
        line: &ObjectLine<'_>,
        position: &LinePosition<'_, LineData>,
        issues: &mut Issues,
    ) -> BodyAndTime {
        read::read_body_and_time(line, position, self, issues)
    }

    fn encode(&self, entry: &EncodableEntry<'_>) -> Option<String> {
        encode(entry)
    }
}

/// The provider and model that a `metadata` line sets.
fn new_origin(object: &Object<'_>) -> Option<Origin> {
    if object.text("type")? != "metadata" {
        return None;
    }
    let metadata = object.object("metadata")?;
    let mut origin = Origin::new(metadata.text("provider")?);
    origin.model = metadata.text("model");
    Some(origin)
}
