//! The format of Codex: rollouts, with a record in each line. Each line is the child of the preceding one, unless a
//! rollback moves the conversation to an earlier line. In the old shape, a line is an item without a record around it.

mod canonical_item;
mod export;
mod export_losses;
mod header;
mod item;
mod origin;
mod read;
mod record;
mod session_meta;
mod turns;
mod write_items;

use std::{num::NonZeroU32, path::Path};

use async_trait::async_trait;
use store_core::{Body, ThreadId, Timestamp};

use self::{
    header::Header,
    item::ItemOrigin,
    read::{BodyReader, SideLines},
    record::{COMPACTED, EVENT_MSG, RESPONSE_ITEM, Record, SESSION_META, TURN_CONTEXT},
    turns::{TurnPath, TurnRole},
};
use crate::{
    blocks::cut_to_1_kib,
    compact::to_u32,
    detect::{Sample, SourceKind},
    error::Result,
    export::{ExportFiles, ExportSource, WrittenSession, file_name_part, shell_word, uuid_of, write_unchanged},
    field_types::{FieldType, note_wrong_types},
    formats::{Format, FormatName, ToolFolders, ToolPlace},
    issue::{IssueCode, Issues},
    json::Object,
    lines::{
        self, BodyAndTime, EncodableEntry, LineFormat, LineKind, LinePosition, LineTime, ObjectLine, ParsedLine,
        ThreadInfo, note_bad_field,
    },
    options::ImportOptions,
    session::FirstPassResult,
    source::Source,
    time,
    tree::{ParentField, ParentPolicy, Tree},
};

const NAME: FormatName = FormatName::new("codex");

/// The format, as the import and the export use it.
pub(crate) struct CodexFormat;

#[async_trait]
impl Format for CodexFormat {
    fn newest(&self) -> FormatName {
        NAME
    }

    fn names(&self) -> &'static [FormatName] {
        &[NAME]
    }

    fn recognise(&self, sample: &Sample<'_>) -> Option<SourceKind> {
        let has_old_shape = || {
            let mut later_lines = sample.lines.iter().skip(1).peekable();
            let has_old_lines = later_lines.peek().is_none() || later_lines.any(record::is_old_line);
            sample.first().is_some_and(record::is_old_header) && has_old_lines
        };
        (sample.lines.iter().any(record::is_record) || has_old_shape()).then_some(SourceKind::Known(NAME))
    }

    fn run_first_pass(&self, _name: FormatName, path: &Path, options: &ImportOptions) -> Result<FirstPassResult> {
        lines::run_first_pass(Codex::default(), Source::new(path.to_owned(), options.max_line), options)
    }

    async fn export(
        &self,
        _name: FormatName,
        source: &ExportSource<'_>,
        files: &mut ExportFiles<'_>,
    ) -> Result<WrittenSession> {
        let name = file_name(source.thread.created_at, &session_id(source).await?);
        if let Some(written) = write_unchanged(source, Codex::default(), (&name, files)).await? {
            return Ok(written);
        }
        export::write(source, files).await
    }

    async fn place(&self, source: &ExportSource<'_>, folders: &ToolFolders) -> Result<Option<ToolPlace>> {
        let day = time::to_iso(source.thread.created_at);
        let mut folder = folders.folder("CODEX_HOME", ".codex").join("sessions");
        folder.extend(day.split('T').next().unwrap_or_default().split('-'));
        let id = session_id(source).await?;
        Ok(Some(ToolPlace::new(folder, format!("codex resume {}", shell_word(&id)))))
    }
}

/// The id in the header of the file: that of the imported file if the thread has not changed since.
async fn session_id(source: &ExportSource<'_>) -> Result<String> {
    let mut imported_id = None;
    if source.unchanged_provenance().await?.is_some() {
        let first = source.entries().next().await?.and_then(|page| page.into_iter().next());
        imported_id = first.and_then(|first| session_meta::imported_id(&first));
    }
    Ok(imported_id.unwrap_or_else(|| uuid_of_thread(&source.thread.id)))
}

/// The id of the session that a thread is exported as.
fn uuid_of_thread(thread: &ThreadId) -> String {
    uuid_of(thread.as_str())
}

