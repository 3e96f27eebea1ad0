//! The first look at a file: which lines belong to subagents, and which call started each subagent.

use std::collections::{HashMap, HashSet};

use super::preserved_segment::PreservedSegment;
use crate::{
    compact::{BitSet, TextTable, to_u32},
    error::Result,
    issue::Issues,
    json::{Object, parse_json_string},
    scan::{LineContent, scan},
    source::Source,
    tree::ParentField,
};

/// What must be known of a file before its lines become nodes.
#[derive(Debug, Default)]
pub(super) struct FileFacts {
    /// Whether any line has a uuid. If no line has one, each line is the child of the preceding line.
    pub(super) has_uuids: bool,
    /// The subagents whose lines are in this file, in the order of their first lines. The list is empty if all messages
    /// of the file are those of subagents, as in a file of a subagent.
    pub(super) sidechains: Vec<Sidechain>,
    /// The lines of subagents, each with the position of its subagent in `sidechains`.
    sidechain_lines: Vec<(u32, u32)>,
    ids: SidechainIds,
    /// The uuid of the line that each compaction names as its predecessor: its logical parent, or the last line that it
    /// keeps. After the first look, only those of lines of the main thread.
    logical_parents: HashSet<String>,
    /// The session in the last line that names a session.
    pub(super) session: Option<String>,
    /// The subagent of the file, if all of its messages are those of subagents.
    pub(super) only_agent: OnlyAgent,
    /// The text of the first user line.
    prompt: Option<String>,
    calls: Vec<AgentCall>,
    /// The ids of the calls that started subagents, by the names of the subagents.
    call_of_agent: HashMap<String, String>,
}

/// The subagent of a file that contains no messages but those of subagents.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum OnlyAgent {
    /// The file contains other messages, or no message at all.
    #[default]
    None,
    /// Its messages are those of one subagent, which they name.
    Named(String),
    /// Its messages name no subagent, or several.
    Unknown,
}

/// The lines of a subagent.
#[derive(Debug, Default)]
pub(super) struct Sidechain {
    /// The name of the subagent, or else `L` and the number of its first line.
    pub(super) agent: String,
    /// Whether its lines name it.
    is_named_by_lines: bool,
    /// The call that started it.
    pub(super) call: Option<AgentCall>,
    prompt: Option<String>,
}

/// The uuids of a file with lines of subagents.
#[derive(Debug, Default)]
struct SidechainIds {
    uuids: TextTable,
    /// The numbers of the uuids of lines that belong to no subagent.
    main_uuids: BitSet,
    /// The numbers of the uuids of lines of subagents, each with the position of its subagent.
    sidechain_uuids: HashSet<(u32, u32)>,
    /// The parent of each line of a subagent. Keys and values are numbers of uuids.
    parents: HashMap<u32, Option<u32>>,
}

impl SidechainIds {
    fn number(&mut self, uuid: &str) -> Option<u32> {
        self.uuids.add(uuid).map(|(number, _)| number)
    }

    fn is_of_main_line(&self, number: u32) -> bool {
        self.main_uuids.contains(number as usize)
    }

    fn is_of_sidechain(&self, number: u32, at: usize) -> bool {
        self.sidechain_uuids.contains(&(number, to_u32(at)))
    }
}

/// A call that may have started a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentCall {
    pub(super) id: String,
    /// The uuid of its line.
    pub(super) line: Option<String>,
    prompt: String,
}

