//! Writes the entries of a thread as lines, in the order of the log. The lines of the head come last, because Claude
//! Code continues there.

use std::collections::{HashMap, HashSet};

use store_core::{
    Body, ContextRequest, Custom, Entry, EntryId, Json, Message, Timestamp, Visibility,
    codec::{Codec, ObjectWriter as Writer},
    context::OpenCalls,
};

use super::{
    envelope::{Envelope, LineFields, with_fields},
    imported_lines::{ImportedLineContext, imported_line, sidechain_of},
    messages::{MessageLines, has_parts, parts_of},
};
use crate::{
    claude_code::{AGENT_KEY, CALL_KEY, NAME, agentstore, read::ATTACHMENT_FORMAT},
    error::Result,
    export::{
        ExportFiles, ExportSource, Loss, Losses, NO_FIELD, loss_of_foreign_line, note_metadata, note_parent, uuid_of,
    },
    json::{Object, json_string},
    provenance::Provenance,
    time,
};

/// The keys of the thread's metadata that lines contain, or that only an import needs.
const KNOWN_METADATA: &[&str] = &["session_id", "cwd", "version", AGENT_KEY, CALL_KEY, "import.parent"];

pub(super) struct ThreadWriter<'a, 'b> {
    source: &'a ExportSource<'a>,
    out: &'a mut ExportFiles<'b>,
    envelope: Envelope,
    losses: Vec<Loss>,
    /// For each entry: the uuid of its last line, which the lines of its children name as their parent.
    line_of_entry: HashMap<EntryId, Option<String>>,
    /// The entries with at least one child that was written.
    parents: HashSet<EntryId>,
    /// Subagents whose lines are left out.
    left_out_agents: Vec<String>,
    /// Whether this is the thread of a subagent that becomes a session of its own.
    is_promoted: bool,
    /// The entries whose lines come last.
    ending: HashSet<EntryId>,
    /// Whether the head is a message or follows one.
    head_follows_message: bool,
    /// Whether the tool can continue at one of the entries so far.
    has_message: bool,
    held_lines: Vec<HeldLine>,
    /// The latest time of the lines of the tree that were written.
    latest_time: Option<Timestamp>,
    /// The titles that imported lines give the session.
    titles: HashSet<String>,
}

/// A line that is written at the end.
struct HeldLine {
    entry: EntryId,
    text: Vec<u8>,
    time: Option<Timestamp>,
}

impl<'a, 'b> ThreadWriter<'a, 'b> {
    /// Writes to the file that was started. `agent` is the name of the subagent, if this is the file of one.
    pub(super) fn new(
        source: &'a ExportSource<'a>,
        out: &'a mut ExportFiles<'b>,
        session: &str,
        agent: Option<&String>,
    ) -> Self {
        let envelope =
            Envelope { session: session.to_owned(), working_folder: source.working_folder(), agent: agent.cloned() };
        Self {
            source,
            out,
            envelope,
            losses: Vec::new(),
            line_of_entry: HashMap::new(),
            parents: HashSet::new(),
            left_out_agents: Vec::new(),
            is_promoted: agent.is_none() && source.thread.metadata.contains_key(AGENT_KEY),
            ending: HashSet::new(),
            head_follows_message: false,
            has_message: false,
            held_lines: Vec::new(),
            latest_time: None,
            titles: HashSet::new(),
        }
    }

    /// Leaves out the lines of these subagents, which get files of their own.
    pub(super) fn without_sidechains(mut self, agents: Vec<String>) -> Self {
        self.left_out_agents = agents;
        self
    }

    /// Writes everything. Returns what was lost.
    pub(super) async fn write(mut self) -> Result<Vec<Loss>> {
        self.find_ending().await?;
        note_metadata(self.source.thread, |key| KNOWN_METADATA.contains(&key), &mut self.losses);
        if self.envelope.agent.is_none() {
            note_parent(self.source.thread, NO_FIELD, &mut self.losses);
        }
        let mut pages = self.source.entries();
        while let Some(page) = pages.next().await? {
            for entry in &page {
                self.write_entry(entry).await?;
            }
        }
        self.note_head_loss().await?;
        self.write_title()?;
        self.write_ending()?;
        Ok(self.losses)
    }