/// The name of the file of a session.
fn file_name(created_at: Timestamp, id: &str) -> String {
    let time = time::to_iso(created_at);
    let seconds = time.split('.').next().unwrap_or_default().replace(':', "-");
    format!("rollout-{seconds}-{}.jsonl", file_name_part(id))
}

/// Reads rollouts.
#[derive(Debug, Default)]
pub(crate) struct Codex {
    header: Option<Header>,
    /// Whether the file has the old shape.
    has_old_shape: bool,
    /// Whether a JSON object has been read.
    has_objects: bool,
    title: Option<String>,
    /// The number of the model that applies to the following lines.
    model: Option<NonZeroU32>,
    /// The models that lines name. They are numbered from 1.
    models: Vec<String>,
    path: TurnPath,
    side_lines: SideLines,
    /// The total of the last token counts.
    last_token_total: Option<String>,
    /// The first line of the current answer. An answer is a sequence of items that the model made, with nothing else in
    /// between.
    answer_start: Option<NonZeroU32>,
}

/// What the import keeps of a node between the two passes.
#[derive(Debug)]
pub(crate) struct LineData {
    /// The number of the model that made the item.
    model: Option<NonZeroU32>,
    /// The first line of the answer that the item belongs to, if a model made it.
    answer: Option<NonZeroU32>,
}

impl Codex {
    fn read_header(&mut self, line: &ObjectLine<'_>, fields: &Object<'_>, issues: &mut Issues) {
        let texts = ["id", "cwd", "cli_version", "forked_from_id", "parent_thread_id", "model_provider"];
        note_wrong_types(issues, line.number, fields, &texts.map(|name| (name, FieldType::Text)));
        let header = Header::of(fields);
        if let Some(error) = header.id_error() {
            note_bad_field(issues, line.number, error);
        }
        if header.has_no_time() {
            issues.add(line.number, IssueCode::BadTime, "the time cannot be read", "the session gets none");
        }
        self.header = Some(header);
    }

    /// Reads a record that is not a node.
    fn read_side_record(&mut self, line: &ObjectLine<'_>, kind: &str, fields: &Object<'_>) -> LineKind<LineData> {
        match (kind, fields.text("type").as_deref()) {
            (TURN_CONTEXT, _) => {
                if let Some(model) = fields.text("model") {
                    self.set_model(model);
                }
            }
            (EVENT_MSG, Some("thread_rolled_back")) => {
                if let Some(target) = fields.number("num_turns").and_then(|turns| self.path.roll_back(turns)) {
                    self.answer_start = None;
                    self.side_lines.rewinds.insert(line.number, target.clone());
                    return LineKind::Rewind(target);
                }
            }
            (EVENT_MSG, Some("thread_name_updated")) => {
                self.title = fields.text("thread_name").map(|title| cut_to_1_kib(&title));
            }
            (EVENT_MSG, Some("token_count")) => {
                let total = fields.object("info").and_then(|info| info.raw("total_token_usage").map(str::to_owned));
                if total.is_some() && self.last_token_total == total {
                    self.side_lines.repeated_counts.push(line.number);
                }
                self.last_token_total = total.or(self.last_token_total.take());
            }
            _ => {}
        }
        LineKind::Side
    }

    /// Sets the model of the following lines.
    fn set_model(&mut self, model: String) {
        let known = self.models.iter().position(|known| *known == model);
        let at = known.unwrap_or_else(|| {
            self.models.push(model);
            self.models.len() - 1
        });
        self.model = NonZeroU32::new(to_u32(at + 1));
    }

    fn model_of(&self, data: &LineData) -> Option<&str> {
        let at = usize::try_from(data.model?.get()).ok()? - 1;
        self.models.get(at).map(String::as_str)
    }

    fn add_node(&mut self, role: TurnRole) -> (ParentField, LineKind<LineData>) {
        (self.path.push(role), LineKind::Node(LineData { model: self.model, answer: self.answer_start }))
    }
}

/// A line without an id, calls or results.
const fn line_without_ids(parent: ParentField, kind: LineKind<LineData>) -> ParsedLine<LineData> {
    ParsedLine { id: None, parent, kind, calls: Vec::new(), results: Vec::new() }
}

impl LineFormat for Codex {
    type LineData = LineData;

