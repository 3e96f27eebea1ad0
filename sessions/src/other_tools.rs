//! Files of tools that this release does not read. They are recognised so that a user is told which tool wrote the
//! file, and so that no format takes the file for its own.

use crate::{detect::Sample, json::Object};

/// Says what a file is, such as `a session of Gemini CLI`, if one of these tools wrote it.
pub(crate) fn recognise(sample: &Sample<'_>) -> Option<&'static str> {
    let first = sample.first()?;
    let any = |test: fn(&Object<'_>) -> bool| sample.lines.iter().any(test);
    let is_kimi_code = |line: &Object<'_>| line.has("time") && line.has("type");
    if line_type(first) == "metadata"
        && first.has("protocol_version")
        && (first.has("created_at") || sample.lines.iter().skip(1).any(is_kimi_code))
    {
        Some("a session of kimi-code")
    } else if (first.has("projectHash") && first.has("sessionId")) || any(|line| line_type(line) == "gemini") {
        Some("a session of Gemini CLI")
    } else if line_type(first) == "session.start" {
        Some("a session of Copilot CLI")
    } else if any(|line| line.text("role").is_some() && !line.has("type") && line.object("message").is_some()) {
        Some("a transcript of Cursor")
    } else if any(|line| line.text("role").is_some() && line.has("message_id")) {
        Some("a session of Mistral Vibe")
    } else {
        None
    }
}

fn line_type(line: &Object<'_>) -> String {
    line.text("type").unwrap_or_default()
}
