//! Turns lines into entries.

use std::collections::HashMap;

use store_core::{Block, Compaction, Custom, Interval, NewBody, RewindTo, TokenCounts, UsageRecord, Visibility};

use super::{
    LineData, canonical_item,
    item::{self, ItemOrigin},
    record::{COMPACTED, EVENT_MSG, RESPONSE_ITEM, Record, SESSION_META, TURN_CONTEXT, WORLD_STATE},
};
use crate::{
    issue::{IssueCode, Issues},
    json::Object,
    lines::{LinePosition, ObjectLine, RewindTarget, note_bad_field},
    provenance::LineRanges,
};

/// The types of lines that are not read any further. They become custom entries.
const PLAIN_TYPES: &[&str] = &[
    SESSION_META,
    TURN_CONTEXT,
    WORLD_STATE,
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "rollout_reference",
    "state",
];

/// What the first pass found out about lines that are not nodes.
#[derive(Debug, Default)]
pub(super) struct SideLines {
    /// The lines that take back turns, and the place to which they move the head.
    pub(super) rewinds: HashMap<u64, RewindTarget>,
    /// The lines with token counts that repeat those of an earlier line. Nothing was spent since then.
    pub(super) repeated_counts: LineRanges,
}

/// Makes the body of a line.
pub(super) fn body(
    line: &ObjectLine<'_>,
    record: Option<&Record>,
    reader: &BodyReader<'_, '_>,
    issues: &mut Issues,
) -> NewBody {
    let Some(record) = record else {
        let kind = line.object.text("type").unwrap_or_else(|| "line".to_owned());
        let detail = "a line that is not a record of a rollout";
        issues.add(line.number, IssueCode::UnknownType, detail, "kept as a custom entry");
        return Custom::new(format!("codex.{kind}"), line.object.without_fields(&[])).into();
    };
    let found = match record.kind.as_str() {
        RESPONSE_ITEM => match record.fields().and_then(|fields| canonical_item::unknown_role(&fields)) {
            Some(role) => {
                issues.add(line.number, IssueCode::UnknownType, format!("the role `{role}`"), "kept as a custom entry");
                Ok(custom_of(record))
            }
            None => reader.item(line, record, issues),
        },
        COMPACTED => reader.compaction(line, record, issues),
        EVENT_MSG => reader.event(line, record),
        kind if PLAIN_TYPES.contains(&kind) => Ok(custom_of(record)),
        kind => {
            issues.add(line.number, IssueCode::UnknownType, format!("the type `{kind}`"), "kept as a custom entry");
            Ok(custom_of(record))
        }
    };
    found.unwrap_or_else(|detail| {
        note_bad_field(issues, line.number, detail);
        custom_of(record)
    })
}

/// A custom body whose kind is the type of the record.
fn custom_of(record: &Record) -> NewBody {
    Custom::new(format!("codex.{}", record.kind), record.payload.clone()).into()
}

/// What the body of a line depends on, besides the line itself.
pub(super) struct BodyReader<'a, 'b> {
    pub(super) position: &'a LinePosition<'b, LineData>,
    pub(super) side_lines: &'a SideLines,
    pub(super) origin: ItemOrigin<'a>,
}

impl BodyReader<'_, '_> {
    /// Reads an item. The items of one answer get the same message id, so that the context has them as one message. If
    /// a model made several calls at once, their results then follow all of these calls.
    fn item(&self, line: &ObjectLine<'_>, record: &Record, issues: &mut Issues) -> Result<NewBody, String> {
        let mut message = item::read(line.number, record.payload.as_str(), self.origin, issues)?;
        let answer = self.position.data().and_then(|data| data.answer);
        if let (Some(provenance), Some(answer)) = (&mut message.provenance, answer) {
            provenance.message_id = Some(format!("L{answer}"));
        }
        Ok(message.into())
    }

    /// Reads a compaction. It covers everything before it.
    fn compaction(&self, line: &ObjectLine<'_>, record: &Record, issues: &mut Issues) -> Result<NewBody, String> {
        let fields = record.fields().ok_or("`payload` is not an object")?;
        let summary = fields.text("message").ok_or("`message` is not a string")?;
        let mut compaction = Compaction::default();
        if !summary.is_empty() {
            compaction.summary = vec![Block::text(summary)];
        }
        if fields.has("replacement_history") {
            let items = fields.list("replacement_history").ok_or("`replacement_history` is not a list")?;
            let mut messages = Vec::new();
            for raw in items {
                match item::read(line.number, raw, self.origin, issues) {
                    Ok(message) => messages.push(message),
                    Err(detail) => note_bad_field(issues, line.number, detail),
                }
            }
            messages.retain(|message| message.visibility != Visibility::Aside);
            compaction.replacement = Some(messages);
        }
        let parent = self.position.at.and_then(|at| self.position.tree.parent(at));
        let root = parent.map(|parent| self.position.tree.root(parent));
        let ends = root.and_then(|root| self.position.id_of(root)).zip(parent.and_then(|at| self.position.id_of(at)));
        compaction.covers = ends.map(|(from, to)| Interval::new(from, to));
        Ok(compaction.into())
    }

    fn event(&self, line: &ObjectLine<'_>, record: &Record) -> Result<NewBody, String> {
        let fields = record.fields().ok_or("`payload` is not an object")?;
        match fields.text("type").as_deref() {
            Some("token_count") if fields.has("info") => self.usage(line, &fields),
            Some("thread_rolled_back") => {
                fields.number("num_turns").ok_or("`num_turns` is not a whole number")?;
                Ok(match self.side_lines.rewinds.get(&line.number) {
                    Some(RewindTarget::Node(at)) => match self.position.id_of(*at) {
                        Some(to) => RewindTo::Entry(to).into(),
                        None => custom_of(record),
                    },
                    Some(_) => RewindTo::Start.into(),
                    None => custom_of(record),
                })
            }
            _ => Ok(custom_of(record)),
        }
    }

    /// Reads token counts: those of the last answer, and the size of the context after it.
    fn usage(&self, line: &ObjectLine<'_>, event: &Object<'_>) -> Result<NewBody, String> {
        let info = event.object("info").ok_or("`info` is not an object")?;
        let last = info.object("last_token_usage").ok_or("`last_token_usage` is not an object")?;
        let count = |name: &str| match last.raw(name) {
            None | Some("null") => Ok(0),
            Some(_) => last.number(name).ok_or_else(|| format!("`{name}` is not a whole number")),
        };
        let (cached, written) = (count("cached_input_tokens")?, count("cache_write_input_tokens")?);
        let input = count("input_tokens")?.saturating_sub(cached).saturating_sub(written);
        let mut tokens = TokenCounts::new(input, count("output_tokens")?);
        tokens.cache_read = cached;
        tokens.cache_write = written;
        tokens.reasoning = count("reasoning_output_tokens")?;
        let mut usage = UsageRecord::default();
        usage.context_size = Some(match last.raw("total_tokens") {
            None | Some("null") => tokens.context_size(),
            Some(_) => count("total_tokens")?,
        });
        if !self.side_lines.repeated_counts.contains(line.number) {
            usage.spent = Some(tokens);
        }
        usage.model = self.origin.model.map(str::to_owned);
        Ok(usage.into())
    }
}
