//! Writes any thread as a rollout: the header, the settings of the turns, the items of a path, and the events that show
//! its messages to people.

use std::{collections::HashSet, sync::Arc};

use providers::ItemWriter;
use store_core::{Body, Compaction, ContextRequest, Entry, EntryId, Message, OpenCalls, Timestamp, Visibility};

use super::{
    Codex, NAME,
    export_losses::{FAILED_TURN, LossList, is_failed_turn},
    file_name,
    record::{COMPACTED, EVENT_MSG, RESPONSE_ITEM, SESSION_META, TURN_CONTEXT},
    session_meta::Session,
    uuid_of_thread, write_items,
};
use crate::{
    blocks::joined_text,
    error::Result,
    export::{ExportFiles, ExportSource, MultiEntryMessages, NO_FIELD, WrittenSession, line_of, uuid_of},
    issue::IssueCode,
    json::{Object, json_string},
    lenient,
    provenance::Provenance,
};

/// The model that a rollout names if no model of OpenAI made a message of the thread. Codex needs a model to continue.
const DEFAULT_MODEL: &str = "gpt-5";

/// Writes the thread, and returns what was lost.
pub(super) async fn write(source: &ExportSource<'_>, files: &mut ExportFiles<'_>) -> Result<WrittenSession> {
    let thread = source.thread;
    let mut other_leaves = source.leaves().await?;
    other_leaves.retain(|leaf| Some(leaf) != thread.head.as_ref());
    if source.options.all_branches && !other_leaves.is_empty() {
        files.require_folder("each of its branches is a file: export it to a folder")?;
    }
    let first_entry = source.entries().next().await?.and_then(|page| page.into_iter().next());
    let session = |id| Session::new(source, id, first_entry.as_deref());
    let main_id = uuid_of_thread(&thread.id);
    let parent = thread.parent_thread_id.as_ref().map(uuid_of_thread);
    let mut losses = LossList::default();
    losses.note_thread(thread);
    let main_session = session(main_id.clone()).forked_from(parent);
    let path = write_branch(source, thread.head.as_ref(), &main_session, (files, &mut losses)).await?;
    if !source.options.all_branches {
        note_other_branches(source, &path, &mut losses).await?;
        return Ok(WrittenSession::with_losses(losses.list));
    }
    for leaf in other_leaves {
        let fork = session(uuid_of(&format!("{}#{leaf}", thread.id))).forked_from(Some(main_id.clone()));
        let _path = write_branch(source, Some(&leaf), &fork, (files, &mut losses)).await?;
    }
    Ok(WrittenSession::with_losses(losses.list))
}

/// Notes every entry that is not on the only path that becomes a file.
async fn note_other_branches(source: &ExportSource<'_>, path: &BranchPath, losses: &mut LossList) -> Result<()> {
    let loss = ("branch", "a rollout has one branch; other branches need files of their own", "dropped");
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        let other_entries = page.iter().filter(|entry| !path.has(entry) && !matches!(&*entry.body, Body::Rewind(_)));
        for entry in other_entries {
            losses.set_current_entry(&entry.id);
            losses.add(&entry.id, "", loss);
        }
    }
    Ok(())
}

/// Writes the path of an entry as a file. Returns the path.
async fn write_branch(
    source: &ExportSource<'_>,
    leaf: Option<&EntryId>,
    session: &Session,
    (files, losses): (&mut ExportFiles<'_>, &mut LossList),
) -> Result<BranchPath> {
    let multi_entry_messages = MultiEntryMessages::find(source, leaf, is_of_codex).await?;
    let path = BranchPath::load(source, leaf).await?;
    let mut writer = BranchWriter {
        source,
        session,
        files,
        losses,
        path: &path,
        items: ItemWriter::new(),
        model: None,
        title: None,
        format: Codex::default(),
    };
    let created_at = source.thread.created_at;
    writer.files.start(&file_name(created_at, &session.id))?;
    writer.write_record(created_at, SESSION_META, &session.record(source))?;
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        for entry in page.iter().filter(|entry| path.has(entry)) {
            writer.losses.set_current_entry(&entry.id);
            if let Some(loss) = multi_entry_messages.loss(entry) {
                writer.losses.add(&entry.id, "", loss);
            }
            if let Some(entry) = multi_entry_messages.entry(source, entry).await? {
                writer.write_entry(&entry).await?;
            }
        }
    }
    writer.write_end()?;
    Ok(path)
}

/// Whether an entry was imported from this format.
fn is_of_codex(entry: &Entry) -> bool {
    entry.origin.as_ref().is_some_and(|origin| origin.format == NAME.name())
}