    /// Finds the entries whose lines come last: the last message on the path of the head, and what follows it there.
    async fn find_ending(&mut self) -> Result<()> {
        let Some(head) = &self.source.thread.head else { return Ok(()) };
        let mut ending = Vec::new();
        let mut pages = self.source.path_of(head);
        while let Some(page) = pages.next().await? {
            for entry in &page {
                if tool_can_continue_at(entry) {
                    ending.clear();
                    self.head_follows_message = true;
                }
                ending.push(entry.id.clone());
            }
        }
        self.ending = ending.into_iter().collect();
        Ok(())
    }

    /// Notes that the tool continues at a message, although the head is before all messages.
    async fn note_head_loss(&mut self) -> Result<()> {
        if self.head_follows_message || !self.has_message {
            return Ok(());
        }
        let first_leaf = self.source.leaves().await?.into_iter().next();
        if let Some(entry) = self.source.thread.head.clone().or(first_leaf) {
            let loss = ("head", "the tool always continues at a message", "dropped");
            Losses::new(&entry, &mut self.losses).add("", loss);
        }
        Ok(())
    }

    async fn write_entry(&mut self, entry: &Entry) -> Result<()> {
        let origin = entry.origin.as_ref();
        self.has_message |= !entry.side && tool_can_continue_at(entry);
        if origin.is_some_and(|origin| origin.format == NAME.name()) {
            // An entry of line 0 represents no line, for example the provenance or a file with a large result.
            return if origin.is_some_and(|origin| origin.line == 0) {
                Ok(())
            } else {
                self.write_imported_line(entry)
            };
        }
        if let Some((path, loss)) = loss_of_foreign_line(entry) {
            Losses::new(&entry.id, &mut self.losses).add(path, loss);
        }
        if Provenance::read(entry).is_some() {
            return Ok(());
        }
        self.note_losses(entry);
        if entry.side {
            return self.write_side_entry(entry);
        }
        match &*entry.body {
            Body::Message(message) if message.visibility != Visibility::Aside => self.write_message(entry, message),
            Body::Compaction(_) => self.write_compaction(entry).await,
            _ => self.write_body(entry),
        }
    }

    fn note_losses(&mut self, entry: &Entry) {
        let mut losses = Losses::new(&entry.id, &mut self.losses);
        if entry.run.is_some() {
            losses.add_no_field_for("/run", "run");
        }
        if !entry.extra.is_empty() {
            losses.add_no_field_for("", "unknown_field");
        }
        if matches!(&*entry.body, Body::Decision(_)) {
            losses.add("", ("decision", "a new thread cannot contain decisions", "replaced"));
        }
    }

    fn write_imported_line(&mut self, entry: &Entry) -> Result<()> {
        if sidechain_of(entry).is_some_and(|agent| self.left_out_agents.contains(&agent)) {
            return Ok(());
        }
        let parent = self.parent_line(entry);
        let context =
            ImportedLineContext { uuid: self.uuid_of(entry), parent: parent.as_deref(), is_promoted: self.is_promoted };
        let Some(line) = imported_line(entry, context) else { return Ok(()) };
        if line.is_replaced {
            let loss = ("raw", "characters that are not valid in JSON", "replaced");
            Losses::new(&entry.id, &mut self.losses).add("/origin/raw", loss);
        }
        self.titles.extend(line.title);
        let _begins_branch = self.note_child(entry);
        self.line_of_entry.insert(entry.id.clone(), line.uuid.or(parent));
        self.write_or_hold(entry, line.bytes, (!entry.side).then_some(entry.timestamp))
    }

