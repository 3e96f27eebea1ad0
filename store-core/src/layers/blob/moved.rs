//! Blocks that are blobs: which blobs a message names, moving large blocks out of it, and putting them back (BL-3).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::record::{BlobHash, BlobRef};
use crate::{
    codec::{Codec, Extra, record},
    error::{Error, Result},
    json::Json,
    limits::length,
    log::{Block, BlockKind, Body, Compaction, ImportOrigin, Media, MediaSource, Message, NewBody},
    pending::PendingBody,
};

/// The kind of a block that stands for one that was moved, and the field of an origin that stands for its raw line. The
/// name is stored and never changes.
const MOVED: &str = "moved_to_blob";

/// What stands for something that was moved: which blob it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Moved {
    sha256: String,
    bytes: u64,
    extra: Extra,
}

record!(Moved { sha256: req, bytes: req });

impl Moved {
    fn of(bytes: &[u8]) -> (BlobHash, Self) {
        let hash = BlobHash::of(bytes);
        let moved = Self { sha256: hash.to_string(), bytes: length(bytes.len()), extra: Extra::default() };
        (hash, moved)
    }

    /// Reads what stands for a block; none if the block was not moved.
    fn in_block(block: &Block) -> Result<Option<BlobRef>> {
        match &block.kind {
            BlockKind::Unknown { kind, data } if kind == MOVED => Self::read_ref(data.as_str()).map(Some),
            _ => Ok(None),
        }
    }

    fn in_origin(origin: &ImportOrigin) -> Result<Option<BlobRef>> {
        origin.extra.get(MOVED).map(|raw| Self::read_ref(raw.as_str())).transpose()
    }

    fn read_ref(raw: &str) -> Result<BlobRef> {
        let unreadable = || Error::invalid(MOVED, "it does not name a blob");
        let moved = Self::read(raw).map_err(|e| unreadable().with_source(e))?;
        Ok(BlobRef { hash: BlobHash::new(&moved.sha256)?, bytes: moved.bytes })
    }
}

/// Something that contains blocks.
pub(super) trait Blocks {
    /// Returns the lists of blocks.
    fn lists(&self) -> Vec<&Vec<Block>>;

    /// Returns the lists of blocks, to change them.
    fn lists_mut(&mut self) -> Vec<&mut Vec<Block>>;
}

impl Blocks for Message {
    fn lists(&self) -> Vec<&Vec<Block>> {
        vec![&self.blocks]
    }

    fn lists_mut(&mut self) -> Vec<&mut Vec<Block>> {
        vec![&mut self.blocks]
    }
}

impl Blocks for Compaction {
    fn lists(&self) -> Vec<&Vec<Block>> {
        let replacement = self.replacement.iter().flatten().map(|message| &message.blocks);
        std::iter::once(&self.summary).chain(replacement).collect()
    }

    fn lists_mut(&mut self) -> Vec<&mut Vec<Block>> {
        let replacement = self.replacement.iter_mut().flatten().map(|message| &mut message.blocks);
        std::iter::once(&mut self.summary).chain(replacement).collect()
    }
}

macro_rules! blocks_of_bodies {
    ($($body:ident: $($kind:ident)*;)*) => {$(
        impl Blocks for $body {
            fn lists(&self) -> Vec<&Vec<Block>> {
                match self {
                    $(Self::$kind(content) => content.lists(),)*
                    _ => Vec::new(),
                }
            }

            fn lists_mut(&mut self) -> Vec<&mut Vec<Block>> {
                match self {
                    $(Self::$kind(content) => content.lists_mut(),)*
                    _ => Vec::new(),
                }
            }
        }
    )*};
}

blocks_of_bodies! {
    Body: Message Compaction;
    NewBody: Message Compaction;
    PendingBody: Message;
}

/// Calls `visit` for each block that is not the result of a tool, and for the blocks of the results.
fn visit(blocks: &[Block], visit_block: &mut impl FnMut(&Block) -> Result<()>) -> Result<()> {
    for block in blocks {
        match &block.kind {
            BlockKind::ToolResult(result) => visit(&result.blocks, visit_block)?,
            _ => visit_block(block)?,
        }
    }
    Ok(())
}

/// As [`visit`], to change the blocks.
fn visit_mut(blocks: &mut [Block], visit_block: &mut impl FnMut(&mut Block) -> Result<()>) -> Result<()> {
    for block in blocks {
        match &mut block.kind {
            BlockKind::ToolResult(result) => visit_mut(&mut result.blocks, visit_block)?,
            _ => visit_block(block)?,
        }
    }
    Ok(())
}