/// The path that becomes a file.
#[derive(Debug, Default)]
struct BranchPath {
    ids: HashSet<EntryId>,
    root: Option<EntryId>,
    /// The first model of OpenAI that made a message of the path.
    model: Option<String>,
    /// The time of the last entry.
    end_time: Option<Timestamp>,
}

impl BranchPath {
    async fn load(source: &ExportSource<'_>, leaf: Option<&EntryId>) -> Result<Self> {
        let mut path = Self::default();
        let Some(leaf) = leaf else { return Ok(path) };
        let mut pages = source.path_of(leaf);
        while let Some(page) = pages.next().await? {
            for entry in page {
                path.add(&entry);
            }
        }
        Ok(path)
    }

    fn add(&mut self, entry: &Arc<Entry>) {
        self.root.get_or_insert_with(|| entry.id.clone());
        self.end_time = Some(entry.timestamp);
        self.ids.insert(entry.id.clone());
        if self.model.is_none() {
            self.model = entry.message().and_then(model_of_openai);
        }
    }

    /// Whether an entry is on the path, or a side entry of the path or of the whole thread.
    fn has(&self, entry: &Entry) -> bool {
        if entry.side {
            entry.parent.as_ref().is_none_or(|parent| self.ids.contains(parent))
        } else {
            self.ids.contains(&entry.id)
        }
    }
}

/// The model of OpenAI that made a message, through any of OpenAI's APIs.
fn model_of_openai(message: &Message) -> Option<String> {
    let origin = message.provenance.as_ref()?.origin.as_ref()?;
    origin.model.clone().filter(|_| origin.provider == "openai")
}

struct BranchWriter<'a, 'b> {
    source: &'a ExportSource<'a>,
    session: &'a Session,
    files: &'a mut ExportFiles<'b>,
    losses: &'a mut LossList,
    path: &'a BranchPath,
    items: ItemWriter,
    /// The model in the last settings of a turn that were written.
    model: Option<String>,
    /// The title in the last imported line that gives one.
    title: Option<String>,
    format: Codex,
}

impl BranchWriter<'_, '_> {
    fn write_record(&mut self, timestamp: Timestamp, kind: &str, payload: &str) -> Result<()> {
        self.files.write_line(write_items::line(timestamp, kind, payload).as_bytes(), b"\n")
    }

    async fn write_entry(&mut self, entry: &Entry) -> Result<()> {
        if self.write_imported_line(entry)? {
            return Ok(());
        }
        self.losses.note_entry(entry, is_of_codex(entry));
        if Provenance::read(entry).is_some() {
            return Ok(());
        }
        match &*entry.body {
            Body::Message(message) if !entry.side => self.write_message(entry, message),
            Body::Compaction(compaction) if !entry.side => self.write_compaction(entry, compaction).await,
            _ => {
                self.losses.note_other_body(entry);
                Ok(())
            }
        }
    }

    /// Writes the line that the entry was imported from, if it was imported from a rollout and Codex can read the line.
    /// Returns whether there is nothing more to write.
    fn write_imported_line(&mut self, entry: &Entry) -> Result<bool> {
        let Some(origin) = entry.origin.as_ref().filter(|_| is_of_codex(entry)) else { return Ok(false) };
        // The header is written already. The turns that a rollback took back are not on the path.
        let is_of_header = origin.line == 0 || Provenance::read(entry).is_some();
        if is_of_header || matches!(&*entry.body, Body::Rewind(_)) {
            return Ok(true);
        }
        let Some(bytes) = line_of(&self.format, entry) else { return Ok(false) };
        let lenient = lenient::read(&bytes);
        let is_strict = lenient.oddities.iter().all(|code| *code == IssueCode::Nul);
        let Some(object) = Object::parse(&lenient.text).filter(|_| is_strict) else { return Ok(false) };
        if let Some(payload) = object.object("payload") {
            self.note_imported_line(entry, &object.text("type").unwrap_or_default(), &payload)?;
            self.files.write_line(&bytes, b"\n")?;
            return Ok(true);
        }
        // A line of the old shape is an item by itself.
        let Some(message) = entry.message() else { return Ok(false) };
        self.note_written_message(entry, message)?;
        self.write_record(entry.timestamp, RESPONSE_ITEM, &lenient.text)?;
        Ok(true)
    }

