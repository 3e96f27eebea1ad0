//! Cases about the content of entries. It must be read back exactly as it was written.

use std::sync::Arc;

use store_core::{
    AgentId, Block, BlockKind, Body, Compaction, Custom, Entry, ImportOrigin, Interval, Json, Label, Media,
    MediaSource, Message, NewBody, NewEntry, Opaque, Origin, Provenance, Role, RunChange, RunStatus, Thinking,
    Timestamp, TokenCounts, ToolResult, ToolUse, Usage, UsageRecord, Visibility,
};

use super::{
    entry_drafts::{entry, json, user_entry},
    writer::{ThreadWriter, reopen_if},
};
use crate::{
    check::{Verdict, expect_eq},
    given::{Given, id},
};

/// A text that a store might cut, strip, normalize or re-encode.
const UNUSUAL_TEXT: &str = "a\u{0}b \u{2028}\u{feff} \"\\ é e\u{301} 🦀 \u{202e}rtl\r\n";
/// A JSON value that a store might rewrite: repeated keys, the spelling of numbers, escapes.
const UNUSUAL_JSON: &str = r#"{"z":1.0,"a":12345678901234567890.10,"z":-0.0,"e":1E400,"s":"\ud800\u0041","n":null}"#;

fn origin() -> Origin {
    let mut origin = Origin::new("provider").with_api("api").with_model("model");
    origin.endpoint = Some("https://example.org/v1".to_owned());
    origin
}

fn block_with_opaque_data(kind: BlockKind) -> Block {
    let mut block = Block::new(kind);
    block.opaque = Some(Opaque::new(origin(), json(UNUSUAL_JSON)));
    block
}

fn titled_media(source: MediaSource) -> Media {
    let mut media = Media::new(Some("image/png".to_owned()), source);
    media.title = Some(UNUSUAL_TEXT.to_owned());
    media
}

fn assistant_blocks() -> Vec<Block> {
    let mut thinking = Thinking::new(UNUSUAL_TEXT);
    thinking.signature = Some("c2lnbmF0dXJl".to_owned());
    thinking.origin = Some(origin());
    thinking.redacted = true;
    let mut call = ToolUse::new(UNUSUAL_TEXT, "tool", json(UNUSUAL_JSON));
    call.raw = Some("{not json".to_owned());
    vec![
        Block::text(UNUSUAL_TEXT),
        Block::text(""),
        block_with_opaque_data(BlockKind::Text(UNUSUAL_TEXT.to_owned())),
        block_with_opaque_data(BlockKind::Thinking(thinking)),
        Block::new(BlockKind::Thinking(Thinking::new(""))),
        block_with_opaque_data(BlockKind::Image(titled_media(MediaSource::Base64("AAEC/w==".to_owned())))),
        Block::new(BlockKind::Document(titled_media(MediaSource::Url("https://example.org/ä?b=%00".to_owned())))),
        Block::new(BlockKind::Audio(titled_media(MediaSource::Blob("00ff".to_owned())))),
        Block::new(BlockKind::Video(Media::new(None, MediaSource::Url(String::new())))),
        block_with_opaque_data(BlockKind::ToolUse(call)),
        Block::new(BlockKind::Opaque(Opaque::new(Origin::new("p"), json(UNUSUAL_JSON)))),
        block_with_opaque_data(BlockKind::Unknown { kind: "hologram".to_owned(), data: json(UNUSUAL_JSON) }),
    ]
}

fn tool_result_blocks() -> Vec<Block> {
    let tool_result_block = |is_error: Option<bool>| {
        let mut result = ToolResult::new(
            "call",
            vec![Block::text(UNUSUAL_TEXT), block_with_opaque_data(BlockKind::Text(String::new()))],
        );
        result.is_error = is_error;
        result.details = is_error.map(|_| json(UNUSUAL_JSON));
        Block::new(BlockKind::ToolResult(result))
    };
    vec![
        tool_result_block(None),
        tool_result_block(Some(false)),
        tool_result_block(Some(true)),
        Block::tool_result("empty", vec![]),
    ]
}