    fn write_message(&mut self, entry: &Entry, message: &Message) -> Result<()> {
        let parts = parts_of(message, &mut Losses::new(&entry.id, &mut self.losses));
        if parts.is_empty() {
            return self.write_body(entry);
        }
        let prefix = self.prefix(entry);
        let id = message.provenance.as_ref().and_then(|provenance| provenance.message_id.clone());
        let lines = MessageLines {
            message,
            id: id.unwrap_or_else(|| made_message_id(&prefix)),
            count: parts.len(),
            is_summary: false,
            begins_branch: self.note_child(entry),
        };
        let mut parent = self.parent_line(entry);
        for (at, part) in parts.iter().enumerate() {
            let uuid = if at + 1 == parts.len() { self.uuid_of(entry) } else { uuid_of(&format!("{prefix}.{at}")) };
            let time = time_after(entry.timestamp, at);
            let fields =
                LineFields { kind: lines.kind(), uuid: &uuid, parent: parent.as_deref(), logical_parent: None, time };
            let text = self.envelope.line(&fields, |line| lines.write(at, part, line));
            self.write_or_hold(entry, text.into_bytes(), Some(time))?;
            parent = Some(uuid);
        }
        self.line_of_entry.insert(entry.id.clone(), parent);
        Ok(())
    }

    /// Writes a compaction: first a line that removes everything before it from the context, then the messages of the
    /// context at this point. These are the summary, and the messages that the compaction does not cover.
    async fn write_compaction(&mut self, entry: &Entry) -> Result<()> {
        let request = ContextRequest::at(entry.id.clone()).with_open_calls(OpenCalls::Keep);
        let context = self.source.threads.load_context(&self.source.thread.id, request).await?.context;
        self.note_compaction_losses(entry, context.messages.iter().any(|message| message.entry != entry.id));
        let mut messages = Vec::new();
        for mut message in context.messages {
            // The tokens were spent when the message was made, not when it is repeated.
            message.message.usage = None;
            let parts = parts_of(&message.message, &mut Losses::new(&entry.id, &mut self.losses));
            if !parts.is_empty() {
                messages.push((message.message, parts));
            }
        }
        let prefix = self.prefix(entry);
        let count: usize = messages.iter().map(|(_, parts)| parts.len()).sum();
        // The last line gets the uuid of the entry. Each line before it gets a uuid that is made from its number.
        let uuid_at = |at: usize, own: String| if at == count { own } else { uuid_of(&format!("{prefix}.{at}")) };
        let (preceding, begins_branch) = (self.parent_line(entry), self.note_child(entry));
        let mut parent = uuid_at(0, self.uuid_of(entry));
        let mut fields = LineFields {
            kind: "system",
            uuid: &parent,
            parent: None,
            logical_parent: preceding.as_deref(),
            time: entry.timestamp,
        };
        let text = self.envelope.line(&fields, |line| {
            line.field("subtype", &"compact_boundary".to_owned());
            line.field("content", &"Conversation compacted".to_owned()).field("level", &"info".to_owned());
            line.key("compactMetadata").push_str("{\"trigger\":\"auto\",\"preTokens\":0}");
            if begins_branch {
                let mut field = Writer::open(line.key(agentstore::FIELD));
                field.field(agentstore::FORK, &true);
                field.close();
            }
        });
        self.write_or_hold(entry, text.into_bytes(), Some(entry.timestamp))?;
        let mut written = 0;
        for (number, (message, parts)) in messages.iter().enumerate() {
            let id = made_message_id(&format!("{prefix}.message.{number}"));
            let lines = MessageLines { message, id, count: parts.len(), is_summary: number == 0, begins_branch: false };
            for (at, part) in parts.iter().enumerate() {
                written += 1;
                let uuid = uuid_at(written, self.uuid_of(entry));
                let time = time_after(entry.timestamp, written);
                fields =
                    LineFields { kind: lines.kind(), uuid: &uuid, parent: Some(&parent), logical_parent: None, time };
                let text = self.envelope.line(&fields, |line| lines.write(at, part, line));
                self.write_or_hold(entry, text.into_bytes(), Some(time))?;
                parent = uuid;
            }
        }
        self.line_of_entry.insert(entry.id.clone(), Some(parent));
        Ok(())
    }

