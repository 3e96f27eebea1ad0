//! How the lines of a file form the tree of a thread.

use std::{num::NonZeroU32, sync::Arc};

use store_core::{Body, Json, JsonMap, ThreadId};
use uuid::Uuid;

use super::{
    AGENT_KEY, CALL_KEY, DESCRIPTION_KEY, NAME, agentstore,
    facts::{AgentCall, FileFacts, OnlyAgent},
    message,
    parallel::{self, MessageLinks},
    preserved_segment::{self, Compactions, PreservedSegment},
    read,
};
use crate::{
    blocks::cut_to_1_kib,
    compact::BitSet,
    issue::{IssueCode, Issues},
    json::{Object, json_string},
    lines::{BodyAndTime, EncodableEntry, LineFormat, LineKind, LinePosition, ObjectLine, ParsedLine, ThreadInfo},
    provenance::IMPORT_LINE,
    time,
    tree::{ParentField, ParentPolicy, Parents, PathOrder, Tree},
};

/// Reads the lines of one thread of a session.
#[derive(Debug)]
pub(crate) struct ClaudeCode {
    facts: Arc<FileFacts>,
    /// The subagent whose lines in the main file become the thread. If it is absent, the thread gets all lines.
    sidechain: Option<usize>,
    /// If this is the thread of a subagent: the subagent, and the call that started it.
    agent: Option<(String, Option<AgentCall>)>,
    thread: ThreadInfo,
    session: Option<String>,
    titles: Titles,
    links: MessageLinks,
    compactions: Compactions,
    /// The number of messages so far.
    message_count: u64,
}

/// The titles that lines give the session, in order of preference.
#[derive(Debug, Default)]
struct Titles {
    custom_title: Option<String>,
    ai_title: Option<String>,
    agent_name: Option<String>,
    /// The uuids of the last lines of conversations, each with the summary of its conversation. Once all lines are
    /// read, only conversations in this file are left.
    summaries: Vec<(String, String)>,
}

/// What the import keeps of a line between the two passes.
#[derive(Debug, Default)]
pub(crate) struct LineData {
    pub(super) kind: NodeKind,
    pub(super) place: LinePlace,
    /// Whether the usage of the message counts at this line, because it is the last line of the message.
    pub(super) carries_usage: bool,
    /// The number that stands for the provider's id of the message.
    pub(super) message_id: Option<NonZeroU32>,
    /// Whether the line is a summary that its compaction contains.
    pub(super) is_contained: bool,
}

/// How a line continues the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LinePlace {
    /// It follows the line that it names as its parent.
    #[default]
    Ordinary,
    /// Like `Ordinary`, but the tool itself added the line.
    AddedByTool,
    /// It says that it begins a branch.
    Branch,
}

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum NodeKind {
    User,
    Assistant,
    /// A line with a compaction.
    Boundary,
    #[default]
    Other,
}

impl NodeKind {
    fn of(object: &Object<'_>) -> Self {
        match object.text("type").as_deref() {
            Some("user") => Self::User,
            Some("assistant") => Self::Assistant,
            Some("system") if object.text("subtype").as_deref() == Some("compact_boundary") => Self::Boundary,
            _ => Self::Other,
        }
    }
}

impl ClaudeCode {
    /// The format for the thread of a file.
    pub(super) fn for_main_file(facts: Arc<FileFacts>, id: &MainId) -> Self {
        let mut format = Self::of(facts);
        format.thread.id = Some(id.thread());
        format.agent = id.agent.clone().map(|agent| (agent, None));
        // If the thread of the main file does not exist yet, its import sets the parent.
        format.thread.parent = id.agent.as_ref().and_then(|_| ThreadId::new(&id.session).ok());
        format
    }

    /// The format for all lines of a file except those of subagents in it.
    fn of(facts: Arc<FileFacts>) -> Self {
        Self {
            facts,
            sidechain: None,
            agent: None,
            thread: ThreadInfo::default(),
            session: None,
            titles: Titles::default(),
            links: MessageLinks::default(),
            compactions: Compactions::default(),
            message_count: 0,
        }
    }

