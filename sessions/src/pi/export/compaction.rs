//! Writes compactions. Of several compactions on a path, pi applies only the last one. So each of them is written with
//! everything that the context contains at this point.

use std::sync::Arc;

use store_core::{
    BlockKind, Body, Compaction, ContextMessage, ContextRequest, Entry, EntryId, OpenCalls, Role,
    context::SUMMARY_MARKER,
};

use super::{
    losses::MessageLosses,
    message::{self, MessageContext},
};
use crate::{
    blocks::joined_text,
    claude_code::is_summary_line,
    error::Result,
    export::{ExportSource, Losses, MultiEntryMessages},
    json::json_string,
};

/// The fields of a compaction that follow from the context at this compaction.
pub(super) struct CompactionFields {
    pub(super) summary: String,
    /// The id of the first entry that the context still contains, or the id of the compaction if no entry is kept.
    /// `None` if the line must contain the messages instead.
    pub(super) first_kept: Option<EntryId>,
    /// The messages after the summary, as a JSON list, if they are not the entries from `first_kept` on.
    pub(super) messages_after_summary: Option<String>,
}

impl CompactionFields {
    /// The fields as members of a JSON object. `first_kept` is the id of the first entry that pi keeps, or that
    /// of the compaction if pi keeps none.
    pub(super) fn json_members(&self, first_kept: &str) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("summary", json_string(&self.summary).as_str().to_owned()),
            ("firstKeptEntryId", json_string(first_kept).as_str().to_owned()),
        ];
        fields.extend(self.messages_after_summary.clone().map(|messages| ("retainedTail", messages)));
        fields
    }
}

/// The values from which the fields of a compaction are derived.
pub(super) struct CompactionInput<'a> {
    pub(super) source: &'a ExportSource<'a>,
    pub(super) multi_entry_messages: &'a MultiEntryMessages,
    /// Whether the version of the format can name the first entry that is kept.
    pub(super) can_name_first_kept: bool,
    pub(super) context: MessageContext<'a>,
}

/// For a compaction without a summary: the message below it that is its summary. Claude Code writes the summary as the
/// line after the compaction. The result is `None` if branches begin between the two.
pub(super) async fn summary_below(
    source: &ExportSource<'_>,
    entry: &Entry,
    compaction: &Compaction,
) -> Result<Option<Arc<Entry>>> {
    if !compaction.summary.is_empty() || compaction.replacement.is_some() {
        return Ok(None);
    }
    let mut parent = entry.id.clone();
    loop {
        let children = source.first_children_of(&parent).await?;
        let [child] = children.as_slice() else { return Ok(None) };
        if let Some(message) = child.message() {
            let is_text = message.blocks.iter().all(|block| matches!(block.kind, BlockKind::Text(_)));
            return Ok(Some(Arc::clone(child)).filter(|child| is_text && is_summary_line(child)));
        }
        parent = child.id.clone();
    }
}

/// Finds the fields of a compaction. `summary` is the message with its summary, if another entry has it.
pub(super) async fn fields(
    input: &CompactionInput<'_>,
    (entry, compaction): (&Entry, &Compaction),
    summary: Option<&Entry>,
    losses: &mut Losses<'_>,
) -> Result<CompactionFields> {
    let source = input.source;
    let request = ContextRequest::at(entry.id.clone()).with_open_calls(OpenCalls::Keep);
    let messages = source.threads.load_context(&source.thread.id, request).await?.context.messages;
    let own_summary = messages.first().and_then(|first| summary_of(first, &entry.id));
    let other_messages = if own_summary.is_some() { messages.get(1..).unwrap_or_default() } else { &messages };
    let summary_text = own_summary.or_else(|| Some(joined_text(&summary?.message()?.blocks)));
    let is_shown = messages.iter().any(|found| found.synthetic && found.entry == entry.id);
    note_summary(compaction, summary_text.is_some() || is_shown && compaction.replacement.is_none(), losses);
    let has_summary = summary_text.is_some();
    let summary = summary_text.unwrap_or_default();
    // Whether all messages after the summary are in the log, so that they can be the end of the path.
    let keeps_end_of_path =
        has_summary && compaction.replacement.is_none() && other_messages.iter().all(|found| !found.synthetic);
    if keeps_end_of_path
        && input.can_name_first_kept
        && let Some(first_kept) = first_kept(source, entry, compaction).await?
        && !input.multi_entry_messages.is_merged(&first_kept)
    {
        return Ok(CompactionFields { summary, first_kept: Some(first_kept), messages_after_summary: None });
    }
    Ok(CompactionFields {
        summary,
        first_kept: None,
        messages_after_summary: Some(encode_messages_after_summary(other_messages, input.context, losses)),
    })
}

/// The text of a message, if the message is the summary of this compaction.
fn summary_of(first: &ContextMessage, entry: &EntryId) -> Option<String> {
    let is_of_compaction = first.synthetic && first.entry == *entry && first.message.role == Role::User;
    let (marker, summary) = first.message.blocks.split_first().filter(|_| is_of_compaction)?;
    let is_marked = matches!(&marker.kind, BlockKind::Text(text) if text == SUMMARY_MARKER);
    is_marked.then(|| joined_text(summary))
}

/// Notes what is lost of a summary. `is_shown` says whether the context at the compaction contains it.
fn note_summary(compaction: &Compaction, is_shown: bool, losses: &mut Losses<'_>) {
    let texts = compaction.summary.iter().filter(|block| matches!(block.kind, BlockKind::Text(_))).count();
    if texts > 0 && !is_shown {
        losses.add("/summary", ("summary", "the context does not contain it", "dropped"));
    } else if texts > 1 {
        losses.add("/summary", ("merged", "the format has one text as the summary", "moved"));
    }
    if texts < compaction.summary.len() {
        losses.add("/summary", ("unsupported_media", "in this format, a summary can only contain text", "dropped"));
    }
    if !compaction.extra.is_empty() {
        losses.add("", ("unknown_field", "the format has no field for what a newer release wrote", "dropped"));
    }
}

/// Returns the first entry after those that the compaction covers, if the context contains every entry from it on. If
/// no entry is kept, this is the compaction itself.
async fn first_kept(source: &ExportSource<'_>, entry: &Entry, compaction: &Compaction) -> Result<Option<EntryId>> {
    let mut pages = source.path_of(&entry.id);
    let covered_to = compaction.covers.as_ref().map(|covers| &covers.to);
    let mut is_covered = covered_to.is_some();
    let mut first = None;
    while let Some(page) = pages.next().await? {
        for found in page.iter() {
            if is_covered {
                is_covered = Some(&found.id) != covered_to;
                continue;
            }
            // An older compaction may cover entries that this compaction does not cover.
            if matches!(&*found.body, Body::Compaction(_)) && found.id != entry.id {
                return Ok(None);
            }
            first.get_or_insert_with(|| found.id.clone());
        }
    }
    Ok(first)
}

fn encode_messages_after_summary(
    messages: &[ContextMessage],
    context: MessageContext<'_>,
    losses: &mut Losses<'_>,
) -> String {
    let mut out = "[".to_owned();
    for (at, found) in messages.iter().enumerate() {
        let mut losses = MessageLosses::new(losses, format!("/replacement/{at}"));
        let encoded = message::encode(&found.message, context, &mut losses);
        for message in encoded.messages {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&message);
        }
    }
    out.push(']');
    out
}