    fn note_compaction_losses(&mut self, entry: &Entry, keeps_messages: bool) {
        let Body::Compaction(compaction) = &*entry.body else { return };
        let mut losses = Losses::new(&entry.id, &mut self.losses);
        if keeps_messages {
            losses.add(
                "/covers",
                ("compaction", "a compaction covers all before it; kept messages are repeated", "replaced"),
            );
        }
        if compaction.replacement.is_some() && !compaction.summary.is_empty() {
            losses.add("/summary", ("compaction", "the context has other messages instead", "dropped"));
        }
        if !compaction.extra.is_empty() {
            losses.add_no_field_for("", "unknown_field");
        }
    }

    /// Writes an entry that is not for the model, as a line that the tool shows but does not send.
    fn write_body(&mut self, entry: &Entry) -> Result<()> {
        let (parent, uuid, begins_branch) = (self.parent_line(entry), self.uuid_of(entry), self.note_child(entry));
        let body = self.with_line_ids(&entry.body);
        let fields = LineFields {
            kind: "system",
            uuid: &uuid,
            parent: parent.as_deref(),
            logical_parent: None,
            time: entry.timestamp,
        };
        let text = self.envelope.line(&fields, |line| {
            line.field("subtype", &agentstore::BODY_SUBTYPE.to_owned());
            line.field("content", &format!("agentstore: {}", entry.body.kind().name()));
            line.field("level", &"info".to_owned()).field("isMeta", &true);
            let mut field = Writer::open(line.key(agentstore::FIELD));
            field.maybe(agentstore::FORK, begins_branch.then_some(&true)).field("body", &body);
            field.close();
        });
        self.line_of_entry.insert(entry.id.clone(), Some(uuid));
        self.write_or_hold(entry, text.into_bytes(), Some(entry.timestamp))
    }

    /// Writes a side entry: a label as a line of the type `summary`, anything else as a line that the tool ignores.
    fn write_side_entry(&mut self, entry: &Entry) -> Result<()> {
        let parent = self.parent_line(entry);
        let body = self.with_line_ids(&entry.body);
        let text = match &body {
            Body::Label(label) if label.text.is_some() && label.extra.is_empty() => {
                self.envelope.side_line("summary", entry.timestamp, |line| {
                    line.maybe("summary", label.text.as_ref()).field("leafUuid", &label.target.as_str().to_owned());
                })
            }
            body => self.envelope.side_line(agentstore::SIDE_TYPE, entry.timestamp, |line| {
                let mut field = Writer::open(line.key(agentstore::FIELD));
                field.maybe("parent", parent.as_ref()).field("body", body);
                field.close();
            }),
        };
        self.write_or_hold(entry, text.into_bytes(), None)
    }

    /// Returns a body in which entries are named by the uuids of their lines.
    fn with_line_ids(&self, body: &Body) -> Body {
        let line_id = |id: &EntryId| {
            let line = self.line_of_entry.get(id).cloned().flatten();
            line.and_then(|line| EntryId::new(line).ok()).unwrap_or_else(|| id.clone())
        };
        let mut body = body.clone();
        match &mut body {
            Body::Label(label) => label.target = line_id(&label.target),
            Body::Rewind(rewind) => rewind.to = rewind.to.as_ref().map(line_id),
            Body::Compaction(compaction) => {
                if let Some(covers) = &mut compaction.covers {
                    (covers.from, covers.to) = (line_id(&covers.from), line_id(&covers.to));
                }
            }
            Body::Decision(decision) => {
                let data = Json::parse(&decision.encode()).unwrap_or_else(|_| Json::null());
                body = Body::Custom(Custom::new("agentstore.decision", data));
            }
            _ => {}
        }
        body
    }

    /// The uuid of the line that the first line of an entry names as its parent.
    fn parent_line(&self, entry: &Entry) -> Option<String> {
        self.line_of_entry.get(entry.parent.as_ref()?).cloned().flatten()
    }