    /// The format for the thread of a subagent whose lines are in the main file. `session` is the id of the main
    /// thread.
    pub(super) fn for_sidechain(facts: Arc<FileFacts>, at: usize, session: &str) -> Self {
        let agent = facts.sidechains.get(at).map(|found| (found.agent.clone(), found.call.clone()));
        let mut format = Self::of(facts);
        format.sidechain = Some(at);
        format.thread.id = agent.as_ref().map(|(agent, _)| child_id(session, agent));
        format.agent = agent;
        format
    }

    /// The format for the thread of a subagent with a file of its own. `main` are the facts about the main file.
    /// `description` is what the tool says about the subagent in another file.
    pub(super) fn for_subagent_file(
        facts: Arc<FileFacts>,
        main: &FileFacts,
        (agent, session, description): (&str, &str, Option<&Result<Json, String>>),
    ) -> Self {
        let description = description.and_then(|description| description.as_ref().ok());
        let call_in_description =
            description.and_then(|description| Object::parse(description.as_str())?.text("toolUseId"));
        let call = main.call_of(agent, (call_in_description, facts.prompt()));
        let mut format = Self::of(facts);
        format.thread.id = Some(child_id(session, agent));
        format.thread.metadata.extend(description.map(|description| (DESCRIPTION_KEY.to_owned(), description.clone())));
        format.agent = Some((agent.to_owned(), call));
        format
    }

    /// The format for lines that were imported earlier. It has none of the facts that a first pass finds.
    pub(super) fn for_imported_lines() -> Self {
        Self::of(Arc::default())
    }

    /// Notes what a line says about the session.
    fn note_session(&mut self, object: &Object<'_>) {
        let text = |name: &str| object.text(name).filter(|text| !text.is_empty());
        // A session that continues another begins with copies of its lines, so the last id is that of this session.
        self.session = text("sessionId").or(self.session.take());
        self.thread.version = text("version").or(self.thread.version.take());
        if !self.thread.metadata.contains_key("cwd")
            && let Some(folder) = text("cwd")
        {
            self.thread.metadata.insert("cwd".to_owned(), json_string(&cut_to_1_kib(&folder)));
        }
        if self.thread.created_at.is_none() {
            self.thread.created_at = object.raw("timestamp").and_then(time::read);
        }
        match object.text("type").as_deref() {
            Some("custom-title") => self.titles.custom_title = text("customTitle").or(self.titles.custom_title.take()),
            Some("ai-title") => self.titles.ai_title = text("aiTitle").or(self.titles.ai_title.take()),
            Some("agent-name") => self.titles.agent_name = text("agentName").or(self.titles.agent_name.take()),
            Some("summary") => self.titles.summaries.extend(text("leafUuid").zip(text("summary"))),
            _ => {}
        }
    }

    /// Whether a line is part of the tree.
    fn is_node(&self, object: &Object<'_>) -> bool {
        if object.text("uuid").is_some() {
            return true;
        }
        let kinds: &[&str] = if self.facts.has_uuids {
            &["user", "assistant"]
        } else {
            &["user", "assistant", "system", "attachment", "progress"]
        };
        object.text("type").is_some_and(|kind| kinds.contains(&kind.as_str()))
    }

    fn parent(&self, object: &Object<'_>) -> ParentField {
        if !self.facts.has_uuids {
            return ParentField::Missing;
        }
        if ParentField::read(object, "parentUuid") == ParentField::Invalid {
            return ParentField::Invalid;
        }
        if let Some(parent) = object.text("parentUuid") {
            return self.facts.parent(parent, self.sidechain);
        }
        // A copied session begins at its last compaction. The file does not contain the lines that this compaction
        // covers, so the line that it follows becomes its parent only if it is in the file.
        let is_known = |id: &str| match self.sidechain {
            Some(at) => self.facts.has_sidechain_id(at, id),
            None => self.facts.has_main_id(id),
        };
        let segment = PreservedSegment::of(object).ok().flatten();
        let segment = segment.filter(|_| NodeKind::of(object) == NodeKind::Boundary);
        let last_kept = segment.map(|segment| segment.last_kept_line().to_owned()).filter(|id| is_known(id));
        let preceding = object.text("logicalParentUuid").filter(|id| is_known(id)).or(last_kept);
        preceding.map_or(ParentField::Root, ParentField::Named)
    }

