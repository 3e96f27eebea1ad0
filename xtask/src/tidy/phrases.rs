//! Checks that comments and documentation do not contain phrases that docs/glossary.md forbids.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::Source;

/// Phrases in lower case, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("whoever", "name the subject: the caller, a reader, another process"),
    ("somebody", "name the subject: the caller, a reader, another process"),
    ("nobody", "name the subject: no caller, no reader, no other process"),
    ("who only reads", "a reader"),
    ("who drops", "a caller that drops"),
    ("it is over", "it has ended, finished or expired"),
    ("what is over", "what has ended, finished or expired"),
    ("lease is over", "the lease has expired"),
    ("behind the failure", "after the failure"),
    ("behind a pause", "after a delay"),
    ("the last one last", "oldest first"),
    ("as may be at once", "the limit"),
    ("is done in part", "is only partly applied"),
    ("since when", "the time since which"),
    ("from which on", "the earliest time at which"),
    ("exactly if", "if and only if"),
    ("takes long", "takes a long time"),
    ("may take long", "may take a long time"),
];

/// Pages that are not checked: they list the phrases, or are notes for the authors.
const EXCLUDED_PAGES: &[&str] = &["glossary.md", "plan.md"];

/// A crate that is not checked, because its comments will be rewritten together with its engine.
const EXCLUDED_CRATE: &str = "store-file/";

pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for Source { path, text } in sources {
        if !path.starts_with(EXCLUDED_CRATE) && !path.ends_with("tidy/phrases.rs") {
            let comments = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
            check_lines(path, comments, &mut findings);
        }
    }
    for page in pages(root)? {
        let text = fs::read_to_string(root.join(&page)).with_context(|| format!("{page} cannot be read"))?;
        check_lines(&page, text.lines().enumerate(), &mut findings);
    }
    Ok(findings)
}

fn pages(root: &Path) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    for folder in ["", "docs/", "docs/decisions/"] {
        let cannot_read = || format!("`{}` cannot be read", root.join(folder).display());
        for entry in fs::read_dir(root.join(folder)).with_context(cannot_read)? {
            let name = entry.with_context(cannot_read)?.file_name().to_string_lossy().into_owned();
            if Path::new(&name).extension().is_some_and(|extension| extension == "md")
                && !EXCLUDED_PAGES.contains(&name.as_str())
            {
                pages.push(format!("{folder}{name}"));
            }
        }
    }
    pages.sort();
    Ok(pages)
}

fn check_lines<'a>(path: &str, lines: impl Iterator<Item = (usize, &'a str)>, findings: &mut Vec<String>) {
    for (at, line) in lines {
        let prose = without_code(line).to_lowercase();
        for (phrase, instead) in PHRASES {
            if contains_phrase(&prose, phrase) {
                findings.push(format!("{path}:{}: \"{phrase}\"; write instead: {instead}", at + 1));
            }
        }
    }
}

/// Returns the line without the text between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Returns whether the text contains the phrase as whole words.
fn contains_phrase(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let is_word = |near: Option<char>| near.is_some_and(|near| near.is_alphanumeric() || near == '_');
        let (before, after) = (&text[..at], &text[at + phrase.len()..]);
        !is_word(before.chars().next_back()) && !is_word(after.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::{contains_phrase, without_code};

    #[test]
    fn a_phrase_is_found_as_whole_words_outside_of_code() {
        assert!(contains_phrase("// nobody reads it", "nobody"));
        assert!(!contains_phrase("// the user nobody_else", "nobody"));
        assert!(!contains_phrase(&without_code("// the user `nobody` reads it"), "nobody"));
        assert!(contains_phrase(&without_code("// `a` is read by nobody"), "nobody"));
    }
}
