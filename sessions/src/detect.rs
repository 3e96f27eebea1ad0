//! Recognises the format of a file by its content: its first 50 lines that are JSON objects. Only `context.jsonl`,
//! the context of a session folder, is recognised by its name.

use std::path::{Path, PathBuf};

use crate::{
    error::{Error, Result},
    json::Object,
    kimi_cli, lenient,
    options::{FormatName, ImportOptions},
    source::{NextLine, Source},
};

const SAMPLED_LINES: usize = 50;

/// What a source was recognised as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detected {
    /// A format that this release reads.
    Known(FormatName),
    /// A known format that this release does not read: its name, and a hint for the user.
    Unsupported(&'static str, &'static str),
    /// A format that is recognised only so that it is not mistaken for another one.
    Foreign(&'static str),
    /// A source without lines, or with blank lines only.
    Empty,
    /// No known format.
    Unknown,
}

/// Returns the sources at this path or below it, in the order of their names.
pub(crate) fn find_sources(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        let is_context = path.file_name().is_some_and(|name| name == "context.jsonl");
        let folder = path.parent().filter(|_| is_context && path.exists());
        let folder = folder.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        // If the folder of a context file contains other files of a session, the source is the whole folder.
        return Ok(match folder {
            Some(folder) if kimi_cli::is_session_folder(folder)? => vec![folder.to_owned()],
            _ => vec![path.to_owned()],
        });
    }
    if path.join("context.jsonl").is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut below = Vec::new();
    for entry in std::fs::read_dir(path).map_err(Error::io(path))? {
        let entry = entry.map_err(Error::io(path))?;
        below.push((entry.path(), entry.file_type().map_err(Error::io(&entry.path()))?));
    }
    below.sort_by(|a, b| a.0.cmp(&b.0));
    let mut found = Vec::new();
    for (path, kind) in below {
        // Links to folders are not followed: a link may lead anywhere, even in a circle.
        if kind.is_dir() {
            found.extend(find_sources(&path)?);
        } else if is_session_file(&path) && (kind.is_file() || path.is_file()) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Whether a file in an imported folder is read as a source. Only its name decides; its content is checked later.
fn is_session_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    [".jsonl", ".jsonl.gz", ".jsonl.zst"].iter().any(|end| name.ends_with(end))
}

/// Recognises a file or a session folder.
pub(crate) fn detect(path: &Path, options: &ImportOptions) -> Result<Detected> {
    if path.is_dir() {
        return Ok(Detected::Known(FormatName::KimiCli));
    }
    let source = Source::new(path.to_owned(), options.max_line);
    let mut lines = source.lines(u64::MAX)?;
    let mut texts = Vec::new();
    let mut is_empty = true;
    while texts.len() < SAMPLED_LINES {
        match lines.next()? {
            NextLine::Line(line) if line.is_blank() => {}
            NextLine::Line(line) => {
                is_empty = false;
                let text = lenient::read(&line.bytes).text.into_owned();
                if Object::parse(&text).is_some() {
                    texts.push(text);
                }
            }
            // A line over the limit is skipped here. The first pass refuses the file.
            NextLine::TooLong(_) => is_empty = false,
            NextLine::End => break,
        }
    }
    let objects: Vec<_> = texts.iter().filter_map(|text| Object::parse(text)).collect();
    Ok(if is_empty { Detected::Empty } else { detect_in_lines(&objects) })
}