    /// Notes an issue if a message names no parent although other messages come earlier in the file. Its context then
    /// contains none of them.
    fn note_new_root(&mut self, line: &ObjectLine<'_>, data: &LineData, parent: &ParentField, issues: &mut Issues) {
        if !matches!(data.kind, NodeKind::User | NodeKind::Assistant) || data.place == LinePlace::AddedByTool {
            return;
        }
        let names_parent = line.object.text("parentUuid").is_some();
        if self.message_count > 0 && *parent == ParentField::Root && !names_parent && data.place != LinePlace::Branch {
            let detail = format!("the line names no parent, although {} messages come before it", self.message_count);
            let action = "it becomes a root, unless the parents of such lines are chosen to be the nearest ones";
            issues.add(line.number, IssueCode::NewRoot, detail, action);
        }
        self.message_count += 1;
    }

    fn place(object: &Object<'_>) -> LinePlace {
        if agentstore::begins_branch(object) {
            LinePlace::Branch
        } else if object.bool("isMeta") == Some(true) {
            LinePlace::AddedByTool
        } else {
            LinePlace::Ordinary
        }
    }

    fn parse_line_of_thread(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) -> ParsedLine<LineData> {
        let object = &line.object;
        let id = object.text("uuid");
        if !self.is_node(object) {
            return line_without_ids(LineKind::Side);
        }
        let kind = NodeKind::of(object);
        let (calls, results) = message::call_and_result_ids(object, kind);
        let message = object.object("message").filter(|_| kind == NodeKind::Assistant);
        let message_id = message.and_then(|message| message.text("id")).filter(|id| !id.is_empty());
        self.links.note(line.number, &calls, &results);
        self.compactions.note(line, kind);
        let data = LineData {
            kind,
            place: Self::place(object),
            message_id: message_id.and_then(|id| self.links.number_of_message(&id)),
            ..LineData::default()
        };
        let parent = self.parent(object);
        self.note_new_root(line, &data, &parent, issues);
        ParsedLine { id, parent, kind: LineKind::Node(data), calls, results }
    }
}

/// The session that a file names, and the subagent if all messages of the file are those of one subagent.
#[derive(Debug)]
pub(super) struct MainId {
    pub(super) session: String,
    agent: Option<String>,
}

impl MainId {
    /// Claude Code names a file after its session. So the name of the file decides, if it can be the id of a session.
    /// If not, as for a pipe or a renamed copy, the last line that names a session decides.
    pub(super) fn of(stem: &str, facts: &FileFacts) -> Self {
        let named_session = facts.session.as_ref().filter(|_| !is_session_id(stem));
        let (session, agent) = match (named_session, &facts.only_agent) {
            (Some(session), OnlyAgent::None) => (session.as_str(), None),
            (Some(session), OnlyAgent::Named(agent)) => (session.as_str(), Some(agent.clone())),
            _ => (stem, None),
        };
        Self { session: session.to_owned(), agent }
    }

    /// The id of the thread of the file.
    pub(super) fn thread(&self) -> String {
        self.agent.as_ref().map_or_else(|| self.session.clone(), |agent| child_id(&self.session, agent))
    }

    /// Whether the tool made the id of the session.
    pub(super) fn is_made_by_tool(&self) -> bool {
        is_session_id(&self.session)
    }
}

fn is_session_id(text: &str) -> bool {
    Uuid::try_parse(text).is_ok()
}

/// The id of the thread of a subagent.
fn child_id(session: &str, agent: &str) -> String {
    format!("{session}.agent-{agent}")
}

/// A line without an id, calls or results.
const fn line_without_ids(kind: LineKind<LineData>) -> ParsedLine<LineData> {
    ParsedLine { id: None, parent: ParentField::Root, kind, calls: Vec::new(), results: Vec::new() }
}

impl LineFormat for ClaudeCode {
    type LineData = LineData;

