//! Finds the sources below a folder, and recognises their formats by the content of their first lines.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use crate::{
    blocks::cut_to_1_kib,
    error::{Error, Result},
    formats::{FORMATS, FormatName},
    json::Object,
    lenient,
    options::ImportOptions,
    other_tools,
    source::{NextLine, Source},
};

const SAMPLED_LINES: usize = 50;

/// The kind that a source was recognised as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// A format that this release reads.
    Known(FormatName),
    /// A file of a known format that cannot be read by itself: its name, and a hint for the user.
    Unsupported(&'static str, &'static str),
    /// A file of another tool.
    Foreign(&'static str),
    /// A source without lines, or with blank lines only.
    Empty,
    /// No known format.
    Unknown,
}

/// The beginning of a source: those of its first lines that are JSON objects.
pub(crate) struct Sample<'a> {
    pub(crate) lines: Vec<Object<'a>>,
}

impl Sample<'_> {
    pub(crate) fn first(&self) -> Option<&Object<'_>> {
        self.lines.first()
    }

    /// Whether at least half of the lines pass a test.
    pub(crate) fn holds_for_most_lines(&self, test: impl Fn(&Object<'_>) -> bool) -> bool {
        let passed = self.lines.iter().filter(|line| test(line)).count();
        passed > 0 && 2 * passed >= self.lines.len()
    }
}

/// The sources at a path or below it.
#[derive(Debug, Default)]
pub(crate) struct FoundSources {
    /// The sources, in the order of their names.
    pub(crate) sources: Vec<PathBuf>,
    /// Folders that cannot be read.
    pub(crate) unreadable_folders: Vec<(PathBuf, Error)>,
    /// The sources, with all links in their paths resolved.
    real_sources: BTreeSet<PathBuf>,
    /// The folders that were read, with all links in their paths resolved.
    real_folders: BTreeSet<PathBuf>,
}

impl FoundSources {
    /// Finds the sources. Links to folders are followed, but no folder is read twice.
    pub(crate) fn at(path: &Path) -> Self {
        let mut found = Self::default();
        if let Err(error) = found.add_named(path) {
            found.unreadable_folders.push((path.to_owned(), error));
        }
        found
    }

    /// Adds the path that the caller named, even if its name is not that of a session file.
    fn add_named(&mut self, path: &Path) -> Result<()> {
        match source_of(path)? {
            None if path.is_dir() => self.add_folder(path)?,
            source => self.add_source(source.unwrap_or_else(|| path.to_owned())),
        }
        Ok(())
    }

    fn add_folder(&mut self, path: &Path) -> Result<()> {
        let real = path.canonicalize().map_err(Error::io(path))?;
        if !self.real_folders.insert(real) {
            return Ok(());
        }
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(path).map_err(Error::io(path))? {
            paths.push(entry.map_err(Error::io(path))?.path());
        }
        paths.sort();
        for path in paths {
            if let Err(error) = self.add(&path) {
                self.unreadable_folders.push((path, error));
            }
        }
        Ok(())
    }

    /// Adds a file or a folder that was found in a folder.
    fn add(&mut self, path: &Path) -> Result<()> {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            // A link to a path that does not exist.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io(path)(error)),
        };
        if let Some(source) = source_of(path)? {
            self.add_source(source);
        } else if metadata.is_dir() {
            self.add_folder(path)?;
        } else if is_session_file(path) && metadata.is_file() {
            self.add_source(path.to_owned());
        }
        Ok(())
    }

    fn add_source(&mut self, path: PathBuf) {
        if self.real_sources.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            self.sources.push(path);
        }
    }
}

/// The session that a file or folder is part of, judged by names only.
fn source_of(path: &Path) -> Result<Option<PathBuf>> {
    for format in FORMATS {
        if let Some(source) = format.source_of(path)? {
            return Ok(Some(source));
        }
    }
    Ok(None)
}

/// Whether a file in an imported folder is read as a source. Only its name decides; its content is checked later.
pub(crate) fn is_session_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    [".jsonl", ".jsonl.gz", ".jsonl.zst"].iter().any(|end| name.ends_with(end))
}