/// Applies the rules in order. The first one that holds decides.
fn detect_in_lines(lines: &[Object<'_>]) -> Detected {
    let Some(first) = lines.first() else { return Detected::Unknown };
    let any = |test: fn(&Object<'_>) -> bool| lines.iter().any(test);
    if first.text("kind").as_deref() == Some("header") && first.number("version") == Some(4) {
        Detected::Unsupported("pi-v4", "pi v1 to v3 are read")
    } else if type_field(first) == "session" && first.has("id") {
        Detected::Known(pi_version(first))
    } else if any(is_wire) {
        Detected::Unsupported("kimi-cli wire", "import the session's folder")
    } else if is_kimi_code(first, lines) {
        Detected::Foreign("kimi-code")
    } else if any(is_codex) {
        Detected::Unsupported("codex", "codex sessions are not read yet")
    } else if is_old_codex(first, lines) {
        Detected::Unsupported("codex (old)", "codex sessions are not read yet")
    } else if any(is_claude_code) {
        Detected::Unsupported("claude-code", "Claude Code sessions are not read yet")
    } else if any(|line| line.text("role").is_some() && !line.has("type")) {
        Detected::Known(FormatName::KimiCli)
    } else if any(is_agent_core) {
        Detected::Known(FormatName::AgentCore)
    } else {
        Detected::Unknown
    }
}

fn type_field(line: &Object<'_>) -> String {
    line.text("type").unwrap_or_default()
}

/// The version in a pi header. An unknown version is read as the newest known one.
fn pi_version(header: &Object<'_>) -> FormatName {
    match header.raw("version") {
        None | Some("null" | "1") => FormatName::PiV1,
        Some("2") => FormatName::PiV2,
        Some(_) => FormatName::PiV3,
    }
}

fn is_wire(line: &Object<'_>) -> bool {
    line.object("message").is_some_and(|message| message.has("type") && message.has("payload"))
}

fn is_kimi_code(first: &Object<'_>, lines: &[Object<'_>]) -> bool {
    let is_metadata = type_field(first) == "metadata" && first.has("protocol_version");
    let is_flat = |line: &Object<'_>| line.has("time") && line.has("type");
    is_metadata && (first.has("created_at") || lines.iter().skip(1).any(is_flat))
}

fn is_codex(line: &Object<'_>) -> bool {
    let types = ["session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"];
    line.has("timestamp") && line.has("payload") && types.contains(&type_field(line).as_str())
}

fn is_old_codex(first: &Object<'_>, lines: &[Object<'_>]) -> bool {
    let has_own_fields = first.raw("instructions").is_some() || first.has("git");
    let is_header = first.has("id") && first.has("timestamp") && has_own_fields && !first.has("type");
    let is_item = |line: &Object<'_>| line.has("record_type") || line.has("type") || line.has("role");
    is_header && lines.iter().skip(1).all(is_item)
}

fn is_claude_code(line: &Object<'_>) -> bool {
    ["user", "assistant", "system", "summary"].contains(&type_field(line).as_str())
        && (line.object("message").is_some() || line.has("sessionId") || line.has("leafUuid"))
}

fn is_agent_core(line: &Object<'_>) -> bool {
    ["user", "assistant", "tool", "tool_result", "system", "metadata"].contains(&type_field(line).as_str())
        && line.has("id")
        && line.object("message").is_none()
}

#[cfg(test)]
mod tests {
    use super::{Detected, detect_in_lines};
    use crate::{json::Object, options::FormatName};

    fn check(lines: &[&str], expected: Detected) {
        let objects: Vec<_> = lines.iter().map(|line| Object::parse(line).unwrap()).collect();
        assert_eq!(detect_in_lines(&objects), expected, "{lines:?}");
    }

    #[test]
    fn the_first_rule_that_holds_decides() {
        let known = Detected::Known;
        check(&[], Detected::Unknown);
        check(&[r#"{"hello":"world"}"#, r#"{"n":1}"#], Detected::Unknown);
        check(&[r#"{"type":"session","id":"a"}"#], known(FormatName::PiV1));
        check(&[r#"{"type":"session","id":"a","version":2}"#], known(FormatName::PiV2));
        check(&[r#"{"type":"session","id":"a","version":9}"#], known(FormatName::PiV3));
        check(&[r#"{"role":"user","content":"x"}"#], known(FormatName::KimiCli));
        check(&[r#"{"id":"a","type":"metadata","metadata":{}}"#], known(FormatName::AgentCore));
        check(&[r#"{"id":"a","type":"user","role":"user","content":"x"}"#], known(FormatName::AgentCore));
        check(&[r#"{"type":"metadata","protocol_version":"1.4","created_at":1}"#], Detected::Foreign("kimi-code"));
        check(
            &[r#"{"type":"metadata","protocol_version":"1.4"}"#, r#"{"type":"x","time":1}"#],
            Detected::Foreign("kimi-code"),
        );
    }

    #[test]
    fn unsupported_formats_are_reported() {
        let name = |lines: &[&str]| {
            let objects: Vec<_> = lines.iter().map(|line| Object::parse(line).unwrap()).collect();
            match detect_in_lines(&objects) {
                Detected::Unsupported(name, _) => name,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(name(&[r#"{"kind":"header","version":4,"id":"a"}"#]), "pi-v4");
        assert_eq!(
            name(&[
                r#"{"type":"metadata","protocol_version":"1.8"}"#,
                r#"{"timestamp":1.5,"message":{"type":"TurnEnd","payload":{}}}"#
            ]),
            "kimi-cli wire"
        );
        assert_eq!(name(&[r#"{"x":1}"#, r#"{"timestamp":"t","type":"compacted","payload":{}}"#]), "codex");
        assert_eq!(
            name(&[r#"{"id":"a","timestamp":"t","instructions":null}"#, r#"{"type":"message","role":"user"}"#]),
            "codex (old)"
        );
        assert_eq!(name(&[r#"{"type":"summary","summary":"s","leafUuid":"u"}"#]), "claude-code");
        assert_eq!(name(&[r#"{"type":"user","id":"a","message":{"role":"user"}}"#]), "claude-code");
    }
}