    fn name(&self) -> &'static str {
        NAME.name()
    }

    fn kind_prefix(&self) -> &'static str {
        "codex"
    }

    fn parse_line(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) -> ParsedLine<LineData> {
        let object = &line.object;
        let is_first = !std::mem::replace(&mut self.has_objects, true);
        if is_first && record::is_old_header(object) {
            self.has_old_shape = true;
            self.read_header(line, object, issues);
            return line_without_ids(ParentField::Root, LineKind::Header);
        }
        let record = Record::of(object, self.has_old_shape);
        let fields = record.as_ref().and_then(Record::fields);
        let kind = record.as_ref().map_or("", |record| record.kind.as_str());
        let is_header = kind == SESSION_META && self.header.is_none();
        if is_first && !(is_header && fields.is_some()) {
            let detail = "the first line is not a header";
            issues.add(line.number, IssueCode::MissingHeader, detail, "the thread gets the file's name");
        }
        match (kind, &fields) {
            (SESSION_META, Some(fields)) if is_header => {
                self.read_header(line, fields, issues);
                line_without_ids(ParentField::Root, if is_first { LineKind::Header } else { LineKind::Side })
            }
            (RESPONSE_ITEM, _) => {
                let role = fields.as_ref().map_or(TurnRole::Other, TurnRole::of_item);
                let (calls, results) = fields.as_ref().map(item::call_and_result_ids).unwrap_or_default();
                let is_of_model = fields.as_ref().is_some_and(item::is_of_model);
                let first = || self.answer_start.or_else(|| NonZeroU32::new(to_u32(line.number)));
                self.answer_start = if is_of_model { first() } else { None };
                let (parent, kind) = self.add_node(role);
                ParsedLine { id: None, parent, kind, calls, results }
            }
            (COMPACTED, _) => {
                self.answer_start = None;
                let (parent, kind) = self.add_node(TurnRole::Other);
                line_without_ids(parent, kind)
            }
            (_, Some(fields)) => {
                let texts: &[&str] = match kind {
                    TURN_CONTEXT => &["model"],
                    EVENT_MSG => &["type", "thread_name"],
                    _ => &[],
                };
                let texts: Vec<_> = texts.iter().map(|name| (*name, FieldType::Text)).collect();
                note_wrong_types(issues, line.number, fields, &texts);
                line_without_ids(ParentField::Root, self.read_side_record(line, kind, fields))
            }
            (_, None) => line_without_ids(ParentField::Root, LineKind::Side),
        }
    }

    fn parent_policy(&mut self, _tree: &Tree<LineData>) -> ParentPolicy {
        // All lines are read. This frees the path, which takes memory for each of them.
        self.path = TurnPath::default();
        ParentPolicy::default()
    }

    fn thread_info(&self) -> ThreadInfo {
        match &self.header {
            Some(header) => header.thread_info(self.title.clone()),
            None => ThreadInfo { title: self.title.clone(), ..ThreadInfo::default() },
        }
    }

    fn read_body_and_time(
        &self,
        line: &ObjectLine<'_>,
        position: &LinePosition<'_, LineData>,
        issues: &mut Issues,
    ) -> BodyAndTime {
        let record = Record::of(&line.object, self.has_old_shape);
        let time = match line.object.raw("timestamp") {
            Some(raw) => time::read(raw).map_or(LineTime::Invalid, LineTime::At),
            None if self.has_old_shape || record.is_none() => LineTime::NotGiven,
            None => LineTime::Invalid,
        };
        let origin = ItemOrigin {
            model: position.data().and_then(|data| self.model_of(data)),
            platform: self.header.as_ref().and_then(|header| header.platform.as_deref()),
        };
        let reader = BodyReader { position, side_lines: &self.side_lines, origin };
        BodyAndTime { body: read::body(line, record.as_ref(), &reader, issues), time }
    }

    fn encode(&self, entry: &EncodableEntry<'_>) -> Option<String> {
        let timestamp = entry.timestamp?;
        match entry.body {
            Body::Custom(custom) => {
                let kind = custom.kind.strip_prefix("codex.")?;
                Some(write_items::line(timestamp, kind, custom.data.as_str()))
            }
            Body::Message(message) if !entry.side => {
                Some(write_items::line(timestamp, RESPONSE_ITEM, &write_items::only_item(message)?))
            }
            _ => None,
        }
    }
}