/// Recognises a file or a session folder.
pub(crate) fn detect(path: &Path, options: &ImportOptions) -> Result<SourceKind> {
    if path.is_dir() {
        let folder_format = FORMATS.iter().find(|format| matches!(format.source_of(path), Ok(Some(_))));
        return Ok(folder_format.map_or(SourceKind::Unknown, |format| SourceKind::Known(format.newest())));
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
    let lines = texts.iter().filter_map(|text| Object::parse(text)).collect();
    Ok(if is_empty { SourceKind::Empty } else { recognise(&Sample { lines }) })
}

/// Describes the first line of a source without its content, which may be secret.
pub(crate) fn describe_first_line(path: &Path, options: &ImportOptions) -> Result<String> {
    let mut lines = Source::new(path.to_owned(), options.max_line).lines(u64::MAX)?;
    loop {
        match lines.next()? {
            NextLine::Line(line) if line.is_blank() => {}
            NextLine::Line(line) => {
                let lenient = lenient::read(&line.bytes);
                let Some(object) = Object::parse(&lenient.text) else { break };
                let names: Vec<_> = object.iter().take(10).map(|(name, _)| cut_to_1_kib(name)).collect();
                return Ok(format!("an object with the fields {}", names.join(", ")));
            }
            NextLine::TooLong(_) | NextLine::End => break,
        }
    }
    Ok("a line that is not a JSON object".to_owned())
}

/// Recognises the format of a source by its beginning.
fn recognise(sample: &Sample<'_>) -> SourceKind {
    if let Some(tool) = other_tools::recognise(sample) {
        return SourceKind::Foreign(tool);
    }
    FORMATS.iter().find_map(|format| format.recognise(sample)).unwrap_or(SourceKind::Unknown)
}

#[cfg(test)]
mod tests {
    use super::{Sample, SourceKind, recognise};
    use crate::json::Object;

    fn detected(lines: &[&str]) -> SourceKind {
        recognise(&Sample { lines: lines.iter().map(|line| Object::parse(line).unwrap()).collect() })
    }

    #[test]
    fn each_format_is_recognised_by_its_lines() {
        for (name, lines) in [
            ("pi-v1", &[r#"{"type":"session","id":"a"}"#][..]),
            ("pi-v2", &[r#"{"type":"session","id":"a","version":2}"#]),
            ("pi-v3", &[r#"{"type":"session","id":"a","version":9}"#]),
            ("pi-v3", &[r#"{"type":"title","title":"t"}"#, r#"{"type":"session","id":"a","version":3}"#]),
            ("kimi-cli", &[r#"{"role":"user","content":"x"}"#]),
            ("codex", &[r#"{"role":"user"}"#, r#"{"timestamp":"t","type":"event_msg","payload":{}}"#]),
            ("codex", &[r#"{"id":"a","timestamp":"t","instructions":null}"#, r#"{"record_type":"state"}"#]),
            ("codex", &[r#"{"id":"a","timestamp":"t","git":{}}"#]),
            ("agent-core", &[r#"{"id":"a","type":"metadata","metadata":{}}"#]),
            ("agent-core", &[r#"{"id":"a","type":"user","role":"user","content":"x"}"#]),
        ] {
            assert_eq!(detected(lines), SourceKind::Known(name.parse().unwrap()), "{lines:?}");
        }
    }

    #[test]
    fn files_of_other_tools_are_recognised() {
        for (name, lines) in [
            ("a session of kimi-code", &[r#"{"type":"metadata","protocol_version":"1.4","created_at":1}"#][..]),
            (
                "a session of kimi-code",
                &[r#"{"type":"metadata","protocol_version":"1.4"}"#, r#"{"type":"x","time":1}"#],
            ),
            (
                "a session of Gemini CLI",
                &[r#"{"id":"a","type":"user","content":"x"}"#, r#"{"id":"b","type":"gemini"}"#],
            ),
            ("a transcript of Cursor", &[r#"{"role":"user","message":{"content":[]}}"#]),
            ("a session of Mistral Vibe", &[r#"{"role":"user","content":"x","message_id":"m"}"#]),
            ("a session of Copilot CLI", &[r#"{"type":"session.start","data":{},"id":"e1"}"#]),
        ] {
            assert_eq!(detected(lines), SourceKind::Foreign(name), "{lines:?}");
        }
    }

    #[test]
    fn a_file_of_a_known_format_that_cannot_be_read_by_itself_is_named() {
        let lines = [
            r#"{"type":"metadata","protocol_version":"1.8"}"#,
            r#"{"timestamp":1.5,"message":{"type":"TurnEnd","payload":{}}}"#,
        ];
        assert!(matches!(detected(&lines), SourceKind::Unsupported("kimi-cli wire", _)));
        let lines =
            [r#"{"type":"session","version":3,"id":"a"}"#, r#"{"type":"agent_start"}"#, r#"{"type":"turn_start"}"#];
        assert!(matches!(detected(&lines), SourceKind::Unsupported("pi events", _)));
    }

    #[test]
    fn unknown_lines_are_not_taken_for_a_format() {
        for lines in [
            &[][..],
            &[r#"{"hello":"world"}"#, r#"{"n":1}"#],
            &[r#"{"id":"a","timestamp":"t","instructions":null}"#, r#"{"n":1}"#],
            &[r#"{"timestamp":"t","type":"event","payload":{}}"#, r#"{"type":"event_msg","payload":{}}"#],
            &[r#"{"role":"user","content":"x","timestamp":"2025-01-27T03:30:00.000Z"}"#],
            &[r#"{"role":"user","content":"x","model":"m"}"#, r#"{"type":"tool_call","function":{"name":"f"}}"#],
        ] {
            assert_eq!(detected(lines), SourceKind::Unknown, "{lines:?}");
        }
    }
}