/// Adds the blobs that the blocks of a body name: those of media, and those of blocks that were moved.
pub(super) fn add_named(body: &impl Blocks, names: &mut BTreeSet<BlobHash>) -> Result<()> {
    for blocks in body.lists() {
        visit(blocks, &mut |block| {
            if let Some(moved) = Moved::in_block(block)? {
                names.insert(moved.hash);
            }
            if let Some(Media { source: MediaSource::Blob(hash), .. }) = media(block) {
                names.insert(BlobHash::new(hash)?);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Adds the blob of the raw line of an origin, if it was moved.
pub(super) fn add_named_by_origin(origin: &ImportOrigin, names: &mut BTreeSet<BlobHash>) -> Result<()> {
    names.extend(Moved::in_origin(origin)?.map(|moved| moved.hash));
    Ok(())
}

const fn media(block: &Block) -> Option<&Media> {
    match &block.kind {
        BlockKind::Image(media) | BlockKind::Document(media) | BlockKind::Audio(media) | BlockKind::Video(media) => {
            Some(media)
        }
        _ => None,
    }
}

/// The bytes that were moved out of records, to be put as blobs.
pub(super) type MovedBytes = BTreeMap<BlobHash, Bytes>;

/// Replaces blocks of more than `above` bytes by what stands for them, until `most` blobs have been moved. Calls of
/// tools stay, as rules read them.
pub(super) fn move_out(
    body: &mut impl Blocks,
    (above, most): (u64, usize),
    moved_bytes: &mut MovedBytes,
) -> Result<()> {
    for blocks in body.lists_mut() {
        visit_mut(blocks, &mut |block| {
            let is_small = block.min_encoded_bytes() <= above;
            let stays = is_small || moved_bytes.len() >= most || matches!(block.kind, BlockKind::ToolUse(_));
            if stays || Moved::in_block(block)?.is_some() {
                return Ok(());
            }
            let encoded = block.encode();
            // A block of an unknown kind may have the name of a known one. It is not read as it was written, so it
            // stays.
            if Block::read(&encoded).ok().as_ref() != Some(block) {
                return Ok(());
            }
            let (hash, moved) = Moved::of(encoded.as_bytes());
            moved_bytes.insert(hash, Bytes::from(encoded));
            *block = Block::new(BlockKind::Unknown { kind: MOVED.to_owned(), data: Json::parse(&moved.encode())? });
            Ok(())
        })?;
    }
    Ok(())
}

/// Replaces a raw line of more than `above` bytes by what stands for it, unless `most` blobs have been moved.
pub(super) fn move_raw_out(
    origin: &mut ImportOrigin,
    (above, most): (u64, usize),
    moved_bytes: &mut MovedBytes,
) -> Result<()> {
    if moved_bytes.len() >= most {
        return Ok(());
    }
    let Some(raw) = origin.raw.take_if(|raw| length(raw.len()) > above) else { return Ok(()) };
    let (hash, moved) = Moved::of(&raw);
    moved_bytes.insert(hash, raw);
    origin.extra.insert(MOVED, Json::parse(&moved.encode())?);
    Ok(())
}

/// Adds the blobs that have to be loaded to put back what was moved out of a body, with their lengths.
pub(super) fn add_moved(body: &impl Blocks, wanted: &mut BTreeMap<BlobHash, u64>) -> Result<()> {
    for blocks in body.lists() {
        visit(blocks, &mut |block| {
            wanted.extend(Moved::in_block(block)?.map(|moved| (moved.hash, moved.bytes)));
            Ok(())
        })?;
    }
    Ok(())
}

/// As [`add_moved`], for the raw line of an origin.
pub(super) fn add_moved_raw(origin: &ImportOrigin, wanted: &mut BTreeMap<BlobHash, u64>) -> Result<()> {
    wanted.extend(Moved::in_origin(origin)?.map(|moved| (moved.hash, moved.bytes)));
    Ok(())
}

/// Puts back the blocks that were moved, from what was loaded. Blocks whose blob is not among it stay as they are.
pub(super) fn put_back(body: &mut impl Blocks, loaded: &MovedBytes) -> Result<()> {
    for blocks in body.lists_mut() {
        visit_mut(blocks, &mut |block| {
            let Some(moved) = Moved::in_block(block)? else { return Ok(()) };
            let Some(bytes) = loaded.get(&moved.hash) else { return Ok(()) };
            let unreadable = || Error::corrupt(format!("blob {}: it is no block", moved.hash));
            let text = std::str::from_utf8(bytes).map_err(|e| unreadable().with_source(e))?;
            *block = Block::read(text).map_err(|e| unreadable().with_source(e))?;
            Ok(())
        })?;
    }
    Ok(())
}

/// As [`put_back`], for the raw line of an origin.
pub(super) fn put_raw_back(origin: &mut ImportOrigin, loaded: &MovedBytes) -> Result<()> {
    let Some(moved) = Moved::in_origin(origin)? else { return Ok(()) };
    if let Some(bytes) = loaded.get(&moved.hash) {
        origin.raw = Some(bytes.clone());
        origin.extra.remove(MOVED);
    }
    Ok(())
}
