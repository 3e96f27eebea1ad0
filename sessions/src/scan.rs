//! Reads one JSONL file in the first pass: its provenance, the ends of its lines, and what is odd about the lines.

use crate::{
    compact::LineEnds,
    error::Result,
    issue::{IssueCode, Issues},
    json::Object,
    lenient,
    provenance::{FileProvenance, LastLine},
    source::{Line, LineEnding, NextLine, Source},
};

/// What a line contains.
#[derive(Debug)]
pub(crate) enum LineContent<'a> {
    /// White space only.
    Blank,
    /// Not a JSON object.
    Broken,
    /// An object.
    Object(Object<'a>),
}

/// A file that was read once.
#[derive(Debug, Default)]
pub(crate) struct ScannedFile {
    pub(crate) provenance: FileProvenance,
    pub(crate) line_ends: LineEnds,
}

/// The import counts the lines of a file with numbers of 32 bits.
const MAX_LINES: u64 = 4_000_000_000;

/// Reads a file, and passes each line to `visit`. Returns `None` if a line is longer than the limit, or if there are
/// too many lines.
pub(crate) fn scan(
    source: &Source,
    name: Option<&String>,
    issues: &mut Issues,
    visit: &mut dyn FnMut(&Line, LineContent<'_>, &mut Issues),
) -> Result<Option<ScannedFile>> {
    issues.set_file(name.cloned());
    let mut scan = ScannedFile::default();
    scan.provenance.name = name.cloned();
    let mut lines = source.lines(u64::MAX)?;
    loop {
        match lines.next()? {
            NextLine::Line(line) if line.number > MAX_LINES => {
                issues.add(line.number, IssueCode::TooManyLines, format!("more than {MAX_LINES} lines"), "refused");
                return Ok(None);
            }
            NextLine::Line(line) => scan.add_line(&line, issues, visit),
            NextLine::TooLong(number) => {
                issues.add(number, IssueCode::LongLine, format!("longer than {} bytes", source.max_line()), "refused");
                return Ok(None);
            }
            NextLine::End => break,
        }
    }
    (scan.provenance.bytes, scan.provenance.sha256) = lines.bytes_and_hash();
    scan.note_file_issues(lines.is_cut_off(), issues);
    Ok(Some(scan))
}

impl ScannedFile {
    fn add_line(
        &mut self,
        line: &Line,
        issues: &mut Issues,
        visit: &mut dyn FnMut(&Line, LineContent<'_>, &mut Issues),
    ) {
        self.provenance.lines = line.number;
        self.provenance.bom |= line.bom;
        if matches!(line.ending, LineEnding::CrLf | LineEnding::Cr) {
            self.provenance.crlf.push(line.number);
        }
        if line.ending.is_unterminated() {
            self.provenance.last = LastLine::Unterminated;
        }
        self.line_ends.push(line.end.saturating_sub(line.ending.len()));
        if line.is_blank() {
            self.provenance.blank.push(line.number);
            if !line.bytes.is_empty() {
                self.provenance.spaces.push((line.number, String::from_utf8_lossy(&line.bytes).into_owned()));
            }
            return visit(line, LineContent::Blank, issues);
        }
        let lenient = lenient::read(&line.bytes);
        let is_deep = lenient.oddities.contains(&IssueCode::DeepJson);
        for &code in &lenient.oddities {
            let (detail, action) = describe_oddity(code);
            issues.add(line.number, code, detail, action);
        }
        match Object::parse(&lenient.text).filter(|_| !is_deep) {
            Some(object) => {
                if line.ending.is_unterminated() {
                    issues.add(
                        line.number,
                        IssueCode::NoFinalNewline,
                        "the last line has no line end",
                        "read as usual",
                    );
                }
                visit(line, LineContent::Object(object), issues);
            }
            None => {
                self.note_broken(line, is_deep, issues);
                visit(line, LineContent::Broken, issues);
            }
        }
    }

    fn note_broken(&mut self, line: &Line, is_deep: bool, issues: &mut Issues) {
        let mut code = IssueCode::MalformedLine;
        if line.ending.is_unterminated() {
            self.provenance.last = LastLine::Torn;
            code = IssueCode::TornLastLine;
        }
        if !is_deep {
            issues.add(line.number, code, "not a JSON object", "raw bytes kept in a side entry");
        }
    }

    fn note_file_issues(&self, is_cut_off: bool, issues: &mut Issues) {
        if is_cut_off && self.provenance.last != LastLine::Torn {
            issues.add_for_file(IssueCode::TornLastLine, "the compressed stream is cut off", "read as far as it goes");
        }
        if self.provenance.bom {
            issues.add_for_file(IssueCode::Bom, "a byte order mark", "left out of the entries, restored on export");
        }
        if !self.provenance.crlf.is_empty() {
            let detail = format!("{} lines end in CR LF", self.provenance.crlf.count());
            issues.add_for_file(IssueCode::Crlf, detail, "left out of the entries, restored on export");
        }
    }
}

/// The detail and the action of the issue for something odd in a line.
const fn describe_oddity(code: IssueCode) -> (&'static str, &'static str) {
    match code {
        IssueCode::InvalidUtf8 => ("bytes that are not UTF-8", "read as U+FFFD; raw bytes kept"),
        IssueCode::LoneSurrogate => ("half of a surrogate pair", "read as U+FFFD; raw escape kept"),
        IssueCode::ControlCharacter => ("a raw control character in a string", "read as if it were escaped"),
        IssueCode::MalformedLine => (
            "a complete record beside a part of another one or beside NUL bytes",
            "the complete record is read; raw bytes kept",
        ),
        IssueCode::DeepJson => ("JSON with more than 128 levels of nesting", "raw bytes kept in a side entry"),
        _ => ("the character U+0000", "kept"),
    }
}