impl FileFacts {
    /// Reads a file.
    pub(super) fn of(source: &Source) -> Result<Self> {
        let mut facts = Self::default();
        let mut has_main_message = false;
        let mut look_at = |number: u64, object: &Object<'_>| {
            let line = FactLine::of(number, object);
            facts.logical_parents.extend(object.text("logicalParentUuid"));
            facts
                .logical_parents
                .extend(PreservedSegment::of(object).ok().flatten().map(|kept| kept.last_kept_line().to_owned()));
            facts.has_uuids |= line.uuid.is_some();
            facts.session = session_of(object).or(facts.session.take());
            if facts.prompt.is_none() && line.kind == "user" {
                facts.prompt = prompt_of(object);
            }
            if line.is_sidechain {
                facts.add_sidechain_line(line, object);
            } else {
                has_main_message |= matches!(line.kind.as_str(), "user" | "assistant");
                facts.add_main_line(line, object);
            }
        };
        // The issues are noted when the file is read again.
        let _scan = scan(source, None, &mut Issues::default(), &mut |line, content, _| {
            if let LineContent::Object(object) = content {
                look_at(line.number, &object);
            }
        })?;
        if !has_main_message {
            facts.forget_sidechains();
        }
        facts.forget_unused_ids();
        for at in 0..facts.sidechains.len() {
            let call =
                facts.sidechains.get(at).and_then(|found| facts.call_of(&found.agent, (None, found.prompt.as_deref())));
            if let Some(sidechain) = facts.sidechains.get_mut(at) {
                sidechain.call = call;
            }
        }
        Ok(facts)
    }

    /// The subagent that a line of the main file belongs to.
    pub(super) fn sidechain_of(&self, line: u64) -> Option<usize> {
        let at = self.sidechain_lines.binary_search_by_key(&to_u32(line), |(line, _)| *line).ok()?;
        self.sidechain_lines.get(at).map(|(_, sidechain)| *sidechain as usize)
    }

    /// The text with which the subagent of this file was started.
    pub(super) fn prompt(&self) -> Option<&str> {
        self.prompt.as_deref()
    }

    /// The call that started a subagent: the call whose result names the subagent, or else the call with the id
    /// `named`, or else the last call with the same prompt.
    pub(super) fn call_of(&self, agent: &str, (named, prompt): (Option<String>, Option<&str>)) -> Option<AgentCall> {
        let last_with_prompt = || self.calls.iter().rev().find(|call| Some(call.prompt.as_str()) == prompt).cloned();
        let Some(id) = self.call_of_agent.get(agent).cloned().or(named) else { return last_with_prompt() };
        let call = self.calls.iter().rev().find(|call| call.id == id).cloned();
        Some(call.unwrap_or_else(|| AgentCall { id: id.clone(), line: None, prompt: String::new() }))
    }

    /// The parent that a line gets in its thread. `name` is the parent that the line names in the file. The thread is
    /// that of the subagent at the position `sidechain`, or the main thread if there is none.
    pub(super) fn parent(&self, name: String, sidechain: Option<usize>) -> ParentField {
        let ids = &self.ids;
        let number = ids.uuids.find(&name);
        if let Some(at) = sidechain {
            let is_in_sidechain = number.is_some_and(|number| ids.is_of_sidechain(number, at));
            let is_known = |number: u32| ids.is_of_main_line(number) || ids.parents.contains_key(&number);
            return if number.is_some_and(is_known) && !is_in_sidechain {
                ParentField::Root
            } else {
                ParentField::Named(name)
            };
        }
        // A line of the main thread may name a line of a subagent as its parent. Its parent in the thread is then its
        // nearest ancestor that is a line of the main thread.
        let (mut ancestor, mut visited) = (number, HashSet::new());
        while let Some(here) = ancestor.filter(|here| !ids.is_of_main_line(*here)) {
            match ids.parents.get(&here) {
                None => break,
                Some(next) if next.is_some() && visited.insert(here) => ancestor = *next,
                Some(_) => return ParentField::Root,
            }
        }
        let main_ancestor = ancestor.filter(|_| ancestor != number).and_then(|found| ids.uuids.text(found));
        ParentField::Named(main_ancestor.unwrap_or(name))
    }

    /// Whether a line of the main thread has this uuid. This is known only of uuids that a compaction names as its
    /// predecessor; for any other uuid the result is false.
    pub(super) fn has_main_id(&self, id: &str) -> bool {
        self.logical_parents.contains(id)
    }

    /// Whether a line of the subagent at this position has this uuid.
    pub(super) fn has_sidechain_id(&self, at: usize, id: &str) -> bool {
        self.ids.uuids.find(id).is_some_and(|number| self.ids.is_of_sidechain(number, at))
    }

    fn add_sidechain_line(&mut self, line: FactLine, object: &Object<'_>) {
        let at = self.position_of_sidechain(&line);
        self.sidechain_lines.push((to_u32(line.number), to_u32(at)));
        if let Some(sidechain) = self.sidechains.get_mut(at)
            && sidechain.prompt.is_none()
            && line.kind == "user"
        {
            sidechain.prompt = prompt_of(object);
        }
        if let Some(number) = line.uuid.and_then(|uuid| self.ids.number(&uuid)) {
            let parent = line.parent.and_then(|parent| self.ids.number(&parent));
            self.ids.sidechain_uuids.insert((number, to_u32(at)));
            self.ids.parents.insert(number, parent);
        }
    }

    /// The position of the subagent of a line. This is the subagent that the line names, or else the subagent of its
    /// parent, or else a new one.
    fn position_of_sidechain(&mut self, line: &FactLine) -> usize {
        let known =
            match (&line.agent, &line.parent) {
                (Some(agent), _) => self.sidechains.iter().position(|known| known.agent == *agent),
                (None, Some(parent)) => self.ids.uuids.find(parent).and_then(|parent| {
                    (0..self.sidechains.len()).rev().find(|at| self.ids.is_of_sidechain(parent, *at))
                }),
                (None, None) => None,
            };
        known.unwrap_or_else(|| {
            let agent = line.agent.clone().unwrap_or_else(|| format!("L{}", line.number));
            self.sidechains.push(Sidechain { agent, is_named_by_lines: line.agent.is_some(), ..Sidechain::default() });
            self.sidechains.len() - 1
        })
    }

    fn add_main_line(&mut self, line: FactLine, object: &Object<'_>) {
        match line.kind.as_str() {
            "assistant" => self.add_calls(&line, object),
            "user" => {
                let agent = object.object("toolUseResult").and_then(|result| result.text("agentId"));
                let results = object.object("message").and_then(|message| message.list("content"));
                let id = results.iter().flatten().find_map(|raw| Object::parse(raw)?.text("tool_use_id"));
                self.call_of_agent.extend(agent.zip(id));
            }
            "progress" => {
                let agent = object.object("data").and_then(|data| data.text("agentId"));
                self.call_of_agent.extend(agent.zip(object.text("parentToolUseID")));
            }
            _ => {}
        }
        if let Some(number) = line.uuid.and_then(|uuid| self.ids.number(&uuid)) {
            self.ids.main_uuids.insert(number as usize);
        }
    }

    fn add_calls(&mut self, line: &FactLine, object: &Object<'_>) {
        let content = object.object("message").and_then(|message| message.list("content"));
        for block in content.iter().flatten().filter_map(|raw| Object::parse(raw)) {
            let prompt = block.object("input").and_then(|input| input.text("prompt"));
            if let (Some(id), Some(prompt)) = (block.text("id"), prompt) {
                self.calls.push(AgentCall { id, line: line.uuid.clone(), prompt });
            }
        }
    }

    /// Treats the lines of subagents as ordinary lines, because the file contains no other messages.
    fn forget_sidechains(&mut self) {
        self.only_agent = match self.sidechains.as_slice() {
            [] => OnlyAgent::None,
            [only] if only.is_named_by_lines => OnlyAgent::Named(only.agent.clone()),
            _ => OnlyAgent::Unknown,
        };
        self.sidechains.clear();
        self.sidechain_lines = Vec::new();
        self.ids.sidechain_uuids = HashSet::new();
        for number in std::mem::take(&mut self.ids.parents).into_keys() {
            self.ids.main_uuids.insert(number as usize);
        }
    }

    /// Frees the uuids that are not needed any more. Of those that compactions name, only the uuids of lines of the
    /// main thread are kept. All others are kept only if the file has lines of subagents.
    fn forget_unused_ids(&mut self) {
        let ids = &self.ids;
        self.logical_parents.retain(|id| ids.uuids.find(id).is_some_and(|number| ids.is_of_main_line(number)));
        if self.sidechains.is_empty() {
            self.ids = SidechainIds::default();
        }
    }
}

/// What the first look reads of a line.
struct FactLine {
    number: u64,
    kind: String,
    uuid: Option<String>,
    parent: Option<String>,
    is_sidechain: bool,
    agent: Option<String>,
}

impl FactLine {
    fn of(number: u64, object: &Object<'_>) -> Self {
        Self {
            number,
            kind: object.text("type").unwrap_or_default(),
            uuid: object.text("uuid"),
            parent: object.text("parentUuid"),
            is_sidechain: object.bool("isSidechain") == Some(true),
            agent: object.text("agentId").filter(|agent| !agent.is_empty()),
        }
    }
}

/// The session that a line names. Texts that cannot be the id of a session are left out.
fn session_of(object: &Object<'_>) -> Option<String> {
    let is_id_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    object.text("sessionId").filter(|id| !id.is_empty() && id.len() <= 128 && id.chars().all(is_id_char))
}

/// The text of the message of a user line.
fn prompt_of(object: &Object<'_>) -> Option<String> {
    let message = object.object("message")?;
    if let Some(text) = parse_json_string(message.raw("content")?) {
        return Some(text);
    }
    message.list("content")?.into_iter().find_map(|raw| Object::parse(raw)?.text("text"))
}
