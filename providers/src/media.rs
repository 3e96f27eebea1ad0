//! Images, documents, audio and videos.

use store_core::{Block, BlockKind, Media, MediaSource};

/// Returns the media of a block, if it has some.
pub(crate) const fn media_in(kind: &BlockKind) -> Option<&Media> {
    match kind {
        BlockKind::Image(media) | BlockKind::Document(media) | BlockKind::Audio(media) | BlockKind::Video(media) => {
            Some(media)
        }
        _ => None,
    }
}

/// Returns the name of the kind of media.
pub(crate) const fn media_kind(block: &Block) -> &'static str {
    match &block.kind {
        BlockKind::Image(_) => "image",
        BlockKind::Audio(_) => "audio",
        BlockKind::Video(_) => "video",
        _ => "document",
    }
}

/// Returns the text that stands for media in a body.
pub(crate) fn describe_media(block: &Block, media: &Media) -> String {
    let kind = media_kind(block);
    let title = media.title.as_ref().map(|title| format!(" `{title}`")).unwrap_or_default();
    let media_type = media.media_type.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
    let source = match &media.source {
        MediaSource::Base64(data) => format!(", {} bytes", data.trim_end_matches('=').len() * 3 / 4),
        MediaSource::Url(url) => format!(", {url}"),
        MediaSource::Blob(hash) => format!(", blob {hash}"),
    };
    format!("[{kind}{title}{media_type}{source}]")
}