/// Returns a message in which every field is set.
fn message_with_all_fields(role: Role, blocks: Vec<Block>) -> Message {
    let mut usage = Usage::from(TokenCounts::new(u64::MAX / 4, 2));
    usage.tokens.cache_read = 3;
    usage.tokens.cache_write = 4;
    usage.tokens.reasoning = 5;
    usage.cost = Some(json("0.10"));
    usage.raw = Some(json(UNUSUAL_JSON));
    let mut provenance = Provenance::default();
    provenance.agent = Some(id::<AgentId>("agent"));
    provenance.origin = Some(origin());
    provenance.message_id = Some(UNUSUAL_TEXT.to_owned());
    provenance.format = Some("other".to_owned());
    let mut message = Message::new(role, blocks).with_usage(usage).with_provenance(provenance);
    message.visibility = Visibility::Internal;
    message.stop = Some("end_turn".to_owned());
    message.metadata = [(UNUSUAL_TEXT.to_owned(), json(UNUSUAL_JSON)), (String::new(), Json::null())].into();
    message
}

/// What happens last before a case reads what it wrote.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadAfter {
    /// The write.
    Write,
    /// The store is closed and opened again.
    Reopen,
}

/// Every block is read back exactly as it was written. This includes opaque data of a provider and blocks of unknown
/// kinds.
pub(crate) async fn every_block_round_trips(given: &Given) -> Verdict {
    expect_blocks_unchanged(given, ReadAfter::Write).await
}

/// After the store is closed and reopened, every block is read back exactly as it was written.
pub(crate) async fn every_block_survives_a_reopen(given: &Given) -> Verdict {
    expect_blocks_unchanged(given, ReadAfter::Reopen).await
}

async fn expect_blocks_unchanged(given: &Given, read_after: ReadAfter) -> Verdict {
    let messages = [
        message_with_all_fields(Role::Assistant, assistant_blocks()),
        message_with_all_fields(Role::Tool, tool_result_blocks()),
    ];
    let drafts = messages.iter().enumerate().map(|(at, message)| entry(&at.to_string(), message.clone()));
    let writer = ThreadWriter::with_entries(given, "t", drafts.collect::<Vec<_>>()).await?;
    reopen_if(given, read_after == ReadAfter::Reopen).await?;
    for (at, message) in messages.iter().enumerate() {
        let found = writer.load_entry(&at.to_string()).await?;
        expect_eq(found.message(), Some(message))?;
    }
    Ok(())
}

/// Returns bodies as a caller gives them, each with the body that the store must return for it.
fn drafts_and_bodies() -> Vec<(NewBody, Body)> {
    let mut compaction = Compaction::default();
    compaction.covers = Some(Interval::new(id("first"), id("first")));
    compaction.summary = vec![Block::text(UNUSUAL_TEXT)];
    compaction.replacement = Some(vec![message_with_all_fields(Role::User, vec![Block::text(UNUSUAL_TEXT)])]);
    let mut usage = UsageRecord::default();
    usage.spent = Some(TokenCounts::new(1, 2));
    usage.context_size = Some(u64::MAX);
    usage.cost = Some(json(UNUSUAL_JSON));
    usage.model = Some(UNUSUAL_TEXT.to_owned());
    let (label, custom) =
        (Label::new(id("first"), Some(UNUSUAL_TEXT.to_owned())), Custom::new(UNUSUAL_TEXT, json(UNUSUAL_JSON)));
    let (unknown_kind, data) = (|| "hologram".to_owned(), || json(UNUSUAL_JSON));
    vec![
        (compaction.clone().into(), Body::Compaction(compaction)),
        (Compaction::default().into(), Body::Compaction(Compaction::default())),
        (usage.clone().into(), Body::Usage(usage)),
        (UsageRecord::default().into(), Body::Usage(UsageRecord::default())),
        (label.clone().into(), Body::Label(label)),
        (custom.clone().into(), Body::Custom(custom)),
        (NewBody::Unknown { kind: unknown_kind(), data: data() }, Body::Unknown { kind: unknown_kind(), data: data() }),
    ]
}

/// Every body is read back exactly as it was written, including bodies of kinds that this release does not know.
pub(crate) async fn every_body_round_trips(given: &Given) -> Verdict {
    expect_bodies_unchanged(given, ReadAfter::Write).await
}

/// After the store is closed and reopened, every body is read back exactly as it was written.
pub(crate) async fn every_body_survives_a_reopen(given: &Given) -> Verdict {
    expect_bodies_unchanged(given, ReadAfter::Reopen).await
}