    fn name(&self) -> &'static str {
        NAME.name()
    }

    fn kind_prefix(&self) -> &'static str {
        NAME.name()
    }

    fn parse_line(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) -> ParsedLine<LineData> {
        let object = &line.object;
        let sidechain = self.facts.sidechain_of(line.number);
        if self.sidechain.is_some() && sidechain != self.sidechain {
            return line_without_ids(LineKind::OfOtherThread);
        }
        if self.sidechain.is_none() && sidechain.is_some() {
            return ParsedLine { id: object.text("uuid"), ..line_without_ids(LineKind::Side) };
        }
        self.note_session(object);
        self.parse_line_of_thread(line, issues)
    }

    fn parent_policy(&mut self, _tree: &Tree<LineData>) -> ParentPolicy {
        ParentPolicy { unstated_means_preceding: !self.facts.has_uuids, ..ParentPolicy::default() }
    }

    fn owns_file(&self) -> bool {
        self.sidechain.is_none()
    }

    fn adjust_parents(&mut self, tree: &mut Tree<LineData>) -> Option<Parents> {
        self.titles.summaries.retain(|(leaf, _)| !tree.nodes_with_id(leaf).is_empty());
        if let Some(parents) = preserved_segment::adjust_parents(tree, &self.compactions) {
            let _order = tree.set_parents(parents);
        }
        Some(parallel::adjust_parents(tree, std::mem::take(&mut self.links)))
    }

    fn can_be_head(&self, data: &LineData) -> bool {
        matches!(data.kind, NodeKind::User | NodeKind::Assistant)
    }

    fn derive_path_data(&mut self, tree: &mut Tree<LineData>, _order: &PathOrder) {
        preserved_segment::derive_coverage(tree, &mut self.compactions);
        preserved_segment::mark_contained_summaries(tree, &mut self.compactions, &|_| false);
    }

    /// If the usage of a message is already stored, it does not count again when the file contains more lines of this
    /// message.
    fn adopt_stored(&mut self, tree: &mut Tree<LineData>, is_stored: &dyn Fn(usize) -> bool) {
        preserved_segment::mark_contained_summaries(tree, &mut self.compactions, is_stored);
        let counted = tree.iter().filter(|(at, data)| data.kind == NodeKind::Assistant && is_stored(*at));
        let mut stored_messages = BitSet::default();
        counted.filter_map(|(_, data)| data.message_id).for_each(|id| stored_messages.insert(id.get() as usize));
        for at in (0..tree.len()).filter(|at| !is_stored(*at)) {
            if let Some(data) = tree.data_mut(at)
                && data.message_id.is_some_and(|id| stored_messages.contains(id.get() as usize))
            {
                data.carries_usage = false;
            }
        }
    }

    fn thread_info(&self) -> ThreadInfo {
        let mut info = self.thread.clone();
        let Titles { custom_title, ai_title, agent_name, summaries } = &self.titles;
        let summary = summaries.last().map(|(_, summary)| summary);
        let title = custom_title.as_ref().or(ai_title.as_ref()).or(agent_name.as_ref()).or(summary);
        info.title = title.map(|title| cut_to_1_kib(title));
        let (agent, call) = match &self.agent {
            Some((agent, call)) => (Some(agent), call.as_ref().map(|call| &call.id)),
            None => (None, None),
        };
        let fields = [
            ("session_id", self.session.as_ref()),
            ("version", info.version.as_ref()),
            (AGENT_KEY, agent),
            (CALL_KEY, call),
        ];
        let fields = fields.map(|(name, value)| Some((name.to_owned(), json_string(&cut_to_1_kib(value?)))));
        info.metadata.extend(fields.into_iter().flatten().collect::<JsonMap>());
        info
    }

    fn side_parent(&self, line: &ObjectLine<'_>) -> Option<String> {
        if let Some(at) = self.facts.sidechain_of(line.number).filter(|_| self.sidechain.is_none()) {
            return self.facts.sidechains.get(at)?.call.as_ref()?.line.clone();
        }
        match line.object.text("type").as_deref() {
            Some("summary") => line.object.text("leafUuid"),
            Some(agentstore::SIDE_TYPE) => agentstore::side_parent(&line.object),
            _ => None,
        }
    }

    fn read_body_and_time(
        &self,
        line: &ObjectLine<'_>,
        position: &LinePosition<'_, LineData>,
        issues: &mut Issues,
    ) -> BodyAndTime {
        let sidechain = self.facts.sidechain_of(line.number).filter(|_| self.sidechain.is_none());
        let sidechain = sidechain.and_then(|at| self.facts.sidechains.get(at));
        read::read_body_and_time(line, (sidechain, self.compactions.of_line(line.number)), position, issues)
    }

    fn encode(&self, entry: &EncodableEntry<'_>) -> Option<String> {
        match entry.body {
            // The data is the whole line.
            Body::Custom(custom) if custom.kind != IMPORT_LINE => Some(custom.data.as_str().to_owned()),
            _ => None,
        }
    }
}