    /// Notes what an imported line changes for the following lines: the model, the title and the messages so far.
    fn note_imported_line(&mut self, entry: &Entry, kind: &str, payload: &Object<'_>) -> Result<()> {
        match (kind, payload.text("type").as_deref()) {
            (TURN_CONTEXT, _) => self.model = payload.text("model").or(self.model.take()),
            (EVENT_MSG, Some("thread_name_updated")) => self.title = payload.text("thread_name"),
            _ => {}
        }
        match &*entry.body {
            Body::Message(message) => self.note_written_message(entry, message),
            Body::Compaction(compaction) => {
                self.items = ItemWriter::new();
                for message in compaction.replacement.iter().flatten() {
                    self.note_written_message(entry, message)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Tells `items` about a message that is already written. `items` must know all messages of the path.
    fn note_written_message(&mut self, entry: &Entry, message: &Message) -> Result<()> {
        let _items = write_items::write(&mut self.items, (&entry.id, message), "")?;
        Ok(())
    }

    fn write_message(&mut self, entry: &Entry, message: &Message) -> Result<()> {
        if !self.losses.note_message(entry, message) {
            return Ok(());
        }
        self.write_turn_context(entry.timestamp, model_of_openai(message))?;
        let model = self.model.clone().unwrap_or_default();
        let items = write_items::write(&mut self.items, (&entry.id, message), &model)?;
        for (path, kind, reason, action) in items.losses {
            self.losses.add(&entry.id, path, (kind, reason, action));
        }
        for item in items.list {
            self.write_record(entry.timestamp, RESPONSE_ITEM, &item)?;
            if message.visibility == Visibility::All {
                for event in write_items::events(&item) {
                    self.write_record(entry.timestamp, EVENT_MSG, &event)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the settings of the following turns, if none were written yet or the model changes.
    fn write_turn_context(&mut self, timestamp: Timestamp, model: Option<String>) -> Result<()> {
        if self.model.is_some() && (model.is_none() || self.model == model) {
            return Ok(());
        }
        let model = model.or_else(|| self.path.model.clone()).unwrap_or_else(|| DEFAULT_MODEL.to_owned());
        let record = self.session.turn_context(&model);
        self.model = Some(model);
        self.write_record(timestamp, TURN_CONTEXT, &record)
    }

    /// Writes a compaction with the messages that the context has after it. In a rollout, a compaction replaces
    /// everything before it.
    async fn write_compaction(&mut self, entry: &Entry, compaction: &Compaction) -> Result<()> {
        let covers_path = compaction.covers.as_ref().is_some_and(|covers| {
            Some(&covers.from) == self.path.root.as_ref() && Some(&covers.to) == entry.parent.as_ref()
        });
        if !covers_path {
            let loss = ("compaction", "a compaction of a rollout replaces everything before it", "replaced");
            self.losses.add(&entry.id, "/covers", loss);
        }
        let request = ContextRequest::at(entry.id.clone()).with_open_calls(OpenCalls::Keep);
        let loaded = self.source.threads.load_context(&self.source.thread.id, request).await?;
        self.write_turn_context(entry.timestamp, None)?;
        let model = self.model.clone().unwrap_or_default();
        self.items = ItemWriter::new();
        let mut history = Vec::new();
        for (at, message) in loaded.context.messages.iter().enumerate() {
            // The losses of other entries are listed with those entries.
            let is_of_compaction = message.entry == entry.id;
            let prefix = format!("/replacement/{at}");
            if is_failed_turn(&message.message) {
                if is_of_compaction {
                    self.losses.add(&entry.id, prefix, FAILED_TURN);
                }
                continue;
            }
            let items = write_items::write(&mut self.items, (&message.entry, &message.message), &model)?;
            if is_of_compaction {
                self.losses.note_fields((&entry.id, &prefix), &message.message);
                for (path, kind, reason, action) in items.losses {
                    self.losses.add(&entry.id, format!("{prefix}{path}"), (kind, reason, action));
                }
            }
            history.extend(items.list);
        }
        if !compaction.extra.is_empty() {
            self.losses.add(&entry.id, "", ("unknown_field", NO_FIELD, "dropped"));
        }
        let summary = joined_text(&compaction.summary);
        let message = json_string(&summary);
        let record = format!("{{\"message\":{message},\"replacement_history\":[{}]}}", history.join(","));
        self.write_record(entry.timestamp, COMPACTED, &record)
    }

    /// Writes the title, and the settings of a turn if none were written yet.
    fn write_end(&mut self) -> Result<()> {
        let timestamp = self.path.end_time.unwrap_or(self.source.thread.created_at);
        self.write_turn_context(timestamp, None)?;
        let Some(title) = self.source.thread.title.clone().filter(|title| self.title.as_ref() != Some(title)) else {
            return Ok(());
        };
        let (id, title) = (json_string(&self.session.id), json_string(&title));
        let record = format!("{{\"type\":\"thread_name_updated\",\"thread_id\":{id},\"thread_name\":{title}}}");
        self.write_record(timestamp, EVENT_MSG, &record)
    }
}