async fn expect_bodies_unchanged(given: &Given, read_after: ReadAfter) -> Verdict {
    let drafts = drafts_and_bodies().into_iter().enumerate().map(|(at, (body, _))| entry(&at.to_string(), body));
    let writer =
        ThreadWriter::with_entries(given, "t", [user_entry("first")].into_iter().chain(drafts).collect::<Vec<_>>())
            .await?;
    reopen_if(given, read_after == ReadAfter::Reopen).await?;
    for (at, (_, body)) in drafts_and_bodies().into_iter().enumerate() {
        expect_eq(&*writer.load_entry(&at.to_string()).await?.body, &body)?;
    }
    Ok(())
}

/// Texts, tool results and custom data of hundreds of KiB are read back without loss.
pub(crate) async fn large_contents_round_trip(given: &Given) -> Verdict {
    expect_large_contents_unchanged(given, ReadAfter::Write).await
}

/// After the store is closed and reopened, texts, tool results and custom data of hundreds of KiB are read back without
/// loss.
pub(crate) async fn large_contents_survive_a_reopen(given: &Given) -> Verdict {
    expect_large_contents_unchanged(given, ReadAfter::Reopen).await
}

async fn expect_large_contents_unchanged(given: &Given, read_after: ReadAfter) -> Verdict {
    let text: String = UNUSUAL_TEXT.chars().cycle().take(400_000).collect();
    let data = json(&format!("[{}1]", "1.50,".repeat(60_000)));
    let result = Block::tool_result("c", vec![Block::text(text.clone()), Block::text(text.clone())]);
    let drafts = [
        entry("text", Message::user(text)),
        entry("result", Message::new(Role::Tool, vec![result])),
        entry("data", Custom::new("large", data)),
    ];
    let bodies: Vec<_> = drafts.iter().map(|draft| draft.body.clone()).collect();
    let writer = ThreadWriter::with_entries(given, "t", drafts).await?;
    reopen_if(given, read_after == ReadAfter::Reopen).await?;
    let log = given.read_log(&writer.thread).await?;
    expect_eq(log.len(), bodies.len())?;
    for (found, written) in log.iter().zip(&bodies) {
        let is_unchanged = match (&*found.body, written) {
            (Body::Message(found), NewBody::Message(written)) => found == written,
            (Body::Custom(found), NewBody::Custom(written)) => found == written,
            _ => false,
        };
        expect_eq(is_unchanged, true).map_err(|failure| failure.about(&found.id))?;
    }
    Ok(())
}

/// The time, run, step and origin that the caller gives for an entry are kept. An entry without a time gets the time of
/// its commit. The store does not make up any other field.
pub(crate) async fn given_fields_are_kept_and_none_are_invented(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    let run = RunChange::new(id("r"), RunStatus::Running).with_agent(id("agent"));
    given.expect_accepted(writer.guarded_commit().await?.with_run(run)).await?;
    let raw = vec![0xff, 0, b'{', 0xfe];
    let mut full_entry = entry("full", message_with_all_fields(Role::User, vec![])).with_run(id("r"), Some(u32::MAX));
    full_entry =
        full_entry.with_timestamp(Timestamp::MAX).with_origin(ImportOrigin::new("pi-v3", 7).with_raw(raw.into()));
    let receipt = writer
        .append([full_entry.clone(), user_entry("bare"), user_entry("old").with_timestamp(Timestamp::MIN)])
        .await?;
    let found: Arc<Entry> = writer.load_entry("full").await?;
    expect_eq((found.timestamp, &found.run, found.step), (Timestamp::MAX, &full_entry.run, full_entry.step))?;
    expect_eq(&found.origin, &full_entry.origin)?;
    let bare_entry = writer.load_entry("bare").await?;
    expect_eq(bare_entry.message(), Some(&Message::user("bare")))?;
    expect_eq(
        (bare_entry.timestamp, &bare_entry.run, bare_entry.step, &bare_entry.origin),
        (receipt.time, &None, None, &None),
    )?;
    expect_eq(writer.load_entry("old").await?.timestamp, Timestamp::MIN)?;
    let entry_without_time: NewEntry = entry("none", UsageRecord::default());
    writer.expect_accepted([entry_without_time]).await?;
    expect_eq(writer.load_thread().await?.entry_times, Some((Timestamp::MIN, Timestamp::MAX)))
}