    /// Notes that the parent of an entry has a child. Returns whether the entry begins a branch: an earlier child of
    /// the same parent was already noted.
    fn note_child(&mut self, entry: &Entry) -> bool {
        let parent = entry.parent.as_ref().filter(|_| !entry.side);
        parent.is_some_and(|parent| !self.parents.insert(parent.clone()))
    }

    /// The beginning of the texts from which ids for the lines of an entry are made.
    fn prefix(&self, entry: &Entry) -> String {
        format!("{}/{}", self.source.thread.id, entry.id)
    }

    /// The uuid of the last line of an entry: the id of the entry if that is a UUID, else one made from the id.
    fn uuid_of(&self, entry: &Entry) -> String {
        let uuid = uuid_of(entry.id.as_str());
        if uuid == entry.id.as_str() { uuid } else { uuid_of(&self.prefix(entry)) }
    }

    /// Writes a line, or keeps it for the end. `time` is that of the line if it is part of the tree.
    fn write_or_hold(&mut self, entry: &Entry, text: Vec<u8>, time: Option<Timestamp>) -> Result<()> {
        if self.ending.contains(&entry.id) {
            self.held_lines.push(HeldLine { entry: entry.id.clone(), text, time });
            return Ok(());
        }
        self.latest_time = self.latest_time.max(time);
        self.out.write_line(&text, b"\n")
    }

    fn write_title(&mut self) -> Result<()> {
        let thread = self.source.thread;
        let Some(title) = thread.title.as_ref().filter(|title| !self.titles.contains(*title)) else { return Ok(()) };
        let text = self.envelope.side_line("custom-title", thread.updated_at, |line| {
            line.field("customTitle", title);
        });
        self.out.write_line(text.as_bytes(), b"\n")
    }

    /// Writes the lines of the head. The tool continues at the line with the latest time. So the last line gets a later
    /// time if its own is not the latest.
    fn write_ending(&mut self) -> Result<()> {
        let lines = std::mem::take(&mut self.held_lines);
        let count = lines.len();
        let mut previous_entry = None;
        for (at, mut line) in lines.into_iter().enumerate() {
            let too_early = line.time.zip(self.latest_time).filter(|(time, latest)| time <= latest);
            if let (true, Some((_, latest))) = (at + 1 == count, too_early) {
                let text = String::from_utf8_lossy(&line.text).into_owned();
                if let Some(object) = Object::parse(&text) {
                    let time = json_string(&time::to_iso(time_after(latest, 1)));
                    line.text = with_fields(&object, &[("timestamp", time.as_str().to_owned())]).into_bytes();
                    let time_is_in_earlier_line = previous_entry.as_ref() == Some(&line.entry);
                    if !time_is_in_earlier_line {
                        let loss = ("time", "the tool continues at the line with the latest time", "replaced");
                        Losses::new(&line.entry, &mut self.losses).add("/timestamp", loss);
                    }
                }
            }
            self.latest_time = self.latest_time.max(line.time);
            self.out.write_line(&line.text, b"\n")?;
            previous_entry = Some(line.entry);
        }
        Ok(())
    }
}

/// Whether the tool can continue after the last line of an entry.
fn tool_can_continue_at(entry: &Entry) -> bool {
    let is_own = entry.origin.as_ref().is_some_and(|origin| origin.format == NAME.name());
    match &*entry.body {
        Body::Message(message) if is_own => {
            let format = message.provenance.as_ref().and_then(|provenance| provenance.format.as_deref());
            format != Some(ATTACHMENT_FORMAT)
        }
        Body::Message(message) => message.visibility != Visibility::Aside && has_parts(message),
        Body::Compaction(_) => !is_own,
        _ => false,
    }
}

/// The id of a message that has none.
fn made_message_id(text: &str) -> String {
    format!("msg_{}", uuid_of(text).replace('-', ""))
}

/// A time some milliseconds later.
fn time_after(time: Timestamp, millis: usize) -> Timestamp {
    let millis = u64::try_from(millis).unwrap_or_default();
    Timestamp::from_millis(time.as_millis().saturating_add(millis)).unwrap_or(time)
}
