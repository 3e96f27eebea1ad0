//! Checks each source file: its first line, its length, and what it must not contain.

use super::Source;

/// The maximum number of lines of a file.
const MAX_LINES: usize = 500;
const MAX_COLUMNS: usize = 120;

/// Files that may be longer, each with the reason. Nothing may be added to the list.
const LONG_FILES: &[(&str, &str)] = &[];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for Source { path, text } in sources {
        if !text.starts_with("//!") && !text.starts_with("#![") {
            findings.push(format!("{path}: the first line does not say what the file is responsible for (`//!`)"));
        }
        let lines = text.lines().count();
        let is_exempt = LONG_FILES.iter().any(|(known, _)| known == path);
        if lines > MAX_LINES && !is_exempt {
            findings.push(format!("{path}: {lines} lines, divide the file (at most {MAX_LINES})"));
        }
        if lines <= MAX_LINES && is_exempt {
            findings.push(format!("{path}: is short now, remove it from the list of long files"));
        }
        for (at, line) in text.lines().enumerate() {
            let line_number = at + 1;
            let code = line.trim_start();
            // The formatter limits the width of code, but not that of comments.
            if code.starts_with("//") && line.chars().count() > MAX_COLUMNS {
                findings.push(format!("{path}:{line_number}: the comment is longer than {MAX_COLUMNS} columns"));
            }
            if code.starts_with("#[path") {
                findings.push(format!("{path}:{line_number}: `#[path]` hides where a module is"));
            }
            if code.starts_with("#[ignore") && !code.contains('=') {
                findings.push(format!("{path}:{line_number}: `#[ignore]` without a reason"));
            }
        }
    }
    findings
}
